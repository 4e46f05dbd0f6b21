"""Prompts for a model in this process: chat template, images and token ids, without the model itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from selfsurf.agents.policies.request import pil_image
from selfsurf.agents.policy import Conversation, Message

_IMAGE_TOKENS = ("image_token", "video_token", "boi_token", "eoi_token", "fake_image_token", "global_image_tag")


@dataclass(frozen=True)
class Prompt:
    """A prompt as model input."""

    ids: list[int]
    """Token ids, with image tokens expanded."""
    extras: dict[str, Any] = field(default_factory=dict)
    """Other inputs of the model, such as `pixel_values`; empty without images."""


class Prompts:
    """Writer of the prompts of one model, with its own tokenizer and processor.

    Pages are not trusted: text that looks like a special token is broken up, since it could end a turn and begin
    another, or put images in the wrong places.

    Args:
        name: the model's name, for messages.
        tokenizer: the model's tokenizer.
        processor: the processor of a vision-language model; None for a text model.

    Raises:
        ValueError: there is no chat template.
    """

    def __init__(self, name: str, tokenizer: Any, processor: Any = None) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.processor = processor
        self._template = getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)
        if not self._template:
            raise ValueError(f"The tokenizer of {name} has no chat template; choose an instruction-tuned model.")
        self._reserved = _reserved_tokens(tokenizer, processor)
        self._expanded: dict[tuple[int, int], str] = {}

    def prompt(self, messages: Conversation) -> Prompt:
        """Return the prompt with the assistant's turn opened.

        Raises:
            ValueError: an image for a text model, an image that is not a uint8 array (height, width, 3), or an image
                size that the processor refuses.
        """
        text = self._text(messages)
        images = [pil_image(image) for message in messages for image in message.images]
        if not images:
            return Prompt(self.encode_text(text))
        inputs = self._inputs(text, images)
        ids = [int(token) for token in np.asarray(inputs.pop("input_ids"))[0]]
        inputs.pop("attention_mask", None)
        return Prompt(ids, inputs)

    def encode(self, messages: Conversation, prefill: str = "") -> list[int]:
        """Return the token ids of the prompt (`prompt`) and the prefill."""
        return self.prompt(messages).ids + self.encode_text(prefill)

    def encode_text(self, text: str) -> list[int]:
        """Return the token ids of `text` alone; special tokens are recognised, and none is added."""
        return token_ids(self.tokenizer, text)

    def count(self, messages: Conversation, prefill: str = "") -> int:
        """Return the number of tokens of prompt and prefill; each image size is processed only once."""
        text = self._text(messages)
        images = [image for message in messages for image in message.images]
        if images:
            pieces = text.split(self.processor.image_token)
            expanded = [piece + self._expansion(image) for piece, image in zip(pieces[:-1], images, strict=True)]
            text = "".join([*expanded, pieces[-1]])
        return len(self.encode_text(text)) + len(self.encode_text(prefill))

    def _text(self, messages: Conversation) -> str:
        if self.processor is None and any(message.images for message in messages):
            raise ValueError(f"{self.name} reads text only, but a message contains images.")
        turns = [{"role": message.role, "content": self._content(message)} for message in messages]
        return str(
            self.tokenizer.apply_chat_template(
                turns, add_generation_prompt=True, tokenize=False, chat_template=self._template,
                enable_thinking=False,  # ignored by templates without this option
            )
        )  # fmt: skip

    def _content(self, message: Message) -> Any:
        """Return a message for the chat template, with special tokens broken up and images before the text."""
        text = message.text
        for token in self._reserved:
            if token in text:
                text = text.replace(token, f"{token[0]} {token[1:]}")
        if self.processor is None:
            return text
        return [*[{"type": "image"}] * len(message.images), {"type": "text", "text": text}]

    def _inputs(self, text: str, images: list[Any]) -> dict[str, Any]:
        """Return the processor's output for a prompt's text and images."""
        return dict(self.processor(text=[text], images=[images], return_tensors="pt", add_special_tokens=False))

    def _expansion(self, image: Any) -> str:
        """Return the processor's text for an image, which depends only on the image's size."""
        shown = pil_image(image)
        if shown.size not in self._expanded:
            ids = np.asarray(self._inputs(self.processor.image_token, [shown])["input_ids"])[0]
            self._expanded[shown.size] = self.tokenizer.decode(ids.tolist(), skip_special_tokens=False)
        return self._expanded[shown.size]


def token_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of a text; special tokens are recognised, and none is added."""
    return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)] if text else []


def eos_token_ids(*given: Any) -> frozenset[int]:
    """Return all tokens that end the assistant's turn.

    Args:
        given: settings of the tokenizer and the model: each an id, a list of ids, or None.

    Raises:
        ValueError: all settings are None.
    """
    flat = [item for entry in given for item in (entry if isinstance(entry, list) else [entry])]
    ids = frozenset(int(item) for item in flat if item is not None)
    if not ids:
        raise ValueError("Neither the tokenizer nor the model defines the token that ends a reply.")
    return ids


def _reserved_tokens(tokenizer: Any, processor: Any) -> list[str]:
    """Return the special tokens of a tokenizer, and the image tokens of a processor."""
    owners = () if processor is None else (processor, processor.tokenizer)
    found = {getattr(owner, name, None) for owner in owners for name in _IMAGE_TOKENS}
    found |= set(getattr(tokenizer, "all_special_tokens", ()))
    return sorted(str(token) for token in found if token and len(str(token)) > 1)
