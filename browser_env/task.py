"""The contract between the environment and a task. Task suites are in `tasks/`."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.errors import ActionError, EnvError
from selfsurf.browser_env.observation import ChatMessage, Observation
from selfsurf.browser_env.patience import limited
from selfsurf.browser_env.text import first_line

if TYPE_CHECKING:
    from playwright.async_api import Page

    from selfsurf.browser_env.answer_form import AnswerForm

COMMIT_PATIENCE = 15.0
"""Seconds that the server of a start page may take to answer."""

LOAD_PATIENCE = 5.0
"""Seconds that a start page's document may take to load; after that, the episode starts and settling takes over."""

PARTS_PATIENCE = 3.0
"""Seconds that a start page's images and frames may take after its document has loaded."""

ClockKind = Literal["real", "virtual"]
Ends = Literal["verdict", "finish"]
"""When an episode ends: once the task's score is `done`, or only once the agent finishes (`Task.ends`)."""

Viewport = tuple[int, int]
"""Width and height in CSS pixels."""


@dataclass(frozen=True)
class Score:
    """A task's verdict after a step."""

    reward: float = 0.0
    """Completed share of the task, in [0, 1]; 1 is full success. A step's reward is the increase of this value."""
    done: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    """The task's own metrics, returned as `info["score"]`. The text under `reason` appears in records and reports."""
    judged: bool = True
    """Whether the score is a verdict. If False, the episode ends as `stopped`, not as `failed`."""

    def __post_init__(self) -> None:
        if not isinstance(self.reward, (int, float, np.number)) or not 0 <= self.reward <= 1:
            raise ValueError(f"A task's reward must be a number from 0 to 1, not {self.reward!r}.")
        if not isinstance(self.details, Mapping):
            raise ValueError(f"A score's details must be a dict, such as {{'reason': '...'}}, not {self.details!r}.")


@dataclass
class EpisodeState:
    """The data besides the page from which a task may score an episode."""

    goal: str = ""
    seed: int | None = None
    steps: int = 0
    reward: float = 0.0
    """Sum of the steps' rewards, equal to the last score."""
    last_action: Action | None = None
    finished: bool = False
    """Whether the agent has sent `finish` or `infeasible`."""
    answer: str = ""
    infeasible: bool = False
    over: bool = False
    """Whether the task's score is `done`; with `ends="finish"`, the episode continues until the agent finishes, too."""
    messages: list[ChatMessage] = field(default_factory=list)
    requests: tuple[dict[str, Any], ...] = ()
    """Requests of pages in the last step: `method`, `url` and `status`, None without a response."""


@dataclass(frozen=True)
class EpisodeProgress:
    """Progress of an episode that another process started (`AsyncBrowserEnv.resume`)."""

    goal: str
    seed: int | None = None
    steps: int = 0
    reward: float = 0.0
    messages: tuple[ChatMessage, ...] = ()
    url: str = ""
    """URL of the tab that was active."""
    address: str = ""
    """Address to open if the browser is gone; opening it repeats no action."""
    last_action: str = ""
    last_error: str = ""
    """Error message for the agent."""
    first_id: int = 1
    """First id for new elements; no earlier element had it."""
    cut_off: tuple[str, ...] = ()
    """Risks of actions that a person allowed and that were interrupted; each action may have been carried out."""


