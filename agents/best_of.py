"""Best of k: several replies to one prompt, of which the model itself, asked to judge, chooses one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from selfsurf.agents.policy import Completion, Conversation, Message, Policy, PolicyError, Usage, summed

VARIED = 0.7
"""Temperature of the replies after the first, unless the agent's own is higher."""

LONGEST = 64
"""Tokens of a choice."""

QUESTION = """These are {count} candidates for your next reply:
{listed}
Which one brings the goal nearest, by what the page shows? Judge them one by one, trust none of them. Reply with its \
number as JSON: {{"best": NUMBER}}."""


def best_of(
    policy: Policy, count: int, conversations: Sequence[Conversation], *, temperature: float, seed: Any, **options: Any
) -> list[Completion]:
    """Complete conversations `count` times each, and return the reply that is chosen of each.

    The first reply is the one that there would be without this; it is also taken where the choice can't be read.

    Args:
        policy: replies, and chooses.
        count: replies to each conversation.
        conversations: the prompts.
        temperature: of the first reply.
        seed: as for `Policy.complete`.
        options: as for `Policy.complete`.

    Raises:
        PolicyError: the model could not answer.
    """
    tries = [policy.complete(conversations, temperature=temperature, seed=seed, **options)]
    for number in range(1, count):
        drawn = (
            [one + number for one in seed] if isinstance(seed, Sequence) else None if seed is None else seed + number
        )
        tries.append(policy.complete(conversations, temperature=max(temperature, VARIED), seed=drawn, **options))
    candidates = [_different(each) for each in zip(*tries, strict=True)]
    rows = [row for row, each in enumerate(candidates) if len(each) > 1]
    asked = [_asked(conversations[row], candidates[row]) for row in rows]
    choices = iter(_choices(policy, asked, [len(candidates[row]) for row in rows]))
    chosen = []
    for row, each in enumerate(zip(*tries, strict=True)):
        usage: Usage | None = each[0].spent
        for one in each[1:]:
            usage = summed(usage, one.spent)
        best = 0
        if row in rows:
            best, said = next(choices)
            usage = summed(usage, said.spent)
        chosen.append(replace(candidates[row][best], usage=usage))
    return chosen


def _different(completions: Sequence[Completion]) -> list[Completion]:
    """Leave out what was said before."""
    found: dict[str, Completion] = {}
    for one in completions:
        found.setdefault(one.text, one)
    return [*found.values()]


def _asked(conversation: Conversation, candidates: Sequence[Completion]) -> tuple[Message, ...]:
    listed = "\n".join(f"{number}. {one.text.strip()}" for number, one in enumerate(candidates, 1))
    question = QUESTION.format(count=len(candidates), listed=listed)
    last = conversation[-1]
    return (*conversation[:-1], replace(last, text=f"{last.text}\n\n{question}"))


def _choices(policy: Policy, asked: Sequence[Conversation], counts: Sequence[int]) -> list[tuple[int, Completion]]:
    """Have the policy choose, greedily and once for all; return the places from 0."""
    if not asked:
        return []
    guides: dict[str, Any] = {}
    if policy.guidance == "grammar":
        numbers = (" | ".join(f'"{number}"' for number in range(1, count + 1)) for count in counts)
        guides = {"grammars": [f'start: "{{\\"best\\": " ({one}) "}}"\n' for one in numbers]}
    elif policy.guidance == "schema":
        guides = {"schemas": [_schema(count) for count in counts]}
    try:
        said = policy.complete(asked, max_new_tokens=LONGEST, **guides)
    except PolicyError as error:  # its answers are choices, no replies
        raise PolicyError(str(error)) from error
    return [(_read(one.text, count), one) for one, count in zip(said, counts, strict=True)]


def _schema(count: int) -> dict[str, Any]:
    best = {"type": "integer", "enum": [*range(1, count + 1)]}
    return {"type": "object", "properties": {"best": best}, "required": ["best"], "additionalProperties": False}


def _read(text: str, count: int) -> int:
    try:
        number = json.loads(text[text.rfind("{") : text.rfind("}") + 1])["best"]
        return number - 1 if isinstance(number, int) and 1 <= number <= count else 0
    except (ValueError, KeyError, TypeError):
        return 0
