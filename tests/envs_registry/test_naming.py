"""A task has one name everywhere, and what can't be found says what may have been meant."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from selfsurf.envs_registry import Suite, load_suite, name_of, open_id, task_names, task_of
from selfsurf.envs_registry.loading import recorded_name, sources_of

SHOP = """
from pathlib import Path
from selfsurf.browser_env import Score, Task
from {helper} import PRICE

class Order(Task):
    start_url = "http://shop.test/index.html"
    sites = {{"http://shop.test": Path(__file__).parent / "pages"}}
    goal = "Press Order."
    max_steps = 3

    def __init__(self, price: int = PRICE, title: str = "cheap"):
        super().__init__()
        self.price, self.title = price, title

    async def score(self, page, episode):
        done = await page.evaluate("document.title") == "Ordered"
        return Score(float(done), done=done or episode.finished)

    def oracle(self, obs):
        return {{"action": "click", "id": obs["elements"][0]["id"], "reason": "It orders."}}

class Agent:
    def act(self, obs):
        return {{"action": "click", "id": 1}}
"""
ENVS = """
import gymnasium
from selfsurf.browser_env import BrowserEnv
from {shop} import Order
gymnasium.register("{space}/Order-v0", lambda **options: BrowserEnv(task=Order(price=7), **options), max_episode_steps=9)
gymnasium.register("{space}/Dear-v0", "selfsurf.browser_env:BrowserEnv", kwargs={{"task": Order(price=9)}})
"""
PAGE = """<button onclick="document.title='Ordered'">Order</button>"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with a task in a file, a module that registers it, a helper, a page and a suite; it is the current one.

    Modules have names of their own in each test: they are imported once in a process.
    """
    own = f"shop_{tmp_path.name.replace('-', '_')}"
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.html").write_text(PAGE)
    (tmp_path / f"{own}_prices.py").write_text("PRICE = 3\n")
    (tmp_path / f"{own}.py").write_text(SHOP.format(helper=f"{own}_prices"))
    (tmp_path / f"{own}_envs.py").write_text(ENVS.format(shop=own, space=own))
    (tmp_path / "shop.toml").write_text(
        f'tasks = ["MiniWoB/click-test-v0", {{ id = "{own}.py:Order", split = "test", options = {{ price = 5 }} }}]'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return own


def test_every_way_to_name_a_task_makes_it(shop):
    file = f"{Path.cwd()}/{shop}.py:Order"
    kind = type(task_of(f"{shop}:Order"))
    for given, name, price, steps in (
        (f"{shop}.py:Order", file, 3, 3),
        (f"{shop}.py:Order?price=4&title=a b", f"{file}?price=4&title=a%20b", 4, 3),
        (f"{shop}:Order", f"{shop}:Order", 3, 3),
        (f"{shop}_envs:{shop}/Order-v0", f"{shop}_envs:{shop}/Order-v0", 7, 9),
        (f"{shop}/Dear-v0", f"{shop}/Dear-v0", 9, 3),
        (kind, f"{shop}:Order", 3, 3),
        (kind(8, title="3"), f"{shop}:Order?price=8&title=%223%22", 8, 3),
        (task_of(f"{shop}.py:Order?price=2"), f"{file}?price=2", 2, 3),
    ):
        assert name_of(given) == name
        task = task_of(name)
        assert (task.price, task.max_steps, task.id, name_of(name)) == (price, steps, "Order", name)
        assert task_of(name) is not task
    assert name_of(task_of("MiniWoB/click-test-v0", data_mode="test")) == "MiniWoB/click-test-v0?data_mode=test"
    assert task_of(open_id("about:blank", "3 = main.py")).goal == "3 = main.py"
    assert task_names("shop.toml", kind) == ("MiniWoB/click-test-v0", f"{file}?price=5", f"{shop}:Order")
    assert task_names("shop.toml#test") == task_names("shop.toml#Order") == (f"{file}?price=5",)
    assert [task.name for task in load_suite("shop.toml#Order").tasks] == [f"{file}?price=5"]
    (entry,) = Suite("one", (task_of(f"{shop}.py:Order?price=2"),)).tasks
    assert (entry.id, entry.folder, entry.make().price) == (f"{shop}.py:Order?price=2", str(Path.cwd()), 2)


def test_a_short_name_is_that_of_its_id(monkeypatch):
    # the package miniwob registers the same names
    monkeypatch.setitem(gymnasium.registry, "miniwob/click-test-v1", EnvSpec("miniwob/click-test-v1", "nowhere:Env"))
    assert name_of("click-test") == task_of("click-test").id == "MiniWoB/click-test-v0"
    assert name_of("click-test?data_mode=test") == "MiniWoB/click-test-v0?data_mode=test"
    assert task_names("click-link", "Scenario/cookies-v0", "cookies") == (
        "MiniWoB/click-link-v0", "Scenario/cookies-v0", "Scenario/cookies-v0",
    )  # fmt: skip
    (one,) = load_suite("click-test").tasks
    assert one.name == one.id == "MiniWoB/click-test-v0"
    names = [spec.name for spec in gymnasium.registry.values() if str(spec.entry_point).startswith("selfsurf.")]
    assert len(names) == len(set(names)), "a short name is one task's"


def test_what_is_not_there_says_what_may_be_meant(shop, monkeypatch):
    # the package miniwob registers the same names
    monkeypatch.setitem(gymnasium.registry, "miniwob/click-test-v1", EnvSpec("miniwob/click-test-v1", "nowhere:Env"))
    for name, said in (
        ("click-tset", "no task 'click-tset'; did you mean MiniWoB/click-test-v0"),
        ("MiniWoB/click-tset-v0", "did you mean MiniWoB/click-test-v0"),
        (f"{shop}.py:Oder", "no class 'Oder'; did you mean Order"),
        (f"{shop}.py:Nope", r"no class 'Nope'; it has Order\.$"),
        (f"{shop}.py:Agent", r"is not a browser_env.Task; it has Order\.$"),
        (f"{shop}:Oder", "no class 'Oder'; did you mean Order"),
        (f"{shop}.py:Order?pric=1", r"has no option pric; did you mean price\?"),
        (f"{shop}.py:PRICE", "no class 'PRICE'"),
        ("nowhere:Order", "no module 'nowhere'"),
        (f"{shop}_envs:{shop}/Ordre-v0", f"did you mean {shop}/Order-v0"),
        ("CartPole-v1", "not as an environment with a browser"),
        ("Browser-v0", "needs a start page and a goal"),
        ("shop.toml#test", "`envs_registry.task_names` lists the tasks of a suite"),
        (
            "zzz",
            "`selfsurf envs` lists the ids. Name your own task file.py:Class, or module:ID if a module registers it",
        ),
        ("Market/Order-v0", "no task 'Market/Order-v0'; `selfsurf envs` lists the ids"),
    ):
        with pytest.raises(ValueError, match=said):
            task_of(name)
    with pytest.raises(ValueError, match=f"name a task in it {shop}.py:Class"):
        task_names(f"{shop}.py")
    with pytest.raises(ValueError, match="must be JSON data"):
        name_of(task_of(f"{shop}:Order", price=3).__class__(price=object()))


def test_options_are_of_the_types_that_the_task_declares(shop):
    for options, said in (
        ("price=abc", 'price="abc": should be a valid integer'),
        ("price=3.5", "price=3.5: should be a valid integer"),
        ("price=null", "price=null: should be a valid integer"),
    ):
        with pytest.raises(ValueError, match=said):
            task_of(f"{shop}.py:Order?{options}")
    with pytest.raises(ValueError, match='price="abc": should be'):
        task_of(f"{shop}:Order", price="abc")
    with pytest.raises(ValueError, match="data_mode=\"val\": should be 'train' or 'test'"):
        task_of("MiniWoB/click-test-v0?data_mode=val")
    text = task_of(f"{shop}:Order?title=5")  # which can only be a text
    assert (text.title, name_of(text)) == ("5", f"{shop}:Order?title=5")


def test_a_recorded_task_is_found_where_it_was_and_else_here(shop, tmp_path_factory):
    there = f"{tmp_path_factory.mktemp('gone')}/{shop}.py:Order?price=2"
    assert recorded_name({"env_id": f"{shop}.py:Order", "task": there}) == name_of(f"{shop}.py:Order")
    assert recorded_name({"env_id": "x", "task": name_of(f"{shop}.py:Order")}) == name_of(f"{shop}.py:Order")
    assert recorded_name({"env_id": "Browser-v0", "url": None, "goal": "g"}, "about:blank") == open_id(
        "about:blank", "g"
    )


ELSEWHERE = """
import pickle, sys
import selfsurf, gymnasium
from selfsurf.envs_registry import task_of
pickle.loads(sys.stdin.buffer.read()).use()
for name in sys.argv[1:]:
    task = task_of(name)
    env = gymnasium.make("Browser-v0", task=type(task), screenshot=False)
    env.reset(seed=0)
    told = env.unwrapped.privileged()
    *_, info = env.step(told["action"])
    env.close()
    print(task.price, told["reason"], info["outcome"], type(task).__module__)
"""


def test_tasks_travel_as_name_options_and_source(shop):
    names = [name_of(f"{shop}.py:Order?price=4"), f"{shop}_envs:{shop}/Order-v0"]
    sources = sources_of(names)
    here = Path.cwd()
    assert {Path(path).name for path in sources.files} >= {
        f"{shop}.py", f"{shop}_prices.py", f"{shop}_envs.py", "index.html"
    }  # fmt: skip
    module = type(task_of(names[0])).__module__
    for path in here.iterdir():  # as on a machine that does not have them
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    path = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part != str(here)]
    run = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *names], input=pickle.dumps(sources), capture_output=True, cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONHASHSEED": "7"}, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr.decode()
    assert run.stdout.decode().split("\n")[:2] == [f"4 It orders. solved {module}", f"7 It orders. solved {shop}"]
