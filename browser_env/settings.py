"""An environment's options: `Settings`, which `browser_env.env.make_core` builds, and the checks of what was given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from selfsurf.browser_env.act.settle import Bounds
from selfsurf.browser_env.observe.capture import ViewOptions
from selfsurf.browser_env.safety.policy import Safety
from selfsurf.browser_env.session.dialogs import DialogPolicy
from selfsurf.browser_env.session.options import SessionOptions
from selfsurf.browser_env.session.runtime import BrowserSpec

ObsMode = Literal["full", "delta"]


@dataclass(frozen=True)
class Settings:
    """How an environment behaves, whatever its task."""

    browser: BrowserSpec = field(default_factory=BrowserSpec)
    view: ViewOptions = field(default_factory=ViewOptions)
    obs_mode: ObsMode = "full"
    """What `obs["dom"]` holds after a step: the outline, or what changed in it (`browser_env.observe.delta`)."""
    bounds: Bounds = field(default_factory=Bounds)
    dialogs: DialogPolicy = "accept"
    context: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of Playwright's `Browser.new_context`: those of `session`, and further ones."""
    session: SessionOptions = field(default_factory=SessionOptions)
    """Whose browser, whose profile, recorded or replayed."""
    user: Callable[[str], str] | None = None
    """Answers `ask_user`; None if nobody is there."""
    safety: Safety = field(default_factory=Safety)
    """Where the agent may go, what it may type, read and write, and what needs confirmation."""
    deterministic: bool = False
    """Derive clock, timers and random numbers of every page from the seed (`browser_env.session.determinism`)."""
    step_timeout: float = 30.0
    """Seconds after which a step counts as hung and the episode ends as `env_error`."""
    reset_timeout: float = 60.0
    """Seconds after which an attempt to reset counts as hung."""
    hang_timeout: float = 10.0
    """Seconds that a page may take to answer a trivial call before it counts as hung."""


_KINDS: dict[str, tuple[type, str]] = {
    "session": (SessionOptions, "a browser_env.SessionOptions"),
    "safety": (Safety, "a browser_env.Safety"),
    "bounds": (Bounds, "a browser_env.Bounds"),
    "goal": (str, "a text"),
    "start_url": (str, "a text"),
}
_SECONDS = ("step_timeout", "reset_timeout", "hang_timeout", "page_memory")
_SWITCHES = ("screenshot", "stamp_ids", "headless", "deterministic")


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options of an environment, by name.

    Raises:
        ValueError: an option has the wrong type or value; the message names it and says what is expected.
    """
    for name, (kind, what) in _KINDS.items():
        value = options.get(name)
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"{name} is {what}, not {value!r}.")
    for name in _SECONDS:
        if not _number(options[name]) or options[name] <= 0:
            unit = "MB" if name == "page_memory" else "seconds"
            raise ValueError(f"{name} is a number of {unit} above 0, not {options[name]!r}.")
    for name in _SWITCHES:
        if not isinstance(options[name], bool):
            raise ValueError(f"{name} is True or False, not {options[name]!r}.")
    reach, budget, viewport = options["reach"], options["budget"], options["viewport"]
    if reach is not None and not (_number(reach) and reach >= 0):
        raise ValueError(f"reach is a number of viewport heights from 0 on, or None for the whole page, not {reach!r}.")
    if budget is not None and not (isinstance(budget, int) and not isinstance(budget, bool) and budget > 0):
        raise ValueError(f"budget is a whole number above 0, or None for no limit, not {budget!r}.")
    if viewport is not None and not (
        isinstance(viewport, (tuple, list)) and len(viewport) == 2 and all(_number(x) and x >= 1 for x in viewport)
    ):
        raise ValueError(f"viewport is a width and a height in pixels, such as (1280, 720), not {viewport!r}.")
    for name in ("count", "user"):
        if options[name] is not None and not callable(options[name]):
            raise ValueError(f"{name} is a function, not {options[name]!r}.")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
