"""Single environments: `BrowserEnv` (Gymnasium) and `AsyncBrowserEnv` (asyncio)."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import difflib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from threading import Lock
from typing import Any, Self, TypeVar, get_args
from weakref import WeakSet

import gymnasium as gym
import numpy as np

from selfsurf.browser_env.act.browse import full_url
from selfsurf.browser_env.act.settle import Bounds
from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.arguments import names_checked
from selfsurf.browser_env.browser.browsers import has_window
from selfsurf.browser_env.browser.runtime import BrowserSpec, HoldsTime, runtime
from selfsurf.browser_env.browser.stealth import STEALTH_SWITCHES
from selfsurf.browser_env.environment.core import EnvCore
from selfsurf.browser_env.environment.ids import core_of, is_id
from selfsurf.browser_env.environment.pickling import PickleByConstruction
from selfsurf.browser_env.environment.seeds import Seeds
from selfsurf.browser_env.environment.settings import ObsMode, Settings, check_options
from selfsurf.browser_env.environment.spaces import ActionSpace, observation_space
from selfsurf.browser_env.environment.step_limit import checked_limit, discount_step, step_limit, warn_of_turns
from selfsurf.browser_env.environment.step_results import StepResult
from selfsurf.browser_env.errors import ActionError, BrowserNotFound, EnvError
from selfsurf.browser_env.human_input import Risk, User, checked_answer
from selfsurf.browser_env.limits import Limits
from selfsurf.browser_env.observation import Info, Observation, as_text
from selfsurf.browser_env.observe.capture import ViewOptions
from selfsurf.browser_env.observe.context import xpath_of
from selfsurf.browser_env.observe.delta import WHOLE
from selfsurf.browser_env.observe.find import AROUND, MOST, TextMatch
from selfsurf.browser_env.observe.paged_scan import Scan
from selfsurf.browser_env.safety.policy import Safety
from selfsurf.browser_env.safety.secrets import hide
from selfsurf.browser_env.session.dialogs import DialogPolicy, check_dialogs
from selfsurf.browser_env.session.options import SessionOptions
from selfsurf.browser_env.task import ClockKind, Ends, EpisodeProgress, Task, Viewport, as_task, check_address

T = TypeVar("T")

_CORES: WeakSet[EnvCore] = WeakSet()
"""Environment cores of this process."""

_CORES_LOCK = Lock()


@names_checked("The environment")
def make_core(
    start_url: str | None = None,
    goal: str | None = None,
    *,
    task: Task | type[Task] | str | None = None,
    viewport: Viewport | None = None,
    screenshot: bool = True,
    reach: float | None = 1.0,
    budget: int | None = None,
    count: Callable[[str], int] = len,
    limits: Limits | None = None,
    obs_mode: ObsMode = "full",
    stamp_ids: bool = False,
    headless: bool = True,
    executable: str | None = None,
    switches: tuple[str, ...] = (),
    dialogs: DialogPolicy = "accept",
    context: Mapping[str, Any] | None = None,
    session: SessionOptions | None = None,
    user: User = None,
    bounds: Bounds | None = None,
    safety: Safety | None = None,
    step_timeout: float = 30.0,
    reset_timeout: float = 60.0,
    hang_timeout: float = 10.0,
    deterministic: bool = False,
    clock: ClockKind | None = None,
    page_memory: float = 2048,
) -> EnvCore:
    """Create the core of an environment.

    Args:
        start_url: where an open-ended episode starts.
        goal: the user's goal in an open-ended episode.
        task: a Task, its class or its name (`envs_registry.task_of`), instead of the two above.
        viewport: width and height in CSS pixels; the task's own by default.
        screenshot: include a screenshot in observations.
        reach: how many viewport heights above and below the viewport are observed; None for the whole page.
        budget: the maximum size of `obs["dom"]`; None for no limit.
        count: how the budget is measured: characters, or a tokenizer's count.
        limits: maximum lengths of texts, titles and addresses.
        obs_mode: what `obs["dom"]` holds after a step: the `"full"` outline, or the `"delta"` since the last step.
        stamp_ids: write element ids into the page as `data-agent-id`.
        headless: run without a window.
        executable: path of the browser; None to search for one.
        switches: additional command-line switches for the browser.
        dialogs: how alerts, confirmations, prompts and beforeunload dialogs are answered: `"accept"`, `"dismiss"`, a
            mapping such as `{"confirm": "dismiss", "prompt": "Ada"}`, or a function of kind and message.
        context: additional arguments for Playwright's `Browser.new_context`, e.g. `{"bypass_csp": True}`.
        session: profile, storage, locale, proxy, device, a running browser, recording, ...
        user: who answers the action `ask_user`: a function of the question, `"later"` (a person, with the next step or
            `answer`), or None (nobody).
        bounds: time limits of waiting for the page.
        safety: where the agent may go, what it may type, read and write, and what needs confirmation.
        step_timeout: seconds after which a step counts as hung and the episode ends as `env_error`.
        reset_timeout: seconds after which an attempt to reset counts as hung.
        hang_timeout: seconds that a page may take to answer a trivial call before it counts as hung.
        deterministic: derive clock, timers, animations and random numbers of every page from the episode's seed.
        clock: `"real"`, or `"virtual"`: page time advances only while a page is waited for, as fast as possible (Linux,
            Chromium's headless shell). The task's own by default.
        page_memory: MB that a page's process may use; beyond that it is killed, which counts as a crash.

    Raises:
        ValueError: both a task and a start URL or goal were given, `session` and `context` set the same thing, or
            `dialogs`, `obs_mode` or the task's `ends` is invalid.
    """
    check_options(locals())
    if is_id(start_url):
        raise ValueError(f"{start_url!r} is an id, not a URL: use gymnasium.make({start_url!r}).")
    if start_url and "base_url" not in (context or {}):
        check_address(start_url)
    if obs_mode not in ("full", "delta"):
        raise ValueError(f'obs_mode must be "full" or "delta", not {obs_mode!r}.')
    if obs_mode == "delta" and budget is not None:
        budget = max(0, budget - count(f"{WHOLE}\n"))  # a full outline is preceded by this line
    if task is not None and (start_url is not None or goal is not None):
        raise ValueError("Give either task=, or start_url= and goal=, not both.")
    check_dialogs(dialogs)
    task = Task(start_url=start_url, goal=goal) if task is None else as_task(task)
    if task.ends not in get_args(Ends):
        raise ValueError(f"{task.id}: ends must be {' or '.join(map(repr, get_args(Ends)))}, not {task.ends!r}.")
    session = session or SessionOptions()
    holds_time = _holds_time(clock, task, session, deterministic)
    for name, password in session.passwords.items():
        hide(name, password)
    device = None if session.device is None else runtime().run(_device(session.device))
    if viewport is None and device is not None:
        viewport = (device["viewport"]["width"], device["viewport"]["height"])
    switches = (*switches, *(STEALTH_SWITCHES if session.stealth else ()))
    settings = Settings(
        browser=BrowserSpec(headless, executable, switches, page_memory, holds_time),
        view=ViewOptions(screenshot, stamp_ids, budget, reach, count, limits or Limits()),
        obs_mode=obs_mode,
        bounds=bounds or Bounds(),
        dialogs=dialogs,
        context=session.context_arguments(context, device),
        session=session,
        user=user,
        safety=safety or Safety(),
        step_timeout=step_timeout,
        reset_timeout=reset_timeout,
        hang_timeout=hang_timeout,
        deterministic=deterministic,
    )
    width, height = viewport or task.viewport
    with _CORES_LOCK:
        if any(core.task is task for core in _CORES):  # a task holds one episode's state, so it can't be shared
            task = copy.deepcopy(task)
        _CORES.add(core := EnvCore(task, settings, (int(width), int(height))))
    return core


def _holds_time(clock: ClockKind | None, task: Task, session: SessionOptions, deterministic: bool) -> HoldsTime:
    """Return the browser's `holds_time`: whether its pages run in virtual time."""
    if clock not in (None, "real", "virtual"):
        raise ValueError(f'clock must be "real" or "virtual", not {clock!r}.')
    other = "a browser that the environment doesn't start: leave out cdp_url, webview and detached"
    why = other if session.cdp_url or session.webview or session.detached else ""
    why = why or ("deterministic=True, which has its own clock: leave out one of the two" if deterministic else "")
    if clock == "virtual" and why:
        raise ValueError(f'clock="virtual" can\'t be combined with {why}.')
    return "no" if why or (clock or task.clock) == "real" else "yes" if clock else "if it can"


async def _device(name: str) -> dict[str, Any]:
    devices = (await runtime().playwright()).devices
    if name not in devices:
        near = difflib.get_close_matches(name, devices, n=3)
        raise ValueError(
            f"SessionOptions: there is no device {name!r}"
            + (f"; similar names are {', '.join(near)}." if near else "; see Playwright's list of devices.")
        )
    return dict(devices[name])


class BrowserEnv(gym.Env[Observation, Any], PickleByConstruction):
    """A browser as a Gymnasium environment.

    Args:
        args: as for `make_core`.
        render_mode: `rgb_array` (the screenshot), `ansi` (the observation as text) or `human` (a window).
        seeds: the only seeds that episodes may have (`browser_env.environment.seeds`); None for any.
        options: as for `make_core`.

    Example:
        >>> import gymnasium, selfsurf
        >>> env = gymnasium.make("Browser-v0", start_url="data:text/html,<button>Go</button>", goal="Press Go.")
        >>> obs, info = env.reset(seed=0)
        >>> print(obs["dom"])
        [1] button "Go"
        >>> obs, reward, terminated, truncated, info = env.step({"action": "click", "id": 1})
        >>> obs["last_error"], info["outcome"]
        ('', 'running')
        >>> env.close()
    """

    metadata = {  # noqa: RUF012 (as Gymnasium declares it)
        "render_modes": ["rgb_array", "ansi", "human"],
        "render_fps": 4,
    }

    def __init__(
        self, *args: Any, render_mode: str | None = None, seeds: Sequence[int] | None = None, **options: Any
    ) -> None:
        PickleByConstruction.__init__(self, *args, render_mode=render_mode, seeds=seeds, **options)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode must be one of {self.metadata['render_modes']}, not {render_mode!r}.")
        if not has_window():
            if render_mode == "human":
                raise BrowserNotFound(
                    "render_mode='human' needs a browser with a window: a full Chromium "
                    "(`playwright install chromium`, or `apt-get install chromium`) and a display."
                )
            self.metadata = {**self.metadata, "render_modes": ["rgb_array", "ansi"]}
        if render_mode == "human":
            options["headless"] = False
        self.render_mode = render_mode
        warn_of_turns()
        self.core = make_core(*args, **options)
        seen: Any = observation_space(self.core.viewport, self.core.settings.view.screenshot)
        self.observation_space = seen
        self.action_space = ActionSpace(self.core.viewport)
        self._seeds = Seeds(seeds)

    @property
    def task(self) -> Task:
        """The task of this environment."""
        return self.core.task

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        """Start an episode. `options` may give `start_url` and `goal` for an open-ended task.

        `info["seed"]` is the episode's seed, also if none was given; a reset with it starts the same episode.

        Raises:
            EnvError: the task could not be brought to its start.
            ValueError: unknown options.
        """
        super().reset(seed=seed)
        configure(self.core, options)
        self.core.max_steps = step_limit(self.core.task.max_steps, self.spec)
        return runtime().run(self.core.reset(self._seeds.next(seed, self.np_random)))

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry out an action in any accepted form. A malformed action costs a step and is reported as `last_error`.

        After a step with `info["waiting"]`, nothing is carried out until an answer arrives, by `Answer(text)` as the
        next action or by `answer`. The step counts towards a limit once it is complete.
        """
        result = runtime().run(self.core.step(action))
        if "waiting" in result[4]:
            discount_step()
        return result

    def answer(self, text: str) -> StepResult:
        """Answer the step that waits for a person (`info["waiting"]`) and return that step's result.

        An action to confirm is carried out after `yes`. Any other answer refuses it and is passed to the agent.

        Raises:
            EnvError: no step waits.
            TypeError: the answer is not a text. The step keeps waiting.
        """
        return runtime().run(self.core.answer(checked_answer(text)))

    @property
    def downloads(self) -> tuple[str, ...]:
        """Paths of the files that this episode has downloaded."""
        return self.core.downloads

    def privileged(self) -> dict[str, Any] | None:
        """Return the oracle's next action and its reason; None if the oracle has none."""
        return self.core.privileged()

    def storage_state(self) -> dict[str, Any]:
        """Return cookies and page storage in the form that `SessionOptions(storage_state=...)` takes.

        Raises:
            EnvError: there is no session, or it was lost.
        """
        return runtime().run(self.core.storage_state())

    def paged_scan(self, max_screens: int = 50, *, screenshots: bool = False) -> Scan:
        """Scroll through a long page screen by screen, return everything seen, and scroll back.

        This is not a step, and the episode's observation stays the same. Actions can use the returned ids.

        Args:
            max_screens: maximum number of screens to visit.
            screenshots: keep a screenshot of every screen.

        Raises:
            EnvError: called before a reset, or the page was closed or hung.
            ValueError: `max_screens` is less than 1.
        """
        return runtime().run(self.core.paged_scan(max_screens, screenshots))

    def find(self, text: str, *, around: int = AROUND, most: int = MOST) -> tuple[TextMatch, ...]:
        """Return the lines of the whole page that contain a text, including lines that observations leave out.

        This is not a step, and the episode's observation stays the same. Actions can use the returned ids: `scroll`
        brings an element into view.

        Args:
            text: the text to find; case is ignored.
            around: number of neighbouring lines returned on each side of a line.
            most: maximum number of lines.

        Raises:
            EnvError: called before a reset, or the page hangs or has crashed.
            ValueError: the text is empty.
        """
        return runtime().run(self.core.find(text, around, most))

    def marked(self) -> Any:
        """Return the screenshot with the elements' boxes and ids drawn on it (`browser_env.observe.marks.draw`).

        Raises:
            EnvError: called before a reset.
        """
        return runtime().run(self.core.marked())

    def render(self) -> Any:
        """Return the page as an RGB array or as text, by the render mode; None in mode `human`, which has a window."""
        if self.render_mode == "ansi":
            return None if self.core.observation is None else as_text(self.core.observation)
        return runtime().run(self.core.screenshot()) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Close the environment's browser context. The browser keeps running for the process's other environments."""
        if runtime_is_needed(self.core):
            runtime().run(self.core.close(), timeout=30)


class AsyncBrowserEnv(PickleByConstruction):
    """The asyncio form of `BrowserEnv`, usable from any event loop and with `async with`.

    Args:
        args: as for `make_core`; or an id, such as `MiniWoB/click-test-v0`.
        max_episode_steps: the step limit, since there is no Gymnasium wrapper to enforce one.
        seeds: the only seeds that episodes may have; None for any.
        options: as for `make_core`; with an id, as for `gymnasium.make`.
    """

    def __init__(
        self,
        *args: Any,
        max_episode_steps: int | None = None,
        seeds: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        PickleByConstruction.__init__(self, *args, max_episode_steps=max_episode_steps, seeds=seeds, **options)
        if args and is_id(args[0]):
            self.core = core_of(*args, **options)
        else:
            self.core = make_core(*args, **options)
            self.core.max_steps = self.core.task.max_steps
        self.core.max_steps = checked_limit(max_episode_steps, self.core.max_steps)
        self.observation_space = observation_space(self.core.viewport, self.core.settings.view.screenshot)
        self.action_space = ActionSpace(self.core.viewport)
        self._seeds = Seeds(seeds)
        self._rng = np.random.default_rng()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def task(self) -> Task:
        """The task of this environment."""
        return self.core.task

    async def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Start an episode (see `BrowserEnv.reset`)."""
        if seed is not None:
            self._rng, _ = gym.utils.seeding.np_random(seed)
        configure(self.core, options)
        return await _on_runtime(self.core.reset(self._seeds.next(seed, self._rng)))

    async def step(self, action: Any) -> StepResult:
        """Carry out an action and return the step's result (see `BrowserEnv.step`)."""
        return await _on_runtime(self.core.step(action))

    async def answer(self, text: str) -> StepResult:
        """Answer the step that waits for a person (see `BrowserEnv.answer`)."""
        return await _on_runtime(self.core.answer(checked_answer(text)))

    async def resume(self, so_far: EpisodeProgress) -> tuple[Observation, Info]:
        """Continue an episode that another process started, instead of a reset (`EnvCore.resume`).

        Both environments need the same `SessionOptions(detached=FOLDER)`.

        Raises:
            EnvError: no browser could be opened, or the page could not be observed.
        """
        return await _on_runtime(self.core.resume(so_far))

    async def address(self) -> str:
        """Return the address of the last page reached without submitting a form, which can be reopened safely."""
        return await _on_runtime(self.core.address())

    async def visit(self, url: str) -> StepResult:
        """Open an address that the user gives, as a step. From then on its host counts as one of the task's hosts.

        Raises:
            EnvError: called before a reset.
        """
        if self.core.session is None:
            raise EnvError("Call reset() before visit().")
        with contextlib.suppress(ActionError):  # the step reports the error
            self.core.session.access.admit(full_url(url))
        return await self.step({"action": "navigate", "url": url})

    def privileged(self) -> dict[str, Any] | None:
        """Return the oracle's next action and its reason (see `BrowserEnv.privileged`)."""
        return self.core.privileged()

    async def storage_state(self) -> dict[str, Any]:
        """Return cookies and page storage (see `BrowserEnv.storage_state`)."""
        return await _on_runtime(self.core.storage_state())

    async def paged_scan(self, max_screens: int = 50, *, screenshots: bool = False) -> Scan:
        """Scroll through a long page and return everything seen (see `BrowserEnv.paged_scan`)."""
        return await _on_runtime(self.core.paged_scan(max_screens, screenshots))

    async def find(self, text: str, *, around: int = AROUND, most: int = MOST) -> tuple[TextMatch, ...]:
        """Return the lines of the whole page that contain a text (see `BrowserEnv.find`)."""
        return await _on_runtime(self.core.find(text, around, most))

    async def judge(self, action: Action) -> tuple[Risk | None, bool]:
        """Return an action's risk on the current page, if any, and whether a step would ask a person first.

        Raises:
            EnvError: called before a reset.
        """
        return await _on_runtime(self.core.judge(action))

    async def screenshot(self) -> Any:
        """Return the active tab as an RGB array; None before a reset."""
        return await _on_runtime(self.core.screenshot())

    async def marked(self) -> Any:
        """Return the screenshot with the elements' boxes and ids drawn on it (see `BrowserEnv.marked`)."""
        return await _on_runtime(self.core.marked())

    async def xpath(self, id: int) -> str:
        """Return the XPath of an element of the last observation, within its own frame or shadow root.

        Raises:
            EnvError: called before a reset.
            ActionError: the element is gone.
        """
        if self.core.session is None:
            raise EnvError("Call reset() before xpath().")
        return await _on_runtime(xpath_of(self.core.session.active, self.core.foreign, id))

    async def close(self) -> None:
        """Close the environment's browser context (see `BrowserEnv.close`)."""
        if runtime_is_needed(self.core):
            await _on_runtime(self.core.close())


def configure(core: EnvCore, options: Mapping[str, Any] | None) -> None:
    """Apply the `options` of a reset: `start_url` and `goal` of an open-ended task."""
    unknown = set(options or {}) - {"start_url", "goal"}
    if unknown:
        raise ValueError(f"Unknown reset options {sorted(unknown)}; the options are start_url and goal.")
    if options and core.task.judges and type(core.task).setup is not Task.setup:
        raise ValueError(f"{core.task.id} sets its own page and goal: leave out {' and '.join(sorted(options))}.")
    for name, value in (options or {}).items():
        setattr(core.task, name, value)


def runtime_is_needed(core: EnvCore) -> bool:
    """Whether there is anything to close. Closing an environment that never ran must not start a loop thread."""
    return core.session is not None or core.observation is not None


async def _on_runtime(work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, runtime().loop))
