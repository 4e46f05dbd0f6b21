"""What every local backend does with a model's tokenizer and processor: token ids, chat template, images, endings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from selfsurf.agents.policy import Conversation

_IMAGE_TOKENS = ("image_token", "video_token", "boi_token", "eoi_token", "fake_image_token", "global_image_tag")


def token_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of a text; special tokens are recognised and none is added."""
    return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)] if text else []


def chat_text(tokenizer: Any, turns: Sequence[dict[str, Any]], **options: Any) -> str:
    """Return turns as the chat template writes them, the assistant's turn opened."""
    return str(
        tokenizer.apply_chat_template(
            turns,
            add_generation_prompt=True,
            tokenize=False,
            enable_thinking=False,  # templates that don't know it ignore it
            **options,
        )
    )


def text_turns(messages: Conversation) -> list[dict[str, Any]]:
    """Return messages without their images, as a chat template takes them."""
    return [{"role": message.role, "content": message.text} for message in messages]


def image_turns(messages: Conversation, reserved: Sequence[str]) -> list[dict[str, Any]]:
    """Return messages as a processor's chat template takes them: images, then the text with `reserved` broken up."""
    turns = []
    for message in messages:
        content: list[dict[str, str]] = [{"type": "image"}] * len(message.images)
        turns.append(
            {"role": message.role, "content": [*content, {"type": "text", "text": _harmless(message.text, reserved)}]}
        )
    return turns


def reserved_tokens(processor: Any) -> list[str]:
    """Return the image tokens of a processor, which mustn't stand in a text.

    Pages are not trusted, and an image token too many would put the images in the wrong places.
    """
    owners = (processor, processor.tokenizer)
    found = {getattr(owner, name, None) for owner in owners for name in _IMAGE_TOKENS}
    return sorted(str(token) for token in found if token)


def _harmless(text: str, reserved: Sequence[str]) -> str:
    for token in reserved:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def picture(image: Any) -> Any:
    """Return an image as PIL's.

    Raises:
        ValueError: it is no uint8 array (height, width, 3).
    """
    from PIL import Image

    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise ValueError(f"An image is a uint8 array (height, width, 3), not {array.dtype} {array.shape}.")
    return Image.fromarray(array)


def eos_token_ids(*told: Any) -> frozenset[int]:
    """Return every token that ends the assistant's turn.

    Args:
        told: by the tokenizer and the model's settings: an id, several, or None each.

    Raises:
        ValueError: none tells.
    """
    flat = [item for entry in told for item in (entry if isinstance(entry, list) else [entry])]
    ids = frozenset(int(item) for item in flat if item is not None)
    if not ids:
        raise ValueError("Neither the tokenizer nor the model says which token ends a reply.")
    return ids
