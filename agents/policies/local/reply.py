"""One reply while it is sampled here, token by token, under its grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.policy import Completion, FinishReason, Usage
from selfsurf.agents.reply.constraint import Matcher, ll_tokenizer


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

    def completion(
        self,
        tokenizer: Any,
        grammar: str | None,
        prefill: str,
        prefill_ids: list[int],
        prompt_ids: list[int],
        *,
        known: int,
        seconds: float,
    ) -> Completion:
        """Return the finished reply; `known` tokens of the prompt were not computed anew."""
        return Completion(
            text=prefill + tokenizer.decode(self.token_ids, skip_special_tokens=True),
            prompt_token_ids=prompt_ids,
            token_ids=self.token_ids,
            logprobs=self.logprobs,
            grammar=grammar,
            finish_reason=self.finish_reason or "length",
            prefill_token_ids=prefill_ids,
            usage=Usage(len(prompt_ids), len(self.token_ids), known, seconds=seconds),
        )


def matchers_of(
    grammars: Sequence[str | None], tokenizer: Any, eos_token_ids: frozenset[int], prefill_ids: Sequence[int]
) -> list[Matcher | None]:
    """Return each grammar's matcher, the prefill stepped over; None where there is no grammar.

    Raises:
        ValueError: a grammar is malformed or does not begin with the prefill.
    """
    if not any(grammars):
        return [None] * len(grammars)
    wrapped = ll_tokenizer(tokenizer, eos_token_ids)
    return [None if grammar is None else Matcher(wrapped, grammar, prefill_ids) for grammar in grammars]
