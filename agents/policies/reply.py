"""One reply while it is sampled here, token by token, under its grammar."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.constraint import Matcher
from agents.policy import FinishReason


class Reply:
    """What has been sampled so far.

    Args:
        matcher: where the reply is in its grammar, if it has one.
    """

    def __init__(self, matcher: Matcher | None) -> None:
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.finish_reason: FinishReason | None = None
        self.matcher = matcher

    def candidates(self, width: int) -> NDArray[np.int64] | None:
        """The tokens that may come next, cut to the width of the logits, or None if all may."""
        return None if self.matcher is None else np.flatnonzero(self.matcher.allowed()[:width])

    def add(self, token_id: int, logprob: float, eos_token_ids: frozenset[int]) -> None:
        """Write down a sampled token."""
        self.token_ids.append(token_id)
        self.logprobs.append(logprob)
        if token_id in eos_token_ids:
            self.finish_reason = "eos"
        elif self.matcher is not None:
            self.matcher.step(token_id)

    def finished(self, max_new_tokens: int) -> bool:
        """Whether the reply is complete.

        An ending that the grammar forces is added without asking the model: each of its tokens is the only one
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
