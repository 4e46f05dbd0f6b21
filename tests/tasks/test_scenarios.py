"""The scenarios: their oracles solve them in 4 to 10 actions, and a seed changes what it should."""

import gymnasium
import pytest

from selfsurf.envs_registry import task_of
from selfsurf.tasks.scenarios import FLOWS, VARIED, names

SOME = [*list(FLOWS)[:2], *(pytest.param(flow, marks=pytest.mark.slow) for flow in list(FLOWS)[2:])]


def played(name, seed):
    """Let the oracle play; return the first observation, the kinds of its actions, and the last info."""
    env = gymnasium.make(f"Scenario/{name}-v0", screenshot=False)
    try:
        first, info = env.reset(seed=seed)
        done, kinds = False, []
        while not done:
            action = env.unwrapped.privileged()["action"]
            kinds.append(action["action"])
            _, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        return first, kinds, info
    finally:
        env.close()


def labels(observation):
    return sorted(one["name"] for one in observation["elements"])


@pytest.mark.parametrize("flow", SOME)
def test_a_seed_changes_what_the_flow_does_not_depend_on(flow):
    (one, kinds, info), (other, again, _) = (played(flow, seed) for seed in (0, 1))
    assert info["outcome"] == "solved", info
    assert 4 <= len(kinds) <= 10
    assert kinds == again
    assert one["goal"] == other["goal"]
    assert one["dom"] != other["dom"]


@pytest.mark.parametrize("flow", SOME)
def test_variations_have_other_values_and_labels(flow):
    (one, kinds, info), (other, again, more) = (played(flow + VARIED, seed) for seed in (0, 1))
    assert info["outcome"] == more["outcome"] == "solved"
    assert sorted(kinds) == sorted(again)
    assert one["goal"] != other["goal"]
    assert labels(one) != labels(other)


def test_what_is_sent_wrongly_is_missed():
    env = gymnasium.make("Scenario/register-v0", screenshot=False)
    try:
        observation, _ = env.reset(seed=0)
        send = next(one["id"] for one in observation["elements"] if one["name"] == "Send")
        _, reward, terminated, _, info = env.step({"action": "click", "id": send})
    finally:
        env.close()
    assert (reward, terminated, info["outcome"]) == (0.0, True, "failed")
    assert info["score"]["done"]["name"] == ""


def test_the_whole_title_does_not_find_what_is_on_a_later_page():
    env = gymnasium.make("Scenario/pages-v0", screenshot=False)
    try:
        env.reset(seed=0)
        task = env.unwrapped.core.task
        title = task.wanted["title"]
        observation, *_ = env.step({**env.unwrapped.privileged()["action"], "text": title})
        search = next(one["id"] for one in observation["elements"] if one["name"] == task.label["search"])
        observation, *_ = env.step({"action": "click", "id": search})
        assert title not in labels(observation)
        assert task.label["next"] in labels(observation)
    finally:
        env.close()


def test_a_tall_window_shows_more_of_the_list_that_is_to_be_scrolled():
    env = gymnasium.make("Scenario/scroll-v0", screenshot=False, viewport=(834, 1600))
    try:
        env.reset(seed=0)
        done = False
        while not done:
            *_, terminated, truncated, info = env.step(env.unwrapped.privileged()["action"])
            done = terminated or truncated
        assert info["outcome"] == "solved"
    finally:
        env.close()


def test_names():
    assert task_of("Scenario/order-varied-v0").varied
    assert {task_of(f"Scenario/{name}-v0").id for name in names()} <= gymnasium.registry.keys()
    with pytest.raises(ValueError, match="There is no task 'Scenario/nothing-v0'"):
        task_of("Scenario/nothing-v0")
