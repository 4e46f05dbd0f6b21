"""What policies that run a model in this process share: prompts, counts, and batches of constrained replies."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from selfsurf.agents.policies.local.prompts import Prompt, Prompts
from selfsurf.agents.policies.local.reply import Reply
from selfsurf.agents.policies.request import check_length, check_sampling, one_each, row_seeds
from selfsurf.agents.policy import Completion, Conversation, Guidance
from selfsurf.agents.reply.constraint import Matcher, ll_tokenizer


class LocalPolicy(ABC):
    """A model that is sampled token by token here, so that every sampled token and its log-probability is known.

    Args:
        prompts: writes the model's prompts.
        tokenizer: the model's.
        eos_token_ids: every token that ends a reply.
        name: what an episode records.
        sees_images: whether messages may carry images.
        seed: of the policy's own random stream, used by calls without a seed.
    """

    guidance: Guidance = "grammar"
    prompt_budget = 2048
    reply_type: ClassVar[type[Reply]]
    """What holds a reply while it is sampled."""

    def __init__(
        self,
        prompts: Prompts,
        tokenizer: Any,
        eos_token_ids: frozenset[int],
        *,
        name: str,
        sees_images: bool,
        seed: int,
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.eos_token_ids = eos_token_ids
        self.sees_images = sees_images
        self.adapter: Path | None = None
        """Folder of the active adapter, if there is one."""
        self._prompts = prompts
        self._random = np.random.default_rng(seed)

    @property
    @abstractmethod
    def context_length(self) -> int | None:
        """Most tokens of prompt and reply together."""

    def prompt(self, messages: Conversation) -> Prompt:
        """Return the prompt's token ids, image tokens expanded, and the model's other inputs that belong to it.

        Raises:
            ValueError: a message carries images, which this policy can't see, or something else than images.
        """
        return self._prompts.prompt(messages)

    def encode(self, messages: Conversation, prefill: str = "") -> list[int]:
        """Return the prompt's token ids: chat template, images, the assistant's turn opened, and the prefill.

        Raises:
            ValueError: a message carries images, which this policy can't see.
        """
        return self._prompts.encode(messages, prefill)

    def count_tokens(self, text: str) -> int:
        """Number of tokens of `text` alone, without special tokens."""
        return len(self._prompts.encode_text(text))

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """Number of tokens of the whole prompt, chat template, images and prefill included."""
        return self._prompts.count(messages, prefill)

    def complete(
        self,
        conversations: Sequence[Conversation],
        *,
        grammars: Sequence[str | None] | None = None,
        schemas: Sequence[dict[str, Any] | None] | None = None,
        prefill: str = "",
        temperature: float = 0.0,
        max_new_tokens: int = 64,
        seed: int | Sequence[int] | None = None,
    ) -> list[Completion]:
        """Sample one reply for each conversation. See `Policy.complete`.

        Each row draws from its own random stream, so a row's sample does not depend on how long the others run.

        Raises:
            PolicyError: the model failed.
            ValueError: a grammar is malformed or does not begin with the prefill, or a prompt leaves no room.
        """
        if not conversations:
            return []
        prompts = [self.prompt(messages) for messages in conversations]
        start = time.perf_counter()
        grammars = one_each("grammar", grammars, len(prompts))
        check_sampling(temperature, max_new_tokens)
        prefill_ids = self._prompts.encode_text(prefill)
        longest = max(len(prompt.ids) for prompt in prompts) + len(prefill_ids)
        check_length(longest, max_new_tokens, self.context_length)
        if seed is None:
            seed = int(self._random.integers(2**62))
        replies = [
            self.reply_type([*prompt.ids, *prefill_ids], matcher, own, prompt.extras)
            for prompt, matcher, own in zip(
                prompts, self._matchers(grammars, prefill_ids), row_seeds(seed, len(prompts)), strict=True
            )
        ]
        unfinished = [reply for reply in replies if not reply.finished(max_new_tokens)]
        if unfinished:
            self._sample(unfinished, temperature, max_new_tokens)
        seconds = time.perf_counter() - start
        return [
            reply.completion(self.tokenizer, grammar, prefill, prefill_ids, seconds)
            for reply, grammar in zip(replies, grammars, strict=True)
        ]

    @abstractmethod
    def _sample(self, replies: list[Any], temperature: float, max_new_tokens: int) -> None:
        """Sample until every reply, a `reply_type`, is finished; none of them is yet."""

    def _matchers(self, grammars: Sequence[str | None], prefill_ids: Sequence[int]) -> list[Matcher | None]:
        """Each grammar's matcher, past the prefill; None where there is no grammar."""
        if not any(grammars):
            return [None] * len(grammars)
        wrapped = ll_tokenizer(self.tokenizer, self.eos_token_ids)
        return [None if grammar is None else Matcher(wrapped, grammar, prefill_ids) for grammar in grammars]
