"""Scenarios from real runs: an episode's goal and start page, with what its end shows, masked; alike ones only once.

A candidate is a goal's specification that a person reads, corrects and accepts. Criteria are only proposed where the
episode was judged solved and they tell its end from its start; else a model is to be asked.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from selfsurf.browser_env.classes import class_name
from selfsurf.browser_env.goal.check import SuccessChecker
from selfsurf.browser_env.goal.evidence import Evidence, evidence_of
from selfsurf.browser_env.goal.spec import GoalSpec, SpecError, spec_of
from selfsurf.browser_env.observe.outline import parse_outline
from selfsurf.browser_env.record.episode import Episode, write_atomically
from selfsurf.browser_env.record.verdict import verdict_of
from selfsurf.browser_env.safety.redaction import MASKS, masked
from selfsurf.envs_registry import is_open
from selfsurf.scripts.draft import as_toml
from selfsurf.tasks.goal import GoalTask

ALIKE = 0.8
"""Share of words and actions in common from which on two runs count as the same scenario."""

SUITE_FILE = '''"""Scenarios that were sampled from real runs, each in a file of its own."""

from pathlib import Path
from urllib.parse import quote

from selfsurf.envs_registry.suites import Suite, SuiteTask

SPECS = [quote(str(path)) for path in sorted(Path(__file__).resolve().parent.glob("*.toml"))]
SUITE = Suite("sampled", tasks=tuple(SuiteTask(f"selfsurf.tasks.goal:GoalTask?spec={path}") for path in SPECS))
'''
"""The suite that accepted scenarios are in."""

_HEADING = re.compile(r'heading "(.*)" level=\d+')


@dataclass
class Candidate:
    """A scenario that a person may accept."""

    name: str
    goal: str
    start: str
    criteria: list[dict[str, Any]]
    episodes: int = 1
    """How many runs were like it."""
    solved: int = 0
    """How many of these were judged solved."""
    alike: list[str] = field(default_factory=list)
    """What it is compared by: words of the goal, and what was done."""
    runs: list[str] = field(default_factory=list)
    """Those that were counted, each by its episode's id and when it began."""


@dataclass
class Sampled:
    """What became of the episodes."""

    candidates: list[Candidate]
    duplicates: int = 0
    left_out: int = 0
    """Episodes of tasks, which are scenarios already, and such without a goal, a page or an action."""


def sample(episodes: Iterable[Episode], known: Sequence[Candidate] = ()) -> Sampled:
    """Make candidates of real runs, besides those that are known.

    Raises:
        EpisodeError: one can't be read.
    """
    found = Sampled(list(known))
    counted = {run for one in known for run in one.runs}
    for episode in episodes:
        one = _candidate(episode)
        if one is None:
            found.left_out += 1
            continue
        if counted & {*one.runs}:
            found.duplicates += 1
            continue
        counted.update(one.runs)
        like = max(found.candidates, key=lambda each: _likeness(each, one), default=None)
        if like is None or _likeness(like, one) < ALIKE:
            found.candidates.append(one)
            continue
        found.duplicates += 1
        like.episodes += 1
        if one.solved and not like.solved and like.criteria == _asked(like.goal):  # else a person has corrected them
            like.criteria = one.criteria
        like.solved += one.solved
        like.runs += one.runs
    return found


def _candidate(episode: Episode) -> Candidate | None:
    steps = list(episode.steps())
    goal = " ".join(masked(episode.meta["goal"]).split())
    if not goal or not steps or not _own_goal(episode.meta["env_id"]):
        return None
    address = episode.meta["url"] or steps[0]["observation"]["url"]
    start = masked(str(address).partition("#")[0].partition("?")[0])
    if not start.startswith(("http://", "https://")):
        return None
    verdict = verdict_of(episode)
    solved = verdict is not None and verdict.solved
    words = sorted({word.casefold() for word in re.findall(r"\w+", goal)})
    done = [f"{at} {_done(step)}" for at, step in enumerate(steps) if not step["error"]]
    slug = "-".join(re.findall(r"[a-z0-9]+", goal.casefold())[:6])
    name = f"{slug}-{hashlib.sha256(f'{start} {goal}'.encode()).hexdigest()[:4]}"
    criteria = _criteria(episode, goal) if solved else []
    return Candidate(
        name, goal, start, criteria or _asked(goal), solved=int(solved), alike=[start, *words, *done],
        runs=[f"{episode.meta['episode_id']} {episode.meta['started']}"],
    )  # fmt: skip


