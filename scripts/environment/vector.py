"""Measurement of steps per second and memory by the number of environments in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from selfsurf.scripts.machine.processes import kill_tree
from selfsurf.scripts.terminal.console import progress

TARGETS = {"vector(8) / single": 1.7, "vector(8) / bare loop": 0.6, "MB per added environment": 30.0}

COMPARED = 8
"""Number of environments at which the targets apply."""

POINT_SECONDS = 120.0
"""Base time limit of a point in seconds; `ENV_SECONDS` is added for each environment."""

ENV_SECONDS = 5.0


def measure(task: str, counts: list[int], *, modes: list[bool], rounds: int, seconds: float) -> dict[str, Any]:
    """Measure every number of environments, each in a process of its own.

    Args:
        task: A MiniWoB++ task whose first checkboxes can be clicked without ending the episode.
        counts: Numbers of environments.
        modes: Screenshot modes to measure: True with screenshots, False without.
        rounds: Number of rounds, in which vector, bare loop and single environment take turns.
        seconds: Duration of each of them in a round.

    Returns:
        `points` (`scripts.environment.vector_point.main`), `ratios` by mode with their targets, `errors`.
    """
    points: list[dict[str, Any]] = []
    errors: dict[str, str] = {}
    with progress("Points", len(counts) * len(modes)) as update:
        for screenshot in modes:
            for count in counts:
                request = {"task": task, "count": count, "screenshot": screenshot, "rounds": rounds, "seconds": seconds}
                try:
                    points.append(_point(request, POINT_SECONDS + count * ENV_SECONDS + 3 * rounds * seconds))
                except PointError as error:
                    errors[f"{count} environments, {mode_name(screenshot)}"] = str(error)
                update(len(points) + len(errors))
    ratios = {mode_name(mode): _ratios([p for p in points if p["screenshot"] is mode]) for mode in modes}
    return {"task": task, "points": points, "ratios": ratios, "targets": TARGETS, "errors": errors}


class PointError(Exception):
    """A point that could not be measured; the message gives the reason."""


def _point(request: dict[str, Any], timeout: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "selfsurf.scripts.environment.vector_point", json.dumps(request)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        output, error_output = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise PointError(f"not finished within {timeout:.0f} s") from None
    finally:
        if process.poll() is None:
            kill_tree(process.pid)
            process.wait(10)
    if process.returncode:
        raise PointError((error_output.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
    return json.loads(output)


def _ratios(points: list[dict[str, Any]]) -> dict[str, float | None]:
    """Return the figures that have targets; None if the points are insufficient."""
    at = next((point for point in points if point["envs"] == COMPARED), None)
    known = sorted((point["envs"], point["memory"]) for point in points if point["memory"] is not None)
    (first, little), (last, much) = (known[0], known[-1]) if known else ((0, 0.0), (0, 0.0))
    return {
        "vector(8) / single": round(at["vector"] / at["single"], 2) if at else None,
        "vector(8) / bare loop": round(at["vector"] / at["loop"], 2) if at else None,
        "MB per added environment": round((much - little) / (last - first), 1) if last > first else None,
    }


def mode_name(screenshot: bool) -> str:
    """Return the name of a screenshot mode."""
    return "with screenshots" if screenshot else "without screenshots"
