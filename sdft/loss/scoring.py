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
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from selfsurf.agents.policies.transformers.policy import make_lm_head_contiguous
from selfsurf.sdft.loss.lora import make_lean

PACKED = "selfsurf_packed"
"""Name of the attention, with transformers, that knows packed rows."""

FORBIDDEN = -1e9
"""Logit of a token that the grammar forbids; finite, since 0 * inf would be NaN in the divergence."""


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
    # The place in a row, from the column of the padded batch; what is padding there is nobody's concern.
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


def choices(mask: torch.Tensor, allowed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Pick the tokens at which there was a choice, and one of the others of each row to stand for all of those.

    A token without alternative has probability 1 for student and teacher alike, and no gradient: all that it does is
    to count in its row's mean, and so its logits need not be computed.

    Args:
        mask: (B, C), 1 for tokens with a loss.
        allowed: (B, C, V), the tokens that could be sampled.

    Returns:
        Columns (B, K), and how many tokens each of them stands for: 1, for the forced ones their number, or 0.
    """
    forced = mask.bool() & (allowed.sum(-1) == 1)
    free = mask.bool() & ~forced
    width = int((free.sum(1) + forced.any(1)).max().clamp(min=1))
    at = torch.where(free, 0, torch.where(forced, 1, 2)).argsort(dim=1, stable=True)[:, :width]
    first_forced = forced.gather(1, at) & (torch.arange(width, device=at.device) == free.sum(1, keepdim=True))
    return at, free.gather(1, at).long() + first_forced * forced.sum(1, keepdim=True)


def at_tokens(batch: dict[str, Any], at: torch.Tensor, weights: torch.Tensor) -> dict[str, Any]:
    """Return a trainer's batch with some of the completion tokens only.

    Args:
        batch: as `sdft.rows.samples.collate` makes it.
        at: columns (B, K) of the completions.
        weights: (B, K), what each of them counts.

    Returns:
        The batch, where what the loss reads of tokens is (B, K); with `tokens`, the whole completions, `weights`, and
        `columns`, where the logits about each token stand, counted from the end of prompt and completion.
    """
    rows = torch.arange(len(at), device=at.device)[:, None]
    by_token = ("completion_ids", "allowed", "drawn_under", "old_per_token_logps")
    taken = {name: batch[name][rows, at] for name in by_token if name in batch}
    tokens = batch["completion_ids"]
    return {**batch, **taken, "tokens": tokens, "weights": weights, "columns": at - tokens.size(1) - 1}


@torch.no_grad()
def as_if_over_all(
    logits: torch.Tensor, ids: torch.Tensor, drawn_under: torch.Tensor, old_per_token_logps: torch.Tensor
) -> torch.Tensor:
    """Return the sampler's log-probabilities, moved so that an importance ratio needs no grammar.

    Tokens were drawn under a grammar, so how much likelier the student has become to draw them is
    `exp(logp(token | grammar) - old)`. A trainer that takes its own log-probabilities over the whole vocabulary
    computes that ratio from what this returns.

    Args:
        logits: (B, K, V), the student's now, with the temperature that it samples at.
        ids: (B, K), the sampled tokens.
        drawn_under: (B, K, V), the tokens that the grammar allowed.
        old_per_token_logps: (B, K), log-probabilities when they were drawn, under the grammar.

    Returns:
        (B, K), in nats.
    """
    share = logits.masked_fill(~drawn_under, FORBIDDEN).logsumexp(-1) - logits.logsumexp(-1)
    return old_per_token_logps + share


def over_teachers_top(logits: Any, old_per_token_logps: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """Have TRL's trainer take its loss over the teacher's likeliest tokens.

    TRL takes the student's: of a right action that the student does not think of nothing would be learned but that
    something else is right. A divergence is the same with student, teacher and its direction exchanged, and TRL picks
    the tokens of what it holds to be the student's.

    Args:
        logits: TRL's `DistillationLogits`.
        old_per_token_logps: (B, K), what its importance ratio is taken to.

    Returns:
        Logits with both exchanged, for the divergence in the other direction (1 - alpha), and log-probabilities that
        give the same ratio.
    """
    ids = logits.completion_ids[..., None]
    student, teacher = (
        torch.log_softmax(each.detach(), -1).gather(-1, ids)[..., 0]
        for each in (logits.student_logits, logits.teacher_logits)
    )
    exchanged = replace(logits, student_logits=logits.teacher_logits, teacher_logits=logits.student_logits)
    return exchanged, old_per_token_logps + teacher - student
