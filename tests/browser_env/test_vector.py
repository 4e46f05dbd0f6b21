import gymnasium
import numpy as np
import pytest

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.browser_env import VectorBrowserEnv


def test_the_native_vector_environment_steps_all_and_resets_what_ended():
    envs = gymnasium.make_vec("MiniWoB/click-test-v0", num_envs=3)
    assert isinstance(envs.unwrapped, VectorBrowserEnv)
    obs, infos = envs.reset(seed=5)
    assert obs["screenshot"].shape == (3, 214, 332, 3)
    assert len(obs["goal"]) == 3
    assert list(infos["outcome"]) == ["running"] * 3
    actions = [told["action"] for told in envs.unwrapped.privileged()]
    obs, rewards, terminated, _, infos = envs.step([actions[0], {"action": "wait", "ms": 0}, "nonsense"])
    assert rewards.tolist() == [1.0, 0.0, 0.0]
    assert terminated.tolist() == [True, False, False]
    assert list(infos["outcome"]) == ["solved", "running", "running"]
    assert obs["last_error"][2].startswith("An action is JSON")
    _, _, terminated, _, infos = envs.step([{"action": "wait", "ms": 0}] * 3)
    assert infos["outcome"][0] == "running"
    assert not terminated.any()
    envs.close()


def test_it_sees_what_single_environments_see():
    envs = gymnasium.make_vec("MiniWoB/click-option-v0", num_envs=2, screenshot=True)
    many, _ = envs.reset(seed=[3, 4])
    for index, seed in enumerate([3, 4]):
        env = gymnasium.make("MiniWoB/click-option-v0")
        one, _ = env.reset(seed=seed)
        assert one["dom"] == many["dom"][index]
        assert np.array_equal(one["screenshot"], many["screenshot"][index])
        env.close()
    envs.close()


def test_the_step_limit_counts_for_each():
    envs = gymnasium.make_vec("MiniWoB/click-option-v0", num_envs=2, max_episode_steps=2, screenshot=False)
    envs.reset(seed=0)
    wait = [{"action": "wait", "ms": 0}] * 2
    envs.step(wait)
    *_, truncated, infos = envs.step(wait)
    assert truncated.all()
    assert list(infos["outcome"]) == ["timeout"] * 2
    with pytest.raises(ValueError, match="1 actions were given for 2"):
        envs.step(wait[:1])
    envs.close()
