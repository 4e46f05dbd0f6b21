"""A tiny model that is taught to read: as a teacher it does what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from selfsurf.sdft.rows.jobs import offline_states
from selfsurf.sdft.rows.recorded import RecordedRows
from selfsurf.sdft.rows.samples import Sample
from selfsurf.sdft.rows.stored import recordings_of
from selfsurf.sdft.settings import TrainSettings


def recorded_rows(policy: Any, settings: TrainSettings, batches: int) -> list[Sample]:
    """Return the rows of recorded actions of an offline run's first batches."""
    states, _ = offline_states(settings)
    source = RecordedRows(recordings_of(dict.fromkeys(state.episode for state in states)), policy, settings)
    return [row for number in range(batches) for row in source.rows(number, settings.recorded_rows)]


def teach_to_read(policy: Any, rows: Sequence[Sample]) -> None:
    """Train a whole model to write, under the teacher's prompts of rows, the action that it is told there."""
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-2)
    for _ in range(200):
        losses = []
        for row in rows:
            ids = torch.tensor([row.teacher_prompt_ids + row.completion_ids])
            logits = policy.model(input_ids=ids, logits_to_keep=len(row.completion_ids) + 1).logits[0, :-1]
            losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor(row.completion_ids), reduction="sum"))
        torch.stack(losses).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if max(worst := [float(loss.detach()) for loss in losses]) < 0.5:  # a probability of 0.6: not the action alone
            return
    raise AssertionError(f"The teacher has not learned to read: {max(worst):.2f} nats.")
