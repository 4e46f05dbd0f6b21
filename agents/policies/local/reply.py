"""State of one reply during sampling in this process, token by token, under its grammar."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.policy import Completion, FinishReason, Usage
from selfsurf.agents.reply.constraint import Matcher


class BrokenModel(ArithmeticError):
    """The model's scores are not numbers. Every other prompt would fail, too, so the infrastructure is not at fault."""

    def __init__(self, text: str = "") -> None:
        super().__init__(
            text
            or "The model's scores are not numbers: the weights of the model or its adapter are damaged, or the scores "
            "overflow at this precision. Use another adapter or another precision (dtype=)."
        )


@dataclass(eq=False)
class Reply:
    """State of one reply during sampling."""

    prompt: list[int]
    """Token ids of the prompt and the prefill."""
    matcher: Matcher | None
    """Matcher with the reply's position in its grammar; None without a grammar."""
    seed: int
    """Seed of the reply's random stream."""
    extras: dict[str, Any] = field(default_factory=dict)
    """Other inputs of the model for the prompt, such as `pixel_values`."""
    reused: int = 0
    """Number of prompt tokens whose keys and values came from the cache."""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    def candidates(self, width: int) -> NDArray[np.int64] | None:
        """Return the tokens that may come next, cut to the width of the logits, or None if all may."""
        return None if self.matcher is None else np.flatnonzero(self.matcher.allowed()[:width])

    def add(self, token_id: int, logprob: float, eos_token_ids: frozenset[int]) -> None:
        """Append a sampled token."""
        self.token_ids.append(token_id)
        self.logprobs.append(logprob)
        if token_id in eos_token_ids:
            self.finish_reason = "eos"
        elif self.matcher is not None:
            self.matcher.step(token_id)

    def finished(self, max_new_tokens: int) -> bool:
        """Whether the reply is complete.

        An ending that the grammar forces is added without running the model: each of its tokens is the only one
        allowed, so its log-probability is 0.
        """
        if self.finish_reason is None and self.matcher is not None:
            ending = self.matcher.forced_ending(max_new_tokens - len(self.token_ids))
            if ending is not None:
                self.token_ids += ending
                self.logprobs += [0.0] * len(ending)
                self.finish_reason = "grammar"
        if self.finish_reason is None and len(self.token_ids) >= max_new_tokens:
            self.finish_reason = "length"
        return self.finish_reason is not None

    def completion(
        self, tokenizer: Any, grammar: str | None, prefill: str, prefill_ids: list[int], seconds: float
    ) -> Completion:
        """Return the finished reply as a completion."""
        return Completion(
            text=prefill + tokenizer.decode(self.token_ids, skip_special_tokens=True),
            prompt_token_ids=self.prompt,
            token_ids=self.token_ids,
            logprobs=self.logprobs,
            grammar=grammar,
            finish_reason=self.finish_reason or "length",
            prefill_token_ids=prefill_ids,
            usage=Usage(len(self.prompt), len(self.token_ids), self.reused, seconds=seconds),
        )
