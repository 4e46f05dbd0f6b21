"""`selfsurf`, killed by SIGKILL at a moment of its work: killed.py MOMENT COUNT ARGUMENTS...

Nothing of the program is changed but that it ends there: at the COUNT-th time that it comes to the moment.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import torch

from selfsurf.agents.play import player
from selfsurf.sdft.measure import heldout
from selfsurf.sdft.run import checkpoint_files, metrics, model
from selfsurf.sdft.teacher import weights


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def half_written(_, path):
    Path(path).write_bytes(b"half of an optimizer")
    die()


def half_removed(folder, **_):
    next(path for path in Path(folder).rglob("*") if path.is_file()).unlink()
    die()


def torn_line(log, *_, **__):
    with log.path.open("a") as file:
        file.write('{"step": 3, "lo')
    die()


def _old_checkpoint(folder):
    return folder.name.endswith(checkpoint_files.UNFINISHED) and folder.exists()


MOMENTS = {
    "rollout": (player.Player, "_act", die),
    "teacher not moved yet": (weights, "move_teacher", die),
    "checkpoint half written": (torch, "save", half_written),
    "checkpoint without its name": (checkpoint_files, "publish", die),
    "old checkpoint half removed": (shutil, "rmtree", half_removed),
    "evaluation": (heldout, "drift", die),
    "line of metrics": (metrics.MetricsLog, "on_log", torn_line),
    "adapter without its name": (model, "publish", die),
}


def arm(moment, count):
    where, name, end = MOMENTS[moment]
    original, left = getattr(where, name), [count]

    def counted(*arguments, **options):
        if moment == "old checkpoint half removed" and not _old_checkpoint(Path(arguments[0])):
            return original(*arguments, **options)
        left[0] -= 1
        return end(*arguments, **options) if left[0] == 0 else original(*arguments, **options)

    setattr(where, name, counted)


if __name__ == "__main__":
    from selfsurf.scripts.cli import app

    arm(sys.argv[1], int(sys.argv[2]))
    app(sys.argv[3:])
