"""Episodes from untrusted sources: accepted only if complete, of bounded size, and contained in their own folder.

Nothing that an episode names is opened, requested or run: no address, no path outside its folder, no task. The returned
data has the same types as an environment's own observations.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from selfsurf.browser_env.observation import ChatMessage, Element, Observation, Tab
from selfsurf.browser_env.record.episode import Episode, EpisodeError
from selfsurf.browser_env.record.verdict import verdict_of
from selfsurf.browser_env.text import one_line, well_formed

LARGEST_FILE = 256 * 2**20
"""Maximum size of one file of an episode in bytes, enough for a thousand steps on large pages."""

LARGEST = 2**30
"""Maximum size of an episode in bytes, screenshots included."""

MOST_FILES = 10_000
"""Maximum number of files of an episode."""

MOST_PIXELS = 50_000_000
"""Maximum number of pixels of a screenshot."""

LONGEST_GOAL = 20_000
"""Maximum length of a goal, and of an episode's names and addresses, in characters."""

LONGEST_PAGE = 8_000_000
"""Maximum length of a page's outline or text in characters, several times an observation's default limit."""

MOST_STEPS = 2_000
"""Maximum number of steps of an episode. Learning from one step takes all of them into account."""

_NUMBERS = range(2**31)
_IMAGE = re.compile(r"artifacts/[\w-][\w.-]*\.png")

T = TypeVar("T")


