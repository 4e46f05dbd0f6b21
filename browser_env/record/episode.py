"""Episodes on disk: one folder each, written step by step, read by trainer, report and viewer.

    episode.json   IDs, task, seed, agent, model, adapter, versions; outcome and totals once it has ended
    steps.jsonl    one line per step: observation, completions, actions, privileged view, reward, timing, error
    artifacts/     screenshots
    manifest.json  the SHA-256 of each of these files, once the episode has ended

`run`, `record`, benchmarks and rollouts all write the same format: `browser_env.record.format`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from selfsurf.browser_env.disk import AGAIN, ELSEWHERE, NoRoom, append_whole, room_in, write_whole
from selfsurf.browser_env.disk import write_atomically as write_atomically
from selfsurf.browser_env.observation import Info, Observation
from selfsurf.browser_env.observe.screenshot import encode_png
from selfsurf.browser_env.record import format as form
from selfsurf.browser_env.record.journal import Journal
from selfsurf.browser_env.record.lock import FolderInUse, FolderLock, is_held, open_held
from selfsurf.browser_env.safety.secrets import redact_known
from selfsurf.browser_env.text import well_formed

Redact = Callable[[dict[str, Any]], dict[str, Any]]

LARGEST_READ = 2**29
"""Maximum size of a file to read, in bytes."""


class EpisodeError(ValueError):
    """A folder contains no episode, or one that can't be read."""


