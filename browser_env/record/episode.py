"""Episodes on disk: one folder each, written as they happen, read back by trainer, report and viewer.

    episode.json    what it is and how it ended
    steps.jsonl     a line a step: observation, actions, completions, privileged view, reward, timing, error
    artifacts/      screenshots
    manifest.json   the SHA-256 of every file, once it has ended

Whoever writes one, the fields are the same: docs/episodes.md lists them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from selfsurf.browser_env.observation import Info, Observation
from selfsurf.browser_env.observe.screenshot import encode_png
from selfsurf.browser_env.safety.secrets import redact_known
from selfsurf.browser_env.text import well_formed

FORMAT = 2
"""Version of the format. Readers take this one and the one before, and ignore fields that they don't know."""

META: dict[str, Any] = {
    "format": FORMAT, "episode_id": "", "traceId": None, "env_id": "", "seed": None, "goal": "", "url": None,
    "viewport": None, "agent": None, "model": None, "adapter": None, "versions": {}, "recorded": False,
    "started": None, "ended": None, "outcome": "running", "outcome_detail": "", "trainable": False, "score": {},
    "judged": None, "verdict": None, "tags": [], "totals": {}, "final": None, "final_screenshot": None,
    "traceback": None,
}  # fmt: skip
"""The fields of `episode.json`, with what they are before anything is known."""

STEP: dict[str, Any] = {
    "step": 0, "time": None, "observation": {}, "screenshot": None, "actions": [], "completions": [], "decision": None,
    "privileged": None, "questions": [], "narration": "", "risk": None, "action_path": "", "error": "", "events": [],
    "reward": 0.0, "outcome": "running", "outcome_detail": "", "score": {}, "timing": {},
}  # fmt: skip
"""The fields of a line of `steps.jsonl`."""

Redact = Callable[[dict[str, Any]], dict[str, Any]]


class EpisodeError(ValueError):
    """A folder that should hold an episode does not, or holds one that can't be read."""


