"""Batches for vision-language models of transformers: the inputs beside the tokens, and the tokens' positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PER_TOKEN = ("token_type_ids", "mm_token_type_ids")
"""Inputs with one number a token of the prompt: 0 is text."""

_IMAGES_OF_ROWS = frozenset({"idefics2", "idefics3", "smolvlm"})
"""Families whose images are given as (rows, images of a row, ...); the others' as (images of all rows, ...)."""


def merge(
    extras: Sequence[dict[str, torch.Tensor]], lengths: Sequence[int], width: int, model_type: str
) -> dict[str, torch.Tensor]:
    """Put the extra inputs of several left-padded rows together; rows without images take part.

    Args:
        extras: for each row, those of its `Prompt`.
        lengths: tokens of each row, which may be more than the prompt's that `extras` cover: the rest is text.
        width: of the batch, in tokens.
        model_type: the configuration's.

    Raises:
        ValueError: the rows' inputs have shapes that can't be in one batch.
    """
    import torch

    merged = {}
    for key in sorted({key for row in extras for key in row}):
        parts = [row[key] for row in extras if key in row]
        by_token, by_row = key in PER_TOKEN, key in PER_TOKEN or model_type in _IMAGES_OF_ROWS
        shapes = {tuple(part.shape[1 + by_row :]) for part in parts}
        if len(shapes) > 1:
            raise ValueError(f"These prompts can't be in one batch: their {key} have the shapes {sorted(shapes)}.")
        if not by_row:
            merged[key] = torch.cat(parts)
            continue
        most = width if by_token else max(part.shape[1] for part in parts)
        merged[key] = parts[0].new_zeros(len(extras), most, *shapes.pop())
        for index, row in enumerate(extras):
            if key in row:
                start = width - lengths[index] if by_token else 0
                merged[key][index, start : start + row[key].shape[1]] = row[key][0]
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
