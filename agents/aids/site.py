"""The memory of a site between episodes: a small file a site, of how goals were reached there.

Only episodes that reached their goal, as their task or else the agent says, are kept: their goal, and the kinds of
actions with what the elements were called; nothing that was typed. It is told again where the site is open, also to
another agent: whoever compares agents leaves it out, or gives each a folder of its own.
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
"""Goals that are told, steps of each, and goals of a site that are read."""

LONGEST = 200
"""Characters of a goal that are kept."""


class SiteMemory(Aid):
    """Tells how goals like this one were reached on the site that is open.

    Args:
        folder: with a file for each site, for its user's eyes only.
    """

    name = "site"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._goal = ""
        self._steps: dict[str, list[str]] = {}
        """By site."""
        self._last = ""
        """The site of the last action, if that is kept."""

    def told(self, obs: Observation, goal: str) -> str:
        """As `Aid.told`."""
        self._goal = goal
        site = site_of(obs["url"])
        known = read(self._folder / f"{site}.jsonl") if site else []
        near = sorted(known, key=lambda one: _likeness(one["goal"], goal), reverse=True)[:TOLD]
        told = [f"{json.dumps(one['goal'], ensure_ascii=False)} by {', '.join(one['steps'][:STEPS])}" for one in near]
        return f"On this site earlier goals were reached: {'; '.join(told)}." if told else ""

    def did(self, action: Action, obs: Observation, entry: str) -> None:
        """As `Aid.did`."""
        self._last = ""
        if (site := site_of(obs["url"])) and action.name not in ("finish", "infeasible", "wait"):
            self._steps.setdefault(site, []).append(_what(action, obs))
            self._last = site

    def take_back(self) -> None:
        """As `Aid.take_back`."""
        del self._steps.get(self._last, [])[-1:]
        self._last = ""

    def ended(self, *, reached: bool) -> None:
        """As `Aid.ended`."""
        for site, steps in self._steps.items() if reached else ():
            if not steps:
                continue
            self._folder.mkdir(parents=True, exist_ok=True)
            line: dict[str, Any] = {"time": time.time(), "goal": self._goal[:LONGEST], "steps": steps[:STEPS]}
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND  # several episodes may write at once
            with os.fdopen(os.open(self._folder / f"{site}.jsonl", flags, 0o600), "ab", buffering=0) as file:
                file.write(f"{json.dumps(redact_known(line), ensure_ascii=True)}\n".encode())


def site_of(url: str) -> str:
    """Return what a site's file is called: its host and port; empty for a page that is on no host."""
    try:
        parts = urlsplit(url)
        return re.sub(r"[^\w.-]", "_", parts.netloc.rpartition("@")[2]) if parts.hostname else ""
    except ValueError:
        return ""


def read(path: Path) -> list[dict[str, Any]]:
    """Return what a file holds, the latest of each goal; lines that are damaged are passed over."""
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
    """The share of words that two goals have in common."""
    words = [set(re.findall(r"\w+", text.lower())) for text in (one, other)]
    return len(words[0] & words[1]) / max(1, len(words[0] | words[1]))