class EpisodeWriter:
    """Writes one episode into a new folder.

    Every step is on disk when `step` returns, so a killed process loses at most the step under way.

    Args:
        folder: created; must not hold an episode yet.
        meta: what is known at the start, by the names in `META`.
        redact: applied to every record before it is written, after the secrets of this process's environments have been
            taken out.

    Raises:
        EpisodeError: the folder holds an episode already.
    """

    def __init__(self, folder: str | Path, meta: Mapping[str, Any], *, redact: Redact | None = None) -> None:
        self.folder = Path(folder)
        if (self.folder / "episode.json").exists():
            raise EpisodeError(f"{self.folder} already holds an episode; choose another folder.")
        (self.folder / "artifacts").mkdir(parents=True, exist_ok=True)
        self._redact: Redact = lambda record: redact_known(redact(record) if redact else record)
        self._meta: dict[str, Any] = {**META, "episode_id": self.folder.name, "started": time.time(), **meta}
        self._hashes: dict[str, str] = {}
        self._steps = 0
        self._reward = 0.0
        self._write_meta()
        self._lines: TextIO = (self.folder / "steps.jsonl").open("w", encoding="utf8")
        self._hash = hashlib.sha256()

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
        completions: Sequence[Mapping[str, Any]] = (),
        decision: Mapping[str, Any] | None = None,
        began: float | None = None,
    ) -> None:
        """Add a step.

        Args:
            observation: what the agent saw.
            action: what it did, in any form.
            reward: what it got.
            info: the environment's info after the step.
            after: what is there after the step, for errors, events and answers.
            privileged: the oracle's view of `observation`.
            completions: what models were shown and sampled (`agents.play.record.completion_record`).
            decision: what else led to the action: guards, an unreadable reply, a demonstration.
            began: Unix time at which the agent was asked; the time of writing if None.
        """
        action = _action(after["last_action"] or _plain(action))
        record = {
            **STEP,
            "step": self._steps,
            "time": time.time() if began is None else began,
            "observation": observation_text(observation),
            "actions": [action],
            "completions": list(completions),
            "decision": decision,
            "privileged": privileged,
            "questions": _questions(action, observation, after),
            "risk": info.get("risk"),
            "action_path": info.get("action_path", ""),
            "error": after["last_error"],
            "events": after["events"],
            "reward": reward,
            "outcome": info["outcome"],
            "outcome_detail": info["outcome_detail"],
            "score": info["score"],
            "timing": dict(info["timing"]),
        }
        if "screenshot" in observation:
            record["screenshot"] = self._save_image(observation["screenshot"])
        line = well_formed(json.dumps(self._redact(record), ensure_ascii=False, default=_plain)) + "\n"
        self._lines.write(line)
        self._lines.flush()
        self._hash.update(line.encode())
        self._steps += 1
        self._reward += reward

    def finish(
        self,
        outcome: str,
        *,
        trainable: bool,
        after: Observation | None = None,
        detail: str = "",
        score: Mapping[str, Any] | None = None,
        judged: bool | None = None,
        **totals: Any,
    ) -> None:
        """Close the episode.

        Args:
            outcome: how it ended (`browser_env.Outcome`).
            trainable: whether a learner may draw conclusions from it.
            after: the last observation.
            detail: why it ended so, where the outcome alone doesn't say.
            score: the task's own details.
            judged: whether a task judged it; None: the outcome says so.
            totals: sums over the steps, besides their number and the reward.
        """
        self._lines.close()
        self._hashes["steps.jsonl"] = self._hash.hexdigest()
        if after is not None:
            self._meta["final"] = observation_text(after)
            if "screenshot" in after:
                self._meta["final_screenshot"] = self._save_image(after["screenshot"])
        self._meta.update(
            outcome=str(outcome),
            outcome_detail=detail,
            trainable=trainable,
            score=dict(score or {}),
            judged=str(outcome) not in ("stopped", "running", "env_error") if judged is None else judged,
            ended=time.time(),
            totals={"steps": self._steps, "reward": self._reward, **totals},
        )
        self._write_meta()
        write_atomically(self.folder / "manifest.json", json.dumps(self._hashes, indent=1))

    def discard(self) -> None:
        """Remove an episode in which nothing has happened, its folder too unless it holds something else."""
        self._lines.close()
        for name in ("episode.json", "steps.jsonl"):
            (self.folder / name).unlink()
        for folder in (self.folder / "artifacts", self.folder):
            if not any(folder.iterdir()):
                folder.rmdir()

    def _save_image(self, pixels: Any) -> str:
        name, data = f"artifacts/{self._steps:04d}.png", encode_png(pixels)
        (self.folder / name).write_bytes(data)
        self._hashes[name] = hashlib.sha256(data).hexdigest()
        return name

    def _write_meta(self) -> None:
        text = well_formed(json.dumps(self._redact(self._meta), ensure_ascii=False, indent=1, default=_plain))
        write_atomically(self.folder / "episode.json", text)
        self._hashes["episode.json"] = hashlib.sha256(text.encode()).hexdigest()


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
    """An episode read from disk: `meta` and `steps` have all fields of today's format, whichever it was written in.

    Raises:
        EpisodeError: there is none in the folder, or its format is unknown or damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = self.folder / "episode.json"
        try:
            found = json.loads(path.read_text(encoding="utf8"))
        except FileNotFoundError:
            raise EpisodeError(f"There is no episode in {self.folder} (no episode.json).") from None
        except ValueError as error:
            raise EpisodeError(f"{path} is damaged: {error}.") from None
        self._format = found.get("format") if isinstance(found, dict) else None
        if self._format not in (1, FORMAT):
            raise EpisodeError(f"{path} is not an episode of format 1 or {FORMAT}; a newer selfsurf may read it.")
        self.meta: dict[str, Any] = {**META, **(_meta_of_format_1(found) if self._format == 1 else found)}

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yield the steps. A last line that was cut off by a kill is left out."""
        path = self.folder / "steps.jsonl"
        lines = path.read_text(encoding="utf8").split("\n") if path.exists() else []
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                step = json.loads(line)
            except ValueError as error:
                if number == len(lines):
                    return
                raise EpisodeError(f"{path}, line {number} is damaged: {error}.") from None
            yield {**STEP, **(_step_of_format_1(step) if self._format == 1 else step)}

    def verify(self) -> None:
        """Compare every file with the manifest.

        Raises:
            EpisodeError: there is no manifest (format 1, or the episode has not ended), or a file is missing or was
                changed.
        """
        path = self.folder / "manifest.json"
        if not path.exists():
            raise EpisodeError(f"{self.folder} has no manifest.json: the episode has not ended, or is of format 1.")
        for name, digest in json.loads(path.read_text(encoding="utf8")).items():
            try:
                found = hashlib.sha256((self.folder / name).read_bytes()).hexdigest()
            except OSError:
                raise EpisodeError(f"{self.folder / name} is missing.") from None
            if found != digest:
                raise EpisodeError(f"{self.folder / name} is not what was written: its SHA-256 differs.")


def _meta_of_format_1(found: dict[str, Any]) -> dict[str, Any]:
    totals = dict(found.get("totals", {}))
    return {
        **found,
        "agent": found.get("agent", found.get("backend")),
        "score": totals.pop("score", {}),
        "outcome_detail": totals.pop("detail", "") or found.get("error", ""),
        "judged": totals.pop("judged", found.get("outcome") not in ("stopped", "running", "env_error")),
        "totals": totals,
    }


def _step_of_format_1(step: dict[str, Any]) -> dict[str, Any]:
    step = dict(step)
    action, policy = step.pop("action", ""), step.pop("policy", None)
    decision = None
    if policy is not None:
        decision = {name: policy.pop(name, None) for name in ("error", "guard", "guards", "demonstrated")}
    return {
        **step,
        "actions": [_action(action)],
        "completions": [] if policy is None else [{"tokens": None, **policy}],
        "decision": decision,
    }


def _action(action: Any) -> Any:
    """An action as an object; a reply that could not be read as one stays text."""
    if not isinstance(action, str):
        return action
    try:
        found = json.loads(action)
    except ValueError:
        return action
    return found if isinstance(found, dict) else action


def _questions(action: Any, before: Observation, after: Observation) -> list[dict[str, Any]]:
    """What the agent asked the user in this step, and the answer, None as long as there is none."""
    if not isinstance(action, dict) or action.get("action") != "ask_user":
        return []
    new = after["messages"][len(before["messages"]) :]
    answers = [message["text"] for message in new if message["role"] == "user"]
    return [{"question": action.get("question", ""), "answer": answers[-1] if answers else None}]


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
