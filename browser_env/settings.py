"""How an environment behaves, whatever its task. `browser_env.env.make_core` puts it together."""

from __future__ import annotations

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
    """Answers `ask_user`; None: nobody is there."""
    safety: Safety = field(default_factory=Safety)
    """Where the agent may go, what it may type, read and write, and what it must ask for."""
    deterministic: bool = False
    """Fix clock, timers and random numbers of every page (`browser_env.session.determinism`)."""
    step_timeout: float = 30.0
    """Seconds after which a step counts as hung and the episode ends as `env_error`."""
    reset_timeout: float = 60.0
    """Seconds after which an attempt to reset counts as hung."""
    hang_timeout: float = 10.0
    """Seconds for which a page may leave a trivial call unanswered before it counts as hung."""
