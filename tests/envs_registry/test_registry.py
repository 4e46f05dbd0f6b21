import json
import subprocess
import sys
import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
from typer.testing import CliRunner

import selfsurf
from selfsurf import envs_registry
from selfsurf.browser_env import AsyncBrowserEnv, BrowserEnv, Task, VectorBrowserEnv
from selfsurf.scripts.cli import app
from selfsurf.tasks.miniwob import names
from tests.processes import crowd


def test_all_registered_tasks_of_the_package_are_there():
    import miniwob  # noqa: F401  (registers its own ids)

    theirs = {
        spec.id.removeprefix("miniwob/").removesuffix("-v1")
        for spec in gymnasium.registry.values()
        if spec.namespace == "miniwob" and "flight." not in spec.id
    }
    assert set(names()) == theirs
    assert len(names()) == 125
    assert all(f"MiniWoB/{name}-v0" in gymnasium.registry for name in names())


def test_both_ways_to_make_an_environment():
    for env_id in ("MiniWoB/click-test-v0", "envs_registry:MiniWoB/click-test-v0", "envs_registry:Browser-v0"):
        options = {"start_url": "data:text/html,x"} if "Browser" in env_id else {}
        env = gymnasium.make(env_id, **options)
        env.reset(seed=0)
        env.close()


def test_ids_that_are_no_task_say_so():
    with pytest.raises(ValueError, match="not as an environment with a browser"):
        envs_registry.task_of("CartPole-v1")


def test_environments_take_tasks_by_their_names(tmp_path):
    (tmp_path / "mute.py").write_text(
        "from selfsurf.browser_env import Task\n\n\n"
        "class Mute(Task):\n"
        "    oracle = None\n\n"
        "    def __init__(self, word='ok'):\n"
        "        super().__init__(start_url='data:text/html,<button>Press</button>', goal=f'Press {word}.')\n"
    )
    name = f"{tmp_path}/mute.py:Mute"
    envs = gymnasium.make_vec(
        "Browser-v0", num_envs=2, screenshot=False, tasks=["MiniWoB/click-test-v0", f"{name}?word=twice"]
    )
    seen, _ = envs.reset(seed=0)
    assert seen["goal"] == ("Click the button.", "Press twice.")
    envs.close()
    env = gymnasium.make("Browser-v0", task=name, screenshot=False)
    assert env.reset(seed=0)[0]["goal"] == "Press ok."
    assert env.unwrapped.privileged() is None
    assert not envs_registry.task_of(name).has_oracle
    env.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "MiniWoB/clik",
            r"'MiniWoB/clik' is not a URL: .* There is no task 'MiniWoB/clik'; did you mean MiniWoB/click-",
        ),
        ("cafe_of_test.py:Order", "There is no file .*cafe_of_test.py"),
        ("MiniWoB/click-test-v0?data_mode=test", "is a task's name, not a URL: give task="),
        ("localhost:8000", "begins with a scheme, such as https://.$"),
        ("example.com/shop", "begins with a scheme, such as https://. There is no task"),
    ],
)
def test_a_start_page_that_looks_like_a_task_is_refused_with_what_may_be_meant(given, said):
    with pytest.raises(ValueError, match=said):
        AsyncBrowserEnv(given)


@pytest.mark.parametrize("page", ["https://example.com/a", "data:text/html,a", "about:blank", "HTTP://a:80/", "/a"])
def test_an_address_is_a_start_page(page):
    assert AsyncBrowserEnv(page).task.start_url == page


@pytest.mark.parametrize("make", [gymnasium.make, gymnasium.make_vec, AsyncBrowserEnv])
@pytest.mark.parametrize("env_id", ["MiniWoB/click-test-v0", "Scenario/order-v0"])
def test_an_id_of_a_task_takes_no_other_task(make, env_id):
    with pytest.raises(ValueError, match="leave out task=, or use it with Browser-v0"):
        make(env_id, task="MiniWoB/click-link-v0")


def test_a_task_s_step_limit_holds_however_its_environment_is_made_unless_another_is_given():
    class Short(Task):
        start_url, goal, max_steps = "data:text/html,<button>Go</button>", "Look.", 2

    def steps(env):
        env.reset(seed=0)
        wait, outcomes = {"action": "wait", "ms": 0}, ["running"]
        while outcomes[-1] == "running" and len(outcomes) < 5:
            info = env.step([wait] if hasattr(env, "num_envs") else wait)[4]
            outcomes.append(str(np.ravel(info["outcome"])[0]))
        env.close()
        return len(outcomes) - 1, outcomes[-1]

    options = {"task": Short(), "screenshot": False}
    assert steps(gymnasium.make("Browser-v0", **options)) == (2, "timeout")
    assert steps(gymnasium.make("Browser-v0", max_episode_steps=3, **options)) == (3, "timeout")
    assert steps(gymnasium.make_vec("Browser-v0", num_envs=1, **options)) == (2, "timeout")
    assert steps(BrowserEnv(**options)) == (2, "timeout")


