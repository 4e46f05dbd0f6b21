"""Rows that train a verifier: true and false claims of success from episodes with a known outcome.

Each episode gives the claim at its end, true if the episode was solved, and a premature claim at a random step. In a
solved episode, the action missing at a premature claim is the next recorded one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from selfsurf.agents.llm.memory import describe
from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.agents.policies.local.prompts import token_ids
from selfsurf.agents.roles.proposer import note_step
from selfsurf.agents.roles.role import SHORT
from selfsurf.agents.roles.task import RoleTask
from selfsurf.agents.roles.tools import Tool, name_of
from selfsurf.agents.roles.verifier import Accept, Reject, Verifier
from selfsurf.browser_env import Action, Finish
from selfsurf.sdft.rows.samples import Sample, choose
from selfsurf.sdft.rows.stored import StoredEpisode

MISSED = "what was done did not reach the goal"
"""Verifier's reason for rejecting a claim in a failed episode."""


@dataclass(frozen=True)
class Claim:
    """A claim of success at some step, with the verifier's correct verdict."""

    env_id: str
    task: RoleTask
    verdict: Tool
    early: bool = False
    """Whether the claim comes before the end of the episode."""
    episode: int = 0
    """Number of the claim's episode among all."""

    @property
    def true(self) -> bool:
        """Whether the claim is true."""
        return isinstance(self.verdict, Accept)


@dataclass(frozen=True)
class _Pair:
    """A true and a false claim of one task."""

    env_id: str
    claims: tuple[Claim, Claim]


def claims_of(episodes: Iterable[StoredEpisode], rng: np.random.Generator) -> list[Claim]:
    """Return the claims of judged episodes, except those that the infrastructure failed.

    Args:
        episodes: complete episodes from disk.
        rng: random generator of the steps of premature claims.
    """
    found = []
    for number, one in enumerate(episodes):
        if not (one.judged and one.rewarded):
            continue
        count = len(one.steps)
        claims = (index for index, step in enumerate(one.steps) if isinstance(step.shown, Finish))
        claimed = next(claims, count)  # excludes claims that a verifier rejected
        if claimed < count or one.final is not None:
            verdict: Tool = Accept(reason="the goal is reached") if one.solved else Reject(missing=MISSED)
            found.append(Claim(one.env_id, _claimed(one, claimed), verdict, episode=number))
        reached = [False, *(step.reached for step in one.steps)]
        early = [index for index in range(claimed) if one.steps[index].shown is not None and not reached[index]]
        if early:
            index = int(rng.choice(early))
            step = one.steps[index]
            missing = describe(cast(Action, step.shown), step.observation)[:SHORT] if one.solved else MISSED
            found.append(Claim(one.env_id, _claimed(one, index), Reject(missing=missing), True, number))
    return found


def balanced(claims: Sequence[Claim], most: int, rng: np.random.Generator) -> list[Claim]:
    """Return as many true claims as false ones of each task, evenly over the tasks, in random order.

    If a task had claims of one kind only, the goal alone would reveal whether they are true.

    Args:
        claims: claims to draw from.
        most: maximum number of claims, true and false together.
        rng: random generator.
    """
    by_task: dict[str, tuple[list[Claim], list[Claim]]] = {}
    for index in rng.permutation(len(claims)):
        true, others = by_task.setdefault(claims[index].env_id, ([], []))
        (true if claims[index].true else others).append(claims[index])
    pairs = [_Pair(task, pair) for task, kinds in sorted(by_task.items()) for pair in zip(*kinds, strict=False)]
    chosen = [one for pair in choose(pairs, most // 2, rng) for one in pair.claims]
    return [chosen[index] for index in rng.permutation(len(chosen))]


def by_others(claims: Sequence[Claim], of: Callable[[Claim], Hashable]) -> list[bool | None]:
    """Guess each claim's truth by the majority of similar claims in other episodes; None for a tie.

    The accuracy of these guesses is that of a verifier that looks only at the property in which the claims are similar.

    Args:
        claims: claims whose truth is known.
        of: function that returns the property in which claims are similar, such as goal or number of steps.
    """
    all_of = Counter((of(claim), claim.true) for claim in claims)
    own = Counter((of(claim), claim.episode, claim.true) for claim in claims)

    def said(claim: Claim) -> bool | None:
        kind = of(claim)
        true, others = (all_of[kind, one] - own[kind, claim.episode, one] for one in (True, False))
        return None if true == others else true > others

    return [said(claim) for claim in claims]


def _claimed(episode: StoredEpisode, index: int) -> RoleTask:
    """Return the state of an agent with roles that claims success before step `index`, or after the last step."""
    steps = episode.steps
    end = steps[index].observation if index < len(steps) else episode.final
    assert end is not None
    task = RoleTask(episode.goal, steps[0].observation)
    for step in steps[:index]:
        task.observe(step.observation)
        note_step(task, step.actions[:1], step.rejected)
    task.observe(end)
    said = steps[index].shown if index < len(steps) else None
    task.claim = said if isinstance(said, Finish) else Finish()
    return task


def verdict_rows(claims: Sequence[Claim], policy: LocalPolicy) -> list[Sample]:
    """Return the rows of a verifier on a policy's model, with the correct verdicts as replies."""
    verifier, rows = Verifier(policy, vision="none"), []
    for claim in claims:
        prompt, reply = policy.encode(verifier.messages(claim.task)), written(claim.verdict, policy)
        rows.append(Sample(claim.env_id, prompt, [], reply, [], [], None, right=None))
    return rows


def written(verdict: Tool, policy: LocalPolicy) -> list[int]:
    """Return the tokens of a verdict, as a verifier would write it under its grammar."""
    call = {name_of(verdict): verdict.model_dump(mode="json")}
    text = json.dumps(call, separators=(",", ":"), ensure_ascii=False)
    return [*token_ids(policy.tokenizer, text), policy.tokenizer.eos_token_id]
