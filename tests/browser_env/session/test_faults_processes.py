"""Processes that are killed, interrupted or leave: no browser stays behind, and what remains goes on working."""

import os
import signal
import subprocess
import sys
import threading

import gymnasium
import psutil
import pytest

from selfsurf import browser_env
from selfsurf.browser_env.browser.runtime import runtime
from tests.processes import browsers, counts, descendants, drivers, gone, until

PAGE = "data:text/html,<button>Go</button>"
SCRIPT = """
import gymnasium, sys
from selfsurf import browser_env
env = gymnasium.make("Browser-v0", start_url="data:text/html,<button>Go</button>", screenshot=False)
env.reset(seed=0)
print("ready", flush=True)
{work}
"""


@pytest.fixture
def env():
    browser_env.shutdown()  # processes are counted here: what other tests of this process left running goes first
    env = gymnasium.make("Browser-v0", start_url=PAGE, screenshot=False)
    env.reset(seed=0)
    yield env
    env.close()
    browser_env.shutdown()


def kill_later(process):
    timer = threading.Timer(0.3, process.kill)
    timer.start()
    return timer


@pytest.mark.parametrize("victim", [drivers, browsers], ids=["driver", "browser"])
@pytest.mark.parametrize("when", [pytest.param("before the step", marks=pytest.mark.slow), "in the step"])
def test_a_killed_process_is_an_env_error_and_the_next_reset_works(env, victim, when):
    before = browsers()
    (process,) = victim()
    if when == "in the step":
        kill_later(process)
    else:
        process.kill()
        process.wait()
    *_, truncated, info = env.step({"action": "wait", "ms": 2_000})
    assert (info["outcome"], truncated) == ("env_error", True)
    obs, info = env.reset(seed=0)
    assert info["outcome"] == "running"
    assert obs["elements"][0]["name"] == "Go"
    assert gone(before)
    assert len(browsers()) == len(drivers()) == 1


def test_a_browser_killed_during_a_reset(env):
    class Slow(browser_env.Task):
        async def setup(self, page, rng):
            await page.wait_for_timeout(600)
            await page.goto(PAGE)
            return "Go."

    other = gymnasium.make("Browser-v0", task=Slow(), screenshot=False)
    (browser,) = browsers()
    kill_later(browser)
    obs, info = other.reset(seed=0)
    assert (info["outcome"], obs["goal"]) == ("running", "Go.")
    assert len(browsers()) == 1
    other.close()


def test_a_browser_that_starts_too_late_is_closed(env, tmp_path):
    """The wrapper tells its process id, and starts the browser when the reset has given up."""
    real = runtime().run(runtime().executable(env.unwrapped.core.settings.browser))
    wrapper = tmp_path / "chromium"
    wrapper.write_text(
        f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.05; done\nexec '{real}' \"$@\"\n"
    )
    wrapper.chmod(0o755)
    late = gymnasium.make("Browser-v0", start_url=PAGE, executable=str(wrapper), reset_timeout=0.5)
    with pytest.raises(browser_env.EnvError):
        late.reset(seed=0)
    late.close()
    started = [psutil.Process(int(pid)) for pid in (tmp_path / "pids").read_text().split()]
    (tmp_path / "go").touch()
    assert len(started) == 2
    assert gone(started, 20)


def test_a_renderer_killed_in_a_step_is_noticed(env):
    renderers = [process for process in descendants() if "--type=renderer" in process.cmdline()]
    for process in renderers:
        kill_later(process)
    *_, info = env.step({"action": "wait", "ms": 10_000})
    assert info["outcome"] == "env_error"
    assert info["timing"]["total"] < 5000
    _, info = env.reset(seed=0)
    assert info["outcome"] == "running"


def test_what_playwright_switches_off_stays_off_beside_what_we_switch_off(env):
    (browser,) = browsers()
    lists = [part.partition("=")[2] for part in browser.cmdline() if part.startswith("--disable-features=")]
    assert len(lists) == 2
    assert set(lists[0].split(",")) <= set(lists[1].split(","))  # the browser obeys the last
    assert "RenderDocument" in lists[1].split(",")


def run(work, **options):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(work=work)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def family(process):
    """Wait until the script has its browser, and return the processes that it started."""
    assert process.stdout.readline() == "ready\n"
    children = descendants(process.pid)
    assert browsers(children)
    return children


@pytest.mark.slow
def test_an_exception_in_user_code_leaves_no_browser():
    process = run("sys.stdin.readline(); raise RuntimeError('mine')", stdin=subprocess.PIPE)
    children = family(process)
    _, errors = process.communicate("\n", timeout=30)
    assert process.returncode == 1
    assert "RuntimeError: mine" in errors
    assert gone(children)


def test_python_killed_leaves_no_browser():
    process = run("env.step({'action': 'wait', 'ms': 60_000})")
    children = family(process)
    process.kill()
    process.communicate()
    assert gone(children)


def test_an_interrupt_during_a_step_returns_and_leaves_no_browser():
    work = """
try:
    env.step({"action": "wait", "ms": 20_000})
except KeyboardInterrupt:
    print("prompt", flush=True)
env.reset(seed=0)
print("again", env.step({"action": "click", "id": 1})[4]["outcome"], flush=True)
"""
    process = run(work, start_new_session=True)
    children = family(process)
    until(lambda: False, 0.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: the driver and the browser get it, too
    output, errors = process.communicate(timeout=30)
    assert output == "prompt\nagain running\n", errors
    assert process.returncode == 0
    assert gone(children)


def test_an_interrupted_step_closes_its_context(env):
    import asyncio

    async def interrupted():
        other = browser_env.AsyncBrowserEnv(PAGE, screenshot=False)
        await other.reset(seed=0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(other.step({"action": "wait", "ms": 20_000}), 0.3)
        with pytest.raises(browser_env.EnvError, match="reset"):
            await other.step({"action": "click", "id": 1})
        await other.reset(seed=0)
        await other.close()

    before = counts()["contexts"]
    asyncio.run(interrupted())
    assert until(lambda: counts()["contexts"] == before)


def test_a_shutdown_leaves_nothing(env):
    started = [*browsers(), *drivers()]
    assert len(started) == 2
    browser_env.shutdown()
    assert gone(started)
