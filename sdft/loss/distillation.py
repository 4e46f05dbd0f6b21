"""SDFT's loss: how far the student is from its teacher, on the tokens that the student sampled itself.

The teacher is the same model with more in its context: what was the right action (`sdft.teacher`). It reads the
student's own tokens, so at each of them there are two distributions over the whole vocabulary. Their divergence is what
is minimised, with the student's gradient alone: a mean over each row's tokens, then over the rows. By rows, which
element an action is about counts less the more the action types.
"""

from __future__ import annotations

import torch
from torch.nn.functional import kl_div

from selfsurf.sdft.loss.scoring import token_logprobs


def divergence(student: torch.Tensor, teacher: torch.Tensor, alpha: float = 0.0) -> torch.Tensor:
    """Return the divergence in nats at each position.

    Args:
        student: log-probabilities (..., V).
        teacher: the same.
        alpha: 0: forward KL(teacher || student); 1: reverse; between: to the mixture with so much of the teacher.
    """

    def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return kl_div(q, p, reduction="none", log_target=True).sum(-1)

    if alpha in (0.0, 1.0):
        return kl(student, teacher) if alpha else kl(teacher, student)
    share = torch.tensor(alpha, dtype=student.dtype, device=student.device)
    mixture = torch.logaddexp(student + torch.log(1 - share), teacher + torch.log(share))
    return (1 - share) * kl(student, mixture) + share * kl(teacher, mixture)


def confident(teacher: torch.Tensor, mask: torch.Tensor, least: float) -> torch.Tensor:
    """Return the mask without the tokens for which the teacher's likeliest choice has less probability than `least`."""
    return mask * (teacher.detach().amax(-1).exp() >= least)


@torch.no_grad()
def importance(
    student: torch.Tensor, ids: torch.Tensor, allowed: torch.Tensor, old: torch.Tensor, most: float
) -> torch.Tensor:
    """Return how much likelier the student has become to sample its tokens, at most `most`.

    Args:
        student: log-probabilities (B, C, V), at the temperature that it samples at.
        ids: (B, C), the sampled tokens.
        allowed: (B, C, V), the tokens that the grammar allowed when they were drawn.
        old: (B, C), their log-probabilities then, under the grammar.
        most: the limit.
    """
    now = token_logprobs(student, ids, allowed)
    return (now - old).clamp(-20, 20).exp().clamp(max=most)


def cross_entropy(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return the negative log-likelihood (B, C) of what should have been said, in nats.

    Args:
        logits: (B, C, V).
        ids: (B, C), the tokens.
    """
    return -logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]


def mean_of_rows(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean over rows of the mean over each row's tokens (B, C); rows without a token don't count."""
    rows = mask.any(-1)
    return ((losses * mask).sum(-1)[rows] / mask.sum(-1)[rows]).mean()


def mean_of_unknown(losses: torch.Tensor, mask: torch.Tensor, known: float) -> torch.Tensor:
    """Return the mean over rows of the mean over those of their tokens (B, C) that cost more than `known` nats.

    A row without any counts as 0. The tokens of a reply's form are soon learned; they would only dilute those that
    decide.
    """
    unknown = mask * (losses.detach() > known)
    return ((losses * unknown).sum(-1) / unknown.sum(-1).clamp(min=1)).mean()
