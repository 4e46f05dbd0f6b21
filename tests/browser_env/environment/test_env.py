import asyncio
import copy
import pickle
import subprocess
import sys
import threading

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from selfsurf import browser_env
from selfsurf.browser_env import Answer, AsyncBrowserEnv

PAGE = "data:text/html,<title>t</title><button onclick=\"this.textContent = 'done'\">Go</button>"


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(
    "env_id",
    [
        pytest.param("Browser-v0", marks=pytest.mark.slow),
        pytest.param("envs_registry:MiniWoB/click-option-v0", marks=pytest.mark.slow),
        "MiniWoB/click-button-v0",
    ],
)
def test_check_env_passes(env_id):
    options = {"start_url": PAGE, "goal": "Press Go."} if env_id == "Browser-v0" else {}
    env = gymnasium.make(env_id, render_mode="rgb_array", **options)
    check_env(env.unwrapped)
    env.close()


def test_import_is_quick_and_light():
    code = """
import sys, time
start = time.process_time()  # others may be at work on the machine
from selfsurf import browser_env
seconds = time.process_time() - start
heavy = {"torch", "transformers", "playwright", "ray", "trl", "mlx"} & set(sys.modules)
assert not heavy, heavy
print(seconds)
"""
    times = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    assert min(times) < 1


def test_time_is_in_info_and_not_in_the_observation():
    env = gymnasium.make("Browser-v0", start_url=PAGE)
    first, info = env.reset(seed=0)
    assert set(info["timing"]) == {"act", "settle", "observe", "score", "total"}
    assert info["timing"]["total"] >= info["timing"]["observe"] > 0
    second, _ = env.reset(seed=0)
    first.pop("screenshot"), second.pop("screenshot")
    assert first == second
    env.close()


@pytest.mark.parametrize("limit", [1, 3])
def test_a_step_limit_is_a_timeout_whatever_it_is(limit):
    env = gymnasium.make("envs_registry:MiniWoB/click-option-v0", max_episode_steps=limit, screenshot=False)
    env.reset(seed=0)
    for step in range(1, limit + 1):
        _, _, terminated, truncated, info = env.step({"action": "wait", "ms": 0})
        assert (terminated, truncated) == (False, step == limit)
        assert info["outcome"] == ("timeout" if step == limit else "running")
    env.close()


def test_without_a_step_limit_a_registered_task_has_none_of_its_own_either():
    env = gymnasium.make("MiniWoB/click-option-v0", max_episode_steps=-1, screenshot=False)
    env.reset(seed=0)
    for _ in range(gymnasium.spec("MiniWoB/click-option-v0").max_episode_steps + 1):
        *_, truncated, info = env.step({"action": "wait", "ms": 0})
    assert (truncated, info["outcome"]) == (False, "running")
    env.close()


def test_waiting_for_a_person_counts_towards_no_step_limit():
    env = gymnasium.make("Browser-v0", start_url=PAGE, goal="Ask.", user="later", max_episode_steps=2, screenshot=False)
    env.reset(seed=0)
    question = {"action": "ask_user", "question": "Which?"}
    ends = [env.step(one)[2:4] for one in (question, None, None, Answer("Go."))]
    assert ends == [(False, False)] * 4
    assert env.step(question)[2:4] == (False, False)
    *_, truncated, info = env.step(Answer("Stop."))
    assert (truncated, info["outcome"]) == (True, "timeout")
    env.close()


def test_it_works_inside_a_running_loop():
    async def notebook():
        env = gymnasium.make("Browser-v0", start_url=PAGE)
        env.reset(seed=0)
        obs, *_ = env.step({"action": "click", "id": 1})
        env.close()
        return obs["elements"][0]["name"]

    assert asyncio.run(notebook()) == "done"


def test_it_can_be_awaited_from_any_loop():
    async def use():
        env = AsyncBrowserEnv(PAGE, "Press Go.", max_episode_steps=2)
        obs, _ = await env.reset(seed=0)
        first = await env.step({"action": "click", "id": obs["elements"][0]["id"]})
        second = await env.step({"action": "wait", "ms": 0})
        await env.close()
        await env.close()
        return first, second

    first, second = asyncio.run(use())
    assert first[0]["elements"][0]["name"] == "done"
    assert (second[3], second[4]["outcome"]) == (True, "timeout")


