"""A task of one's own in every command: by file, by suite, by an id that was registered, from other folders, too."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.scripts.terminal.arguments import import_trusted
from selfsurf.sdft.teacher.recording import load_recordings
from tests.few import few

SHOP = """
from selfsurf.browser_env import Score, Task

class Order(Task):
    start_url = "data:text/html,<button>No</button><button onclick='document.title=1'>Order</button>"
    goal = "Order."
    max_steps = 2

    def __init__(self, price=3):
        super().__init__()
        self.price = price

    async def score(self, page, episode):
        done = await page.title() == "1"
        return Score(float(done), done=done or episode.finished, details={"reason": f"price {self.price}"})

class Shown(Order):
    def oracle(self, obs):
        return {"action": "click", "id": obs["elements"][1]["id"]}

class Look(Task):
    start_url = "data:text/html,<button>Go</button>"
    goal = "Look."
    max_steps = 1
"""
ENVS = """
import gymnasium
from selfsurf.browser_env import BrowserEnv
from shop_of_test import Shown
gymnasium.register("Shop/Order-v0", lambda **options: BrowserEnv(task=Shown(), **options), max_episode_steps=3)
"""
SUITE = """
seeds = 2
tasks = [
    { id = "shop_of_test.py:Shown", split = "test" },
    { id = "shop_of_test.py:Order", split = "train", options = { price = 5 } },
]
"""
SMALL = ("--steps", "1", "--set", "episodes_per_step=4", "--set", "least_first_divergence=0", "--set", "lora_rank=2")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    for name, text in {"shop_of_test.py": SHOP, "shopenv_of_test.py": ENVS, "shop.toml": SUITE}.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in ("shop_of_test", "shopenv_of_test"):
        sys.modules.pop(name, None)


def selfsurf(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "400"})
    assert result.exit_code == code, f"{words}: {result.output}"
    return result.output


@pytest.mark.parametrize(
    "task", few(2, ["shop_of_test.py:Shown", "shop.toml#test", "shopenv_of_test:Shop/Order-v0", "shop_of_test:Shown"])
)
def test_run_takes_every_name(shop, task):
    said = json.loads(
        selfsurf("run", "--task", task, "--agent", "oracle", "--out", "episode", "--json").splitlines()[-1]
    )
    assert (said["outcome"], said["steps"]) == ("solved", 1)


def test_run_says_which_task_it_wants(shop):
    assert "has 2 tasks (shop_of_test.py:Shown, shop_of_test.py:Order): name one, shop.toml#ID" in selfsurf(
        "run", "--task", "shop.toml", "--agent", "oracle", code=2
    )
    assert "did you mean MiniWoB/click-test-v0" in selfsurf("run", "--task", "click-tset", code=2)
    assert "did you mean Shown" in selfsurf("train", "shop_of_test.py:Show", code=2)
    assert not (shop / "runs").exists()


@pytest.mark.slow
def test_what_nothing_judges_has_no_verdict_in_a_benchmark_and_teaches_nobody(shop, tiny):
    said = selfsurf("bench", "run", "shop_of_test.py:Look", "--agent", "random", "--seeds", "1", code=1)
    assert "NO VERDICT: 1 of 1 episode ended unjudged" in said
    assert "0.0% strict" not in said
    said = selfsurf("train", "shop_of_test.py:Look", "--model", tiny, "--out", "learned", code=2)
    assert "No context teaches shop_of_test.py:Look: without a score" in said
    assert not (shop / "learned").exists()


@pytest.mark.parametrize("where", ["evil_of_test.py", "evil_of_test"])
def test_an_episode_alone_has_nothing_imported(shop, where):
    (shop / "evil_of_test.py").write_text(f"open('owned', 'w')\n{SHOP}")
    episode = shop / "runs" / "shown"
    shutil.copytree(Path(__file__).parents[1] / "browser_env/record/episodes/format-1-oracle", episode)
    meta = json.loads((episode / "episode.json").read_text())
    name = f"{shop / where if where.endswith('.py') else where}:Shown"
    (episode / "episode.json").write_text(json.dumps({**meta, "task": name, "env_id": name}))
    for words in (("train", "--live", "--demonstrations", shop / "runs"), ("record", "--replay", episode)):
        assert "not imported" in (said := selfsurf(*words, code=2))
        assert f"--trust{name.partition(':')[0]}" in "".join(said.replace("│", "").split())
    assert not (shop / "owned").exists()
    assert "There is no file" in selfsurf(
        "train", "--live", "--demonstrations", shop / "runs", "--trust", "other.py", code=2
    )
    import_trusted([where])
    assert [one.env_id for one in load_recordings([shop / "runs"])] == [name]
    sys.modules.pop("evil_of_test", None)


@pytest.mark.slow
def test_what_a_benchmark_played_is_replayed_and_taught_from_another_folder(shop, tmp_path, tiny, monkeypatch):
    command = [sys.executable, "-m", "selfsurf.scripts.cli", "bench", "run", "shop.toml#test", "--out", "runs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (other := tmp_path / "other").mkdir()
    monkeypatch.chdir(other)
    episode = shop / "runs" / "episodes" / "shop_of_test.py_Shown_0"
    trusted = ("--trust", shop / "shop_of_test.py")
    assert "1 of 1 actions done. The outcome is as recorded." in selfsurf("record", "--replay", episode, *trusted)
    selfsurf("train", "--demonstrations", shop / "runs", *trusted, "--model", tiny, "--out", "learned", *SMALL)
    settings = json.loads((other / "learned" / "settings.json").read_text())
    assert settings["contexts"] == ["demonstration"]
    about = json.loads((other / "learned" / "adapter" / "selfsurf.json").read_text())
    assert about["learned"] == ["recorded shop_of_test.py Shown"], "learned without its task"


@pytest.mark.slow
def test_an_oracle_teaches_where_there_is_one_and_else_the_agent_s_own_successes(shop, tiny):
    said = selfsurf("train", "shop.toml", "--model", tiny, "--out", "learned", "--json", *SMALL)
    assert (
        "shop_of_test.py:Order?price=5 has neither an oracle nor a recording: from its first success on, the agent"
        in said
    )
    assert "Shown has no oracle" not in said
    settings = json.loads(Path("learned/settings.json").read_text())
    assert settings["contexts"] == ["oracle", "hindsight"]
    assert settings["tasks"] == [f"{shop}/shop_of_test.py:Shown", f"{shop}/shop_of_test.py:Order?price=5"]
    (line,) = map(json.loads, Path("learned/metrics.jsonl").read_text().splitlines())
    assert set(line["success"]) <= set(settings["tasks"])
    assert line["told/oracle"] > 0
