"""Logits of student and teacher at the tokens that they are compared at.

The rows of a batch begin alike (instructions, often goal and page) and have different lengths. They are laid end to
end, without padding, and what a row shares with another at its beginning stands there once: the model's layers see
every different token once. Attention alone goes row by row, each over its own tokens. That computes what the padded
batch does, gradients included (those of a shared beginning are summed over its rows), up to rounding.
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
"""Name of the attention, with transformers, that knows packed rows."""


@dataclass(frozen=True)
class Packed:
    """Rows laid end to end, a shared beginning once."""

    ids: torch.Tensor
    """(N,), the tokens."""
    positions: torch.Tensor
    """(N,), each token's place in its row."""
    places: list[list[int]]
    """For each row, where its tokens are."""
    spans: list[int]
    """Lengths of the stretches that the N tokens are cut into, so that every row is made of whole ones."""
    rows: list[Row]
    """Of the rows that add tokens, in the order in which these lie."""


@dataclass(frozen=True)
class Row:
    """What a row's attention needs to know."""

    own: int
    """How many tokens it adds, its last ones."""
    spans: list[int]
    """The stretches that it is made of, by number."""
    mask: torch.Tensor | None
    """(1, 1, own, length), True where a token sees another; None where the row shares nothing."""


def pack(rows: Sequence[list[int]], device: torch.device | None = None) -> Packed:
    """Lay rows of token ids end to end."""
    places: list[list[int]] = [[] for _ in rows]
    ids: list[int] = []
    positions: list[int] = []
    laid: list[tuple[int, list[int]]] = []  # tokens added, and all places
    before: list[int] = []
    for index in sorted(range(len(rows)), key=lambda index: rows[index]):  # a row shares most with the one before it
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
    return Packed(
        ids=torch.tensor(ids, device=device),
        positions=torch.tensor(positions, device=device),
        places=places,
        spans=[end - start for start, end in itertools.pairwise(cuts)],
        rows=[
            Row(own, [number[place] for place in path if place in number], _mask(own, len(path), device))
            for own, path in laid
        ],
    )


def _shared(row: Sequence[int], before: Sequence[int]) -> int:
    """How many tokens two rows begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(row, before, strict=False)) if a != b), min(len(row), len(before)))


def _breaks(path: Sequence[int]) -> list[int]:
    """Where the runs of a row's places end and begin."""
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
    packed: Packed | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    if packed is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    dtype = query.dtype
    if query.device.type == "cpu":  # where torch takes twice as long in bfloat16, four times of it for the gradient
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
    """Prepare a model with LoRA for training, or for computing the same as one that is trained, to the last bit.

    Returns:
        Whether it can read packed rows (see `make_packable`).
    """
    make_lm_head_contiguous(model)
    make_lean(model)
    return make_packable(model)


def make_packable(model: Any) -> bool:
    """Prepare a model for packed rows, if it can be: a text model whose layers all attend to all earlier tokens.

    Its attention is called by another name from then on, and computes what it did before unless rows are packed.
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
    """As `plain_logits`, of a model that `make_packable` prepared."""
    rows = [row[kept].tolist() for row, kept in zip(ids, mask.bool(), strict=True)]
    packed = pack(rows, ids.device)
    # The place in a row, from the column of the padded batch; places of padding are not used.
    inside = (mask.cumsum(1).gather(1, at) - 1).clamp(min=0).tolist()
    wanted = [[places[column] for column in columns] for places, columns in zip(packed.places, inside, strict=True)]
    logits: torch.Tensor = model(
        input_ids=packed.ids[None],
        position_ids=packed.positions[None],
        # Of four dimensions, so that transformers makes none of its own: each row brings its mask.
        attention_mask=torch.zeros((1, 1, 1, 1), device=ids.device),
        packed=packed,
        use_cache=False,
        logits_to_keep=torch.tensor(wanted, device=ids.device).flatten(),
    ).logits
    return logits.view(*at.shape, -1)


def plain_logits(model: Any, ids: torch.Tensor, mask: torch.Tensor, at: torch.Tensor, **inputs: Any) -> torch.Tensor:
    """Return the logits (B, K, V) at some columns of a padded batch.

    Args:
        model: which model.
        ids: tokens (B, L), padded on either side.
        mask: (B, L), 1 for tokens.
        at: (B, K), the columns; a logit at a column is about the token in the next one.
        inputs: the model's other inputs, such as those of images.
    """
    first = int(at.min())
    if "logits_to_keep" in inspect.signature(_base(model).forward).parameters:
        inputs["logits_to_keep"] = ids.size(1) - first
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False, **inputs).logits[:, first - ids.size(1) :]
    picked: torch.Tensor = logits[torch.arange(len(at), device=at.device)[:, None], at - first]
    return picked
