"""Probabilities of sampled tokens under the grammar and the temperature of their sampling.

A plain forward pass gives other values: the grammar forbids most tokens and renormalizes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from selfsurf.sdft.loss.logits import make_packable, packed_logits, plain_logits
from selfsurf.sdft.rows.images import model_inputs
from selfsurf.sdft.rows.samples import Sample, allowed_tokens, collate

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

FORBIDDEN = -1e9
"""Logit of a token that the grammar forbids. Finite, because 0 * inf would be NaN in a divergence."""


def score(policy: TransformersPolicy, samples: Sequence[Sample], *, temperature: float = 1.0) -> torch.Tensor:
    """Return the log-probabilities (R, T), in nats, of each sample's tokens, with gradients.

    Under the weights that sampled the tokens, they equal the recorded log-probabilities (`Sample.logprobs`) up to
    rounding, which is considerable in bfloat16 (docs/own-trainer.md).

    Args:
        policy: policy of the model that scores.
        samples: R rows (`sdft.rows_of`) of at most T tokens each; shorter rows are padded with 0.
        temperature: temperature at which the tokens were sampled.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("There are no samples to score: was every episode masked?")
    model, tokenizer = policy.model, policy.tokenizer
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    allowed = allowed_tokens(samples, policy).to(model.device)
    batch = {name: tensor.to(model.device) for name, tensor in collate(samples, pad).items()}
    mask = batch["completion_mask"]
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    attended = torch.cat([batch["prompt_mask"], mask], dim=1)
    extras = [sample.seen.student for sample in samples]
    seen = model_inputs(model, ids, attended, extras, batch["prompt_ids"].size(1)) if policy.sees_images else {}
    logits = completion_logits(model, ids, attended, mask, packable=make_packable(model), **seen) / temperature
    return token_logprobs(logits, batch["completion_ids"], allowed).masked_fill(~mask.bool(), 0.0)


def completion_logits(
    model: Any, ids: torch.Tensor, attended: torch.Tensor, mask: torch.Tensor, *, packable: bool, **seen: torch.Tensor
) -> torch.Tensor:
    """Return the float32 logits (B, C, V) that predict the completions' tokens.

    Args:
        model: model to run.
        ids: prompts and completions (B, L).
        attended: (B, L), 1 for tokens.
        mask: (B, C), 1 for the completions' tokens.
        packable: whether the model supports packed rows (`sdft.loss.logits`).
        seen: further inputs besides tokens, for images (`sdft.rows.images.model_inputs`).
    """
    width = ids.size(1) - mask.size(1)
    at = torch.arange(width - 1, ids.size(1) - 1, device=ids.device).expand(len(ids), -1)
    read = packed_logits if packable and not seen else plain_logits
    return read(model, ids, attended, at, **seen).float()


def token_logprobs(logits: torch.Tensor, ids: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities (B, C) of tokens, normalized over the allowed tokens.

    Args:
        logits: (B, C, V), or log-probabilities over all tokens.
        ids: (B, C), the tokens.
        allowed: (B, C, V), True for allowed tokens.
    """
    return logits.masked_fill(~allowed, FORBIDDEN).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
