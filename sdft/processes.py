"""Several processes of one training, one per GPU, as started by `accelerate launch`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any


def is_first() -> bool:
    """Whether this process writes files and prints."""
    return int(os.environ.get("RANK", 0)) == 0


def alone() -> bool:
    """Whether this is the only process."""
    return int(os.environ.get("WORLD_SIZE", 1)) == 1


def share(total: int, name: str) -> int:
    """Return each process's share of a setting that counts for all processes together.

    Raises:
        ValueError: the number isn't divisible by the number of processes.
    """
    processes = int(os.environ.get("WORLD_SIZE", 1))
    if total % processes:
        raise ValueError(f"{name} is {total}, but must be a multiple of the number of processes ({processes}).")
    return total // processes


def check_alone(name: str) -> None:
    """Refuse a feature that works in one process only.

    Raises:
        ValueError: several processes train.
    """
    if not alone():
        raise ValueError(f"{name} works in one process only: train without `accelerate launch`, or leave it out.")


def check_sharding(deepspeed: Any, fsdp: Any) -> None:
    """Refuse kinds of model sharding that this training doesn't support.

    Args:
        deepspeed: accelerate's DeepSpeed plugin, or None.
        fsdp: accelerate's FSDP plugin, or None.

    Raises:
        ValueError: the model would be sharded by ZeRO-3 or FSDP 1.
    """
    if deepspeed is not None and deepspeed.zero_stage == 3:
        raise ValueError(
            "DeepSpeed ZeRO-3 splits every weight, so the teacher's average of the weights can't be computed: use "
            "ZeRO-2 (docs/cluster/zero2.yaml) or FSDP 2 (docs/cluster/fsdp2.yaml)."
        )
    if fsdp is not None and fsdp.fsdp_version == 1:
        raise ValueError("FSDP 1 hides weights from the teacher: set fsdp_version: 2, as docs/cluster/fsdp2.yaml does.")


def check_resumable(trainer: Any) -> None:
    """Refuse to resume a run whose checkpoints lack the teacher, such as accelerate's of a model sharded by FSDP.

    Raises:
        ValueError: FSDP shards the model.
    """
    if getattr(getattr(getattr(trainer, "accelerator", None), "state", None), "fsdp_plugin", None) is not None:
        raise ValueError(
            "A run with FSDP can't be resumed, because its checkpoints lack the teacher: begin another run in another "
            "folder."
        )


@contextlib.contextmanager
def unsharded(model: Any) -> Iterator[None]:
    """Unshard a model that FSDP 2 shards, so that each process has all weights within this context.

    Sampling needs this: processes run the model as often as their episodes require, and forward passes of a sharded
    model are collective. Other models are unchanged.
    """
    from torch.distributed.fsdp import FSDPModule

    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(True, recurse=False)
