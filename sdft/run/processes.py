"""Several processes of one training, one a GPU, as `accelerate launch` starts them: what each one does of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any


def is_first() -> bool:
    """Is this the process that writes files and prints?"""
    return int(os.environ.get("RANK", 0)) == 0


def alone() -> bool:
    """Is this the only process?"""
    return int(os.environ.get("WORLD_SIZE", 1)) == 1


def share(total: int, name: str) -> int:
    """Return what each process has of a setting that counts for all of them together.

    Raises:
        ValueError: it can't be shared out evenly.
    """
    processes = int(os.environ.get("WORLD_SIZE", 1))
    if total % processes:
        raise ValueError(f"{name} is {total}, which {processes} processes can't share evenly: make it a multiple.")
    return total // processes


def check_alone(name: str) -> None:
    """Refuse what works in one process only.

    Raises:
        ValueError: there are several.
    """
    if not alone():
        raise ValueError(f"{name} works in one process only: train without `accelerate launch`, or do without it.")


def check_sharding(deepspeed: Any, fsdp: Any) -> None:
    """Refuse the ways of splitting a model over processes that this training does not work with.

    Args:
        deepspeed: accelerate's plugin; None where DeepSpeed is not used.
        fsdp: the same.

    Raises:
        ValueError: the model would be split by ZeRO-3 or FSDP 1.
    """
    if deepspeed is not None and deepspeed.zero_stage == 3:
        raise ValueError(
            "DeepSpeed ZeRO-3 splits every weight, so that the teacher's would be averaged over nothing: use ZeRO-2 "
            "(docs/cluster/zero2.yaml) or FSDP 2 (docs/cluster/fsdp2.yaml)."
        )
    if fsdp is not None and fsdp.fsdp_version == 1:
        raise ValueError("FSDP 1 hides weights from the teacher: set fsdp_version: 2, as docs/cluster/fsdp2.yaml does.")


def check_resumable(trainer: Any) -> None:
    """Refuse to resume a run whose checkpoints lack the teacher, as accelerate's of a model split by FSDP do.

    Raises:
        ValueError: it is one.
    """
    if getattr(getattr(getattr(trainer, "accelerator", None), "state", None), "fsdp_plugin", None) is not None:
        raise ValueError(
            "A run whose model FSDP splits can't be resumed, since its checkpoints lack the teacher: begin anew, in "
            "another folder."
        )


@contextlib.contextmanager
def whole(model: Any) -> Iterator[None]:
    """Within this context each process has all weights of a model that FSDP 2 splits; other models are left alone.

    For sampling: a process reads the model as often as its episodes need, which is not as often as the others do, and
    reading a split model is something that all processes must do together.
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
