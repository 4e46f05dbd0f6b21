"""Best of k: a model samples several replies to one prompt and then chooses among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from selfsurf.agents.policy import Completion, Conversation, Message, Policy, PolicyError, Usage, summed

VARIED = 0.7
"""Minimum temperature of all replies but the first."""

LONGEST = 64
"""Maximum length of the model's choice, in tokens."""

_EACH = ("grammars", "schemas")
"""Options of `Policy.complete` that hold one value per conversation."""

QUESTION = """These are {count} candidates for your next reply:
{listed}
Which one brings the goal nearest, by what the page shows? Judge them one by one, trust none of them. Reply with its \
number as JSON: {{"best": NUMBER}}."""


def best_of(
    policy: Policy, count: int, conversations: Sequence[Conversation], *, temperature: float, seed: Any, **options: Any
) -> list[Completion]:
    """Sample `count` replies to each conversation and return the one that the model chooses.

    The first reply is sampled as without best-of; it is also the fallback for an unreadable choice.

    Args:
        policy: model that samples the replies and chooses among them.
        count: number of replies to each conversation.
        conversations: the prompts.
        temperature: temperature of the first reply.
        seed: as for `Policy.complete`.
        options: as for `Policy.complete`.

    Raises:
        PolicyError: the model failed for some conversations; `answers` has the choices of the others.
    """
    tries: list[list[Completion]] = [[] for _ in conversations]
    failed: dict[int, Exception] = {}

    def ask(rows: Sequence[int], asked: Sequence[Conversation], **how: Any) -> dict[int, Completion]:
        """Return the completions by row, and record the errors of the other rows in `failed`."""
        try:
            answers: Sequence[Completion | Exception] = policy.complete(asked, **how) if rows else []
        except PolicyError as error:
            answers = error.of_each(len(rows))
        found = dict(zip(rows, answers, strict=True))
        failed.update({row: one for row, one in found.items() if not isinstance(one, Completion)})
        return {row: one for row, one in found.items() if isinstance(one, Completion)}

    for number in range(count):
        rows = [row for row in range(len(conversations)) if row not in failed]
        how = {name: _of(rows, value) if name in _EACH else value for name, value in options.items()}
        if isinstance(seed, Sequence):
            how["seed"] = [seed[row] + number for row in rows]
        else:
            how["seed"] = None if seed is None else seed + number
        how["temperature"] = max(temperature, VARIED) if number else temperature
        for row, said in ask(rows, [conversations[row] for row in rows], **how).items():
            tries[row].append(said)
    candidates = [_different(each) for each in tries]
    unsure = [row for row, each in enumerate(candidates) if row not in failed and len(each) > 1]
    questions = [_asked(conversations[row], candidates[row]) for row in unsure]
    guides = _guides(policy, [len(candidates[row]) for row in unsure])
    choices = ask(unsure, questions, max_new_tokens=LONGEST, **guides)  # greedy
    chosen: list[Completion | Exception] = []
    for row, each in enumerate(tries):
        if row in failed:
            chosen.append(failed[row])
            continue
        choice = choices.get(row)
        best = 0 if choice is None else _read(choice.text, len(candidates[row]))
        usage: Usage | None = each[0].spent
        for one in [*each[1:], *([choice] if choice else [])]:
            usage = summed(usage, one.spent)
        chosen.append(replace(candidates[row][best], usage=usage))
    if failed:
        raise PolicyError(str(next(iter(failed.values()))), chosen)
    return [one for one in chosen if isinstance(one, Completion)]


def _of(rows: Sequence[int], values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else [values[row] for row in rows]


def _different(completions: Sequence[Completion]) -> list[Completion]:
    """Drop completions with the same text as an earlier one."""
    found: dict[str, Completion] = {}
    for one in completions:
        found.setdefault(one.text, one)
    return [*found.values()]


def _asked(conversation: Conversation, candidates: Sequence[Completion]) -> tuple[Message, ...]:
    listed = "\n".join(f"{number}. {one.text.strip()}" for number, one in enumerate(candidates, 1))
    question = QUESTION.format(count=len(candidates), listed=listed)
    last = conversation[-1]
    return (*conversation[:-1], replace(last, text=f"{last.text}\n\n{question}"))


def _guides(policy: Policy, counts: Sequence[int]) -> dict[str, Any]:
    """Return the grammars or schemas that restrict each choice to a number from 1 to its count."""
    if policy.guidance == "grammar":
        numbers = (" | ".join(f'"{number}"' for number in range(1, count + 1)) for count in counts)
        return {"grammars": [f'start: "{{\\"best\\": " ({one}) "}}"\n' for one in numbers]}
    return {"schemas": [_schema(count) for count in counts]} if policy.guidance == "schema" else {}


def _schema(count: int) -> dict[str, Any]:
    best = {"type": "integer", "enum": [*range(1, count + 1)]}
    return {"type": "object", "properties": {"best": best}, "required": ["best"], "additionalProperties": False}


def _read(text: str, count: int) -> int:
    try:
        number = json.loads(text[text.rfind("{") : text.rfind("}") + 1])["best"]
        return number - 1 if isinstance(number, int) and 1 <= number <= count else 0
    except (ValueError, KeyError, TypeError):
        return 0
