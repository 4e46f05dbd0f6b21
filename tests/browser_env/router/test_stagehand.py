"""What doesn't need Stagehand: the page here notes where it was sent. Real ones are in `test_other_providers`."""

import asyncio
import contextlib
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from selfsurf.browser_env import Safety
from selfsurf.browser_env.router.calls import ActArguments, NavigateArguments
from selfsurf.browser_env.router.provider import ProviderError
from selfsurf.browser_env.router.providers import stagehand
from selfsurf.browser_env.router.providers.stagehand import StagehandProvider
from selfsurf.browser_env.session.access import AccessGuard
from tests.processes import until


class Page:
    """A page that is wherever it was sent."""

    def __init__(self):
        self.at = "about:blank"

    async def goto(self, url, **options):
        self.at = url

    async def url(self):
        return self.at

    async def title(self):
        return "Shop"


@pytest.fixture
def opened():
    """A provider whose browser has one page: `provider, page`."""
    page, provider = Page(), StagehandProvider()

    async def active_page():
        return page

    provider._stagehand = SimpleNamespace(browser=SimpleNamespace(context=SimpleNamespace(active_page=active_page)))
    provider._paths = {1: "/html/body/a"}
    return provider, page


def test_it_says_how_to_get_what_is_missing(monkeypatch, tmp_path):
    def failure():
        with pytest.raises(ProviderError) as caught:
            asyncio.run(StagehandProvider().navigate(NavigateArguments(url="about:blank")))
        return caught.value.failure

    monkeypatch.setitem(sys.modules, "stagehand", None)
    assert (failure().type, failure().message) == (
        "unavailable", "Stagehand needs the package stagehand: bash scripts/setup.sh stagehand.",
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "stagehand", SimpleNamespace(Stagehand=None, local_browser=None))
    monkeypatch.setenv("SELFSURF_BROWSER", str(tmp_path / "none"))
    assert (failure().type, failure().retryable) == ("unavailable", False)
    assert failure().message.startswith("Stagehand can't be started: SELFSURF_BROWSER is")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://elsewhere.test/", "javascript:alert(1)"])
def test_an_action_navigates_nowhere_where_a_navigation_may_not(opened, url):
    provider, page = opened

    async def play():
        provider._guard = guard = AccessGuard(Safety(allowed=("127.0.0.1",)), None, {}, guarded=True)
        await guard.proxied({})
        try:
            with pytest.raises(ProviderError) as caught:
                await provider._act(ActArguments(action={"action": "navigate", "url": url}))
        finally:
            await guard.close()
        return caught.value.failure.type

    assert asyncio.run(play()) == "refused"
    assert page.at == "about:blank"


def test_an_action_that_navigates_forgets_the_last_pages_elements(opened):
    provider, page = opened
    provider._guard = AccessGuard(Safety(), None, {}, guarded=False)

    async def play():
        done = await provider._act(ActArguments(action={"action": "navigate", "url": "data:text/html,Shop"}))
        assert (done.url, done.title) == (page.at, "Shop")
        with pytest.raises(ProviderError, match="observe the page first"):
            await provider._act(ActArguments(action={"click": 1}))

    asyncio.run(play())
    assert page.at == "data:text/html,Shop"


def test_that_our_model_does_not_answer_is_said_in_the_place_of_what_stagehand_makes_of_it(opened):
    provider, _ = opened

    async def refuse(messages, schema):
        raise ConnectionError("nobody is there")

    async def act(instruction, **options):
        with contextlib.suppress(ProviderError):
            await provider._asked([], None)
        return SimpleNamespace(data=SimpleNamespace(success=False, message="No action found"))

    provider._complete, provider._stagehand.act = refuse, act
    with pytest.raises(ProviderError, match="nobody is there") as caught:
        asyncio.run(provider.act(ActArguments(instruction="press Go")))
    assert caught.value.failure.type == "model"


def test_a_cancelled_call_ends_before_the_next_begins_and_waits_for_no_model(opened):
    provider, page = opened
    provider._guard = AccessGuard(Safety(), None, {}, guarded=False)
    asked, told = threading.Event(), []

    async def never(messages, schema):
        asked.set()
        await asyncio.Event().wait()

    async def act(instruction, **options):
        try:
            await provider._asked([], None)
        except ProviderError:
            told.append("no answer")
        await asyncio.sleep(0.3)
        told.append(f"done at {page.at}")
        return SimpleNamespace(data=SimpleNamespace(success=False, message="No action found"))

    async def play():
        call = asyncio.ensure_future(provider.act(ActArguments(instruction="press Go")))
        assert await asyncio.to_thread(asked.wait, 60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await provider.navigate(NavigateArguments(url="data:text/html,Next"))
        return told

    provider._complete, provider._stagehand.act = never, act
    assert asyncio.run(asyncio.wait_for(play(), 60)) == ["no answer", "done at about:blank"]
    assert page.at == "data:text/html,Next"


def test_a_start_that_is_cancelled_leaves_no_browser(monkeypatch):
    begun = threading.Event()

    def start(port):
        program = [sys.executable, "-c", "import time; time.sleep(600)", f"--remote-debugging-port={port}"]
        started.append(subprocess.Popen(program))
        assert until(lambda: stagehand._process_of(port) is not None)
        begun.set()

    async def launch(port, **options):
        await asyncio.to_thread(start, port)
        await asyncio.Event().wait()

    started = []
    package = SimpleNamespace(Stagehand=None, local_browser=SimpleNamespace(launch=launch))
    monkeypatch.setitem(sys.modules, "stagehand", package)
    provider = StagehandProvider(executable=sys.executable)

    async def play():
        call = asyncio.ensure_future(provider.url())
        assert await asyncio.to_thread(begun.wait, 60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await provider.close()

    asyncio.run(play())
    assert until(lambda: started[0].poll() is not None), "it ended with the provider"
