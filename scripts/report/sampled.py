"""Scenarios sampled from real runs: goal, start page and masked criteria from the last page, without duplicates.

A candidate is a goal's specification that a person reads, corrects and accepts. Criteria are proposed only if the
episode was judged solved and they distinguish its end from its start; otherwise a question for a model is proposed.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selfsurf.browser_env.classes import class_name
from selfsurf.browser_env.goal.check import SuccessChecker
from selfsurf.browser_env.goal.evidence import SAYS, Evidence, evidence_of
from selfsurf.browser_env.goal.spec import GoalSpec, SpecError, read_spec, spec_of
from selfsurf.browser_env.outline import parse_outline
from selfsurf.browser_env.record.episode import Episode, EpisodeError, write_atomically
from selfsurf.browser_env.record.verdict import verdict_of
from selfsurf.browser_env.safety import redaction
from selfsurf.browser_env.safety.private_text import PHONE, PHONE_MARK, is_phone
from selfsurf.envs_registry import OPEN
from selfsurf.scripts.terminal.toml import as_toml, toml_value
from selfsurf.tasks.goal import GoalTask

ALIKE = 0.8
"""Minimum share of common words and actions for two runs to count as the same scenario."""

SUITE_FILE = '''"""Scenarios that were sampled from real runs, each in a file of its own."""

from pathlib import Path
from urllib.parse import quote

from selfsurf.envs_registry.suites import Suite, SuiteTask

SPECS = [quote(str(path)) for path in sorted(Path(__file__).resolve().parent.glob("*.toml"))]
SUITE = Suite("sampled", tasks=tuple(SuiteTask(f"selfsurf.tasks.goal:GoalTask?spec={path}") for path in SPECS))
'''
"""Source of the suite of accepted scenarios."""

_HEADING = re.compile(r'heading "(.*)" level=\d+')
_CONSENT = {"all", "complete", "completed", "done", "finished", "goal", "is", "it", "ok", "okay", "task", "the"}
"""Words of answers that only confirm that the goal was reached."""
_NUMBERED = re.compile(r"(.*-[0-9a-f]{4})-\d+")
"""Pattern of the file name of a scenario that was accepted as `NAME#1`."""


@dataclass
class Candidate:
    """A scenario that a person may accept."""

    name: str
    goal: str
    start: str
    criteria: list[dict[str, Any]]
    episodes: int = 1
    """Number of similar runs, including the first."""
    solved: int = 0
    """Number of similar runs that were judged solved."""
    alike: list[str] = field(default_factory=list)
    """Features compared between candidates: start page, words of the goal, and actions."""
    runs: list[str] = field(default_factory=list)
    """Counted runs, each as its episode's id and start time."""

    @property
    def described(self) -> str:
        """Description that distinguishes candidates of the same name: number of runs, and actions."""
        done = ", ".join(each.partition(" ")[2] for each in self.alike if re.match(r"\d+ \S+", each))
        return f"{self.episodes} episodes, {self.solved} solved ({done or 'nothing was done without an error'})"


@dataclass
class CandidateFile:
    """The content of a file of candidates."""

    candidates: list[Candidate] = field(default_factory=list)
    accepted: list[Candidate] = field(default_factory=list)
    """Scenarios already in the suite, kept so that similar runs are counted and not proposed again."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Reasons why runs made no candidate, by run."""
    duplicates: int = 0
    """Number of episodes in this call that resembled others."""

    def as_json(self) -> dict[str, Any]:
        """Return the content as plain data; of the runs left out, the number by reason."""
        return {**asdict(self), "left_out": len(self.left_out), "reasons": self.reasons}

    @property
    def reasons(self) -> dict[str, int]:
        """Number of runs left out, by reason."""
        return dict(Counter(self.left_out.values()).most_common())

    def counts(self, file: str) -> dict[str, Any]:
        """Return the numbers of runs, candidates and scenarios for a report. `file` is the name of their file."""
        found = [*self.candidates, *self.accepted]
        return {
            "file": file, "runs": sum(one.episodes for one in found), "solved": sum(one.solved for one in found),
            "candidates": len(self.candidates), "accepted": len(self.accepted), "left_out": self.reasons,
        }  # fmt: skip


class _NoCandidate(Exception):
    """An episode that makes no candidate; the message gives the reason."""


