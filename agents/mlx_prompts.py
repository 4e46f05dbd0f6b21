"""Prompts of MLX models: the chat template of the model's own tokenizer, and images through mlx-vlm's processor."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.mlx_decoding import Prompt
from agents.policy import Conversation


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
        fields = ("image_token", "video_token", "boi_token", "eoi_token", "fake_image_token", "global_image_tag")
        owners = (processor, tokenizer) if processor is not None else ()
        found = {getattr(owner, field, None) for owner in owners for field in fields}
        self._reserved = sorted(str(token) for token in found if token)
        self._expanded: dict[tuple[int, int], int] = {}

    def encode(self, messages: Conversation, prefill: str = "") -> Prompt:
        """Return the prompt: chat template, the assistant's turn opened, and the prefill.

        Raises:
            ValueError: an image for a text model, or one that is no uint8 array (height, width, 3).
        """
        text = self._render(messages)
        images = [_picture(image) for message in messages for image in message.images]
        if not images:
            return Prompt(self.ids(text) + self.ids(prefill))
        inputs = dict(self._processor(images=images, text=[text], add_special_tokens=False))
        found = [int(token) for token in np.array(inputs.pop("input_ids"))[0]]
        inputs.pop("attention_mask", None)
        return Prompt(found + self.ids(prefill), inputs)

    def count(self, messages: Conversation, prefill: str = "") -> int:
        """Number of tokens of the prompt, without working on the pixels of images of a size seen before."""
        images = [_picture(image) for message in messages for image in message.images]
        text = self._render(messages)
        return len(self.ids(text)) + len(self.ids(prefill)) + sum(self._expansion(image) - 1 for image in images)

    def ids(self, text: str) -> list[int]:
        """Token ids of text, special tokens recognised and none added."""
        return [int(token) for token in self._tokenizer.encode(text, add_special_tokens=False)] if text else []

    def _render(self, messages: Conversation) -> str:
        if self._processor is None and any(message.images for message in messages):
            raise ValueError(f"{self._name} reads text only, but a message carries images.")
        turns = []
        for message in messages:
            content: Any = message.text
            if self._processor is not None:
                images = [{"type": "image"}] * len(message.images)
                content = [*images, {"type": "text", "text": self._harmless(message.text)}]
            turns.append({"role": message.role, "content": content})
        return str(
            self._tokenizer.apply_chat_template(
                turns,
                chat_template=self._template,
                add_generation_prompt=True,
                tokenize=False,
                enable_thinking=False,  # templates that don't know it ignore it
            )
        )

    def _harmless(self, text: str) -> str:
        for token in self._reserved:
            text = text.replace(token, f"{token[0]} {token[1:]}")
        return text

    def _expansion(self, picture: Any) -> int:
        """How many tokens an image becomes; that depends on its size alone."""
        if picture.size not in self._expanded:
            inputs = self._processor(images=[picture], text=[self._processor.image_token], add_special_tokens=False)
            self._expanded[picture.size] = int(np.array(inputs["input_ids"]).shape[1])
        return self._expanded[picture.size]


def _picture(image: Any) -> Any:
    from PIL import Image

    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise ValueError(f"An image is a uint8 array (height, width, 3), not {array.dtype} {array.shape}.")
    return Image.fromarray(array)