class EpisodeWriter:
    """A writer of one episode into a new folder.

    Every step is on disk when `step` returns, so a killed process loses at most the current step.

    Args:
        folder: created if missing; must not contain an episode.
        meta: metadata known at the start: `episode_id`, `env_id`, `seed`, `goal`, `agent`, `model`, `versions`, ... If
            `redacted` is `full`, the episode is fully redacted and has no screenshots.
        redact: applied to every record before it is written, in addition to masking the secrets of this process's
            environments.
        journal: records each action before it is sent. With a journal, `step` also syncs to disk before it returns.

    Raises:
        EpisodeError: the folder already contains an episode, or another process is starting one there.
    """

    _saved: tuple[str, Any] | None = None
    """Name and pixels of the last screenshot that was written."""

    def __init__(
        self,
        folder: str | Path,
        meta: Mapping[str, Any],
        *,
        redact: Redact | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.journal = journal
        self._meta = form.filled(form.EPISODE, {"episode_id": self.folder.name, "started": clock.time(), **meta})
        redact = redact or _redaction(self._meta)
        self._redact: Redact = lambda record: redact_known(redact(record) if redact else record)
        self._meta["versions"] = {"selfsurf": _own_version(), **self._meta["versions"]}
        self._steps = 0
        self._reward = 0.0
        self._score: Mapping[str, Any] = {}
        self._judges = True
        self._claim()
        self._lines: TextIO = open_held(self.folder / "steps.jsonl", "w")

    @classmethod
    def reopen(cls, folder: Path, journal: Journal) -> EpisodeWriter:
        """Continue an unfinished episode that another process started.

        Raises:
            EpisodeError: the episode is missing or damaged.
        """
        path, writer = folder / "steps.jsonl", cls.__new__(cls)
        whole = path.read_bytes() if path.exists() else b""
        if (end := whole.rfind(b"\n") + 1) < len(whole):
            os.truncate(path, end)  # a last line cut off by a kill would corrupt the next one
        episode = Episode(folder)
        steps = list(episode.steps())
        writer.folder, writer.journal, redact = folder, journal, _redaction(episode.meta)
        writer._redact = lambda record: redact_known(redact(record) if redact else record)
        writer._meta, writer._steps = episode.meta, len(steps)
        writer._reward = sum(step["reward"] for step in steps)
        writer._score, writer._judges = steps[-1]["score"] if steps else {}, True
        writer._lines = open_held(path, "a")
        return writer

    @property
    def redacted_in_full(self) -> bool:
        """Whether the episode is redacted for sharing, so that nothing private may be stored beside it."""
        return bool(self._meta["redacted"] == "full")

    @property
    def steps(self) -> int:
        """Number of steps written so far."""
        return self._steps

    def note_before(self, event: str, **more: Any) -> None:
        """Write an imminent event of the current step to the journal, if the episode has one.

        The screenshot of an `observation` is saved as the step's artifact, for a record of the step after a kill.
        """
        if self.journal is not None:
            if "observation" in more:
                self._save_image(more["observation"])
                more["observation"] = observation_text(more["observation"])
            self.journal.write(self._steps, event, **more)

    def _claim(self) -> None:
        """Start the episode unless the folder contains one, safely even if two processes start at the same time."""
        try:
            lock = FolderLock(self.folder)
        except FolderInUse as error:
            raise EpisodeError(str(error)) from None
        try:
            if (self.folder / "episode.json").exists():
                raise EpisodeError(f"{self.folder} already holds an episode; choose another folder.")
            with room_in(self.folder):
                (self.folder / "artifacts").mkdir(exist_ok=True)
                self._write_meta(AGAIN)
        except NoRoom:
            with contextlib.suppress(OSError):
                (self.folder / "artifacts").rmdir()  # the episode has not begun, so its folder can be used again
            raise
        finally:
            lock.release()

    @property
    def trace_id(self) -> str | None:
        """ID of the episode's attempt log (docs/logs.md); None if there is none."""
        return self._meta["traceId"]

    def note(self, **meta: Any) -> None:
        """Add or correct metadata of the episode."""
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
        completions: Sequence[Mapping[str, Any]] = (),
        decision: Mapping[str, Any] | None = None,
        time: float | None = None,
        questions: Sequence[Mapping[str, Any]] | None = None,
        narration: str = "",
    ) -> None:
        """Add a step.

        Args:
            observation: observation on which the agent acted.
            action: action of the agent, in any form.
            reward: reward of the step.
            info: the environment's info after the step.
            after: observation after the step, for errors and events.
            privileged: the oracle's view of `observation`.
            policy: the step's only completion, in the form of `agents.play.provenance.policy_record`.
            completions: the step's completions if there are several, in the same form.
            decision: decision of the agent if no model was called.
            time: start of the step in Unix seconds; by default, the start of its action.
            questions: questions with their answers, as `{"question", "answer"}`; by default, that of an `ask_user`
                action.
            narration: the agent's description of the step in words.
        """
        done = form.action_entry(after["last_action"] or form.plain(action))
        record = {
            "step": self._steps,
            "time": clock.time() - info["timing"].get("total", 0.0) / 1000 if time is None else time,
            "observation": observation_text(observation),
            "screenshot": self._save_image(observation),
            **form.completions_and_decision([policy] if policy is not None else completions, decision),
            "narration": narration,
            "actions": [done],
            "action_path": info.get("action_path", ""),
            "questions": form.asked(done, observation, after) if questions is None else questions,
            "waiting": info.get("waiting"),
            "risk": info.get("risk"),
            "privileged": privileged,
            "reward": reward,
            "outcome": info["outcome"],
            "outcome_detail": info.get("outcome_detail", ""),
            "score": info["score"],
            "error": after["last_error"],
            "events": after["events"],
            "requests": info.get("requests"),
            "timing": dict(info["timing"]),
        }
        line = well_formed(json.dumps(self._redact(record), ensure_ascii=False, default=form.plain)) + "\n"
        with room_in(self.folder, ELSEWHERE):
            append_whole(self._lines.fileno(), line.encode())
            if self.journal is not None:
                os.fsync(self._lines.fileno())
        self._steps += 1
        self._reward += reward
        self._score = info["score"]
        self._judges = info.get("judged", True)

    def finish(
        self,
        outcome: str,
        *,
        trainable: bool,
        after: Observation | None = None,
        detail: str = "",
        score: Mapping[str, Any] | None = None,
        **totals: Any,
    ) -> None:
        """Close the episode and write its manifest.

        Args:
            outcome: final outcome of the episode.
            trainable: whether the episode may be used for training.
            after: the last observation.
            detail: reason for the outcome, in one sentence.
            score: details of the task's score; by default, those of the last step.
            totals: further totals besides steps and reward. `judged` is whether outcome and reward come from a task; by
                default true, except for `stopped`, and for `timeout` and `infeasible` if no task has judged them.
        """
        self._lines.close()
        full: NoRoom | None = None
        if after is not None:
            self._meta["final"] = observation_text(after)
            try:
                self._meta["final_screenshot"] = self._save_image(after)
            except NoRoom as error:  # the end is still written, without its screenshot
                full = error
        open_ends = ("stopped", "running") if self._judges else ("stopped", "running", "timeout", "infeasible")
        judged = outcome not in open_ends
        self._meta.update(
            outcome=outcome,
            outcome_detail=detail,
            trainable=trainable and self._meta["redacted"] != "full",
            score=self._score if score is None else score,
            ended=clock.time(),
            totals={"steps": self._steps, "reward": self._reward, "judged": judged, **totals},
        )
        self._write_meta()
        write_manifest(self.folder)
        if full is not None:
            raise full

    def discard(self) -> None:
        """Delete an episode in which nothing has happened, and its folder unless other files remain."""
        self._lines.close()
        for name in ("episode.json", "steps.jsonl"):
            (self.folder / name).unlink()
        for folder in (self.folder / "artifacts", self.folder):
            if not any(folder.iterdir()):
                folder.rmdir()

    def _save_image(self, observation: Observation) -> str | None:
        name = f"artifacts/{self._steps:04d}.png"
        if self._meta["redacted"] == "full":
            return None
        if "screenshot" not in observation:
            return name if self.journal is not None and (self.folder / name).exists() else None
        picture = observation["screenshot"]
        if self._saved is None or self._saved[0] != name or self._saved[1] is not picture:
            with room_in(self.folder, ELSEWHERE):
                write_whole(self.folder / name, encode_png(picture))
            self._saved = name, picture
        return name

    def _write_meta(self, then: str = ELSEWHERE) -> None:
        text = json.dumps(self._redact(self._meta), ensure_ascii=False, indent=1, default=form.plain)
        with room_in(self.folder, then):
            write_whole(self.folder / "episode.json", well_formed(text))


