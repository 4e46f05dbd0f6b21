"""Prompts of a local model: written and measured with its own tokenizer or processor, without the model itself."""

from __future__ import annotations

from typing import Any

from selfsurf.agents.policies.local.template import chat_text, text_turns, token_ids
from selfsurf.agents.policies.transformers.images import ImagePrompts, Prompt
from selfsurf.agents.policy import Conversation


class Prompts:
    """Writes and measures prompts.

    Args:
        name: how the model is called in messages.
        tokenizer: the model's, with a chat template.
        processor: of a vision-language model; None for one that reads text only.
    """

    def __init__(self, name: str, tokenizer: Any, processor: Any = None) -> None:
        self._name = name
        self._tokenizer = tokenizer
        self._images = None if processor is None else ImagePrompts(processor)

    def prompt(self, messages: Conversation) -> Prompt:
        """Return the prompt's token ids, image tokens expanded, and the model's other inputs that belong to it.

        Raises:
            ValueError: a message carries images, which the model can't see, or something else than images.
        """
        if self._images is not None:
            return self._images.encode(messages)
        if any(message.images for message in messages):
            raise ValueError(f"{self._name} reads text only, but a message carries images.")
        return Prompt(self.encode_text(chat_text(self._tokenizer, text_turns(messages))))

    def encode(self, messages: Conversation, prefill: str = "") -> list[int]:
        """Return the prompt's token ids: chat template, the assistant's turn opened, and the prefill.

        Raises:
            ValueError: a message carries images, which the model can't see.
        """
        return self.prompt(messages).ids + self.encode_text(prefill)

    def encode_text(self, text: str) -> list[int]:
        """Return the token ids of `text` alone, without special tokens of its own."""
        return token_ids(self._tokenizer, text)

    def count(self, messages: Conversation, prefill: str = "") -> int:
        """Number of tokens of the whole prompt, chat template and prefill included."""
        if self._images is not None:
            return self._images.count(messages) + len(self.encode_text(prefill))
        return len(self.encode(messages, prefill))
