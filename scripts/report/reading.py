"""Reader of results folders, which refuses a folder that would give wrong figures.

run.json         the request: suite, agent, tasks, seeds, versions
results.jsonl    a line per episode, in the order in which they finished
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from selfsurf.browser_env.text import well_formed_json

FORMAT = 1
"""Format version of a results folder; others are refused."""

RERUNS = 2
"""Number of times that later commands rerun an episode that ended as `env_error`."""

Pair = tuple[str, int]
"""A task and a seed, which identify an episode of a run."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Ended = Literal["solved", "failed", "infeasible", "timeout", "stopped", "env_error"]
M = TypeVar("M", bound=BaseModel)


class ResultsError(ValueError):
    """A results folder that can't be read; the message names the place and the remedy."""


class AskedTask(BaseModel):
    """A task that the run was to play."""

    id: str
    split: str = ""
    groups: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    """Options passed to the task; different options make a different task."""
    sha256: str = ""
    """Hash of the source and pages of a user's own task; empty for others."""


class Git(BaseModel):
    """Git state of the code."""

    revision: str
    dirty: bool = False


class LostWorker(BaseModel):
    """A worker that was lost during a run."""

    worker: int
    place: str = ""
    why: str
    again: Count = 0
    """Number of episodes that were run again."""
    left: Count = 0
    """Number of workers that remained."""
    seconds: Amount = 0.0
    """Seconds since the process began."""


class Session(BaseModel):
    """The work of one process of the run, up to its end or kill."""

    seconds: Amount
    episodes: Count
    workers: Count = 1
    stopped: str = ""
    """Reason for an early end, if the process recorded one."""
    lost: tuple[LostWorker, ...] = ()
    versions: dict[str, Any] = {}
    """Versions of the session's code, if they differ from the run's; likewise `git`."""
    git: Git | None = None


class Agent(BaseModel):
    """The agent of a run, with hashes that distinguish adapters and models of the same name."""

    name: str
    backend: str = ""
    model: str | None = None
    adapter: str | None = None
    model_sha256: str | None = None
    adapter_sha256: str | None = None
    options: dict[str, Any] = {}


