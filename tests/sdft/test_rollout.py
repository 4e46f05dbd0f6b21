"""A model that can't be asked fails nobody's episode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.policy import PolicyError
from sdft.rollout import Job, Rollouts
from sdft.train import make_agent

JOBS = [Job("MiniWoB/click-test-v0", 1), Job("MiniWoB/click-test-v0", 2)]


@pytest.fixture
def failing(tiny_policy: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the policy fail at the calls of these numbers, from 1; returns how many calls there have been."""
    original, calls = tiny_policy.complete, [0]

    def fail_at(*numbers: int) -> list[int]:
        def complete(*arguments: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] in numbers:
                raise PolicyError("The server is overloaded.")
            return original(*arguments, **options)

        monkeypatch.setattr(tiny_policy, "complete", complete)
        return calls

    return fail_at


def outcomes(folder: Path) -> dict[str, tuple[str, bool]]:
    metas = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("*/episode.json")}
    return {name: (meta["outcome"], meta["trainable"]) for name, meta in metas.items()}


def test_episodes_of_a_failed_call_are_run_again(tiny_policy: Any, settings: Any, failing: Any, tmp_path: Path) -> None:
    failing(1)
    agent = make_agent(tiny_policy, settings, sampling=True)
    with Rollouts(2, max_episode_steps=1) as rollouts:
        results = rollouts.run(agent, JOBS, folder=tmp_path)
    assert [(result.job, result.outcome != "env_error", len(result.steps)) for result in results] == [
        (JOBS[0], True, 1),
        (JOBS[1], True, 1),
    ]
    ended = outcomes(tmp_path)
    for seed in (1, 2):
        assert ended[f"MiniWoB_click-test-v0_{seed}"] == ("env_error", False)
        assert ended[f"MiniWoB_click-test-v0_{seed}_retry1"][0] == results[seed - 1].outcome


def test_a_model_that_stays_away_is_an_env_error(tiny_policy: Any, settings: Any, failing: Any) -> None:
    calls = failing(*range(1, 100))
    agent = make_agent(tiny_policy, settings, sampling=True)
    with Rollouts(2, max_episode_steps=1) as rollouts:
        results = rollouts.run(agent, JOBS)
    assert [(result.outcome, result.trainable, result.detail, result.steps) for result in results] == [
        ("env_error", False, "The server is overloaded.", [])
    ] * 2
    assert calls[0] == 2  # both episodes in one call, and once more
