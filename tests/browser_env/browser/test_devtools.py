"""The browser's pipe is shared with Playwright: each gets its own answers and events, and nobody else comes in."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error

from selfsurf.browser_env import BrowserEnv, EnvError
from selfsurf.browser_env.browser.devtools import DevTools, OwnSession
from selfsurf.browser_env.browser.runtime import runtime
from tests.processes import until

PAGE = "data:text/html,<button onclick='n = (window.n || 0) + 1; document.title = n; throw new Error(n)'>Throw</button>"


def run(work: Any) -> Any:
    return runtime().run(work, 60)


def test_each_gets_its_own_answers_however_large(make: Any) -> None:
    env, _ = make(PAGE)
    tab = env.unwrapped.core.session.active
    assert isinstance(tab.protocol, OwnSession)

    async def both() -> None:
        ours = [tab.protocol.send("Runtime.evaluate", {"expression": f"'x'.repeat(300000) + {n}"}) for n in range(30)]
        theirs = [tab.page.evaluate(f"'{'y' * 200000}' + {n}") for n in range(30)]
        answers = await asyncio.gather(*ours, *theirs)
        for number in range(30):
            assert answers[number]["result"]["value"].endswith(f"x{number}")
            assert answers[30 + number].endswith(f"y{number}")

    run(both())


def test_what_playwright_tells_of_a_step_is_in_that_step(make: Any) -> None:
    env, _ = make(PAGE)
    for number in range(1, 31):
        obs, *_ = env.step({"action": "click", "id": 1})
        assert [event.split()[-1] for event in obs["events"]] == [str(number)]


def test_the_driver_is_asked_only_when_there_was_something_to_tell(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env, _ = make("data:text/html,<button>Rest</button><button onclick='throw new Error(1)'>Tell</button>")
    asked, telling_all = [], DevTools._telling_all

    async def telling(self: DevTools, *given: Any) -> Any:
        asked.append(given)
        return await telling_all(self, *given)

    monkeypatch.setattr(DevTools, "_telling_all", telling)

    def asks() -> bool:
        asked.clear()
        env.step({"action": "hover", "id": 1})
        return bool(asked)

    assert until(lambda: not asks(), 10), "what the page's load has to tell comes late on a busy machine"
    asked.clear()
    obs, *_ = env.step({"action": "click", "id": 2})
    assert len(asked) >= 1
    assert "1" in obs["events"][0]


def test_a_fault_in_a_handler_is_not_the_pipes(make: Any) -> None:
    env, _ = make(PAGE)
    protocol = env.unwrapped.core.session.active.protocol
    heard: list[Any] = []

    async def log() -> Any:
        protocol.on("Runtime.consoleAPICalled", lambda event: heard.append(1 / 0))
        protocol.on("Runtime.consoleAPICalled", heard.append)
        await protocol.send("Runtime.enable")
        await protocol.send("Runtime.evaluate", {"expression": "console.log('a')"})
        return await protocol.send("Runtime.evaluate", {"expression": "1 + 1"})

    assert run(log())["result"]["value"] == 2
    assert len(heard) == 1


def test_a_call_to_a_page_that_closes_ends(make: Any) -> None:
    env, _ = make(PAGE)
    tab = env.unwrapped.core.session.active

    async def never() -> None:
        asked = asyncio.ensure_future(
            tab.protocol.send("Runtime.evaluate", {"expression": "new Promise(() => {})", "awaitPromise": True})
        )
        await asyncio.sleep(0.1)
        await tab.page.close()
        await asked

    with pytest.raises(Error, match="has been closed"):
        run(never())


def test_what_a_page_is_asked_as_it_crashes_is_refused(make: Any) -> None:
    env, _ = make(PAGE)
    send = env.unwrapped.core.session.active.protocol.send

    async def crash() -> list[str]:
        asked = [
            send("Page.crash"),
            *(send("Runtime.evaluate", {"expression": "0"}) for _ in range(20)),
            send("DOM.enable"),
        ]
        return list(map(str, await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)))

    assert [said for said in run(crash()) if "Target crashed" not in said] == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_listens(make: Any) -> None:
    make(PAGE)
    listening = {
        line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
    } | {line.split()[9] for line in Path("/proc/net/tcp6").read_text().splitlines()[1:] if line.split()[3] == "0A"}
    browsers = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_our_browser(pid)]
    assert browsers
    for pid in browsers:
        ends = {os.readlink(end) for end in Path(f"/proc/{pid}/fd").iterdir() if end.is_symlink()}
        assert not {f"socket:[{inode}]" for inode in listening} & ends


def _is_our_browser(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        driver = int(Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return False
    return b"--remote-debugging-pipe" in command and os.getpid() in (parent, driver)


def test_where_no_pipe_can_be_handed_over_playwrights_session_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    env = BrowserEnv(PAGE, "Press.", screenshot=False, switches=("--test-without-a-pipe",))
    obs, _ = env.reset(seed=0)
    assert not isinstance(env.core.session.active.protocol, OwnSession)  # type: ignore[union-attr]
    assert "Throw" in obs["dom"]
    env.close()
    assert not list(folder.glob("selfsurf-*"))


def test_a_browser_that_ends_at_once_is_never_waited_for() -> None:
    for number in range(10):
        env = BrowserEnv(PAGE, "Press.", screenshot=False, executable="/bin/false", switches=(f"--try={number}",))
        with pytest.raises(EnvError, match="did not start"):
            env.reset(seed=0)
        env.close()