class Run(BaseModel):
    """The content of `run.json`. Unknown keys are kept, and shown in the description of the run."""

    model_config = ConfigDict(extra="allow")

    format: int
    suite: str
    agent: Agent
    tasks: tuple[AskedTask, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    max_steps: int | None = None
    retries: int = 0
    versions: dict[str, Any] = {}
    git: Git | None = None
    command: tuple[str, ...] = ()
    started: str = ""
    host: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    """Settings of the environment that were given explicitly."""
    sessions: tuple[Session, ...] = ()


class Line(BaseModel):
    """A line of `results.jsonl`: the result of an episode."""

    task: str
    seed: int
    outcome: Ended
    outcome_detail: str = ""
    reward: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    raw_reward: Finite | None = None
    """Task's own unscaled reward; None if the task has none."""
    time_reward: Finite | None = None
    """Task's own reward scaled by the remaining time, as in MiniWoB++; None for other tasks."""
    steps: Count
    claimed: bool | None = None
    """Whether the agent ended the episode by declaring it done; None in older results."""
    rejected: Count = 0
    """Number of claims that the agent's verifier rejected."""
    wrongly_rejected: Count | None = None
    """Number of rejected claims that were true; None if unknown."""
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cost: Amount | None = None
    seconds: Amount
    agent_seconds: Amount = 0.0
    env_seconds: Amount = 0.0
    attempts: Count = 1
    last_error: str = ""
    reason: str = ""
    answer: str = ""
    episode: str | None = None
    screenshot: str | None = None
    env_errors: Count = 0
    """Attempts that ended as `env_error`, over all runs of the episode."""
    crashes: Count = 0
    """Number of `env_error` attempts that failed during the agent's action."""
    lost_cost: Amount = 0.0
    """Cost of the attempts that ended as `env_error`, in US dollars."""
    judged: bool = True
    """Whether the episode was judged; False if it was played to its end and nothing judges it."""
    traceback: str = ""

    @property
    def pair(self) -> Pair:
        """Task and seed of the episode."""
        return self.task, self.seed

    @property
    def strict(self) -> bool:
        """Whether the task's own reward is 1."""
        return self._own == 1

    @property
    def lenient(self) -> bool:
        """Whether the task's own reward is above 0."""
        return self._own > 0

    @property
    def false_claim(self) -> bool | None:
        """Whether the agent claimed to be done with the task's own reward below 1; None in older results."""
        return None if self.claimed is None else self.claimed and not self.strict

    @property
    def counted(self) -> bool:
        """Whether the episode has a verdict, which infrastructure failures and tasks without a judge lack."""
        return self.judged and self.outcome != "env_error"

    @property
    def spent(self) -> float | None:
        """Cost of all attempts at the episode, in US dollars; None if unknown."""
        own = None if self.outcome == "env_error" else self.cost  # the cost of an `env_error` is in `lost_cost`
        return own if not self.lost_cost else self.lost_cost + (own or 0.0)

    @property
    def _own(self) -> float:
        return self.reward if self.raw_reward is None else self.raw_reward


@dataclass(frozen=True)
class Results:
    """The validated content of a results folder."""

    folder: Path
    run: Run
    lines: tuple[Line, ...]
    """Latest line of each episode, in the order in which they finished."""
    cut: bool
    """Whether the last line was cut off by a kill; it is left out."""
    superseded: tuple[Line, ...] = ()
    """`env_error` lines of episodes that were run again later."""

    @cached_property
    def counted(self) -> tuple[Line, ...]:
        """Episodes with a verdict, which the score is computed from."""
        return tuple(line for line in self.lines if line.counted)

    @cached_property
    def env_errors(self) -> tuple[Line, ...]:
        """Episodes that ended in an infrastructure failure; the score leaves them out."""
        return tuple(line for line in self.lines if line.outcome == "env_error")

    @cached_property
    def given_up(self) -> int:
        """Number of `env_error` episodes that are no longer rerun by the command that made them."""
        tried = Counter(line.pair for line in (*self.superseded, *self.env_errors))
        return sum(tried[line.pair] > RERUNS for line in self.env_errors)

    @cached_property
    def unjudged(self) -> tuple[Line, ...]:
        """Episodes that were played to their end without a judge, which the score leaves out."""
        return tuple(line for line in self.lines if not line.judged and line.outcome != "env_error")

    @property
    def per_minute(self) -> float | None:
        """Episodes per minute of wall-clock time, with all workers, over the recorded sessions; None if unknown."""
        seconds = sum(session.seconds for session in self.run.sessions)
        return 60 * sum(session.episodes for session in self.run.sessions) / seconds if seconds else None

    @cached_property
    def missing(self) -> tuple[Pair, ...]:
        """Pairs of task and seed without a line."""
        there, tasks = {line.pair for line in self.lines}, [task.id for task in self.run.tasks]
        return tuple(pair for pair in product(tasks, self.run.seeds) if pair not in there)

    def inside(self, path: str | None) -> Path | None:
        """Return the file or folder at a relative path; None if it is missing or outside the results folder."""
        if not path or "\0" in path:
            return None
        found = (self.folder / path).resolve()
        return found if found.is_relative_to(self.folder.resolve()) and found.exists() else None


def read(folder: Path) -> Results:
    """Read and validate a results folder.

    Raises:
        ResultsError: The folder is not a results folder or has another format, a line other than a cut last one is
            broken, or an episode was not asked for or is repeated after a verdict.
    """
    run = _run(folder / "run.json")
    path = folder / "results.jsonl"
    data = path.read_bytes() if path.exists() else b""
    *rows, last = data.split(b"\n")
    lines = [_checked(Line, row, f"{path}, line {number}") for number, row in enumerate(rows, 1)]
    cut = False
    if last:
        try:
            lines.append(_checked(Line, last, f"{path}, line {len(rows) + 1}"))
        except ResultsError:
            cut = True  # a complete line ends with a newline, so a kill cut off this one
    _unasked_or_twice(run, lines, path)
    last_of = {line.pair: line for line in lines}
    latest = tuple(line for line in lines if last_of[line.pair] is line)
    return Results(folder, run, latest, cut, tuple(line for line in lines if last_of[line.pair] is not line))


def _run(path: Path) -> Run:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ResultsError(
            f"{path.parent} is not a results folder: it has no run.json. `selfsurf bench run` writes one."
        ) from None
    run = _checked(Run, data, str(path))
    if run.format != FORMAT:
        raise ResultsError(f"{path} has format {run.format}; this version reads format {FORMAT}.")
    for name, values in (("task", [task.id for task in run.tasks]), ("seed", list(run.seeds))):
        twice = next((value for at, value in enumerate(values) if value in values[:at]), None)
        if twice is not None:
            raise ResultsError(f"{path} lists {name} {twice!r} twice.")
    return run


def _checked(model: type[M], data: bytes, where: str) -> M:
    try:
        return model.model_validate_json(well_formed_json(data.decode()))
    except UnicodeDecodeError:
        raise ResultsError(f"{where} is not UTF-8 text.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ResultsError(f"{where} is invalid: {f'{field}: ' if field else ''}{first['msg']}.") from None


def _unasked_or_twice(run: Run, lines: list[Line], path: Path) -> None:
    tasks, seeds = {task.id for task in run.tasks}, set(run.seeds)
    seen: dict[Pair, int] = {}
    for number, line in enumerate(lines, 1):
        where, which = f"{path}, line {number}", f"task {line.task!r}, seed {line.seed}"
        if line.task not in tasks or line.seed not in seeds:
            raise ResultsError(f"{where}: run.json does not ask for {which}.")
        if line.pair in seen:
            raise ResultsError(f"{where}: {which} is already in line {seen[line.pair]}.")
        if line.outcome != "env_error":  # a later line supersedes an env_error
            seen[line.pair] = number
