"""The user's rules on what an environment may do: `Safety`. The other modules of this package enforce them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from selfsurf.browser_env.human_input import Risk
from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.safety.secrets import Secret

Confirm = Callable[[Any, Element | None, Risk], bool]
"""Function called before a risky action with the action, its target element if known, and the risk."""

ASK: Literal["ask"] = "ask"
"""Value of `Safety.confirm`: the environment's user is asked."""

LATER: Literal["later"] = "later"
"""Value of `Safety.confirm` or of an environment's `user`: a person answers later, with the next step or with `answer`.
"""


@dataclass(frozen=True)
class Safety:
    """Where an agent may go, what it may type, read and write, and what needs confirmation.

    By default any public site may be visited, private networks only if the task itself starts there, no file may be
    uploaded, and risky actions are reported in `info["risk"]` but carried out.
    """

    allowed: tuple[str, ...] = ()
    """Hosts that may be reached, besides the task's own; empty for all. `"example.org"` is that host alone,
    `"*.shop.test"` is shop.test and all of its subdomains, `"10.0.0.5:8000"` is one port; without a port, all ports.
    Private addresses listed here may be reached."""
    blocked: tuple[str, ...] = ()
    """Hosts that may not be reached, with all of their subdomains; overrides `allowed` and the task."""
    allow_private: bool = False
    """Whether private, loopback, link-local and other non-public addresses may be reached."""
    trust_start: bool = True
    """Whether the host (or the folder) where the task starts may be reached, private or not. False if the start is
    named by an untrusted file, such as an episode to replay: the host is then treated like any other."""
    allow_files: tuple[str | Path, ...] = ()
    """Folders that `file:` addresses may show."""
    secrets: Mapping[str, str | Secret | Callable[[], str]] = field(default_factory=dict, repr=False)
    """Secret values by name. The agent writes `<secret:name>` in `fill` and `type`, and never sees the value."""
    upload_from: tuple[str | Path, ...] = ()
    """Folders that files may be uploaded from, besides the task's own (`Task.uploads`); none by default."""
    download_to: str | Path | None = None
    """Parent folder for one downloads folder per episode. None for temporary folders, which are deleted after the
    episode."""
    max_download: int = 100_000_000
    """Maximum size of a download in bytes; a larger one is cancelled."""
    confirm: Confirm | Literal["ask", "later"] | None = None
    """Function called before a risky action, in a separate thread; False, an exception or no answer rejects the action.
    `"ask"` asks the environment's `user`; without a user the action is rejected. `"later"` asks a person, whatever the
    `user` is. None: risky actions are performed and reported in `info["risk"]`."""
    confirm_timeout: float = 300.0
    """Seconds for a `confirm` function to answer, not counted towards the step's timeout. A person may take days."""

    def __post_init__(self) -> None:
        for name in ("allowed", "blocked", "allow_files", "upload_from"):
            if isinstance(getattr(self, name), (str, Path)):
                raise ValueError(f"Safety.{name} must be a tuple, such as ({str(getattr(self, name))!r},).")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not (self.confirm in (None, ASK, LATER) or callable(self.confirm)):
            raise ValueError(f'Safety.confirm must be a function, "ask", "later" or None, not {self.confirm!r}.')
        for name in ("allowed", "blocked"):
            for pattern in getattr(self, name):
                if "/" in pattern or not pattern.strip():
                    raise ValueError(f"Safety.{name} takes hosts such as 'example.org', not {pattern!r}.")

    @property
    def guards_network(self) -> bool:
        """Whether any rule restricts connections."""
        return bool(self.allowed or self.blocked or not self.allow_private)


def refuse(action: Any, element: Any, risk: Any) -> bool:
    """Reject every risky action; for use as `Safety.confirm`."""
    return False
