"""Images in prompts of transformers' vision-language models: from messages to token ids and the tensors beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from selfsurf.agents.policies.local.template import image_turns, picture, reserved_tokens, token_ids
from selfsurf.agents.policy import Conversation

if TYPE_CHECKING:
    import torch

PER_TOKEN = ("token_type_ids", "mm_token_type_ids")
"""Inputs with one number a token of the prompt: 0 is text."""

_IMAGES_OF_ROWS = frozenset({"idefics2", "idefics3", "smolvlm"})
"""Families whose images are given as (rows, images of a row, ...); the others' as (images of all rows, ...)."""


@dataclass(frozen=True)
class Prompt:
    """One prompt as a model takes it."""

    ids: list[int]
    """Image tokens expanded."""
    extras: dict[str, torch.Tensor] = field(default_factory=dict)
    """The model's other inputs, such as `pixel_values`; empty without images."""


class ImagePrompts:
    """Writes the prompts of one vision-language model with its own processor.

    Text that looks like the processor's own image tokens is broken up.
    """

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self._reserved = reserved_tokens(processor)
        self._expanded: dict[tuple[int, int], str] = {}

    def encode(self, messages: Conversation) -> Prompt:
        """Return the prompt, the assistant's turn opened.

        Raises:
            ValueError: an image is no uint8 array (height, width, 3), or its size is none that the processor takes.
        """
        text, images = self._text(messages), [picture(image) for message in messages for image in message.images]
        if not images:
            return Prompt(token_ids(self._tokenizer, text))
        inputs = dict(self._processor(text=[text], images=[images], return_tensors="pt", add_special_tokens=False))
        ids = [int(token) for token in inputs.pop("input_ids")[0]]
        inputs.pop("attention_mask", None)
        return Prompt(ids, inputs)

    def count(self, messages: Conversation) -> int:
        """Number of tokens of the prompt, without working on the pixels of images of a size seen before."""
        text = self._text(messages)
        pieces = text.split(self._processor.image_token)
        for index, image in enumerate(image for message in messages for image in message.images):
            pieces[index] += self._expansion(image)
        return len(token_ids(self._tokenizer, "".join(pieces)))

    def _text(self, messages: Conversation) -> str:
        turns = image_turns(messages, self._reserved)
        # A processor passes on what its template does not know, with a warning at every call.
        options = {"enable_thinking": False} if "enable_thinking" in str(self._processor.chat_template) else {}
        rendered = self._processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False, **options)
        return str(rendered)

    def _expansion(self, image: Any) -> str:
        """What the processor writes in the place of an image; that depends on the image's size alone."""
        shown = picture(image)
        if shown.size not in self._expanded:
            token = self._processor.image_token
            inputs = self._processor(text=[token], images=[[shown]], return_tensors="pt", add_special_tokens=False)
            self._expanded[shown.size] = self._tokenizer.decode(inputs["input_ids"][0], skip_special_tokens=False)
        return self._expanded[shown.size]


def merge(
    extras: Sequence[dict[str, torch.Tensor]], lengths: Sequence[int], width: int, model_type: str
) -> dict[str, torch.Tensor]:
    """Put the extra inputs of several left-padded rows together; rows without images take part.

    Args:
        extras: for each row, as `ImagePrompts.encode` returns them.
        lengths: tokens of each row, which may be more than the prompt's that `extras` know: the rest is text.
        width: of the batch, in tokens.
        model_type: the configuration's.

    Raises:
        ValueError: the rows' inputs have shapes that can't be in one batch.
    """
    import torch

    merged = {}
    for key in sorted({key for row in extras for key in row}):
        parts = [row[key] for row in extras if key in row]
        if key in PER_TOKEN:
            whole = parts[0].new_zeros(len(extras), width)
            for index, row in enumerate(extras):
                if key in row:
                    start = width - lengths[index]
                    whole[index, start : start + row[key].shape[1]] = row[key][0]
            merged[key] = whole
            continue
        nested = model_type in _IMAGES_OF_ROWS
        shapes = {tuple(part.shape[1 + nested :]) for part in parts}
        if len(shapes) > 1:
            raise ValueError(f"These prompts can't be in one batch: their {key} have the shapes {sorted(shapes)}.")
        if nested:
            most = max(part.shape[1] for part in parts)
            whole = parts[0].new_zeros(len(extras), most, *shapes.pop())
            for index, row in enumerate(extras):
                if key in row:
                    whole[index, : row[key].shape[1]] = row[key][0]
            merged[key] = whole
        else:
            merged[key] = torch.cat(parts)
    return merged


def positions(model: Any, ids: torch.Tensor, attention: torch.Tensor, extras: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the position of each token: (rows, tokens), or (3, rows, tokens) where a model counts in space too.

    Each later token's position is one more than the last's, in all three. They are given to the model explicitly,
    since it would keep what it needs for the decoding steps in itself, for all rows of the last prompt that it saw.

    Args:
        model: wrapped by PEFT or not.
        ids: (rows, tokens), left-padded.
        attention: 1 where a token is, 0 where padding.
        extras: of the batch.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    rope_index = getattr(getattr(base, "model", None), "get_rope_index", None)
    if rope_index is None or "mm_token_type_ids" not in extras:
        return (attention.cumsum(-1) - 1).clamp(min=0)
    grids = {key: extras[key] for key in ("mm_token_type_ids", "image_grid_thw") if key in extras}
    found: torch.Tensor = rope_index(ids, attention_mask=attention, **grids)[0]
    return found