def sample(
    folders: Iterable[Path], known: CandidateFile, since: float = 0.0, suite: Path | None = None
) -> CandidateFile:
    """Add candidates from real runs to the known ones.

    Args:
        folders: Folders of episodes.
        known: Known candidates; changed and returned.
        since: Unix seconds; episodes that ended earlier are left out.
        suite: Folder of accepted scenarios, possibly from other files of candidates, which make no candidate again.
    """
    there = _scenarios(suite)
    known.duplicates = 0
    counted = {run for one in (*known.candidates, *known.accepted) for run in one.runs}
    for folder in folders:
        run = str(folder)
        try:
            episode = Episode(folder)
            run = f"{episode.meta['episode_id']} {episode.meta['started']}"
            if episode.meta["outcome"] != "running" and (episode.meta["ended"] or 0) < since:
                if run not in counted:
                    known.left_out.setdefault(run, "it ended before --since")
                continue
            one = _candidate(episode, run)
        except _NoCandidate as why:
            known.left_out[run] = str(why)
            continue
        except EpisodeError:
            known.left_out[run] = "it can't be read"
            continue
        for key in (run, str(folder)):
            known.left_out.pop(key, None)
        if run in counted:
            known.duplicates += 1
            continue
        like = max((*known.candidates, *known.accepted), key=lambda each: _likeness(each, one), default=None)
        if like is None or _likeness(like, one) < ALIKE:
            if not there.isdisjoint([one.name, (one.goal, one.start)]):
                known.left_out[run] = "its scenario is already accepted"
                continue
            counted.add(run)
            known.candidates.append(one)
            continue
        counted.add(run)
        known.duplicates += 1
        like.episodes += 1
        # otherwise a person has edited the criteria
        if one.solved and not like.solved and like.criteria == _asked(like.goal):
            like.criteria = one.criteria
        like.solved += one.solved
        like.runs += one.runs
    return known


def _scenarios(suite: Path | None) -> set[Any]:
    """Return the names of the accepted scenarios in a folder, and the goal with the start page of each."""
    found: set[Any] = set()
    for path in suite.glob("*.toml") if suite is not None else ():
        numbered = _NUMBERED.fullmatch(path.stem)
        found.add(numbered[1] if numbered else path.stem)
        with suppress(SpecError):
            spec = read_spec(path)
            found.add((spec.goal, spec.start))
    return found


def _candidate(episode: Episode, run: str) -> Candidate:
    """Return the candidate of a run.

    Raises:
        _NoCandidate: The run makes none.
        EpisodeError: The episode can't be read.
    """
    if not _own_goal(episode.meta["env_id"]):
        raise _NoCandidate("its goal is that of a task")
    if episode.meta["outcome"] == "running":
        raise _NoCandidate("it has not ended")
    goal = " ".join(masked(episode.meta["goal"]).split())
    if not goal:
        raise _NoCandidate("it has no goal")
    steps = list(episode.steps())
    if not steps:
        raise _NoCandidate("nothing was done in it")
    address = episode.meta["url"] or steps[0]["observation"]["url"]
    start = masked(str(address).partition("#")[0].partition("?")[0])
    if not start.startswith(("http://", "https://")):
        raise _NoCandidate("it did not start on a web page")
    verdict = verdict_of(episode)
    solved = verdict is not None and verdict.solved
    words = sorted({word.casefold() for word in re.findall(r"\w+", goal)})
    done = [f"{at} {_done(step)}" for at, step in enumerate(steps) if not step["error"]]
    slug = "-".join(re.findall(r"[a-z0-9]+", goal.casefold())[:6])
    name = f"{slug}-{hashlib.sha256(f'{start} {goal}'.encode()).hexdigest()[:4]}"
    criteria = _criteria(episode, goal) if solved else []
    return Candidate(
        name, goal, start, criteria or _asked(goal), solved=int(solved), alike=[start, *words, *done], runs=[run]
    )


def _asked(goal: str) -> list[dict[str, Any]]:
    """Return the criteria of a goal if none can be proposed: a question for a model."""
    return [{"question": f"Has this been done: {goal}"}]


def _own_goal(env_id: str) -> bool:
    """Whether an episode is for a user's own goal, rather than for a task that is already a scenario."""
    return env_id.partition("?")[0] in (OPEN, class_name(GoalTask))


def _done(step: Mapping[str, Any]) -> str:
    """Return a description of a step's action without typed text."""
    action = step["actions"][0]
    element = next((one for one in step["observation"]["elements"] if one["id"] == action.get("id")), None)
    what = f" {element['role']} {element['name']}" if element else ""
    return masked(f"{action.get('action', '')}{what}")


def masked(text: str) -> str:
    """Return a text with private data masked, including unlabelled telephone numbers."""

    def dialled(found: re.Match[str]) -> str:
        grouped = found[0].startswith("0") and not found[0].isdigit()
        return PHONE_MARK if (grouped or found[0][0] in "+(") and is_phone(found[0]) else found[0]

    return re.sub(rf"(?<![\w.,/-]){PHONE.pattern}", dialled, redaction.masked(text))


