"""The task of docs/tasks.md that has a server of its own, as it stands there."""

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import gymnasium
import pytest

DOC = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf8")
[RECIPE] = re.findall(r"```python\n# cart\.py\n(.*?)```", DOC, re.DOTALL)

BUYER = """
class Buyer:
    def act(self, obs):
        thing = obs["goal"].split()[1]
        return {"action": "click", "id": next(one["id"] for one in obs["elements"] if one["name"] == f"Add {thing}")}
"""


@pytest.fixture
def cart(tmp_path, monkeypatch):
    """The recipe as a module, imported."""
    (tmp_path / "cart.py").write_text(RECIPE, encoding="utf8")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("cart")
    del sys.modules["cart"], gymnasium.registry["Shop/Cart-v0"]


def element_of(obs, name):
    return next(element["id"] for element in obs["elements"] if element["name"] == name)


def test_episodes_of_one_seed_have_carts_of_their_own_and_leave_none(cart):
    envs = [gymnasium.make("Shop/Cart-v0", screenshot=False) for _ in range(2)]
    try:
        first, second = [env.reset(seed=3)[0] for env in envs]
        assert first["goal"] == second["goal"]
        assert len(cart.CARTS) == 2
        wanted = first["goal"].split()[1]
        wrong = next(thing for thing in cart.THINGS if thing != wanted)
        for env, obs, thing, outcome in ((envs[0], first, wanted, "solved"), (envs[1], second, wrong, "failed")):
            *_, info = env.step({"action": "click", "id": element_of(obs, f"Add {thing}")})
            assert info["outcome"] == outcome, info
    finally:
        for env in envs:
            env.close()
    assert not cart.CARTS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cart.py:Cart", "cart:Shop/Cart-v0"])
def test_an_agent_solves_it_in_several_processes(cart, tmp_path, name):
    (tmp_path / "buyer.py").write_text(BUYER, encoding="utf8")
    words = ["bench", "run", name, "--agent", "buyer.py:Buyer", "--seeds", "4", "--processes", "2", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "selfsurf.scripts.cli", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["solved"] * 4
