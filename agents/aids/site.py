"""Memory of sites across episodes: one small file per site, with the steps by which goals were reached.

Only successful episodes (by the task's verdict, or else the agent's claim) are recorded: their goal, and the kinds of
actions with the elements' labels, but no typed text. The memory is shown to any agent on the same site; to compare
agents, disable it or give each agent its own folder.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selfsurf.agents.aids.base import Aid
from selfsurf.agents.prompt.page import label
from selfsurf.browser_env import Action, Observation
from selfsurf.browser_env.safety.secrets import redact_known

TOLD, STEPS, KEPT = 2, 8, 50
"""Maximum numbers of goals in a report, of steps per goal, and of lines read from a site's file."""

LONGEST = 200
"""Maximum length of a recorded goal, in characters."""


class SiteMemory(Aid):
    """Reports how similar goals were reached earlier on the open site.

    Args:
        folder: folder with one file per site, readable by the user only.
    """

    name = "site"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._goal = ""
        self._steps: dict[str, list[str]] = {}
        """Steps of the episode by site."""
        self._last = ""
        """The site of the last action if the action was recorded, else empty."""

    def told(self, obs: Observation, goal: str) -> str:
        """Return the most similar recorded goals of the open site, with their steps; empty for none."""
        self._goal = goal
        site = site_of(obs["url"])
        known = read(self._folder / f"{site}.jsonl") if site else []
        near = sorted(known, key=lambda one: _likeness(one["goal"], goal), reverse=True)[:TOLD]
        told = [f"{json.dumps(one['goal'], ensure_ascii=False)} by {', '.join(one['steps'][:STEPS])}" for one in near]
        return f"On this site earlier goals were reached: {'; '.join(told)}." if told else ""

    def did(self, action: Action, obs: Observation, entry: str) -> None:
        """Record an action as a step on its site, unless it is a wait or ends the episode."""
        self._last = ""
        if (site := site_of(obs["url"])) and action.name not in ("finish", "infeasible", "wait"):
            self._steps.setdefault(site, []).append(_what(action, obs))
            self._last = site

    def take_back(self) -> None:
        """Remove the last recorded step, whose action was not executed."""
        del self._steps.get(self._last, [])[-1:]
        self._last = ""

    def ended(self, *, reached: bool) -> None:
        """Append the episode's steps to the files of its sites if the goal was reached."""
        for site, steps in self._steps.items() if reached else ():
            if not steps:
                continue
            self._folder.mkdir(parents=True, exist_ok=True)
            line: dict[str, Any] = {"time": time.time(), "goal": self._goal[:LONGEST], "steps": steps[:STEPS]}
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND  # several episodes may write concurrently
            with os.fdopen(os.open(self._folder / f"{site}.jsonl", flags, 0o600), "ab", buffering=0) as file:
                file.write(f"{json.dumps(redact_known(line), ensure_ascii=True)}\n".encode())


def site_of(url: str) -> str:
    """Return the base name of a site's file, its host and port; empty for a page without a host."""
    try:
        parts = urlsplit(url)
        return re.sub(r"[^\w.-]", "_", parts.netloc.rpartition("@")[2]) if parts.hostname else ""
    except ValueError:
        return ""


def read(path: Path) -> list[dict[str, Any]]:
    """Return the goals recorded in a file, the latest record of each; damaged lines are skipped."""
    found: dict[str, dict[str, Any]] = {}
    if path.exists():
        for line in path.read_text(encoding="utf8", errors="replace").splitlines()[-KEPT:]:
            try:
                one = json.loads(line)
                found[str(one["goal"])] = {"goal": str(one["goal"]), "steps": [str(step) for step in one["steps"]]}
            except (ValueError, KeyError, TypeError):
                continue
    return [*found.values()]


def _what(action: Action, obs: Observation) -> str:
    number = getattr(action, "id", None)
    element = next((one for one in obs["elements"] if one["id"] == number), None)
    return action.name if element is None else f"{action.name} {label({**element, 'value': '', 'states': ()})}"


def _likeness(one: str, other: str) -> float:
    """Return the word overlap (Jaccard index) of two goals."""
    words = [set(re.findall(r"\w+", text.lower())) for text in (one, other)]
    return len(words[0] & words[1]) / max(1, len(words[0] | words[1]))
