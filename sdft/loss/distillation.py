"""SDFT's loss: the divergence of the student from its teacher on tokens that the student sampled.

The teacher is the same model with more context, which includes the right action (`sdft.teacher`). It reads the
student's own tokens, so each token has two distributions over the whole vocabulary. Their divergence is minimized, with
gradients for the student only: a mean over each row's tokens, then over the rows. Averaging by row gives the tokens
that choose an element less weight in an action that types more text.
"""

from __future__ import annotations

import torch
from torch.nn.functional import kl_div

from selfsurf.sdft.loss.scoring import token_logprobs


def divergence(student: torch.Tensor, teacher: torch.Tensor, alpha: float = 0.0) -> torch.Tensor:
    """Return the divergence in nats at each position.

    Args:
        student: log-probabilities (..., V).
        teacher: log-probabilities (..., V).
        alpha: 0 for forward KL(teacher || student), 1 for reverse; values between weigh both divergences from a mixture
            with `alpha` of the teacher.
    """

    def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return kl_div(q, p, reduction="none", log_target=True).sum(-1)

    if alpha in (0.0, 1.0):
        return kl(student, teacher) if alpha else kl(teacher, student)
    share = torch.tensor(alpha, dtype=student.dtype, device=student.device)
    mixture = torch.logaddexp(student + torch.log(1 - share), teacher + torch.log(share))
    return (1 - share) * kl(student, mixture) + share * kl(teacher, mixture)


def confident(teacher: torch.Tensor, mask: torch.Tensor, least: float) -> torch.Tensor:
    """Return the mask without tokens whose likeliest choice has less than probability `least` under the teacher."""
    return mask * (teacher.detach().amax(-1).exp() >= least)


@torch.no_grad()
def importance(
    student: torch.Tensor, ids: torch.Tensor, allowed: torch.Tensor, old: torch.Tensor, most: float
) -> torch.Tensor:
    """Return the sampled tokens' importance weights (B, C): current over original probability, at most `most`.

    Args:
        student: log-probabilities (B, C, V), at the sampling temperature.
        ids: (B, C), the sampled tokens.
        allowed: (B, C, V), the tokens that the grammar allowed during sampling.
        old: (B, C), log-probabilities of the tokens when they were sampled, under the grammar.
        most: upper limit of a weight.
    """
    now = token_logprobs(student, ids, allowed)
    return (now - old).clamp(-20, 20).exp().clamp(max=most)


def cross_entropy(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return the negative log-likelihood (B, C) of the target tokens, in nats.

    Args:
        logits: (B, C, V).
        ids: (B, C), the target tokens.
    """
    return -logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]


def mean_of_rows(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean over rows of each row's mean over its tokens (B, C). Rows without tokens don't count."""
    rows = mask.any(-1)
    return ((losses * mask).sum(-1)[rows] / mask.sum(-1)[rows]).mean()


def mean_of_unknown(losses: torch.Tensor, mask: torch.Tensor, known: float) -> torch.Tensor:
    """Return the mean over rows of each row's mean over the tokens (B, C) that cost more than `known` nats.

    A row without such tokens counts as 0. Tokens of the reply format are soon learned and would only dilute the
    decisive tokens.
    """
    unknown = mask * (losses.detach() > known)
    return ((losses * unknown).sum(-1) / unknown.sum(-1).clamp(min=1)).mean()
