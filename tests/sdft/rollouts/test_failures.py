"""A model that can't be asked fails nobody's episode."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfsurf.agents.policy import PolicyError
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rollouts import EpisodeCounts, Job, Rollouts

JOBS = [Job("MiniWoB/click-test-v0", 1), Job("MiniWoB/click-option-v0", 2)]


@pytest.fixture
def failing(tiny_policy: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the first so many calls for every prompt fail."""
    original = tiny_policy.complete
    calls: Counter[str] = Counter()

    def fail(times: int) -> None:
        def complete(conversations: Any, **options: Any) -> Any:
            (prompt,) = map(str, conversations)
            calls[prompt] += 1
            if calls[prompt] <= times:
                raise PolicyError("The server is overloaded.")
            return original(conversations, **options)

        monkeypatch.setattr(tiny_policy, "complete", complete)

    return fail


def outcomes(folder: Path) -> dict[str, tuple[str, bool]]:
    metas = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("*/episode.json")}
    return {name: (meta["outcome"], meta["trainable"]) for name, meta in metas.items()}


def test_episodes_of_a_failed_call_are_run_again(tiny_policy: Any, settings: Any, failing: Any, tmp_path: Path) -> None:
    failing(1)
    agent = make_agent(tiny_policy, settings, sampling=True)
    with Rollouts(2, most=1, max_episode_steps=1) as rollouts:
        results = rollouts.run(agent, JOBS, folder=tmp_path)
        assert rollouts.tally == EpisodeCounts(asked=2, finished=2, rerun=2)
    assert [(result.job, result.outcome != "env_error", len(result.steps)) for result in results] == [
        (JOBS[0], True, 1),
        (JOBS[1], True, 1),
    ]
    ended = outcomes(tmp_path)
    for result in results:
        name = f"{result.job.env_id.replace('/', '_')}_{result.job.seed}"
        assert ended[name] == ("env_error", False)
        assert ended[f"{name}_retry1"][0] == result.outcome


def test_a_model_that_stays_away_is_an_env_error(tiny_policy: Any, settings: Any, failing: Any) -> None:
    failing(100)
    agent = make_agent(tiny_policy, settings, sampling=True)
    with Rollouts(2, most=1, max_episode_steps=1) as rollouts:
        results = rollouts.run(agent, JOBS)
        assert rollouts.tally == EpisodeCounts(asked=2, masked=2, rerun=2)
    assert [(result.outcome, result.trainable, result.detail, result.steps) for result in results] == [
        ("env_error", False, "The server is overloaded.", [])
    ] * 2
