"""Base class of policies that run a model in this process: prompts, token counts, batches of constrained replies."""

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
"""Maximum number of weights (4 GB) of models that are widened to float32 where 16-bit arithmetic is several times
slower."""


class LocalPolicy(CheckedPolicy):
    """A policy whose model is sampled token by token in this process, with known tokens and log-probabilities.

    Args:
        prompts: the writer of the model's prompts, with the name that an episode records.
        eos_token_ids: all tokens that end a reply.
        seed: seed of the policy's own random stream, used by calls without a seed.
    """

    guidance: Guidance = "grammar"
    prompt_budget = 2048
    parameter_count: int | None
    reply_type: ClassVar[type[Reply]]
    """Class that holds a reply during sampling."""

    def __init__(self, prompts: Prompts, eos_token_ids: frozenset[int], seed: int) -> None:
        self.name = prompts.name
        self.tokenizer = prompts.tokenizer
        self.eos_token_ids = eos_token_ids
        self.sees_images = prompts.processor is not None
        self.adapter: Path | None = None
        """Folder of the active adapter; None for the base model."""
        self._prompts = prompts
        self._random = np.random.default_rng(seed)

    @property
    @abstractmethod
    def context_length(self) -> int | None:
        """Maximum number of tokens of prompt and reply together."""

    def prompt(self, messages: Conversation) -> Prompt:
        """Return the prompt's token ids, with image tokens expanded, and the model's other inputs for it.

        Raises:
            ValueError: a message contains images for a text model, or an invalid image.
        """
        return self._prompts.prompt(messages)

    def encode(self, messages: Conversation, prefill: str = "") -> list[int]:
        """Return the prompt's token ids: chat template, images, the opened assistant's turn, and the prefill.

        Raises:
            ValueError: a message contains images, and the model reads text only.
        """
        return self._prompts.encode(messages, prefill)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text` alone, without special tokens."""
        return len(self._prompts.encode_text(text))

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """Return the number of tokens of the whole prompt, including chat template, images and prefill."""
        return self._prompts.count(messages, prefill)

    def _complete(
        self, requests: Sequence[Request], prefill: str, temperature: float, max_new_tokens: int
    ) -> list[Completion]:
        """Sample each request from its own random stream, so that no reply depends on the length of others.

        Raises:
            PolicyError: the model failed.
            ValueError: a grammar is malformed or does not begin with the prefill, or a prompt leaves no room for a
                reply.
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
        """Sample until all replies (of `reply_type`) are finished. None is finished at the start."""
