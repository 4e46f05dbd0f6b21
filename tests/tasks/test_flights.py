"""The three tasks on airlines' pages: they start, start anew in the page, and score."""

import json

import gymnasium
import pytest

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.tasks.miniwob import FLIGHTS, names

SEARCH = {"flight.AA": "Search", "flight.Alaska": "Find Flights", "flight.Alaska-auto": "Find Flights"}


@pytest.mark.parametrize("name", [FLIGHTS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in FLIGHTS[1:])])
def test_an_episode_starts_with_its_instruction_and_ends_with_a_score(name):
    env = gymnasium.make(f"MiniWoB/{name}-v0", screenshot=False)
    seen = {}
    for seed in (1, 2, 1):
        obs, info = env.reset(seed=seed)
        wanted = json.loads(obs["goal"])
        assert wanted["Departure City"] != wanted["Destination City"]
        assert info["outcome"] == "running"
        view = (obs["goal"], obs["dom"])
        assert seen.setdefault(seed, view) == view, "a restart in the page is as good as a fresh start"
        (button,) = [e for e in obs["elements"] if (e["role"], e["name"]) == ("button", SEARCH[name])]
        _, reward, terminated, _, info = env.step({"action": "click", "id": button["id"]})
        assert (reward, terminated, info["outcome"], info["score"]["raw_reward"]) == (0.0, True, "failed", -1)
        assert "Missing required field" in info["score"]["reason"]
    assert seen[1] != seen[2]
    env.close()


def test_flights_stand_beside_the_suite():
    assert len(FLIGHTS) == 3
    assert not set(FLIGHTS) & set(names())


@pytest.mark.slow
def test_there_are_other_instructions_to_test_on():
    goals = {}
    for mode in ("train", "test"):
        env = gymnasium.make("MiniWoB/flight.AA-v0", screenshot=False, data_mode=mode)
        goals[mode] = env.reset(seed=1)[0]["goal"]
        env.close()
    assert goals["train"] != goals["test"]
