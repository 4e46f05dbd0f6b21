"""Options of an environment (`Settings`, built by `environment.env.make_core`) and checks of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from selfsurf.browser_env.act.settle import Bounds
from selfsurf.browser_env.browser.runtime import BrowserSpec
from selfsurf.browser_env.human_input import User
from selfsurf.browser_env.limits import Limits
from selfsurf.browser_env.observe.capture import ViewOptions
from selfsurf.browser_env.safety.policy import LATER, Safety
from selfsurf.browser_env.session.dialogs import DialogPolicy
from selfsurf.browser_env.session.options import SessionOptions

ObsMode = Literal["full", "delta"]


@dataclass(frozen=True)
class Settings:
    """Options of an environment that are independent of its task."""

    browser: BrowserSpec = field(default_factory=BrowserSpec)
    view: ViewOptions = field(default_factory=ViewOptions)
    obs_mode: ObsMode = "full"
    """Content of `obs["dom"]` after a step: the outline, or its changes (`browser_env.observe.delta`)."""
    bounds: Bounds = field(default_factory=Bounds)
    dialogs: DialogPolicy = "accept"
    context: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of Playwright's `Browser.new_context`, from `session` and from the user."""
    session: SessionOptions = field(default_factory=SessionOptions)
    """Options of the browser session: browser, profile, recording and replay."""
    user: User = None
    """Who answers `ask_user`: a function, a person later (`"later"`), or nobody (None)."""
    safety: Safety = field(default_factory=Safety)
    """Rules for where the agent may go, what it may type, read and write, and what needs confirmation."""
    deterministic: bool = False
    """Whether clock, timers and random numbers of pages derive from the seed (`browser_env.session.determinism`)."""
    step_timeout: float = 30.0
    """Seconds after which a step counts as hung and the episode ends as `env_error`."""
    reset_timeout: float = 60.0
    """Seconds after which an attempt to reset counts as hung."""
    hang_timeout: float = 10.0
    """Seconds that a page may take to answer a trivial call before it counts as hung."""


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options of an environment, by name.

    Raises:
        ValueError: an option has the wrong type or value; the message names it and says what is expected.
    """
    for names, fits, what in _CHECKS:
        for name in names.split(" "):
            value = options.get(name)
            if not fits(value) and (value is not None or what in (_SECONDS, _MB, _SWITCH)):
                raise ValueError(f"{name} must be {what}, not {value!r}.")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _positive(value: Any) -> bool:
    return _number(value) and value > 0


def _is_size(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(_number(side) and side >= 1 for side in value)


_SECONDS, _MB, _SWITCH = "a number of seconds above 0", "a number of MB above 0", "True or False"
_CHECKS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("session", lambda value: isinstance(value, SessionOptions), "a browser_env.SessionOptions"),
    ("safety", lambda value: isinstance(value, Safety), "a browser_env.Safety"),
    ("bounds", lambda value: isinstance(value, Bounds), "a browser_env.Bounds"),
    ("limits", lambda value: isinstance(value, Limits), "a browser_env.Limits"),
    ("goal start_url", lambda value: isinstance(value, str), "a string"),
    ("step_timeout reset_timeout hang_timeout", _positive, _SECONDS),
    ("page_memory", _positive, _MB),
    ("screenshot stamp_ids headless deterministic", lambda value: isinstance(value, bool), _SWITCH),
    (
        "reach",
        lambda value: _number(value) and value >= 0,
        "a number of viewport heights, 0 or more, or None for the whole page",
    ),
    (
        "budget",
        lambda value: isinstance(value, int) and _positive(value),
        "a positive integer, or None for no limit",
    ),
    ("viewport", _is_size, "a width and a height in pixels, such as (1280, 720)"),
    ("count", callable, "a function"),
    ("user", lambda value: callable(value) or value == LATER, 'a function or "later"'),
)
"""Checks of options: names, predicate for a valid value, and description of valid values. None is always valid, except
for seconds, MB and switches."""
