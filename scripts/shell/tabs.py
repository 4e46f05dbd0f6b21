"""The browser session of a shell: one environment whose tabs, cookies and element ids persist between goals."""

from __future__ import annotations

from typing import Any

from selfsurf.browser_env import ActionError, EnvError, Observation, Task, runtime
from selfsurf.browser_env.act.browse import full_url
from selfsurf.browser_env.router.logged_env import env_class


class Tabs:
    """The tabs in which the goals of a shell are played.

    Args:
        around: Options of the environment (`browser_env.environment.env.make_core`).
    """

    def __init__(self, around: dict[str, Any]) -> None:
        self.task = Task()
        self.task.keeps_session = True
        self.env = env_class()(task=self.task, screenshot=True, **around)
        self.seen: Observation | None = None
        """Latest observation; None before the first."""
        self._named: list[str] = []
        """Addresses that the user named. Their hosts are allowed as the task's own, even after the browser was lost."""

    @property
    def keeps_state(self) -> bool:
        """Whether cookies and storage are lost with the tabs unless they are saved."""
        session = self.env.core.settings.session
        return session.profile is None and session.cdp_url is None

    @property
    def url(self) -> str:
        """Address of the active tab."""
        return "" if self.seen is None else self.seen["url"]

    def begin(self, goal: str, most_steps: int) -> None:
        """Set the goal and step limit of the next episode."""
        self.task.goal, self.env.core.max_steps = goal, most_steps

    def look(self, url: str = "") -> Observation:
        """Observe the page without a goal; on the first call, open an address.

        Raises:
            EnvError: The page or the browser failed.
        """
        self.begin("", 0)
        self.env.core.max_steps = None
        self.task.start_url = url or None
        self._named += [url] if url else []
        try:
            self.seen, _ = runtime().run(self.env.reset(seed=0))
        finally:
            self.task.start_url = None
        if (session := self.env.core.session) is not None:
            for named in self._named:
                session.access.admit(named)
        return self.seen

    def open(self, url: str) -> Observation:
        """Open an address in the active tab.

        Raises:
            ActionError: The address can't be opened; the tabs are unchanged.
            EnvError: The browser failed.
        """
        self.look()
        self._named.append(full_url(url))
        self.seen, _, _, _, info = runtime().run(self.env.visit(url))
        if info["outcome"] == "env_error":
            raise EnvError(info["outcome_detail"])
        if self.seen["last_error"]:
            raise ActionError(self.seen["last_error"])
        return self.seen

    def mend(self) -> str:
        """Reopen the last page if the browser or its tab crashed; return a message, empty if nothing was lost.

        Raises:
            EnvError: There is no browser, or the page can't be opened.
        """
        before, url = self.env.core.session, self.url
        self.look()
        if self.env.core.session is before or url == "about:blank":
            return ""
        self.look(url)
        return f"The browser was lost, with all text typed in it. {self.url} was opened again."

    def address(self) -> str:
        """Return an address that leads back here later: the last page that was not the result of a form."""
        return runtime().run(self.env.address())

    def storage_state(self) -> dict[str, Any] | None:
        """Return cookies and storage; None without a session."""
        try:
            return runtime().run(self.env.storage_state(), timeout=10)
        except EnvError:
            return None

    def close(self) -> None:
        """Close all tabs."""
        runtime().run(self.env.close(), timeout=30)
