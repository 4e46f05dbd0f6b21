"""Environments on a profile folder: what they keep, whom they keep out, what they leave behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from selfsurf import browser_env
from selfsurf.browser_env import SessionOptions
from selfsurf.browser_env.browser.browsers import has_window
from tests.processes import until

STORE = (
    b"<script>document.title = [document.cookie, localStorage.a, sessionStorage.a].join();"
    b"if (location.hash == '#write') {document.cookie = 'kept=1;max-age=9999'; document.cookie = 'brief=1';"
    b"localStorage.a = 'local'; sessionStorage.a = 'tab'}</script><button>Go</button>"
)


@pytest.fixture
def url(loopback):
    return loopback(lambda request: STORE).url


def browsers(folder):
    """Return the processes that have a profile in their command line."""
    listed = subprocess.run(["ps", "-wweo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if f"--user-data-dir={folder}" in line]


def test_a_profile_outlives_its_environments(make, url, tmp_path):
    profile = SessionOptions(profile=tmp_path / "new" / "profile")
    env, obs = make(f"{url}/#write", profile)
    assert len(browsers(tmp_path)) == 1
    assert obs["title"] == ",,"
    assert len(obs["tabs"]) == 1
    obs, _ = env.reset(seed=0)
    assert obs["title"] == "kept=1; brief=1,local,"  # still the same user's session
    env.close()
    env.close()
    assert browsers(tmp_path) == []
    other, obs = make(url, profile)
    assert obs["title"] == "kept=1,local,"
    obs, *_, info = other.step({"action": "click", "id": 1})
    assert (obs["last_error"], info["outcome"]) == ("", "running")


def test_a_profile_in_use_is_a_clear_error(make, url, tmp_path):
    first, _ = make(url, SessionOptions(profile=tmp_path))
    second = make(url, SessionOptions(profile=tmp_path), reset=False)
    with pytest.raises(browser_env.EnvError, match="is in use by another environment"):
        second.reset(seed=0)
    obs, *_ = first.step({"action": "click", "id": 1})
    assert obs["last_error"] == ""
    first.close()
    second.reset(seed=0)


def test_a_profile_that_is_a_file_is_a_clear_error(make, url, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(browser_env.EnvError, match="can't be used: File exists"):
        make(url, SessionOptions(profile=tmp_path / "file"))


def test_a_profile_that_a_browser_has_open_is_a_clear_error(make, url, tmp_path):
    import socket

    lock = tmp_path / "SingletonLock"
    with subprocess.Popen(["chromium", "60"], executable="/bin/sleep") as browser:
        lock.symlink_to(f"{socket.gethostname()}-{browser.pid}")
        with pytest.raises(browser_env.EnvError, match=rf"in use by a browser \(process {browser.pid}\)"):
            make(url, SessionOptions(profile=tmp_path))
        browser.kill()
    lock.unlink()
    lock.symlink_to("elsewhere-1")
    with pytest.raises(browser_env.EnvError, match=r"on the host 'elsewhere'.*delete"):
        make(url, SessionOptions(profile=tmp_path))
    lock.unlink()
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    lock.symlink_to(f"{socket.gethostname()}-{ended.stdout.strip()}")
    env, _ = make(url, SessionOptions(profile=tmp_path))
    env.close()
    lock.symlink_to(f"{socket.gethostname()}-{os.getpid()}")  # its number is that of another program now
    make(url, SessionOptions(profile=tmp_path))


@pytest.mark.slow
def test_two_profiles_are_two_browsers_closed_in_any_order(make, url, tmp_path):
    envs = [make(url, SessionOptions(profile=tmp_path / name))[0] for name in "abc"]
    plain, _ = make(url)
    for env in [envs[1], envs[0], envs[2], envs[1]]:
        env.close()
    assert browsers(tmp_path) == []
    obs, *_ = plain.step({"action": "click", "id": 1})
    assert obs["last_error"] == ""


def test_a_killed_browser_is_an_env_error_and_the_next_reset_works(make, url, tmp_path):
    env, _ = make(url, SessionOptions(profile=tmp_path))
    for pid in browsers(tmp_path):
        os.kill(pid, signal.SIGKILL)
    *_, truncated, info = env.step({"action": "click", "id": 1})
    assert (truncated, info["outcome"]) == (True, "env_error")
    env.reset(seed=0)
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "running"


def test_an_interrupted_environment_gives_its_profile_up(url, tmp_path):
    async def interrupted():
        first, second = (
            browser_env.AsyncBrowserEnv(url, session=SessionOptions(profile=tmp_path), screenshot=False)
            for _ in range(2)
        )
        await first.reset(seed=0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first.step({"action": "wait", "ms": 20_000}), 0.3)
        await first.reset(seed=0)  # at once
        closing = asyncio.ensure_future(first.close())
        assert await asyncio.to_thread(until, lambda: first.core.session is None)
        closing.cancel()
        for _ in range(100):
            try:
                await second.reset(seed=0)
                break
            except browser_env.EnvError:
                await asyncio.sleep(0.1)
        else:
            pytest.fail("The profile is still in use.")
        await second.close()

    asyncio.run(interrupted())
    assert gone(lambda: browsers(tmp_path))


@pytest.mark.slow
def test_a_hung_page_of_a_profile_leaves_nothing(make, tmp_path):
    hang = "data:text/html,<button onclick='for(;;);'>Hang</button>"
    env, _ = make(hang, SessionOptions(profile=tmp_path), hang_timeout=1.0)
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "env_error"
    env.close()
    assert gone(lambda: browsers(tmp_path))


def gone(find, seconds=8.0):
    """Wait for a list to become empty."""
    end = time.monotonic() + seconds
    while find() and time.monotonic() < end:
        time.sleep(0.1)
    return not find()


HOLD = """
import sys, time, gymnasium, browser_env
options = {options}
env = gymnasium.make("Browser-v0", start_url={url!r}, session=browser_env.SessionOptions(**options), screenshot=False)
env.reset(seed=0)
print("ready", flush=True)
{then}
"""


def run_python(url, options, then):
    return subprocess.Popen(
        [sys.executable, "-c", HOLD.format(url=url, options=options, then=then)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def children(pid):
    """Return all processes below one."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in listed.splitlines()[1:]]
    found = {pid}
    while more := {child for child, parent in parents if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pids):
    listed = subprocess.run(["ps", "-eo", "pid,stat"], capture_output=True, text=True, check=True).stdout
    running = {int(line.split()[0]) for line in listed.splitlines()[1:] if "Z" not in line.split()[1]}
    return sorted(running & set(pids))