def _criteria(episode: Episode, goal: str) -> list[dict[str, Any]]:
    """Propose criteria met only at the episode's end: the address, a heading or line of text, an informative answer."""
    evidence = evidence_of(episode)
    final = evidence.final or {}
    moments = [*evidence.moments]
    while len(moments) > 1 and all(one.get("action") in SAYS for one in moments[-1].actions):
        moments.pop()  # steps that only end the episode show the last page again
    before = {line.words for moment in moments for line in parse_outline(moment.seen["dom"])}
    new = [line for line in parse_outline(final.get("dom", "")) if line.id is None and line.words not in before]
    headings = [found[1] for line in new if (found := _HEADING.fullmatch(line.text))]
    texts = headings or [line.words for line in new if 2 <= len(line.words.split()) <= 12 and '"' not in line.text]
    url = urlsplit(final.get("url", ""))
    proposed = [{"url": url.path}] if url.netloc and url.path != "/" and not re.search(r"\d{3}", url.path) else []
    proposed += [{"text": text} for text in texts[:1]]
    answer = evidence.answer or ""
    if len(answer) <= 60 and set(re.findall(r"\w+", answer.casefold())) - _CONSENT:
        proposed.append({"answer": answer})
    start = Evidence(goal, final=evidence.moments[0].seen)
    plain = [one for one in proposed if masked(next(iter(one.values()))) == next(iter(one.values()))]
    return [one for one in plain if _says(one, evidence) == "solved" and _says(one, start) != "solved"]


def _says(criterion: dict[str, Any], evidence: Evidence) -> str:
    """Return the verdict on an episode by a single criterion."""
    spec = spec_of({"goal": evidence.goal, "criteria": [criterion]}, "sampled")
    return SuccessChecker(GoalSpec(goal=evidence.goal, criteria=spec.criteria)).judge(evidence).says


def _likeness(one: Candidate, other: Candidate) -> float:
    ones, others = set(one.alike), set(other.alike)
    return len(ones & others) / len(ones | others) if one.start == other.start else 0.0


def by_handle(candidates: Sequence[Candidate]) -> dict[str, Candidate]:
    """Return candidates by their handle for `--accept`: the name, or `NAME#1`, `NAME#2` if several share a name."""
    names, seen, handles = Counter(one.name for one in candidates), Counter[str](), {}
    for one in candidates:
        seen[one.name] += 1
        handles[one.name if names[one.name] == 1 else f"{one.name}#{seen[one.name]}"] = one
    return handles


def write_samples(path: Path, sampled: CandidateFile) -> None:
    """Write a table for each candidate for a person to read, then the accepted ones and those left out."""
    head = "# Scenarios sampled from real runs. Read and correct each, then: selfsurf sample --accept NAME"
    tables = [f"[[candidates]]\n{as_toml(asdict(one))}" for one in sampled.candidates]
    tables += [f"[[accepted]]\n{as_toml(asdict(one))}" for one in sampled.accepted]
    if sampled.left_out:
        lines = [f"{toml_value(run)} = {toml_value(why)}" for run, why in sampled.left_out.items()]
        tables.append("\n".join(["[left_out]", *lines]))
    write_atomically(path, "\n\n".join([head, *tables]) + "\n")


def read_samples(path: Path) -> CandidateFile:
    """Read a file of `write_samples`, possibly edited by a person; a missing file has no candidates.

    Raises:
        SpecError: The content is invalid.
    """
    if not path.exists():
        return CandidateFile()
    try:
        data = tomllib.loads(path.read_text(encoding="utf8"))
        candidates, accepted = ([Candidate(**one) for one in data.get(key, ())] for key in ("candidates", "accepted"))
        return CandidateFile(
            candidates, accepted, {str(run): str(why) for run, why in data.get("left_out", {}).items()}
        )
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SpecError(f"{path} does not hold candidates: {error}.") from None


def accept(candidates: Mapping[str, Candidate], folder: Path) -> list[Path]:
    """Add candidates to the suite in a folder, all or none; return their specification files.

    Args:
        candidates: Candidates by handle (`by_handle`), which names the file.
        folder: Folder of the suite.

    Raises:
        SpecError: A candidate is not a valid specification, contains masked text, or has the name of an existing one.
    """
    paths = {handle: folder / f"{handle.replace('#', '-')}.toml" for handle in candidates}
    texts = {paths[handle]: _accepted(one, paths[handle]) for handle, one in candidates.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        write_atomically(path, text)
    suite = folder / "suite.py"
    if not suite.exists():
        write_atomically(suite, SUITE_FILE)
    return list(texts)


def _accepted(candidate: Candidate, path: Path) -> str:
    """Return the specification of a valid candidate as TOML."""
    data = {"goal": candidate.goal, "start": candidate.start, "criteria": candidate.criteria}
    spec_of(data, candidate.name)
    if left := [mask for mask in redaction.MASKS if mask in json.dumps(data)]:
        raise SpecError(f"{candidate.name} contains the mask {left[0]}: replace the mask with text that may be used.")
    if path.exists():
        raise SpecError(f"{path} already exists; give the candidate another name.")
    return as_toml(data) + "\n"