SHOP = '''
import selfsurf
from selfsurf.browser_env import Score, Task


class Order(Task):
    """Press the button of the price."""

    max_steps = 7

    def __init__(self, price: int = 1):
        page = "".join(f"<button>{number}</button>" for number in range(5))
        super().__init__(goal=f"Press {price}.", start_url=f"data:text/html,{page}")
        self.price = price

    async def score(self, page, episode):
        return Score()

    def oracle(self, obs):
        return {"action": "click", "id": self.price + 1}


selfsurf.register("Shop/Order-v0", Order, price=2)
'''


def test_an_id_of_ones_own_makes_single_and_vector_environments(tmp_path, monkeypatch):
    (tmp_path / "shop_of_test.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    env = gymnasium.make("shop_of_test:Shop/Order-v0", screenshot=False)
    assert env.reset(seed=0)[0]["goal"] == "Press 2."
    assert env.spec.max_episode_steps == 7
    env.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vector = gymnasium.make_vec("Shop/Order-v0", num_envs=2, price=3, screenshot=False)
    assert isinstance(vector, VectorBrowserEnv)
    assert vector.reset(seed=0)[0]["goal"] == ("Press 3.", "Press 3.")
    vector.close()
    assert envs_registry.task_of("shop_of_test:Shop/Order-v0").oracle(None) == {"action": "click", "id": 3}
    result = CliRunner().invoke(app, ["run", "--task", "shop_of_test:Shop/Order-v0", "--agent", "oracle", "--out",
                                      str(tmp_path / "run"), "--max-steps", "1"])  # fmt: skip
    assert "No module" not in result.output
    assert json.loads((tmp_path / "run" / "episode.json").read_text())["goal"] == "Press 2."


@pytest.mark.parametrize("make", [gymnasium.make, partial(gymnasium.make_vec, num_envs=1)])
def test_an_option_that_there_is_not_is_named_with_those_that_there_are(tmp_path, make):
    (tmp_path / "own.py").write_text(SHOP.replace('selfsurf.register("Shop/Order-v0", Order, price=2)', ""))
    env_id = f"{tmp_path.name}/Order-v0"
    selfsurf.register(env_id, f"{tmp_path}/own.py:Order")
    with pytest.raises(TypeError, match=r"^own\.py:Order has no option colour; it has price, .*screenshot"):
        make(env_id, colour=3)
    with pytest.raises(TypeError, match=r"has no option prise; did you mean price\?"):
        make(env_id, prise=3)
    with pytest.raises(TypeError, match=r"The environment has no option colour; it has start_url, .*screenshot"):
        make("Browser-v0", colour=3)
    make(env_id, price=3, screenshot=False, render_mode="ansi", seeds=[1]).close()
    del gymnasium.registry[env_id]


SCRIPT = """
import gymnasium, selfsurf
print("runs")
class Order(selfsurf.browser_env.Task):
    start_url, goal = "about:blank", "x"
selfsurf.register("Script/Order-v0", Order)
assert type(gymnasium.make("Script/Order-v0").unwrapped.task) is Order
assert type(selfsurf.envs_registry.task_of(f"{__file__}:Order")) is Order
"""


def test_a_program_that_registers_its_own_task_runs_once(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "link.py").symlink_to(tmp_path / "script.py")
    for name in ("script.py", "link.py"):
        done = subprocess.run(
            [sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=60 * crowd()
        )
        assert (done.returncode, done.stdout) == (0, "runs\n"), done.stderr


def test_an_id_is_registered_once_and_for_a_task(tmp_path):
    (tmp_path / "own.py").write_text(SHOP.replace('selfsurf.register("Shop/Order-v0", Order, price=2)', ""))
    own = f"{tmp_path}/own.py:Order"
    selfsurf.register("Own/Order-v0", own)
    selfsurf.register("Own/Order-v0", own)
    with pytest.raises(ValueError, match=r"already registered for .*own\.py:Order"):
        selfsurf.register("Own/Order-v0", own, price=4)
    for task in (lambda: Task(), partial(Task, goal="x"), dict):
        with pytest.raises(ValueError, match=r"file\.py:Class, not "):
            selfsurf.register("Own/Odd-v0", task)
    with pytest.raises(ValueError, match="namespace and a version"):
        selfsurf.register("Order", own)
    with pytest.raises(ValueError, match="price"):
        selfsurf.register("Own/Other-v0", own, prize=4)
    assert "Own/Other-v0" not in gymnasium.registry


def test_environments_that_are_stepped_in_turns_say_so():
    gymnasium.register("Turns/Open-v0", entry_point=BrowserEnv, kwargs={"start_url": "data:text/html,x", "goal": "x"})
    with pytest.warns(UserWarning, match="one after the other.*selfsurf.register"):
        vector = gymnasium.make_vec("Turns/Open-v0", num_envs=2, screenshot=False)
    vector.close()