def _redaction(meta: Mapping[str, Any]) -> Redact | None:
    """Return the redaction function of an episode to be fully redacted; None for other episodes."""
    if meta["redacted"] != "full":
        return None
    from selfsurf.browser_env.record.redacted import in_full

    return in_full()


def write_manifest(folder: Path) -> None:
    """Write the manifest of a finished episode, or update it after an intended change."""
    text = json.dumps({"files": _hashes(folder)}, indent=1)
    write_atomically(folder / "manifest.json", text)


def change_meta(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change `episode.json` of a finished episode, and its hash in the manifest.

    The other files' hashes are left unchanged. A process killed meanwhile leaves the episode either unchanged or
    changed completely.

    Args:
        folder: folder of the episode.
        change: modifies the content of `episode.json` in place.

    Raises:
        EpisodeError: the episode is missing, unfinished, being written, or was changed or damaged since it ended.
    """
    episode, path = Episode(folder), folder / "episode.json"
    if episode.meta["outcome"] == "running":
        raise EpisodeError(f"The episode in {folder} has not ended, or was cut off.")
    try:
        lock = FolderLock(folder)
    except FolderInUse as error:
        raise EpisodeError(str(error)) from None
    try:
        files = {}
        if (folder / "manifest.json").exists():
            if damages := episode.damage():
                raise EpisodeError(f"The episode in {folder} was changed since it ended: {' '.join(damages)}")
            files = _manifest(folder)["files"]
        meta = json.loads(path.read_text(encoding="utf8"))
        change(meta)
        text = well_formed(json.dumps(redact_known(meta), ensure_ascii=False, indent=1, default=form.plain))
        if not files:  # format 1 has no manifest
            write_atomically(path, text)
            return
        after = {"episode.json": hashlib.sha256(text.encode()).hexdigest()}
        before = {"episode.json": hashlib.sha256(path.read_bytes()).hexdigest()}
        write_atomically(folder / "manifest.json", json.dumps({"files": {**files, **before}, "next": after}, indent=1))
        write_atomically(path, text)
        write_atomically(folder / "manifest.json", json.dumps({"files": {**files, **after}}, indent=1))
    finally:
        lock.release()


def _manifest(folder: Path) -> dict[str, dict[str, str]]:
    """Return the content of `manifest.json`: the `files`, and `next` while a file is being changed.

    Raises:
        EpisodeError: the manifest is missing or damaged.
    """
    path = folder / "manifest.json"
    try:
        manifest = json.loads(_read(path).decode())
        return {"files": dict(manifest["files"]), "next": dict(manifest.get("next", {}))}
    except FileNotFoundError:
        raise EpisodeError(f"There is no manifest in {folder}: the episode was cut off or is old.") from None
    except EpisodeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EpisodeError(f"{path} is damaged: {error}.") from None


def _hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of an episode."""
    files = [folder / "episode.json", folder / "steps.jsonl", *sorted((folder / "artifacts").rglob("*"))]
    return {file.relative_to(folder).as_posix(): _hash(file) for file in files if file.is_file()}


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def new_folder(name: str) -> Path:
    """Create and return a new folder under `runs/`, named after the time, such as `runs/run-20261122-101022`."""
    return numbered(Path("runs") / clock.strftime(f"{name}-%Y%m%d-%H%M%S"))


def numbered(first: Path) -> Path:
    """Create and return a folder with an unused name: `first`, or `first-2` and so on."""
    number, folder = 2, first
    while True:
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
        number, folder = number + 1, first.with_name(f"{first.name}-{number}")


def _read(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        EpisodeError: the path is not a regular file, or the file is too large.
    """
    kind = path.stat()
    if not stat.S_ISREG(kind.st_mode):
        raise EpisodeError(f"{path} is not a file.")
    if kind.st_size > LARGEST_READ:
        raise EpisodeError(f"{path} is too large: {kind.st_size:,} bytes.")
    return path.read_bytes()


class Episode:
    """An episode read from disk, converted to format 2 if necessary.

    `meta` is the content of `episode.json`. Fields unknown to this version are kept unchanged.

    Raises:
        EpisodeError: the folder contains no episode, or its format is unknown or damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = self.folder / "episode.json"
        try:
            meta = json.loads(_read(path).decode())
        except (FileNotFoundError, NotADirectoryError):
            raise EpisodeError(f"There is no episode in {self.folder} (no episode.json).") from None
        except EpisodeError:
            raise
        except (ValueError, RecursionError) as error:
            raise EpisodeError(f"{path} is damaged: {error}.") from None
        if not isinstance(meta, dict) or meta.get("format") not in form.READABLE:
            formats = " or ".join(map(str, form.READABLE))
            raise EpisodeError(f"{path} is not an episode of format {formats}.")
        try:
            self.meta = form.current_episode(meta)
        except (TypeError, ValueError, AttributeError) as error:
            raise EpisodeError(f"{path} is damaged: {error}.") from None
        if wrong := form.misfits(form.EPISODE, self.meta):
            raise EpisodeError(f"{path} is damaged: its {', '.join(wrong)}.")
        self.meta["goal"] = well_formed(self.meta["goal"])

    @property
    def being_written(self) -> bool:
        """Whether a process is still writing the episode; False if the episode was cut off."""
        return self.meta["outcome"] == "running" and is_held(self.folder / "steps.jsonl")

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yield the steps. A last line that was cut off by a kill is left out."""
        path = self.folder / "steps.jsonl"
        lines = _read(path).split(b"\n") if path.exists() else []
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                if number == len(lines):
                    return
                raise EpisodeError(f"{path}, line {number} is damaged: {error}.") from None
            try:
                step = form.current_step(record, self.meta["format"])
            except (TypeError, ValueError, AttributeError, KeyError) as error:
                raise EpisodeError(f"{path}, line {number} is damaged: {error!r}.") from None
            if wrong := form.misfits(form.STEP, step):
                raise EpisodeError(f"{path}, line {number} is damaged: its {', '.join(wrong)}.")
            yield step

    def damage(self) -> list[str]:
        """Compare the files with the manifest; return a sentence for each missing, changed or added file.

        Episodes of format 1 have no manifest; nothing is compared.

        Raises:
            EpisodeError: the manifest can't be read, or is missing because the episode has not ended.
        """
        if self.meta["format"] == 1 and not (self.folder / "manifest.json").exists():
            return []
        manifest = _manifest(self.folder)
        expected, later = manifest["files"], manifest["next"]
        found = _hashes(self.folder)
        missing = [f"{name} is missing." for name in expected if name not in found]
        changed = [
            f"{name} is damaged."
            for name in expected
            if name in found and found[name] not in (expected[name], later.get(name))
        ]
        added = [f"{name} is not in the manifest." for name in found if name not in expected]
        return missing + changed + added


def observation_text(observation: Observation) -> dict[str, Any]:
    """Return an observation without its screenshot, as plain data."""
    return {key: value for key, value in observation.items() if key != "screenshot"}


@cache
def _own_version() -> str:
    try:
        return version("selfsurf")
    except PackageNotFoundError:
        return "absent"
