"""Logits of student and teacher at the tokens on which they are compared.

The rows of a batch begin alike (instructions, often goal and page) and differ in length. They are packed end to end,
without padding, and a prefix shared by several rows is stored once, so the model's layers process every distinct token
once. Only attention works row by row, each row over its own tokens. Up to rounding, the results equal those of the
padded batch, including gradients (those of a shared prefix are summed over its rows).
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from selfsurf.agents.policies.transformers.policy import make_lm_head_contiguous
from selfsurf.sdft.loss.lora import make_lean

PACKED = "selfsurf_packed"
"""Name under which the attention function for packed rows is registered with transformers."""


@dataclass(frozen=True)
class PackedRows:
    """Rows packed end to end, with shared prefixes stored once."""

    ids: torch.Tensor
    """Token ids of all packed rows, (N,)."""
    positions: torch.Tensor
    """Position of each packed token in its row, (N,)."""
    places: list[list[int]]
    """Indices of each row's tokens among the packed tokens."""
    spans: list[int]
    """Lengths of the spans into which the N tokens are split, such that every row consists of whole spans."""
    rows: list[RowLayout]
    """Rows that add tokens, in the order of these tokens."""


@dataclass(frozen=True)
class RowLayout:
    """Attention layout of one packed row."""

    own: int
    """Number of tokens that the row adds at its end."""
    spans: list[int]
    """Indices of the spans that make up the row."""
    mask: torch.Tensor | None
    """Attention mask (1, 1, own, length), True where a token attends to another; None for a row without a shared
    prefix."""


def pack(rows: Sequence[list[int]], device: torch.device | None = None) -> PackedRows:
    """Pack rows of token ids end to end."""
    places: list[list[int]] = [[] for _ in rows]
    ids: list[int] = []
    positions: list[int] = []
    laid: list[tuple[int, list[int]]] = []  # number of added tokens, and indices of all tokens
    before: list[int] = []
    for index in sorted(range(len(rows)), key=lambda index: rows[index]):  # sorting puts long shared prefixes together
        row = rows[index]
        shared = _shared(row, [ids[place] for place in before])
        own = len(row) - shared
        before = places[index] = before[:shared] + list(range(len(ids), len(ids) + own))
        ids += row[shared:]
        positions += range(shared, len(row))
        if own:
            laid.append((own, before))
    cuts = sorted({0, len(ids)} | {cut for _, path in laid for cut in _breaks(path)})
    number = {start: number for number, start in enumerate(cuts)}
    return PackedRows(
        ids=torch.tensor(ids, device=device),
        positions=torch.tensor(positions, device=device),
        places=places,
        spans=[end - start for start, end in itertools.pairwise(cuts)],
        rows=[
            RowLayout(own, [number[place] for place in path if place in number], _mask(own, len(path), device))
            for own, path in laid
        ],
    )


def _shared(row: Sequence[int], before: Sequence[int]) -> int:
    """Return the length of the common prefix of two rows, in tokens."""
    return next((i for i, (a, b) in enumerate(zip(row, before, strict=False)) if a != b), min(len(row), len(before)))


def _breaks(path: Sequence[int]) -> list[int]:
    """Return the boundaries of a row's contiguous runs of indices."""
    breaks = [(last + 1, first) for last, first in itertools.pairwise(path) if first != last + 1]
    return [cut for both in breaks for cut in both] + [path[-1] + 1]


def _mask(own: int, length: int, device: torch.device | None) -> torch.Tensor | None:
    if own == length:
        return None
    return torch.ones((1, 1, own, length), dtype=torch.bool, device=device).tril(length - own)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    packed: PackedRows | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    if packed is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    dtype = query.dtype
    if query.device.type == "cpu":  # bfloat16 attention on a CPU takes torch twice as long, its gradient four times
        query, key, value = query.float(), key.float(), value.float()
    keys, values = key.split(packed.spans, 2), value.split(packed.spans, 2)
    parts = [
        sdpa_attention_forward(
            module,
            own,
            torch.cat([keys[span] for span in row.spans], 2),
            torch.cat([values[span] for span in row.spans], 2),
            row.mask,
            **options,
        )[0]
        for own, row in zip(query.split([row.own for row in packed.rows], 2), packed.rows, strict=True)
    ]
    return torch.cat(parts, 1).to(dtype), None


def make_ready(model: Any) -> bool:
    """Prepare a model with LoRA for training, or for computing bit-identically to a trained model.

    Returns:
        Whether the model supports packed rows (see `make_packable`).
    """
    make_lm_head_contiguous(model)
    make_lean(model)
    return make_packable(model)


def make_packable(model: Any) -> bool:
    """Prepare a model for packed rows if supported: a text model whose layers all attend to all earlier tokens.

    The model's attention gets another name; its results change only for packed rows.
    """
    base = _base(model)
    config = base.config
    parameters = inspect.signature(base.forward).parameters
    if config._attn_implementation == PACKED:
        return True
    if (
        config.get_text_config() is not config
        or config._attn_implementation != "sdpa"
        or getattr(config, "sliding_window", None) is not None
        or set(getattr(config, "layer_types", None) or ["full_attention"]) != {"full_attention"}
        or not {"logits_to_keep", "position_ids", "kwargs"} <= set(parameters)
        or not base._can_set_attn_implementation()
    ):
        return False
    AttentionInterface.register(PACKED, _attend)
    AttentionMaskInterface.register(PACKED, sdpa_mask)
    base.set_attn_implementation(PACKED)
    return True


def _base(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def packed_logits(model: Any, ids: torch.Tensor, mask: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Return the logits (B, K, V) of `plain_logits` from packed rows, for a model prepared by `make_packable`."""
    rows = [row[kept].tolist() for row, kept in zip(ids, mask.bool(), strict=True)]
    packed = pack(rows, ids.device)
    # Position in the row from the column of the padded batch; positions of padding are unused.
    inside = (mask.cumsum(1).gather(1, at) - 1).clamp(min=0).tolist()
    wanted = [[places[column] for column in columns] for places, columns in zip(packed.places, inside, strict=True)]
    logits: torch.Tensor = model(
        input_ids=packed.ids[None],
        position_ids=packed.positions[None],
        # Four dimensions keep transformers from building a mask; each row has its own.
        attention_mask=torch.zeros((1, 1, 1, 1), device=ids.device),
        packed=packed,
        use_cache=False,
        logits_to_keep=torch.tensor(wanted, device=ids.device).flatten(),
    ).logits
    return logits.view(*at.shape, -1)


def plain_logits(model: Any, ids: torch.Tensor, mask: torch.Tensor, at: torch.Tensor, **inputs: Any) -> torch.Tensor:
    """Return the logits (B, K, V) at some columns of a padded batch.

    Args:
        model: model to run.
        ids: tokens (B, L), padded on either side.
        mask: (B, L), 1 for tokens.
        at: (B, K), the columns; the logits at a column predict the token in the next column.
        inputs: further inputs of the model, such as images.
    """
    first = int(at.min())
    if "logits_to_keep" in inspect.signature(_base(model).forward).parameters:
        inputs["logits_to_keep"] = ids.size(1) - first
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False, **inputs).logits[:, first - ids.size(1) :]
    picked: torch.Tensor = logits[torch.arange(len(at), device=at.device)[:, None], at - first]
    return picked
