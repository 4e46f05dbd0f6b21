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
from selfsurf.browser_env.session.patience import limited
from selfsurf.browser_env.text import first_line

if TYPE_CHECKING:
    from playwright.async_api import Page

    from selfsurf.browser_env.goal.answer_form import AnswerForm

COMMIT_PATIENCE = 15.0
"""Seconds for the server of a start page to answer."""

LOAD_PATIENCE = 5.0
"""Seconds that a start page's document may take; after that, settling takes over and the episode starts regardless."""

PARTS_PATIENCE = 3.0
"""The same for its pictures and frames, once the document is there."""

ClockKind = Literal["real", "virtual"]
Ends = Literal["verdict", "finish"]
"""When an episode ends: once the task's score says done, or only when the agent says so (`Task.ends`)."""

Viewport = tuple[int, int]
"""Width and height in CSS pixels."""


@dataclass(frozen=True)
class Score:
    """A task's verdict after a step."""

    reward: float = 0.0
    """How much of the task is done, in [0, 1]; 1 is full success. A step is paid by how much it has risen."""
    done: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    """The task's own numbers, shown as `info["score"]`. `reason`, a text, is why: records and reports show it."""
    judged: bool = True
    """False if the task has no criterion: the episode then ends as `stopped`, not as `failed`."""

    def __post_init__(self) -> None:
        if not isinstance(self.reward, (int, float, np.number)) or not 0 <= self.reward <= 1:
            raise ValueError(f"A task's reward is a number from 0 to 1, not {self.reward!r}.")
        if not isinstance(self.details, Mapping):
            raise ValueError(f"A score's details are a dictionary, such as {{'reason': '...'}}, not {self.details!r}.")


@dataclass
class EpisodeState:
    """What a task may use to score an episode, besides the page."""

    goal: str = ""
    seed: int | None = None
    steps: int = 0
    reward: float = 0.0
    """The sum of its steps' rewards: the last score's."""
    last_action: Action | None = None
    finished: bool = False
    """The agent said `finish` or `infeasible`."""
    answer: str = ""
    infeasible: bool = False
    over: bool = False
    """The task's score says done, but the episode goes on until the agent does, too (`Task.ends`)."""
    messages: list[ChatMessage] = field(default_factory=list)
    requests: tuple[dict[str, Any], ...] = ()
    """What pages requested in the last step: `method`, `url`, and `status`, None where there was no answer."""


@dataclass(frozen=True)
class SoFar:
    """An episode that another process has begun, as far as it got (`AsyncBrowserEnv.resume`)."""

    goal: str
    seed: int | None = None
    steps: int = 0
    reward: float = 0.0
    messages: tuple[ChatMessage, ...] = ()
    url: str = ""
    """Of the tab that was active."""
    address: str = ""
    """What is opened if the browser is gone. Nothing is done again by opening it."""
    last_action: str = ""
    last_error: str = ""
    """What the agent is told."""
    first_id: int = 1
    """The least id that elements get: one that none has had."""
    cut_off: tuple[str, ...] = ()
    """Why actions were risky that a person had allowed and that were interrupted: each may have been done."""