def test_an_id_is_as_good_as_a_task_and_async_with_closes():
    async def use():
        async with AsyncBrowserEnv("MiniWoB/click-button-v0", screenshot=False, data_mode="test") as env:
            obs, _ = await env.reset(seed=3)
            *_, info = await env.step(env.privileged()["action"])
            assert info["outcome"] == "solved"
        assert env.core.session is None
        return obs, env

    obs, env = asyncio.run(use())
    single = gymnasium.make("MiniWoB/click-button-v0", screenshot=False)
    assert single.reset(seed=3)[0] == obs
    assert (env.task.id, env.task.data_mode, env.core.max_steps) == ("MiniWoB/click-button-v0", "test", 10)
    single.close()
    with pytest.raises(gymnasium.error.NameNotFound, match="click-button"):
        AsyncBrowserEnv("MiniWoB/click-buton-v0")
    with pytest.raises(ValueError, match="CartPole-v1 is not a browser environment"):
        AsyncBrowserEnv("CartPole-v1")


def test_a_step_after_the_end_does_nothing_and_pays_nothing():
    env = gymnasium.make("MiniWoB/click-test-v0", screenshot=False)
    env.reset(seed=0)
    first, reward, *ends, info = env.step({"action": "click", "id": 1})
    assert (reward, ends, info["outcome"]) == (1.0, [True, False], "solved")
    for _ in range(2):
        obs, reward, *ends, info = env.step({"action": "click", "id": 1})
        assert (reward, ends, info["outcome"]) == (0.0, [True, False], "solved")
        assert "The episode has ended (solved)" in obs["last_error"]
        assert info["outcome_detail"] == obs["last_error"]
    assert env.unwrapped.core.episode.steps == 1
    assert first["last_error"] == ""
    assert obs in env.observation_space
    env.reset(seed=0)
    assert env.step({"action": "click", "id": 1})[1] == 1.0
    env.close()
    with pytest.raises(browser_env.EnvError, match="Call reset"):
        env.step({"action": "click", "id": 1})


def test_every_episode_can_be_had_again_by_its_seed():
    env = gymnasium.make("MiniWoB/click-option-v0", screenshot=False)
    assert env.reset(seed=5)[1]["seed"] == 5
    obs, info = env.reset()
    *_, stepped = env.step({"action": "wait", "ms": 0})
    assert stepped["seed"] == info["seed"] != 5
    again, _ = env.reset(seed=info["seed"])
    assert again == obs
    env.reset(seed=5)
    assert env.reset()[1]["seed"] == info["seed"]  # what a seed leads to is settled, too
    env.close()


def test_seeds_can_be_kept_apart():
    env = gymnasium.make("Browser-v0", start_url=PAGE, screenshot=False, seeds=range(100, 103))
    assert [env.reset()[1]["seed"] for _ in range(4)] == [100, 101, 102, 100]
    assert [env.reset(seed=102)[1]["seed"], env.reset()[1]["seed"]] == [102, 100]  # one of them
    assert [env.reset(seed=7)[1]["seed"], env.reset()[1]["seed"]] == [101, 102]  # none of them: a place
    env.close()


def test_a_copy_is_the_same_environment_without_its_page():
    env = gymnasium.make("MiniWoB/click-option-v0", screenshot=False, seeds=[4, 9], render_mode="ansi")
    env.reset()
    env.step({"action": "wait", "ms": 0})
    for copied in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert (copied.spec.id, copied.unwrapped.task.id) == (env.spec.id, env.unwrapped.task.id)
        assert copied.render_mode == "ansi"
        obs, info = copied.reset()
        assert info["seed"] == 9
        assert copied.unwrapped.privileged() is not None
        assert copied.render().splitlines()[0] == f"Goal: {obs['goal']}"
        copied.close()
    env.close()


@pytest.mark.parametrize("method", ["pickle", "cloudpickle"])
def test_every_task_with_an_oracle_pickles(method):
    library = pytest.importorskip(method)
    for task_id in [name for name in gymnasium.registry if name.startswith("MiniWoB/")]:
        env = library.loads(library.dumps(gymnasium.make(task_id)))
        assert env.unwrapped.task.has_oracle == gymnasium.make(task_id).unwrapped.task.has_oracle