class Task:
    """A task: its goal, its start page and its scoring. Subclasses override what differs.

    The base class is the open-ended task: a page, a goal and no verdict.
    """

    id: str = "open"
    """Name of the task; the class's name by default."""
    made_with: tuple[tuple[Any, ...], dict[str, Any]]
    """Constructor arguments of the task, with which another process can recreate it."""
    goal: str | None = None
    start_url: str | None = None
    start_must_succeed: bool = False
    """Whether a start page that is answered with an error, such as 404 or 500, is an `env_error`."""
    viewport: Viewport = (1280, 720)
    max_steps: int | None = None
    restarts_in_page: bool = False
    """Whether `setup` restores a used page by itself, so that context and tab are kept across resets."""
    keeps_session: bool = False
    """Whether an episode continues where the last one ended, with all tabs and element ids kept across resets."""
    sites: Mapping[str, Path] = {}
    """Origins that are served from folders, without a server or a network, e.g. `{"http://shop.test": folder}`."""
    clock: ClockKind = "real"
    """Clock of the task's pages unless the environment sets one: real, or virtual where possible
    (`browser_env.browser.page_time`)."""
    ends: Ends = "verdict"
    """When the episode ends: `"verdict"`, once the score is `done`, or `"finish"`, once the agent finishes, with the
    score at that moment. Until then `info["score"]` has `reached`, whether the goal is reached, and the details
    `so_far`."""
    uploads: tuple[Path, ...] = ()
    """Folders with files of the task that may be uploaded, besides those of `Safety.upload_from`."""
    answer_form: AnswerForm | None = None
    """Required form of the answer of `finish`, shown to the agent; None for any form. An answer of another form is an
    error and doesn't end the episode."""
    verdict: str | None = None
    """JavaScript expression whose value is passed to `score_of`, faster than overriding `score`; None for no
    expression."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "id" not in vars(cls) and cls.id in (Task.id, *(base.__name__ for base in cls.__mro__)):
            cls.id = cls.__name__

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Record the constructor arguments, whatever a subclass's `__init__` does with them."""
        task = super().__new__(cls)
        task.made_with = args, options
        return task

    def __init__(self, *, goal: str | None = None, start_url: str | None = None) -> None:
        if goal is not None:
            self.goal = goal
        if start_url is not None:
            self.start_url = start_url

    async def setup(self, page: Page, rng: np.random.Generator) -> str:
        """Bring the page to the start of an episode and return the goal."""
        if self.start_url and page.url != self.start_url:
            from playwright.async_api import Error

            try:
                async with limited(COMMIT_PATIENCE):
                    answer = await page.goto(self.start_url, wait_until="commit", timeout=0)
            except Error as error:
                raise EnvError(first_line(error)) from error
            except TimeoutError:
                raise EnvError(f"{self.start_url}: no answer within {COMMIT_PATIENCE:g} s") from None
            served = {origin.rstrip("/"): folder for origin, folder in self.sites.items()}
            folder = served.get("/".join(self.start_url.split("/", 3)[:3]))
            if answer is not None and answer.status == 404 and folder is not None:
                raise EnvError(f"{self.start_url}: there is no such page in {folder}")
            if answer is not None and answer.status >= 400 and self.start_must_succeed:
                raise EnvError(f"{self.start_url}: the server answered with {answer.status}")
            with contextlib.suppress(TimeoutError):  # the page is usable without slow images and frames
                async with limited(LOAD_PATIENCE):
                    await page.wait_for_load_state("domcontentloaded", timeout=0)
                async with limited(PARTS_PATIENCE):
                    await page.wait_for_load_state("load", timeout=0)
        return self.goal or ""

    async def score(self, page: Page, episode: EpisodeState) -> Score:
        """Score the episode so far.

        The page is observed at the same time: read it, but don't change it. May be called more than once per step.
        Unless overridden, the score is `score_of` of the `verdict`, if there is one, and the environment evaluates the
        expression itself.
        """
        if self.verdict is not None:
            return self.score_of(await page.evaluate(self.verdict), episode)
        return Score(done=episode.finished, judged=False)

    def score_of(self, verdict: Any, episode: EpisodeState) -> Score:
        """Score the episode so far from the value of `verdict`."""
        raise NotImplementedError("a task with a verdict must define score_of(verdict, episode)")

    def score_seen(self, before: Observation, after: Observation, episode: EpisodeState) -> Score | None:
        """Score a step from the observations before and after it; None, the default, to score the page."""
        return None

    @property
    def has_oracle(self) -> bool:
        """Whether the task has an oracle, an expert for its next action."""
        return type(self).oracle not in (None, Task.oracle)

    @property
    def open_ended(self) -> bool:
        """Whether the task defines neither `score` nor `verdict`, so that success on the page is undefined."""
        return type(self).score is Task.score and self.verdict is None

    @property
    def judges(self) -> bool:
        """Whether the task defines a verdict: `score`, `verdict` or `score_seen`."""
        return not self.open_ended or type(self).score_seen is not Task.score_seen

    def oracle(self, obs: Observation) -> Action | dict[str, Any] | None:
        """Return an expert's next action with its `reason`, in any form that `step` takes; None for no action."""
        return None

    async def teardown(self, page: Page) -> None:
        """Undo what `setup` did outside the page."""


def opening(task: Task, goal: str) -> list[ChatMessage]:
    """Return the first messages of the chat with the user: the goal, and the form of the answer if there is one."""
    texts = [goal, task.answer_form.told if task.answer_form is not None else ""]
    return [ChatMessage(role="user", text=text) for text in texts if text]


def accepted(task: Task, answer: str) -> str:
    """Return the answer of a `finish` action if it has the task's form.

    Raises:
        ActionError: the answer lacks the task's form.
    """
    if task.answer_form is not None:
        try:
            task.answer_form.read(answer)
        except ValueError as error:
            raise ActionError(f"The answer does not fit: {error}. {task.answer_form.told}") from None
    return answer


def class_and_file(task: Task) -> str:
    """Return the name of a task's class and of its file, for messages."""
    kind = type(task)
    return f"{kind.__qualname__} in {getattr(sys.modules.get(kind.__module__), '__file__', None) or kind.__module__}"


_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|(about|blob|data|file|javascript|view-source):|[/?#]", re.IGNORECASE)
_HOST = re.compile(r"[^/:]+:\d")

_named: list[Callable[[str], Task]] = []


def name_tasks_by(find: Callable[[str], Task]) -> None:
    """Register `find`, which makes the task of a name, so that tasks can be given by name."""
    _named[:] = [find]


def as_task(task: Task | type[Task] | str) -> Task:
    """Return the task, creating it if its class or its name is given.

    Raises:
        ValueError: the argument is no task, its class needs arguments, or there is no task of that name.
    """
    if isinstance(task, str) and _named:
        return _named[0](task)
    if isinstance(task, type) and issubclass(task, Task):
        try:
            return task()
        except TypeError as error:
            raise ValueError(
                f"{task.__name__} can't be created without arguments: give {task.__name__}(...)."
            ) from error
    if not isinstance(task, Task):
        raise ValueError(f"task= must be a browser_env.Task, its class or its name, not {task!r}.")
    return task


def check_address(url: str) -> None:
    """Reject a start page that has no scheme and looks like a task's name, such as `MiniWoB/click-test`.

    Raises:
        ValueError: the start page is a task's name, or neither a name nor a URL; the message suggests a correction.
    """
    if not ("/" in url or ":" in url) or _ADDRESS.match(url):
        return
    told = f"{url!r} is not a URL: a URL begins with a scheme, such as https://"
    if _HOST.match(url) or not _named:
        raise ValueError(f"{told}.")
    try:
        as_task(url)
    except ValueError as error:
        raise ValueError(f"{told}. {error}") from error
    raise ValueError(f"{url!r} is a task's name, not a URL: give task={url!r}.")
