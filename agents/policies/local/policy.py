"""What policies that run a model in this process share: prompts, counts, and batches of constrained replies."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from selfsurf.agents.policies.local.prompts import Prompt, Prompts
from selfsurf.agents.policies.local.reply import Reply
from selfsurf.agents.policies.request import CheckedPolicy, Request, check_length
from selfsurf.agents.policy import Completion, Conversation, Guidance
from selfsurf.agents.reply.constraint import Matcher, ll_tokenizer

WIDENED = 1_000_000_000
"""Models of up to this many weights (4 GB) are widened to float32 where 16-bit arithmetic is several times slower."""


class LocalPolicy(CheckedPolicy):
    """A model that is sampled token by token here, so that every sampled token and its log-probability is known.

    Args:
        prompts: writes the model's prompts, under the name that an episode records.
        eos_token_ids: every token that ends a reply.
        seed: of the policy's own random stream, used by calls without a seed.
    """

    guidance: Guidance = "grammar"
    prompt_budget = 2048
    parameter_count: int | None
    reply_type: ClassVar[type[Reply]]
    """What holds a reply while it is sampled."""

    def __init__(self, prompts: Prompts, eos_token_ids: frozenset[int], seed: int) -> None:
        self.name = prompts.name
        self.tokenizer = prompts.tokenizer
        self.eos_token_ids = eos_token_ids
        self.sees_images = prompts.processor is not None
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

    def _complete(
        self, requests: Sequence[Request], prefill: str, temperature: float, max_new_tokens: int
    ) -> list[Completion]:
        """Sample each request from its own random stream: a reply does not depend on how long the others run.

        Raises:
            PolicyError: the model failed.
            ValueError: a grammar is malformed or does not begin with the prefill, or a prompt leaves no room.
        """
        prompts = [self.prompt(request.messages) for request in requests]
        start = time.perf_counter()
        prefill_ids = self._prompts.encode_text(prefill)
        longest = max(len(prompt.ids) for prompt in prompts) + len(prefill_ids)
        check_length(longest, max_new_tokens, self.context_length)
        replies = []
        for request, prompt in zip(requests, prompts, strict=True):
            matcher = None
            if request.grammar is not None:
                wrapped = ll_tokenizer(self.tokenizer, self.eos_token_ids)
                matcher = Matcher(wrapped, request.grammar, prefill_ids)
            replies.append(self.reply_type([*prompt.ids, *prefill_ids], matcher, request.seed, prompt.extras))
        unfinished = [reply for reply in replies if not reply.finished(max_new_tokens)]
        if unfinished:
            self._sample(unfinished, temperature, max_new_tokens)
        seconds = time.perf_counter() - start
        return [
            reply.completion(self.tokenizer, request.grammar, prefill, prefill_ids, seconds)
            for reply, request in zip(replies, requests, strict=True)
        ]

    @abstractmethod
    def _sample(self, replies: list[Any], temperature: float, max_new_tokens: int) -> None:
        """Sample until every reply, a `reply_type`, is finished; none of them is yet."""