def test_text_is_a_way_to_render():
    env = gymnasium.make("Browser-v0", start_url=PAGE, goal="Press Go.", screenshot=False, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == f'Goal: Press Go.\nPage: t ({PAGE})\n[1] button "Go"'
    env.step({"click": 7})
    assert env.render().endswith("\nError: There is no element 7 on the page; use an id from the outline.")
    env.close()


def test_many_environments_in_threads_closed_in_any_order_twice():
    envs = [gymnasium.make("Browser-v0", start_url=PAGE, screenshot=False) for _ in range(4)]
    seen = []

    def use(env):
        env.reset(seed=0)
        obs, *_ = env.step({"action": "click", "id": 1})
        seen.append(obs["elements"][0]["name"])

    threads = [threading.Thread(target=use, args=(env,)) for env in envs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["done"] * 4
    for env in [envs[2], envs[0], envs[3], envs[1], envs[2]]:
        env.close()


def test_contexts_do_not_share_cookies_and_a_reset_forgets_them():
    env = gymnasium.make("Browser-v0", task=_Cookies())
    for _ in range(2):
        obs, _ = env.reset(seed=0)
        assert obs["page_text"] == "none"
        obs, *_ = env.step({"action": "navigate", "url": "http://cookie.test/set.html"})
        obs, *_ = env.step({"action": "navigate", "url": "http://cookie.test/index.html"})
        assert obs["page_text"] == "a=1"
    env.close()


def test_a_site_answers_for_names_that_no_file_can_have():
    env = browser_env.BrowserEnv(task=_Cookies())
    env.reset(seed=0)
    for path in ("a" * 300, "%00"):
        obs, *_ = env.step({"action": "navigate", "url": f"http://cookie.test/{path}"})
        assert obs["page_text"] == "not found"
    env.close()


def test_environments_are_made_in_threads():
    """Each is noted among those of the process while others are."""
    task, made, failed = browser_env.Task(), [], []
    made.extend(browser_env.BrowserEnv(task=task) for _ in range(100))

    def make():
        try:
            made.extend(browser_env.BrowserEnv(task=task) for _ in range(50))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failed == []
    assert len({id(env.core.task) for env in made}) == len(made) == 300


class _Cookies(browser_env.Task):
    start_url = "http://cookie.test/index.html"

    @property
    def sites(self):
        import pathlib
        import tempfile

        folder = pathlib.Path(tempfile.mkdtemp())
        (folder / "index.html").write_text("<script>document.write(document.cookie || 'none')</script>")
        (folder / "set.html").write_text("<script>document.cookie = 'a=1'</script>set")
        return {"http://cookie.test": folder}


def test_wrong_use_says_what_to_do(open_page):
    with pytest.raises(ValueError, match="not both"):
        gymnasium.make("Browser-v0", task=browser_env.Task(), start_url="x")
    with pytest.raises(ValueError, match="render_mode must be one of"):
        browser_env.BrowserEnv(render_mode="svg")
    with pytest.raises(ValueError, match=r"an id, not a URL: use gymnasium.make\('MiniWoB/click-test-v0'\)"):
        browser_env.BrowserEnv("MiniWoB/click-test-v0")
    for seeds in ([], range(0), [-1], ["a"], "12", 3):
        with pytest.raises(ValueError, match=r"^seeds must be a range or list of non-negative integers"):
            browser_env.BrowserEnv(PAGE, seeds=seeds)
    env, _ = open_page("<p>x")
    with pytest.raises(ValueError, match="Unknown reset options"):
        env.reset(options={"urls": 1})
    with pytest.raises(ValueError, match="click-test-v0 sets its own page and goal: leave out goal and start_url"):
        browser_env.BrowserEnv(task="MiniWoB/click-test-v0").reset(options={"goal": "Wait.", "start_url": PAGE})
    with pytest.raises(browser_env.EnvError, match="Call reset"):
        browser_env.BrowserEnv(PAGE).step({"action": "back"})


def test_an_address_that_does_not_answer_fails_the_reset_clearly():
    env = gymnasium.make("Browser-v0", start_url="http://127.0.0.1:9/")
    with pytest.raises(browser_env.EnvError, match=r"^http://127.0.0.1:9/ could not be opened: .*ERR"):
        env.reset(seed=0)
    env.reset(seed=0, options={"start_url": PAGE})
    *_, info = env.step({"action": "back"})
    assert info["outcome"] == "running"
    env.close()


def test_no_browser_is_a_clear_error(monkeypatch, tmp_path):
    from selfsurf.browser_env.browser.browsers import find_browser

    monkeypatch.setenv("SELFSURF_BROWSER", str(tmp_path / "none"))
    with pytest.raises(browser_env.BrowserNotFound, match="SELFSURF_BROWSER"):
        find_browser()
    monkeypatch.delenv("SELFSURF_BROWSER")
    monkeypatch.setattr("selfsurf.browser_env.browser.browsers._DEBIAN", tmp_path)
    for name, value in {
        "PATH": str(tmp_path),
        "HOME": str(tmp_path),
        "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path))
    monkeypatch.setattr("selfsurf.browser_env.browser.browsers._MAC_APPS", ())
    with pytest.raises(browser_env.BrowserNotFound, match=r"selfsurf\.scripts\.install_browser"):
        find_browser()
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh")
    browser.chmod(0o755)
    assert find_browser() == str(browser)


def test_no_browser_is_left_behind():
    code = f"""
import gymnasium, selfsurf, os
env = gymnasium.make("Browser-v0", start_url={PAGE!r})
env.reset(seed=0)
from selfsurf.browser_env.browser.runtime import runtime
print(os.getpid())
"""
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    pid = ended.stdout.strip()
    left = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in left.splitlines() if line.split()[0] == pid]


@pytest.mark.slow
def test_a_fork_starts_its_own_browser():
    code = f"""
import gymnasium, multiprocessing
from selfsurf import browser_env
def use(_):
    env = gymnasium.make("Browser-v0", start_url={PAGE!r}, screenshot=False)
    env.reset(seed=0)
    name = env.step({{"action": "click", "id": 1}})[0]["elements"][0]["name"]
    env.close()
    browser_env.shutdown()
    return name
env = gymnasium.make("Browser-v0", start_url={PAGE!r}, screenshot=False)
env.reset(seed=0)
with multiprocessing.get_context("fork").Pool(1) as pool:
    assert pool.map(use, [0]) == ["done"]
assert use(0) == "done"
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


class Shown(browser_env.Task):
    """Its oracle says what to do as `step` takes it."""

    start_url = PAGE

    def oracle(self, obs):
        return {"action": "click", "id": 1, "reason": "It goes."}


class Priced(Shown):
    def __init__(self, price):
        super().__init__()
        self.price = price


def test_a_task_is_given_as_its_class_and_its_oracle_acts_in_any_form():
    env = gymnasium.make("Browser-v0", task=Shown, screenshot=False)
    env.reset(seed=0)
    assert env.unwrapped.privileged() == {"action": {"action": "click", "id": 1}, "reason": "It goes."}
    env.close()
    assert (Shown.id, Priced.id, browser_env.Task().id) == ("Shown", "Priced", "open")
    with pytest.raises(ValueError, match=r"Priced can't be created without arguments: give Priced\(...\)"):
        browser_env.BrowserEnv(task=Priced)
    with pytest.raises(ValueError, match=r"task= must be a browser_env\.Task, its class or its name, not 3"):
        browser_env.BrowserEnv(task=3)


def test_of_many_requests_those_that_change_something_are_kept(loopback):
    page = b"<button onclick=\"for (let i = 0; i < 80; i++) fetch('?' + i);"
    page += b"fetch('/', {method: 'POST'}).then(() => document.title = 'sent')\">Go</button>"
    env = gymnasium.make("Browser-v0", start_url=loopback(lambda request: page).url, screenshot=False)
    env.reset(seed=0)
    *_, info = env.step({"action": "click", "id": 1})
    env.close()
    methods = [one["method"] for one in info["requests"]]
    assert (len(methods), methods.count("POST")) == (50, 1)


class Ordered(browser_env.Task):
    """Solved once the order was sent."""

    async def score(self, page, episode):
        sent = any(one["method"] == "POST" for one in episode.requests)
        return browser_env.Score(float(sent), done=sent)


def test_a_task_sees_the_requests_of_the_step_that_it_scores(loopback):
    server = loopback(lambda request: b"<button onclick=\"fetch('/', {method: 'POST'})\">Order</button>")
    env = gymnasium.make("Browser-v0", task=Ordered(start_url=server.url), screenshot=False)
    env.reset(seed=0)
    _, reward, *_, info = env.step({"action": "click", "id": 1})
    assert (reward, info["outcome"]) == (1.0, "solved")
    env.close()


def test_the_tightest_of_several_step_limits_counts():
    env = gymnasium.wrappers.TimeLimit(gymnasium.make("MiniWoB/click-option-v0", screenshot=False), 1)
    env.reset(seed=0)
    *_, truncated, info = env.step({"action": "wait", "ms": 0})
    assert (truncated, info["outcome"]) == (True, "timeout")
    env.close()


@pytest.mark.parametrize("env_id", ["MiniWoB/click-test-v0", "Scenario/login-v0"])
def test_pictures_can_be_collected(env_id):
    env = gymnasium.make(env_id, render_mode="rgb_array_list")
    env.reset(seed=0)
    env.step({"action": "wait", "ms": 0})
    assert len(env.render()) == 2
    env.close()


def test_a_reward_that_is_no_number_is_the_agents_failure():
    env = gymnasium.make("MiniWoB/bisect-angle-v0", screenshot=False)
    env.reset(seed=1)
    env.step({"action": "click", "x": 88, "y": 131})  # on the vertex, where there is no angle
    _, reward, terminated, _, info = env.step({"action": "click", "id": 2})
    assert (reward, terminated, info["outcome"], info["trainable"]) == (0.0, True, "failed", True)
    env.close()
