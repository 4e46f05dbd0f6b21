"""Measurement of actions per second compared with plain `generate`, on the same prompts of real episodes."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.agents.policy import Completion, Conversation
from selfsurf.scripts.terminal.console import progress

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

TASKS = ("click-checkboxes-large", "search-engine", "click-collapsible-2", "enter-text", "social-media", "click-tab-2")
"""Tasks with pages of different lengths; a wrong click doesn't end the episode in most of them."""

COMPARED = 8
"""Number of environments at which the speed targets apply."""

TARGETS = {"actions per second / generate": 2.0, "constraint's share of a token": 0.05}

Call = tuple[list[Conversation], list[str | None], list[Completion]]
"""A policy call of an episode: its conversations, grammars and completions."""


def measure(model: str, counts: list[int], *, actions: int, rounds: int, adapter: Path | None) -> dict[str, Any]:
    """Play episodes with each number of environments, then repeat their policy calls in different ways and time them.

    The ways take turns, round by round, on the same conversations, and produce the same number of tokens. `generate`
    processes one observation at a time, for exactly the tokens that the policy had to compute; `batched` is the policy
    without its cache of earlier prompts; `policy` is the policy itself; `free` is the policy without a grammar, forced
    to produce the same tokens.

    Args:
        model: Model, as for `TransformersPolicy`.
        counts: Numbers of environments.
        actions: Minimum number of actions timed per number of environments.
        rounds: Number of rounds.
        adapter: Folder of a LoRA adapter, or None.

    Returns:
        `points`, one per number of environments; `ratios` with `targets`; `model`, `threads`.
    """
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    policy = TransformersPolicy(model, adapter=adapter, reuse=1024)
    points, done = [], itertools.count(1)
    with progress("Points", len(counts) * (rounds + 1)) as update:
        for count in counts:
            calls = record(policy, count, actions)
            update(next(done))
            points.append(time_calls(policy, count, calls, rounds, lambda: update(next(done))))
    at = next((point for point in points if point["envs"] == COMPARED), points[-1])
    ratios = {
        "actions per second / generate": at["speed"]["policy"] / at["speed"]["generate"],
        "constraint's share of a token": at["constraint"],
    }
    return {
        "model": policy.name, "adapter": str(adapter) if adapter else None, "dtype": str(policy.model.dtype),
        "device": str(policy.model.device), "threads": torch.get_num_threads(), "tasks": TASKS, "points": points,
        "at": at["envs"], "ratios": ratios, "targets": TARGETS,
    }  # fmt: skip


def record(policy: TransformersPolicy, count: int, actions: int) -> list[Call]:
    """Play episodes of `TASKS` in `count` environments, and return the agent's policy calls."""
    import selfsurf  # noqa: F401  (registers the ids)
    from selfsurf.agents.llm.llm_agent import LLMAgent
    from selfsurf.sdft.rollouts import Job, Rollouts

    calls: list[Call] = []
    agent = LLMAgent(policy, constrained=True, guards=False)
    complete = policy.complete

    def noted(conversations: Sequence[Conversation], **options: Any) -> list[Completion]:
        completions = complete(conversations, **options)
        calls.append((list(conversations), list(options["grammars"]), completions))
        return completions

    policy.complete = noted  # type: ignore[assignment]
    try:
        with Rollouts(count, max_episode_steps=5) as rollouts:
            seed = 0
            while sum(len(call[0]) for call in calls if len(call[0]) == count) < actions:
                jobs = [Job(f"MiniWoB/{TASKS[i % len(TASKS)]}-v0", seed + i) for i in range(max(2 * count, 6))]
                before, results = len(calls), rollouts.run(agent, jobs)
                if len(calls) == before:
                    raise RuntimeError(f"No episode queried the model: {results[0].outcome}, {results[0].detail}")
                seed += len(jobs)
    finally:
        del policy.complete  # type: ignore[method-assign]
    return [call for call in calls if len(call[0]) == count]