def test_kill_9_of_the_process_leaves_no_browser_and_frees_the_profile(make, url, tmp_path):
    with run_python(f"{url}/#write", {"profile": str(tmp_path)}, "time.sleep(60)") as process:
        assert process.stdout.readline() == "ready\n"
        below = children(process.pid)
        assert len(below) > 2
        process.kill()
    env, _ = make(url, SessionOptions(profile=tmp_path))
    assert gone(lambda: alive(below))
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "running"


@pytest.mark.slow
def test_a_browser_left_on_the_profile_is_ended_first(make, url, tmp_path):
    with run_python(url, {"profile": str(tmp_path)}, "time.sleep(60)") as process:
        assert process.stdout.readline() == "ready\n"
        (browser,) = browsers(tmp_path)
        os.kill(browser, signal.SIGSTOP)  # so that it can't notice that it is alone
        driver = subprocess.run(["ps", "-o", "ppid=", "-p", str(browser)], capture_output=True, text=True, check=True)
        os.kill(int(driver.stdout), signal.SIGKILL)  # so that it doesn't
        process.kill()
    assert browsers(tmp_path) == [browser]
    make(url, SessionOptions(profile=tmp_path))
    assert browser not in browsers(tmp_path)


@pytest.mark.slow
def test_an_exit_without_close_writes_the_profile_and_leaves_nothing(make, url, tmp_path):
    with run_python(f"{url}/#write", {"profile": str(tmp_path)}, "") as process:
        process.wait(30)
    assert process.returncode == 0
    assert browsers(tmp_path) == []
    _, obs = make(url, SessionOptions(profile=tmp_path))
    assert obs["title"] == "kept=1,local,"


@pytest.mark.skipif(not has_window(), reason="needs a full Chromium and a display (run under xvfb-run)")
def test_a_window_with_a_profile(make, url, tmp_path):
    env, obs = make(url, SessionOptions(profile=tmp_path), render_mode="human", screenshot=True)
    assert env.observation_space.contains(obs)
    env.close()
    assert browsers(tmp_path) == []
