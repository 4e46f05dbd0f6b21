"""Prompts of MLX models: the chat template of the model's own tokenizer, and images through mlx-vlm's processor."""

from __future__ import annotations

from typing import Any

import numpy as np

from selfsurf.agents.policies.local.template import (
    chat_text,
    image_turns,
    picture,
    reserved_tokens,
    text_turns,
    token_ids,
)
from selfsurf.agents.policies.mlx.decoding import Prompt
from selfsurf.agents.policy import Conversation


class Prompts:
    """Writes the prompts of one model.

    Text that looks like one of the processor's image tokens is broken up: pages are not trusted, and an image token
    too many would put the images in the wrong places.

    Args:
        tokenizer: the Hugging Face tokenizer.
        processor: that of a vision-language model; None for a text model.
        name: the model's, for messages.

    Raises:
        ValueError: there is no chat template.
    """

    def __init__(self, tokenizer: Any, processor: Any, name: str) -> None:
        self._tokenizer = tokenizer
        self._processor = processor
        self._name = name
        self._template = getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)
        if not self._template:
            raise ValueError(f"The tokenizer of {name} has no chat template; choose an instruction-tuned model.")
        self._reserved = [] if processor is None else reserved_tokens(processor)
        self._expanded: dict[tuple[int, int], int] = {}

    def encode(self, messages: Conversation, prefill: str = "") -> Prompt:
        """Return the prompt: chat template, the assistant's turn opened, and the prefill.

        Raises:
            ValueError: an image for a text model, or one that is no uint8 array (height, width, 3).
        """
        text = self._render(messages)
        images = [picture(image) for message in messages for image in message.images]
        if not images:
            return Prompt(self.ids(text) + self.ids(prefill))
        inputs = dict(self._processor(images=images, text=[text], add_special_tokens=False))
        found = [int(token) for token in np.array(inputs.pop("input_ids"))[0]]
        inputs.pop("attention_mask", None)
        return Prompt(found + self.ids(prefill), inputs)

    def count(self, messages: Conversation, prefill: str = "") -> int:
        """Number of tokens of the prompt, without working on the pixels of images of a size seen before."""
        images = [picture(image) for message in messages for image in message.images]
        text = self._render(messages)
        return len(self.ids(text)) + len(self.ids(prefill)) + sum(self._expansion(image) - 1 for image in images)

    def ids(self, text: str) -> list[int]:
        """Token ids of text, special tokens recognised and none added."""
        return token_ids(self._tokenizer, text)

    def _render(self, messages: Conversation) -> str:
        if self._processor is None and any(message.images for message in messages):
            raise ValueError(f"{self._name} reads text only, but a message carries images.")
        turns = text_turns(messages) if self._processor is None else image_turns(messages, self._reserved)
        return chat_text(self._tokenizer, turns, chat_template=self._template)

    def _expansion(self, shown: Any) -> int:
        """How many tokens an image becomes; that depends on its size alone."""
        if shown.size not in self._expanded:
            inputs = self._processor(images=[shown], text=[self._processor.image_token], add_special_tokens=False)
            self._expanded[shown.size] = int(np.array(inputs["input_ids"]).shape[1])
        return self._expanded[shown.size]
