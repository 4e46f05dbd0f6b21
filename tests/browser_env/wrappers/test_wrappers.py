import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.browser_env.wrappers import ClickElement, FlatObservation, TextObservation
from selfsurf.browser_env.wrappers.flat_observation import FEATURES
from tests.few import few

TASK = "MiniWoB/click-test-2-v0"


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("wrapper", few(2, [FlatObservation, TextObservation, ClickElement]))
def test_a_wrapped_environment_passes_check_env(wrapper):
    env = pickle.loads(pickle.dumps(wrapper(gymnasium.make(TASK))))
    check_env(env, skip_render_check=True)
    env.close()


def test_numbers_tell_which_element_the_goal_names_and_clicking_it_by_number_solves_the_task():
    env = ClickElement(FlatObservation(gymnasium.make(TASK, screenshot=False), elements=4), elements=4)
    for seed in range(4):
        obs, _ = env.reset(seed=seed)
        table = obs["elements"].reshape(4, len(FEATURES))
        assert table[:, FEATURES.index("there")].tolist() == [1, 1, 0, 0] == env.action_masks().tolist()
        named = table[:, FEATURES.index("named in the goal")]
        assert sorted(named.tolist()) == [0, 0, 0, 1]
        obs, reward, terminated, *_ = env.step(3)  # there is no such element
        assert (reward, terminated, obs["error"].tolist()) == (0, False, [1])
        assert env.step(np.argmax(named))[1] == 1
    env.close()


def test_they_are_small_vectors_whatever_vectorizes_them():
    envs = gymnasium.make_vec(
        TASK, num_envs=2, vectorization_mode="async", wrappers=[FlatObservation, ClickElement], screenshot=False
    )
    obs, _ = envs.reset(seed=0)
    assert obs["elements"].shape == (2, 20 * len(FEATURES))
    named = obs["elements"].reshape(2, 20, -1)[:, :, FEATURES.index("named in the goal")]
    assert envs.step(named.argmax(1))[1].tolist() == [1, 1]
    envs.close()


def test_a_text_has_only_characters_of_its_space(open_page):
    env, _ = open_page("<button>na&iuml;ve &#9731;</button><p>" + "x" * 100)
    text = TextObservation(env, max_length=90)
    obs, _ = text.reset(seed=0)
    assert "na?ve ?" in obs
    assert len(obs) == 90
    assert obs in text.observation_space