class Task:
    """What is to be done and how it is scored. Subclass it and override what differs.

    The base class is the open-ended task: a page, a goal and no verdict.
    """

    id: str = "open"
    """The class's name, unless it gives another."""
    made_with: tuple[tuple[Any, ...], dict[str, Any]]
    """The arguments that it was made with: by them and its class it is made again elsewhere."""
    goal: str | None = None
    start_url: str | None = None
    start_must_succeed: bool = False
    """Whether a start page that is answered with an error, such as 404 or 500, is an `env_error`."""
    viewport: Viewport = (1280, 720)
    max_steps: int | None = None
    restarts_in_page: bool = False
    """Does `setup` restore a used page by itself? Then context and tab are kept across resets."""
    keeps_session: bool = False
    """Does an episode go on where the last one ended? Then all tabs, and the elements' ids, are kept across resets."""
    sites: Mapping[str, Path] = {}
    """Origins that are served from folders, without a server or a network, e.g. `{"http://shop.test": folder}`."""
    clock: ClockKind = "real"
    """Whose time its pages have if the environment isn't told: the real one, or where that can be had one that the
    engine holds (`browser_env.session.page_time`)."""
    ends: Ends = "verdict"
    """With `"finish"` an episode goes on until the agent says that it is done, as on a page that nobody judges. What
    it has reached counts then. Until then `info["score"]` says whether the goal is `reached`, and details `so_far`."""
    uploads: tuple[Path, ...] = ()
    """Folders with files of its own that may be uploaded, besides those of `Safety.upload_from`."""
    answer_form: AnswerForm | None = None
    """The form that the answer of `finish` must have: the agent is told it, and an answer of another form is an error
    that ends nothing."""
    verdict: str | None = None
    """A JavaScript expression whose value is what `score_of` needs of the page: quicker than a `score` of its own."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "id" not in vars(cls) and cls.id in (Task.id, *(base.__name__ for base in cls.__mro__)):
            cls.id = cls.__name__

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Note the arguments, whatever a subclass's `__init__` does with them."""
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
            with contextlib.suppress(TimeoutError):  # a picture or a frame that never arrives: the page is there
                async with limited(LOAD_PATIENCE):
                    await page.wait_for_load_state("domcontentloaded", timeout=0)
                async with limited(PARTS_PATIENCE):
                    await page.wait_for_load_state("load", timeout=0)
        return self.goal or ""

    async def score(self, page: Page, episode: EpisodeState) -> Score:
        """Score the episode so far.

        The page is being observed at the same time: read it, don't change it. May be called more than once per step.
        Unless overridden, the score is `score_of` of the `verdict`, if there is one, and the environment reads that.
        """
        if self.verdict is not None:
            return self.score_of(await page.evaluate(self.verdict), episode)
        return Score(done=episode.finished, judged=False)

    def score_of(self, verdict: Any, episode: EpisodeState) -> Score:
        """Score the episode so far by the value of `verdict`."""
        raise NotImplementedError("a task with a verdict needs score_of(verdict, episode)")

    def score_seen(self, before: Observation, after: Observation, episode: EpisodeState) -> Score | None:
        """Score a step by what is seen before and after it, instead of by the page; None, the default: don't."""
        return None

    @property
    def has_oracle(self) -> bool:
        """Is there an expert for this task?"""
        return type(self).oracle not in (None, Task.oracle)

    @property
    def open_ended(self) -> bool:
        """Does it give no verdict, so that what it takes to reach the goal is not known either?"""
        return type(self).score is Task.score and self.verdict is None

    @property
    def judges(self) -> bool:
        """Is there anything that could give a verdict?"""
        return not self.open_ended or type(self).score_seen is not Task.score_seen

    def oracle(self, obs: Observation) -> Action | dict[str, Any] | None:
        """Return an expert's next action with its `reason`, in any form that `step` takes; None if there is none."""
        return None

    async def teardown(self, page: Page) -> None:
        """Undo what `setup` did outside the page."""


def opening(task: Task, goal: str) -> list[ChatMessage]:
    """Return the chat with the user as an episode begins: the goal, and the form of the answer if there is one."""
    texts = [goal, task.answer_form.told if task.answer_form is not None else ""]
    return [ChatMessage(role="user", text=text) for text in texts if text]


def accepted(task: Task, answer: str) -> str:
    """Return the answer with which an agent finishes.

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
    """Say which class a task is of, and in which file that is."""
    kind = type(task)
    return f"{kind.__qualname__} in {getattr(sys.modules.get(kind.__module__), '__file__', None) or kind.__module__}"


_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|(about|blob|data|file|javascript|view-source):|[/?#]", re.IGNORECASE)
_HOST = re.compile(r"[^/:]+:\d")

_named: list[Callable[[str], Task]] = []


def name_tasks_by(find: Callable[[str], Task]) -> None:
    """Let tasks be given by their names, too; `find` makes the task of a name."""
    _named[:] = [find]


def as_task(task: Task | type[Task] | str) -> Task:
    """Return the task, made if its class or its name is given.

    Raises:
        ValueError: it is none, its class needs arguments, or there is none of that name.
    """
    if isinstance(task, str) and _named:
        return _named[0](task)
    if isinstance(task, type) and issubclass(task, Task):
        try:
            return task()
        except TypeError as error:
            raise ValueError(f"{task.__name__} can't be made without arguments: give {task.__name__}(...).") from error
    if not isinstance(task, Task):
        raise ValueError(f"task= is a browser_env.Task, its class or its name, not {task!r}.")
    return task


def check_address(url: str) -> None:
    """Refuse a start page that has no scheme and looks like a task's name, such as `MiniWoB/click-test`.

    Raises:
        ValueError: it is that of a task, or it is neither; the message says what may have been meant.
    """
    if not ("/" in url or ":" in url) or _ADDRESS.match(url):
        return
    told = f"{url!r} is no URL: that begins with its scheme, such as https://"
    if _HOST.match(url) or not _named:
        raise ValueError(f"{told}.")
    try:
        as_task(url)
    except ValueError as error:
        raise ValueError(f"{told}. {error}") from error
    raise ValueError(f"{url!r} is a task's name, not a URL: give task={url!r}.")
