"""Episodes on disk: one folder each, written as they happen, read back by trainer, report and viewer.

    episode.json   ids, task, seed, model, adapter, versions; outcome and totals once it has ended
    steps.jsonl    a line a step: observation, action, sampled tokens, privileged view, reward, timing, error
    artifacts/     screenshots

Whatever writes one (`run`, `record`, benchmarks, rollouts), the format is the same.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from selfsurf.browser_env.observation import Info, Observation
from selfsurf.browser_env.observe.screenshot import encode_png
from selfsurf.browser_env.safety.secrets import redact_known
from selfsurf.browser_env.text import well_formed

FORMAT = 1
"""Version of the format; readers refuse one that they don't know."""

Redact = Callable[[dict[str, Any]], dict[str, Any]]


class EpisodeError(ValueError):
    """A folder that should hold an episode does not, or holds one that can't be read."""


class EpisodeWriter:
    """Writes one episode into a new folder.

    Every step is on disk when `step` returns, so a killed process loses at most the step under way.

    Args:
        folder: created; must not hold an episode yet.
        meta: what is known at the start: `episode_id`, `env_id`, `seed`, `goal`, `model`, `adapter`, `versions`, ...
        redact: applied to every record before it is written, besides taking out the secrets of this process's
            environments.

    Raises:
        EpisodeError: the folder holds an episode already.
    """

    def __init__(self, folder: str | Path, meta: Mapping[str, Any], *, redact: Redact | None = None) -> None:
        self.folder = Path(folder)
        if (self.folder / "episode.json").exists():
            raise EpisodeError(f"{self.folder} already holds an episode; choose another folder.")
        (self.folder / "artifacts").mkdir(parents=True, exist_ok=True)
        self._redact: Redact = lambda record: redact_known(redact(record) if redact else record)
        self._meta: dict[str, Any] = {"format": FORMAT, "outcome": "running", "started": time.time(), **meta}
        self._steps = 0
        self._reward = 0.0
        self._write_meta()
        self._lines: TextIO = (self.folder / "steps.jsonl").open("w", encoding="utf8")

    def note(self, **meta: Any) -> None:
        """Add to what is known about the episode, or correct it."""
        self._meta.update(meta)
        self._write_meta()

    def step(
        self,
        observation: Observation,
        action: Any,
        *,
        reward: float,
        info: Info,
        after: Observation,
        privileged: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a step.

        Args:
            observation: what the agent saw.
            action: what it did, in any form.
            reward: what it got.
            info: the environment's info after the step.
            after: what is there after the step, for errors and events.
            privileged: the oracle's view of `observation`.
            policy: what the policy adds: prompt, sampled token ids, log-probabilities, grammar, guard's note.
        """
        record = {
            "step": self._steps,
            "observation": observation_text(observation),
            "action": after["last_action"] or _plain(action),
            "error": after["last_error"],
            "events": after["events"],
            "reward": reward,
            "outcome": info["outcome"],
            "score": info["score"],
            "timing": dict(info["timing"]),
            "privileged": privileged,
            "policy": policy,
        }
        if "screenshot" in observation:
            record["screenshot"] = self._save_image(observation["screenshot"])
        self._lines.write(well_formed(json.dumps(self._redact(record), ensure_ascii=False, default=_plain)) + "\n")
        self._lines.flush()
        self._steps += 1
        self._reward += reward

    def finish(self, outcome: str, *, trainable: bool, after: Observation | None = None, **totals: Any) -> None:
        """Close the episode with its outcome and totals."""
        self._lines.close()
        if after is not None:
            self._meta["final"] = observation_text(after)
            if "screenshot" in after:
                self._meta["final_screenshot"] = self._save_image(after["screenshot"])
        self._meta.update(
            outcome=outcome,
            trainable=trainable,
            ended=time.time(),
            totals={"steps": self._steps, "reward": self._reward, **totals},
        )
        self._write_meta()

    def discard(self) -> None:
        """Take an episode away in which nothing has happened, its folder too unless it holds something else."""
        self._lines.close()
        for name in ("episode.json", "steps.jsonl"):
            (self.folder / name).unlink()
        for folder in (self.folder / "artifacts", self.folder):
            if not any(folder.iterdir()):
                folder.rmdir()

    def _save_image(self, pixels: Any) -> str:
        name = f"artifacts/{self._steps:04d}.png"
        (self.folder / name).write_bytes(encode_png(pixels))
        return name

    def _write_meta(self) -> None:
        text = json.dumps(self._redact(self._meta), ensure_ascii=False, indent=1, default=_plain)
        write_atomically(self.folder / "episode.json", well_formed(text))


def new_folder(name: str) -> Path:
    """Return a folder under `runs/` that is not there yet, named after the time: `runs/run-20261122-101022`."""
    first = Path("runs") / time.strftime(f"{name}-%Y%m%d-%H%M%S")
    number, folder = 1, first
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
            folder = first.with_name(f"{first.name}-{number}")


class Episode:
    """An episode read from disk.

    Raises:
        EpisodeError: there is none in the folder, or its format is unknown or damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = self.folder / "episode.json"
        try:
            self.meta: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        except FileNotFoundError:
            raise EpisodeError(f"There is no episode in {self.folder} (no episode.json).") from None
        except ValueError as error:
            raise EpisodeError(f"{path} is damaged: {error}.") from None
        if not isinstance(self.meta, dict) or self.meta.get("format") != FORMAT:
            raise EpisodeError(f"{path} is not an episode of format {FORMAT}.")

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yield the steps. A last line that was cut off by a kill is left out."""
        path = self.folder / "steps.jsonl"
        lines = path.read_text(encoding="utf8").split("\n") if path.exists() else []
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                if number == len(lines):
                    return
                raise EpisodeError(f"{path}, line {number} is damaged: {error}.") from None


def observation_text(observation: Observation) -> dict[str, Any]:
    """Return an observation without its screenshot, as plain data."""
    return {key: value for key, value in observation.items() if key != "screenshot"}


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content so that a reader, or a kill, never meets half of it."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf8")
    os.replace(partial, path)


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return value if isinstance(value, (str, int, float, bool, dict, list, type(None))) else str(value)
