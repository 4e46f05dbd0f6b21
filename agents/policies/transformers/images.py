"""Batches for vision-language models of transformers: inputs besides the tokens, and positions of the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PER_TOKEN = ("token_type_ids", "mm_token_type_ids")
"""Inputs with one number per token of the prompt; 0 for text."""

_IMAGES_OF_ROWS = frozenset({"idefics2", "idefics3", "smolvlm"})
"""Model families that take images as (rows, images of a row, ...); others take (images of all rows, ...)."""


def merge(
    extras: Sequence[dict[str, torch.Tensor]], lengths: Sequence[int], width: int, model_type: str
) -> dict[str, torch.Tensor]:
    """Merge the extra inputs of several left-padded rows, including rows without images.

    Args:
        extras: for each row, the extra inputs of its `Prompt`.
        lengths: number of tokens of each row. Tokens beyond the prompt covered by `extras` are text.
        width: width of the batch, in tokens.
        model_type: the model type in the configuration.

    Raises:
        ValueError: the shapes of the rows' inputs don't fit into one batch.
    """
    import torch

    merged = {}
    for key in sorted({key for row in extras for key in row}):
        parts = [row[key] for row in extras if key in row]
        by_token, by_row = key in PER_TOKEN, key in PER_TOKEN or model_type in _IMAGES_OF_ROWS
        shapes = {tuple(part.shape[1 + by_row :]) for part in parts}
        if len(shapes) > 1:
            raise ValueError(f"These prompts can't form one batch: their {key} have different shapes {sorted(shapes)}.")
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
    """Return the position of each token: (rows, tokens), or (3, rows, tokens) for models with spatial positions.

    In decoding, each position is one more than the last, in all three components. Positions are passed explicitly,
    since the model would otherwise keep state for the decoding steps in itself, for all rows of its last prompt.

    Args:
        model: the model, wrapped by PEFT or not.
        ids: (rows, tokens), left-padded.
        attention: 1 for tokens, 0 for padding.
        extras: extra inputs of the batch.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    rope_index = getattr(getattr(base, "model", None), "get_rope_index", None)
    if rope_index is None or "mm_token_type_ids" not in extras:
        return (attention.cumsum(-1) - 1).clamp(min=0)
    grids = {key: extras[key] for key in ("mm_token_type_ids", "image_grid_thw") if key in extras}
    found: torch.Tensor = rope_index(ids, attention_mask=attention, **grids)[0]
    return found
