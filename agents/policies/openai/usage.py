"""Usage of replies: tokens, estimated if no tokenizer is available, and dollars."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from selfsurf.agents.policy import Conversation, Usage

MESSAGE_TOKENS = 8
"""Estimated tokens that a chat template adds to each message, and to the opened reply."""

_PIECES = re.compile(r" ?([A-Za-z]+)|[0-9]|\s+|[!-/:-@\[-`{-~]|[^\x00-\x7F]|.", re.DOTALL)


@dataclass(frozen=True)
class Prices:
    """Prices in US dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Price of cached prompt tokens; None if it equals the price of `input`."""

    def cost(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> float:
        """Return the cost of one reply in US dollars; prompt tokens include cached tokens."""
        cached = self.input if self.cached is None else self.cached
        fresh = prompt_tokens - cached_tokens
        return (fresh * self.input + cached_tokens * cached + completion_tokens * self.output) / 1_000_000


def prices_of(given: Prices | Mapping[str, float] | None) -> Prices | None:
    """Return prices as `Prices`, converting a dict.

    Raises:
        ValueError: the dict's fields are not those of `Prices`, or a price is negative.
    """
    if not isinstance(given, Mapping):
        return given
    fields = {"input", "output", "cached"}
    if not {"input", "output"} <= set(given) <= fields or min(given.values()) < 0:
        raise ValueError(
            'prices must be dollars per million tokens, such as {"input": 0.15, "output": 0.6}, with an optional '
            f'"cached", not {dict(given)}.'
        )
    return Prices(**given)


@dataclass
class Totals:
    """Usage of a policy since it was created."""

    requests: int = 0
    """Number of attempts at replies, including failed attempts."""
    replies: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """US dollars, if prices are known. Failed attempts are not counted: servers don't report their cost."""

    def add(self, usage: Usage | None) -> None:
        """Add one reply, with its tokens if its usage is known."""
        self.replies += 1
        if usage is not None:
            self.prompt_tokens += usage.prompt_tokens
            self.cached_tokens += usage.cached_tokens
            self.completion_tokens += usage.completion_tokens
            self.cost = self.cost if usage.cost is None else (self.cost or 0.0) + usage.cost


def text_tokens(text: str) -> int:
    """Estimate the tokens of a text, on the high side.

    The estimate is a token for every three letters of a word, rounded up, for each digit, punctuation mark and run of
    blanks, and for each byte of a character outside ASCII.

    On prose, page outlines and JSON, the estimate exceeds the count of tokenizers with 32 thousand entries or more,
    typically by half; only long strings of random letters can take more.
    """
    number = 0
    for found in _PIECES.finditer(text):
        if found[1]:
            number += math.ceil(len(found[1]) / 3)
        else:
            number += 1 if found[0].isascii() else len(found[0].encode("utf-8", "replace"))
    return number


def image_tokens(image: Any) -> int:
    """Estimate the tokens of an image: one for each 28 x 28 pixels, as in Qwen2.5-VL. Other models differ widely."""
    height, width = np.asarray(image).shape[:2]
    return math.ceil(height / 28) * math.ceil(width / 28) + 2


def conversation_tokens(messages: Conversation) -> int:
    """Estimate the tokens of a conversation, including a chat template around each message."""
    texts = sum(text_tokens(message.text) + MESSAGE_TOKENS for message in messages) + MESSAGE_TOKENS
    return texts + sum(image_tokens(image) for message in messages for image in message.images)
