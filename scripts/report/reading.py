"""Read a results folder and refuse one that would give wrong figures. Knows nothing of statistics or pages.

run.json         what was asked: suite, agent, tasks, seeds, versions
results.jsonl    a line an episode, in the order in which they finished
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
"""Version of the format; another one is refused."""

RERUNS = 2
"""Times that an episode which ended as `env_error` is run again by a later command."""

Pair = tuple[str, int]
"""A task and a seed: what an episode was asked for."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Ended = Literal["solved", "failed", "infeasible", "timeout", "stopped", "env_error"]
M = TypeVar("M", bound=BaseModel)


class ResultsError(ValueError):
    """A results folder can't be read; the message says where and what to do."""


class AskedTask(BaseModel):
    """A task of the suite."""

    id: str
    split: str = ""
    groups: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    """Passed to the task: it is another task with others."""
    sha256: str = ""
    """Of a user's own task: its source and pages."""


class Git(BaseModel):
    """Where the code stood."""

    revision: str
    dirty: bool = False


class Lost(BaseModel):
    """A worker that was lost."""

    worker: int
    place: str = ""
    why: str
    again: Count = 0
    """Episodes that were run again."""
    left: Count = 0
    """Workers that were left."""
    seconds: Amount = 0.0
    """Since the process began."""


class Session(BaseModel):
    """What one process of the run did, as far as it had come when it was killed."""

    seconds: Amount
    episodes: Count
    workers: Count = 1
    stopped: str = ""
    """Why it ended before all was done, where it says so itself."""
    lost: tuple[Lost, ...] = ()
    versions: dict[str, Any] = {}
    """Where they are others than the run's, as `git`."""
    git: Git | None = None


class Agent(BaseModel):
    """Who acted, with the hashes that tell one adapter of a name from the next."""

    name: str
    backend: str = ""
    model: str | None = None
    adapter: str | None = None
    model_sha256: str | None = None
    adapter_sha256: str | None = None
    options: dict[str, Any] = {}


class Run(BaseModel):
    """`run.json`. Keys that are not named here are kept, and shown where the run is described."""

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
    """The settings that were given for it."""
    sessions: tuple[Session, ...] = ()


class Line(BaseModel):
    """A line of `results.jsonl`: how an episode ended."""

    task: str
    seed: int
    outcome: Ended
    outcome_detail: str = ""
    reward: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    raw_reward: Finite | None = None
    """The task's own reward, unscaled."""
    time_reward: Finite | None = None
    """The task's own reward, scaled by the time that was left; MiniWoB++ has one."""
    steps: Count
    claimed: bool | None = None
    """The agent ended it by saying that it is done."""
    rejected: Count = 0
    """Claims that its verifier rejected."""
    wrongly_rejected: Count | None = None
    """Of these, those that were true; None where nobody knows."""
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
    """Of these, while the agent's action was being carried out."""
    lost_cost: Amount = 0.0
    """What they cost, in US dollars."""
    judged: bool = True
    """False if it was played to its end and nothing judges it."""
    traceback: str = ""

    @property
    def pair(self) -> Pair:
        """What it is an episode of."""
        return self.task, self.seed

    @property
    def strict(self) -> bool:
        """The task's own reward is whole."""
        return self._own == 1

    @property
    def lenient(self) -> bool:
        """The task's own reward is above nothing."""
        return self._own > 0

    @property
    def false_claim(self) -> bool | None:
        """The agent said that it is done, and the task's own reward is not whole; None: older runs don't tell."""
        return None if self.claimed is None else self.claimed and not self.strict

    @property
    def counted(self) -> bool:
        """There is a verdict: an infrastructure failure says nothing about the agent, nor does a task without one."""
        return self.judged and self.outcome != "env_error"

    @property
    def spent(self) -> float | None:
        """What all attempts at the episode cost, in US dollars."""
        own = None if self.outcome == "env_error" else self.cost  # that of an `env_error` is lost
        return own if not self.lost_cost else self.lost_cost + (own or 0.0)

    @property
    def _own(self) -> float:
        return self.reward if self.raw_reward is None else self.raw_reward


