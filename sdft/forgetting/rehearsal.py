"""Rehearsal: the student is kept close to the untrained model on text that the untrained model wrote.

Forgetting shows on text unrelated to the tasks. Preventing it needs no corpus: the model's own samples are the text
that it finds likely, and its own probabilities are the targets (Robins 1995 calls such items pseudo-patterns; Li and
Hoiem 2016, arXiv 1606.09282, use a model's own outputs in this way).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.sdft.processes import is_first
from selfsurf.sdft.settings import TrainSettings

if TYPE_CHECKING:
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

log = logging.getLogger(__name__)

ROWS = 64
"""Maximum number of rehearsal texts, written before the first optimizer step."""

SEPARATOR = "<|endoftext|>"
"""Document separator of many models. Models without it begin a text with their BOS (or EOS) token."""

LENGTH = 128
"""Length of a rehearsal text, in tokens."""


class Rehearsal:
    """Texts written by the untrained model, and the student's divergence from that model on them.

    Args:
        texts: (N, T), token ids.
        rows: number of texts used in one optimizer step.
        seed: seed of the choice of texts.
        weight: weight of the divergence in the loss.
    """

    def __init__(self, texts: torch.Tensor, rows: int, seed: int, weight: float = 1.0) -> None:
        self.weight = weight
        self._texts = texts
        self._rows = rows
        self._seed = seed

    def divergence(self, model: Any, step: int) -> torch.Tensor:
        """Return KL(untrained model || student) in nats per token on a step's texts, with the student's gradient.

        Args:
            model: a PEFT model whose active adapter is the student.
            step: optimizer steps so far.
        """
        import torch

        from selfsurf.sdft.loss.distillation import divergence

        chosen = drawn(self._seed, step, len(self._texts), self._rows)
        ids = self._texts[torch.tensor(chosen)].to(model.get_input_embeddings().weight.device)
        mask = torch.ones_like(ids)
        with torch.no_grad(), model.disable_adapter():
            before = torch.log_softmax(model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float(), -1)
        now = torch.log_softmax(model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float(), -1)
        return divergence(now, before).mean()


def rehearsal_of(settings: TrainSettings, policy: TransformersPolicy, folder: Path, *, begun: bool) -> Rehearsal | None:
    """Return the rehearsal of a run, or None if it has none.

    A run that begins writes new texts even if the folder has some: texts of an earlier, failed start may be another
    model's.
    """
    if not settings.rehearsal:
        return None
    import torch

    texts = torch.tensor(
        kept_texts(folder, settings, lambda rows: own_texts(policy, settings.seed, rows).tolist(), begun)
    )
    return Rehearsal(texts, settings.rehearsal_rows, settings.seed, settings.rehearsal)


def kept_texts(
    folder: Path, settings: TrainSettings, write: Callable[[int], list[list[int]]], begun: bool
) -> list[list[int]]:
    """Return a run's texts as token ids, from its folder if it has begun; otherwise write them.

    No more texts are written than the run's steps use.
    """
    path = folder / "rehearsal.json"
    if begun and path.exists():
        texts: list[list[int]] = json.loads(path.read_text(encoding="utf8"))
        return texts
    rows = min(ROWS, settings.steps * settings.rehearsal_rows)
    log.info("Rehearsal: the untrained model writes %d texts of %d tokens.", rows, LENGTH)
    texts = write(rows)
    if is_first():
        write_atomically(path, json.dumps(texts))
    return texts


def drawn(seed: int, step: int, there: int, most: int) -> list[int]:
    """Draw the indices of the rows, at most `most` of `there`, that are used in an optimizer step."""
    rng = np.random.default_rng([seed, step, there])
    return [int(row) for row in rng.choice(there, size=min(most, there), replace=False)]


def first_token(tokenizer: Any) -> int:
    """Return the token with which a generated text begins."""
    start = tokenizer.get_vocab().get(SEPARATOR)
    if start is None:
        start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    return int(start)


def own_texts(policy: TransformersPolicy, seed: int, rows: int = ROWS, *, length: int = LENGTH) -> torch.Tensor:
    """Let an untrained model write texts from their first token on; return their token ids (`rows`, `length`)."""
    import torch

    start = first_token(policy.tokenizer)
    model: Any = policy.model
    device = model.get_input_embeddings().weight.device
    with policy.reading(), torch.random.fork_rng():
        torch.manual_seed(seed)
        written = model.generate(
            input_ids=torch.full((rows, 1), start, device=device),
            attention_mask=torch.ones((rows, 1), device=device, dtype=torch.long),
            do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=length - 1, min_new_tokens=length - 1,
        )  # fmt: skip
    texts: torch.Tensor = written.cpu()
    return texts