def time_calls(
    policy: TransformersPolicy, count: int, calls: list[Call], rounds: int, done: Callable[[], object]
) -> dict[str, Any]:
    """Repeat the calls in turns, and return the figures for this number of environments."""
    made: list[Completion] = []
    ways: dict[str, Callable[[], list[float]]] = {
        "generate": lambda: [_generate(policy, call) for call in calls],
        "batched": lambda: _again(policy, calls, reuse=False),
        "policy": lambda: _again(policy, calls, reuse=True, made=made),
        "constrained": lambda: [_tokens(policy, call, constrained=True) for call in calls],
        "free": lambda: [_tokens(policy, call, constrained=False) for call in calls],
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    shares = []
    for turn in range(rounds):
        took = {}
        for name in list(ways)[:: 1 if turn % 2 == 0 else -1]:
            took[name] = sum(each := ways[name]())
            seconds[name] += each
        shares.append(took["constrained"] / took["free"] - 1)
        done()
    asked = sum(len(call[0]) for call in calls)
    tokens = sum(len(completion.token_ids) for call in calls for completion in call[2])
    usage = [completion.usage for completion in made if completion.usage is not None]
    read = sum(one.prompt_tokens for one in usage)
    ways_shown = ("generate", "batched", "policy")
    return {
        "envs": count, "actions": asked, "prompt_tokens": round(read / (asked * rounds)),
        "tokens_per_action": round(tokens / asked, 2),
        "reused": round(sum(one.cached_tokens for one in usage) / read, 3),
        "speed": {name: round(asked * rounds / sum(seconds[name]), 3) for name in ways_shown},
        "tokens_per_second": round(tokens * rounds / sum(seconds["policy"]), 1),
        "ms_to_action": {name: round(statistics.median(seconds[name]) * 1000, 1) for name in ways_shown},
        "constraint": round(statistics.median(shares), 4),
    }  # fmt: skip


def _generate(policy: TransformersPolicy, call: Call) -> float:
    import torch

    start = time.perf_counter()
    for conversation, completion in zip(call[0], call[2], strict=True):
        ids = torch.tensor([policy.encode(conversation) + completion.prefill_token_ids], device=policy.model.device)
        length = _computed(completion)
        with torch.no_grad():
            policy.model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False,
                max_new_tokens=length, min_new_tokens=length, pad_token_id=min(policy.eos_token_ids),
            )  # fmt: skip
    return time.perf_counter() - start


def _computed(completion: Completion) -> int:
    """Return the number of tokens that the model computed for a reply, without an ending forced by the grammar."""
    last = len(completion.token_ids)
    while last > 1 and completion.finish_reason == "grammar" and completion.logprobs[last - 1] == 0.0:
        last -= 1
    return last


def _again(
    policy: TransformersPolicy, calls: list[Call], *, reuse: bool, made: list[Completion] | None = None
) -> list[float]:
    """Repeat the calls and return the seconds of each; completions are appended to `made`."""
    policy.forget()
    seconds = []
    for conversations, grammars, _ in calls:
        if not reuse:
            policy.forget()
        start = time.perf_counter()
        completions = policy.complete(conversations, grammars=grammars, prefill='{"')
        seconds.append(time.perf_counter() - start)
        if made is not None:
            made += completions
    return seconds


def _tokens(policy: TransformersPolicy, call: Call, *, constrained: bool) -> float:
    """Time the sampling of a call with or without grammar; both produce the tokens sampled under the grammar."""
    from selfsurf.agents.policies.transformers.sampling import Row, Sampler
    from selfsurf.agents.reply.constraint import Matcher, ll_tokenizer

    class Given(Row):
        """A row of a batch that has no grammar and is forced to produce the given tokens."""

        given: list[int]

        def add(self, token_id: int, logprob: float, eos_token_ids: frozenset[int]) -> None:
            super().add(self.given[len(self.token_ids)], logprob, frozenset())

        def finished(self, max_new_tokens: int) -> bool:
            return len(self.token_ids) == len(self.given)

    wrapped = ll_tokenizer(policy.tokenizer, policy.eos_token_ids)
    start = time.perf_counter()
    rows: list[Row] = []
    for grammar, completion in zip(call[1], call[2], strict=True):
        if constrained and grammar is not None:
            matcher = Matcher(wrapped, grammar, completion.prefill_token_ids)
            rows.append(Row(completion.prompt_token_ids, matcher, 0))
        else:
            row = Given(completion.prompt_token_ids, None, 0)
            row.given = completion.token_ids[: _computed(completion)]
            rows.append(row)
    with policy.reading():
        pad = min(policy.eos_token_ids)
        Sampler(policy.model, policy.eos_token_ids, pad, last_only=True, prefixes=None).run(rows, 0.0, 64)
    return time.perf_counter() - start