@dataclass(frozen=True)
class Results:
    """A results folder that was read and found sound."""

    folder: Path
    run: Run
    lines: tuple[Line, ...]
    """The latest of each episode, in the order in which they finished."""
    cut: bool
    """The last line was cut off by a kill, and is left out."""
    superseded: tuple[Line, ...] = ()
    """`env_error` lines of episodes that were run again later."""

    @cached_property
    def counted(self) -> tuple[Line, ...]:
        """The episodes that the score is made of."""
        return tuple(line for line in self.lines if line.counted)

    @cached_property
    def env_errors(self) -> tuple[Line, ...]:
        """The episodes that ended by no fault of the agent's: beside the score, never in it."""
        return tuple(line for line in self.lines if line.outcome == "env_error")

    @cached_property
    def given_up(self) -> int:
        """How many of those the command that made them does not run again."""
        tried = Counter(line.pair for line in (*self.superseded, *self.env_errors))
        return sum(tried[line.pair] > RERUNS for line in self.env_errors)

    @cached_property
    def unjudged(self) -> tuple[Line, ...]:
        """The episodes that were played to their end and that nothing judges: beside the score, too."""
        return tuple(line for line in self.lines if not line.judged and line.outcome != "env_error")

    @property
    def per_minute(self) -> float | None:
        """Episodes a minute by the clock on the wall, with all workers, over the sessions that are known."""
        seconds = sum(session.seconds for session in self.run.sessions)
        return 60 * sum(session.episodes for session in self.run.sessions) / seconds if seconds else None

    @cached_property
    def missing(self) -> tuple[Pair, ...]:
        """What was asked and is not there."""
        there, tasks = {line.pair for line in self.lines}, [task.id for task in self.run.tasks]
        return tuple(pair for pair in product(tasks, self.run.seeds) if pair not in there)

    def inside(self, path: str | None) -> Path | None:
        """The file or folder of this relative path, if it is there and not outside the results folder."""
        if not path or "\0" in path:
            return None
        found = (self.folder / path).resolve()
        return found if found.is_relative_to(self.folder.resolve()) and found.exists() else None


def read(folder: Path) -> Results:
    """Read a results folder and check it.

    Raises:
        ResultsError: it is none, is of another format, a line other than a cut last one is broken, or an episode is
            there again after a verdict or was not asked for.
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
            cut = True  # whole lines end with a newline, so a kill has cut this one
    _unasked_or_twice(run, lines, path)
    last_of = {line.pair: line for line in lines}
    latest = tuple(line for line in lines if last_of[line.pair] is line)
    return Results(folder, run, latest, cut, tuple(line for line in lines if last_of[line.pair] is not line))


def _run(path: Path) -> Run:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ResultsError(
            f"{path.parent} is not a results folder: it has no run.json. `selfsurf bench run` makes one."
        ) from None
    run = _checked(Run, data, str(path))
    if run.format != FORMAT:
        raise ResultsError(f"{path} has format {run.format}; this version reads format {FORMAT}.")
    for name, values in (("task", [task.id for task in run.tasks]), ("seed", list(run.seeds))):
        twice = next((value for at, value in enumerate(values) if value in values[:at]), None)
        if twice is not None:
            raise ResultsError(f"{path} asks for {name} {twice!r} twice.")
    return run


def _checked(model: type[M], data: bytes, where: str) -> M:
    try:
        return model.model_validate_json(well_formed_json(data.decode()))
    except UnicodeDecodeError:
        raise ResultsError(f"{where} is not UTF-8 text.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ResultsError(f"{where} is broken: {f'{field}: ' if field else ''}{first['msg']}.") from None


def _unasked_or_twice(run: Run, lines: list[Line], path: Path) -> None:
    tasks, seeds = {task.id for task in run.tasks}, set(run.seeds)
    seen: dict[Pair, int] = {}
    for number, line in enumerate(lines, 1):
        where, which = f"{path}, line {number}", f"task {line.task!r}, seed {line.seed}"
        if line.task not in tasks or line.seed not in seeds:
            raise ResultsError(f"{where}: run.json does not ask for {which}.")
        if line.pair in seen:
            raise ResultsError(f"{where}: {which} is there already, in line {seen[line.pair]}.")
        if line.outcome != "env_error":  # a later line supersedes an env_error
            seen[line.pair] = number
