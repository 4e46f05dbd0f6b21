"""What an environment may do, said by its user: `Safety`. How it is enforced is in the files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.safety.secrets import Secret

RiskKind = Literal["purchase", "payment", "transfer", "delete", "send", "publish", "credentials"]


@dataclass(frozen=True)
class Risk:
    """Why an action should not happen by mistake."""

    kind: RiskKind
    why: str
    """One sentence for a person, naming what was recognised."""


Confirm = Callable[[Any, Element | None, Risk], bool]
"""Asked before a risky action: the action, the element it is aimed at if that is known, and the risk."""


@dataclass(frozen=True)
class Safety:
    """Where an agent may go, what it may type, read and write, and what it must ask for.

    By default any public site may be visited, private networks only as far as the task itself starts there, no file
    may be uploaded, and risky actions are reported in `info["risk"]` without being held up.
    """

    allowed: tuple[str, ...] = ()
    """Hosts that may be reached, besides the task's own; empty for all. `"example.org"` is that host alone,
    `"*.shop.test"` is shop.test and every name under it, `"10.0.0.5:8000"` is one port. Private addresses named here
    may be reached."""
    blocked: tuple[str, ...] = ()
    """Hosts that may not be reached, with every name under them; stronger than `allowed` and than the task."""
    allow_private: bool = False
    """May private, loopback, link-local and other non-public addresses be reached?"""
    allow_files: tuple[str | Path, ...] = ()
    """Folders that `file:` addresses may show."""
    secrets: Mapping[str, str | Secret | Callable[[], str]] = field(default_factory=dict, repr=False)
    """Values by name. The agent writes `<secret:name>` in `fill` and `type`; what it sees never has the value."""
    upload_from: tuple[str | Path, ...] = ()
    """Folders that files may be uploaded from; none by default."""
    download_to: str | Path | None = None
    """Folder that gets a folder of its own for each episode's downloads. None: a temporary one, which is emptied when
    the episode is over."""
    max_download: int = 100_000_000
    """Bytes; a larger download is cancelled."""
    confirm: Confirm | None = None
    """Asked before a risky action, in a thread of its own; False, an exception or no answer refuse it. None: risky
    actions go ahead, and `info["risk"]` says so."""
    confirm_timeout: float = 300.0
    """Seconds that `confirm` has to answer; they don't count as time of the step."""

    def __post_init__(self) -> None:
        for name in ("allowed", "blocked", "allow_files", "upload_from"):
            if isinstance(getattr(self, name), (str, Path)):
                raise ValueError(f"Safety.{name} is a tuple, such as ({str(getattr(self, name))!r},).")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("allowed", "blocked"):
            for pattern in getattr(self, name):
                if "/" in pattern or not pattern.strip():
                    raise ValueError(f"Safety.{name} takes hosts such as 'example.org', not {pattern!r}.")

    @property
    def guards_network(self) -> bool:
        """Is there any rule about where connections may go?"""
        return bool(self.allowed or self.blocked or not self.allow_private)
