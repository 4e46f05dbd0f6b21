"""How many tokens a text takes at most, nearly, where no tokenizer is at hand."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from selfsurf.agents.policy import Conversation

MESSAGE_TOKENS = 8
"""What a chat template adds to each message, and once more for the reply that it opens."""

_PIECES = re.compile(r" ?([A-Za-z]+)|[0-9]|\s+|[!-/:-@\[-`{-~]|[^\x00-\x7F]|.", re.DOTALL)


def text_tokens(text: str) -> int:
    """An estimate on the high side.

    A token for every three letters begun of a word, for each digit, each sign and each run of blanks, and for each
    byte of a character outside ASCII.

    It lies above the count of tokenizers with 32 thousand entries or more on prose, outlines of pages and JSON, by
    half as a rule; only long strings of random letters can take more.
    """
    number = 0
    for found in _PIECES.finditer(text):
        if found[1]:
            number += math.ceil(len(found[1]) / 3)
        else:
            number += 1 if found[0].isascii() else len(found[0].encode("utf-8", "replace"))
    return number


def image_tokens(image: Any) -> int:
    """An estimate: a token for each 28 x 28 pixels, as Qwen2.5-VL counts. Other models differ by several times."""
    height, width = np.asarray(image).shape[:2]
    return math.ceil(height / 28) * math.ceil(width / 28) + 2


def conversation_tokens(messages: Conversation) -> int:
    """The texts by `text_tokens`, the images by `image_tokens`, and a chat template around each message."""
    texts = sum(text_tokens(message.text) + MESSAGE_TOKENS for message in messages) + MESSAGE_TOKENS
    return texts + sum(image_tokens(image) for message in messages for image in message.images)