class UntrustedEpisode:
    """An episode that is complete, unchanged since it ended, and valid according to `docs/episodes.md`.

    Args:
        folder: folder of the episode.

    Raises:
        EpisodeError: a part is missing, damaged, too large or outside the folder; the message names the part.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            _check_files(folder)
            episode = Episode(folder)
            self.meta = _meta(episode.meta)
            verdict = verdict_of(episode)
            _check_manifest(episode)
            self.steps = []
            for index, record in enumerate(episode.steps()):
                if index == MOST_STEPS:
                    raise EpisodeError(f"it is too long: more than {MOST_STEPS:,} steps")
                self.steps.append(_step(record, index))
            self.solved = verdict is not None and verdict.solved
            """Whether the episode counts as solved (`browser_env.record.verdict`)."""
            self.judged = verdict is not None
            """Whether the episode has a verdict."""
            self.final = _final(self.meta["final"])
            """Observation after the last step; None if it is unknown."""
        except EpisodeError as error:
            raise EpisodeError(one_line(str(error))) from None
        except (ArithmeticError, AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
            raise EpisodeError(f"it is damaged: {one_line(str(error)) or type(error).__name__}") from None

    def screenshot(self, index: int) -> Any:
        """Return the screenshot of a step as uint8 RGB (height, width, 3); None if none was taken.

        Raises:
            EpisodeError: the file is not a picture, or the picture is too large.
        """
        import numpy as np
        from PIL import Image, UnidentifiedImageError

        name = self.steps[index]["screenshot"]
        if name is None:
            return None

        try:
            with Image.open(self.folder / name, formats=["PNG"]) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise ValueError(f"{image.width} x {image.height} pixels are too many")
                return np.asarray(image.convert("RGB"))
        except (OSError, SyntaxError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise EpisodeError(f"{name} can't be read: {one_line(str(error))}") from None


def _final(record: Mapping[str, Any] | None) -> Observation | None:
    """Return the last observation; None if it is missing or, as in earlier versions, incomplete."""
    try:
        return None if record is None else observation_of(record)
    except EpisodeError:
        return None


def _check_files(folder: Path) -> None:
    """Reject links, devices and oversized files, so that reading the folder terminates and stays inside it."""
    if folder.is_symlink():
        raise EpisodeError("it is a symbolic link")
    total = count = 0
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place, name)
            kind = path.lstat()
            told = path.relative_to(folder).as_posix()
            if not stat.S_ISREG(kind.st_mode) and not stat.S_ISDIR(kind.st_mode):
                raise EpisodeError(f"{told} is a link or a device, not a regular file")
            if stat.S_ISREG(kind.st_mode):
                total, count = total + kind.st_size, count + 1
            if kind.st_size > LARGEST_FILE or total > LARGEST or count > MOST_FILES:
                more = f", and the first {count:,} files together {total:,}" if count > 1 else ""
                raise EpisodeError(f"it is too large: {told} has {kind.st_size:,} bytes{more}")
    for name in ("episode.json", "steps.jsonl"):
        if not (folder / name).is_file():
            raise EpisodeError(f"{name} is missing")


def _check_manifest(episode: Episode) -> None:
    if (episode.folder / "manifest.json").exists():
        if found := episode.damage():
            raise EpisodeError(" ".join(found[:3]))
    elif episode.meta["format"] > 1:
        raise EpisodeError("it was cut off, or its manifest.json is missing")


def _meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    if meta.get("redacted") == "full":
        raise EpisodeError("it was redacted in full, so it has no texts to learn from")
    for name in ("env_id", "goal", "outcome"):
        _text(meta[name], name)
    for name in ("task", "url"):
        if meta[name] is not None:
            _text(meta[name], name)
    for name in ("env_id", "goal", "outcome", "task", "url"):
        _bounded(meta[name] or "", name)
    if meta["seed"] is not None:
        _whole(meta["seed"], "seed", range(2**63))
    for name, kind in (("recorded", bool), ("totals", dict)):
        if not isinstance(meta[name], kind):
            raise ValueError(f"{name} of episode.json is not a {kind.__name__}")
    return {**meta, **{name: _text(meta[name], name) for name in ("env_id", "goal", "outcome")}}


def _bounded(text: str, name: str, most: int = LONGEST_GOAL) -> None:
    if len(text) > most:
        raise EpisodeError(f"its {name} is too long: {len(text):,} characters of at most {most:,}")


def _step(record: Mapping[str, Any], index: int) -> dict[str, Any]:
    where = f"step {index}"
    if _whole(record["step"], "step") != index:
        raise EpisodeError(f"{where} is missing")
    _bounded(_text(record["observation"]["goal"], "goal"), f"goal of {where}")
    seen = observation_of(record["observation"], where)
    _bounded(max(seen["dom"], seen["page_text"], key=len), f"page of {where}", LONGEST_PAGE)
    image = record["screenshot"]
    if image is not None and not (isinstance(image, str) and _IMAGE.fullmatch(image)):
        raise EpisodeError(f"{where} names a screenshot outside artifacts/")
    if not _list(record["actions"], "actions") or not all(isinstance(one, dict) for one in record["actions"]):
        raise EpisodeError(f"{where} has no action")
    for one in _list(record["completions"], "completions"):
        for name in ("text", "thinking", "error"):
            one[name] = _text(one.get(name, ""), name)
        one["prompt"] = [
            {name: _text(message[name], name) for name in ("role", "text")}
            for message in _list(one.get("prompt", []), "prompt")
        ]
    decision = record["decision"]
    if decision is not None:
        graph = decision.get("graph") or {}
        told, instead = _text(graph.get("told", ""), "told"), bool(graph.get("instead"))
        decision = {
            **decision, "guard": _text(decision.get("guard", ""), "guard"),
            "graph": {**graph, "told": told, "instead": instead},
        }  # fmt: skip
    return {
        **record,
        "observation": seen,
        "reward": _number(record["reward"], "reward"),
        "error": _text(record["error"], "error"),
        "decision": decision,
    }


def observation_of(record: Mapping[str, Any], where: str = "") -> Observation:
    """Restore an observation from its record on disk, without the screenshot.

    Args:
        record: the recorded observation.
        where: prefix of error messages.

    Raises:
        EpisodeError: a part of the observation is missing or has the wrong type.
    """
    try:
        elements = tuple(map(_element, _list(record["elements"], "elements")))
        if len({one["id"] for one in elements}) < len(elements):
            raise ValueError("two elements have the same id")
        texts = ("goal", "url", "title", "dom", "page_text", "last_action", "last_error")
        whole: dict[str, Any] = {
            **{name: _text(record[name], name) for name in texts},
            "tabs": tuple(
                Tab(url=_text(one["url"], "url"), title=_text(one["title"], "title"), active=bool(one["active"]))
                for one in _list(record["tabs"], "tabs")
            ),
            "elements": elements,
            "events": _texts(record["events"], "events"),
            "messages": tuple(
                ChatMessage(role=_text(one["role"], "role"), text=_text(one["text"], "text"))
                for one in _list(record["messages"], "messages")
            ),
        }
    except KeyError as error:
        raise EpisodeError(f"{where} has no {error.args[0]!s:.40} of the page".strip()) from None
    except (TypeError, ValueError) as error:
        raise EpisodeError(f"{where} is damaged: {error}".strip()) from None
    return cast(Observation, whole)


def _element(record: Mapping[str, Any]) -> Element:
    box = [_number(one, "bbox") for one in _list(record["bbox"], "bbox")]
    if len(box) != 4:
        raise ValueError("bbox does not have four numbers")
    return Element(
        id=_whole(record["id"], "id"),
        role=_text(record["role"], "role"),
        name=_text(record["name"], "name"),
        tag=_text(record["tag"], "tag"),
        value=_text(record["value"], "value"),
        states=_texts(record["states"], "states"),
        bbox=(box[0], box[1], box[2], box[3]),
        in_viewport=bool(record["in_viewport"]),
        frame=_text(record["frame"], "frame"),
        options=_texts(record.get("options", []), "options"),  # missing in older episodes
    )


def _of(kind: type[T]) -> Callable[[Any, str], T]:
    def checked(value: Any, name: str) -> T:
        if not isinstance(value, kind):
            raise ValueError(f"{name} is not a {kind.__name__}")
        return value

    return checked


_str, _list = _of(str), cast("Callable[[Any, str], list[Any]]", _of(list))


def _text(value: Any, name: str) -> str:
    return well_formed(_str(value, name))


def _texts(values: Any, name: str) -> tuple[str, ...]:
    return tuple(_text(value, name) for value in _list(values, name))


def _whole(value: Any, name: str, among: range = _NUMBERS) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in among:
        raise ValueError(f"{name} is not a non-negative integer")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} is not a number")
    return value
