"""What an environment may do, as set by its user: `Safety`. The other modules of this package enforce it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.safety.secrets import Secret

RiskKind = Literal["purchase", "payment", "transfer", "delete", "send", "publish", "credentials", "unknown"]


@dataclass(frozen=True)
class Risk:
    """Why an action needs care."""

    kind: RiskKind
    why: str
    """One sentence for a person, naming what was recognized."""


Confirm = Callable[[Any, Element | None, Risk], bool]
"""Called before a risky action with the action, its target element if known, and the risk."""

ASK: Literal["ask"] = "ask"
"""As `Safety.confirm`: the environment's user is asked."""

LATER: Literal["later"] = "later"
"""As `Safety.confirm`, and as an environment's `user`: a person answers, by the next step or by `answer`."""


@dataclass(frozen=True)
class Safety:
    """Where an agent may go, what it may type, read and write, and what needs confirmation.

    By default any public site may be visited, private networks only if the task itself starts there, no file may be
    uploaded, and risky actions are reported in `info["risk"]` but carried out.
    """

    allowed: tuple[str, ...] = ()
    """Hosts that may be reached, besides the task's own; empty for all. `"example.org"` is that host alone,
    `"*.shop.test"` is shop.test and all of its subdomains, `"10.0.0.5:8000"` is one port; without one, all
    ports. Private addresses named here may be reached."""
    blocked: tuple[str, ...] = ()
    """Hosts that may not be reached, with all of their subdomains; overrides `allowed` and the task."""
    allow_private: bool = False
    """May private, loopback, link-local and other non-public addresses be reached?"""
    trust_start: bool = True
    """May the host (or the folder) where the task starts be reached, private or not? False where a file from somebody
    else names it, such as an episode to replay: it is then a host like any other."""
    allow_files: tuple[str | Path, ...] = ()
    """Folders that `file:` addresses may show."""
    secrets: Mapping[str, str | Secret | Callable[[], str]] = field(default_factory=dict, repr=False)
    """Values by name. The agent writes `<secret:name>` in `fill` and `type`, and never sees the value."""
    upload_from: tuple[str | Path, ...] = ()
    """Folders that files may be uploaded from, besides the task's own (`Task.uploads`); none by default."""
    download_to: str | Path | None = None
    """Parent folder of the folders for each episode's downloads. None for temporary ones, which are deleted after the
    episode."""
    max_download: int = 100_000_000
    """Bytes; a larger download is cancelled."""
    confirm: Confirm | Literal["ask", "later"] | None = None
    """Called before a risky action, in a thread of its own; False, an exception or no answer rejects the action.
    `"ask"`: the environment's `user` is asked, and without one the action is rejected. `"later"`: a person is, whoever
    `user` is. None: risky actions are carried out and reported in `info["risk"]`."""
    confirm_timeout: float = 300.0
    """Seconds that a function has to answer; they don't count towards the step's timeout. A person may take days."""

    def __post_init__(self) -> None:
        for name in ("allowed", "blocked", "allow_files", "upload_from"):
            if isinstance(getattr(self, name), (str, Path)):
                raise ValueError(f"Safety.{name} is a tuple, such as ({str(getattr(self, name))!r},).")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not (self.confirm in (None, ASK, LATER) or callable(self.confirm)):
            raise ValueError(f'Safety.confirm is a function, "ask", "later" or None, not {self.confirm!r}.')
        for name in ("allowed", "blocked"):
            for pattern in getattr(self, name):
                if "/" in pattern or not pattern.strip():
                    raise ValueError(f"Safety.{name} takes hosts such as 'example.org', not {pattern!r}.")

    @property
    def guards_network(self) -> bool:
        """Is there any rule about connections?"""
        return bool(self.allowed or self.blocked or not self.allow_private)


def refuse(action: Any, element: Any, risk: Any) -> bool:
    """Allow no risky action: the `confirm` of those who never allow any."""
    return False
