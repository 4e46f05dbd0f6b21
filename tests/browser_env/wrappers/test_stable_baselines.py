"""Stable-Baselines3 takes the wrapped environments, as docs/environment.md shows it."""

import re
from pathlib import Path

import gymnasium
import pytest

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.browser_env.wrappers import ClickElement, FlatObservation

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3: pip install stable-baselines3")

DOC = Path(__file__).parents[3] / "docs" / "environment.md"


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("screenshot", [False, True])
def test_its_own_check_has_no_objection(screenshot):
    from stable_baselines3.common.env_checker import check_env

    env = ClickElement(FlatObservation(gymnasium.make("MiniWoB/click-button-v0", screenshot=screenshot)))
    check_env(env)
    env.close()


def example(**changes):
    """Run the documented example, parts of it replaced, and return its model."""
    blocks = re.findall(r"```python\n(.*?)```", DOC.read_text(encoding="utf8"), re.DOTALL)
    (code,) = [block for block in blocks if "stable_baselines3" in block]
    for name, (old, new) in changes.items():
        assert name + old in code
        code = code.replace(name + old, name + new)
    names = {"gymnasium": gymnasium}
    exec(code, names)
    return names["model"]


def test_the_documented_example_runs_and_only_on_its_seeds():
    model = example(n_steps=("=512", "=64"), learn=("(8_000)", "(64)"))
    assert model.num_timesteps == 64
    envs = model.get_env()
    assert envs.buf_infos[0]["seed"] in range(1000)
    assert 0 <= model.predict(envs.reset())[0][0] < 20
    envs.close()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_documented_example_learns():
    import torch

    torch.manual_seed(0)
    model = example()
    model.get_env().close()
    env = ClickElement(FlatObservation(gymnasium.make("MiniWoB/click-button-v0", screenshot=False)))
    won = 0
    for seed in range(10_000, 10_100):  # training never saw them
        obs, _ = env.reset(seed=seed)
        over = False
        while not over:
            obs, _, terminated, truncated, info = env.step(model.predict(obs, deterministic=True)[0])
            over = terminated or truncated
        won += info["outcome"] == "solved"
    env.close()
    print(f"solved {won} of 100")
    assert won >= 85