def _asked(goal: str) -> list[dict[str, Any]]:
    """The criteria of a goal where none can be proposed."""
    return [{"question": f"Has this been done: {goal}"}]


def _own_goal(env_id: str) -> bool:
    """Is it for a goal of the user's own, rather than a task that is a scenario already?"""
    return is_open(env_id) or env_id.partition("?")[0] == class_name(GoalTask)


def _done(step: Mapping[str, Any]) -> str:
    """What an action did, without what was typed."""
    action = step["actions"][0]
    element = next((one for one in step["observation"]["elements"] if one["id"] == action.get("id")), None)
    what = f" {element['role']} {element['name']}" if element else ""
    return masked(f"{action.get('action', '')}{what}")


def _criteria(episode: Episode, goal: str) -> list[dict[str, Any]]:
    """Propose what the end shows and the start doesn't: a heading or a line of text, and the answer if it is short."""
    evidence = evidence_of(episode)
    final = evidence.final or {}
    before = {line.words for moment in evidence.moments for line in parse_outline(moment.seen["dom"])}
    new = [line for line in parse_outline(final.get("dom", "")) if line.id is None and line.words not in before]
    headings = [found[1] for line in new if (found := _HEADING.fullmatch(line.text))]
    texts = headings or [line.words for line in new if 2 <= len(line.words.split()) <= 12 and '"' not in line.text]
    proposed = [{"text": text} for text in texts[:1]]
    if evidence.answer and len(evidence.answer) <= 60:
        proposed.append({"answer": evidence.answer})
    kept = [one for one in proposed if masked(next(iter(one.values()))) == next(iter(one.values()))]
    if not kept:
        return []
    checker = SuccessChecker(
        GoalSpec(goal=goal, criteria=spec_of({"goal": goal, "criteria": kept}, "sampled").criteria)
    )
    start = Evidence(goal, final=evidence.moments[0].seen)
    tells = checker.judge(evidence).says == "solved" and checker.judge(start).says != "solved"
    return kept if tells else []


def _likeness(one: Candidate, other: Candidate) -> float:
    ones, others = set(one.alike), set(other.alike)
    return len(ones & others) / len(ones | others) if one.start == other.start else 0.0


def write_candidates(path: Path, candidates: Sequence[Candidate]) -> None:
    """Write candidates for a person to read, a table each."""
    head = "# Scenarios sampled from real runs. Read and correct each, then: selfsurf sample --accept NAME"
    tables = [f"[[candidates]]\n{as_toml(asdict(one))}" for one in candidates]
    write_atomically(path, "\n\n".join([head, *tables]) + "\n")


def read_candidates(path: Path) -> list[Candidate]:
    """Read what `write_candidates` wrote, as a person may have changed it; a file that is not there has none.

    Raises:
        SpecError: it has something else.
    """
    if not path.exists():
        return []
    try:
        return [Candidate(**one) for one in tomllib.loads(path.read_text(encoding="utf8")).get("candidates", ())]
    except (OSError, ValueError, TypeError) as error:
        raise SpecError(f"{path} does not hold candidates: {error}.") from None


def accept(candidates: Iterable[Candidate], folder: Path) -> list[Path]:
    """Make candidates scenarios of the suite in a folder, all or none; return their specifications' files.

    Raises:
        SpecError: one can't be a specification, has something masked in it, or there is one of its name.
    """
    texts = {folder / f"{one.name}.toml": _accepted(one, folder) for one in candidates}
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        write_atomically(path, text)
    suite = folder / "suite.py"
    if not suite.exists():
        write_atomically(suite, SUITE_FILE)
    return list(texts)


def _accepted(candidate: Candidate, folder: Path) -> str:
    """Return a candidate's specification as TOML, if it can be accepted."""
    data = {"goal": candidate.goal, "start": candidate.start, "criteria": candidate.criteria}
    spec_of(data, candidate.name)
    if left := [mask for mask in MASKS if mask in json.dumps(data)]:
        raise SpecError(f"{candidate.name} has {left[0]} in it: write something that may be used in its place.")
    path = folder / f"{candidate.name}.toml"
    if path.exists():
        raise SpecError(f"{path} is there already; give the candidate another name.")
    return as_toml(data) + "\n"
