"""An attempt log in memory, and a provider that does what it is told to."""

import pytest

from selfsurf.browser_env.attempts.attempt import Evidence
from selfsurf.browser_env.router.calls import ActResult, ExtractResult, NavigateResult, ObserveResult, ScreenshotResult
from selfsurf.browser_env.router.provider import Provider


class MemoryLog:
    """Keeps what it is told: `events` as (what, attempt, more)."""

    def __init__(self):
        self.events = []

    def started(self, attempt):
        self.events.append(("start", attempt, None))

    def succeeded(self, attempt, duration_ms, evidence=None):
        self.events.append(("success", attempt, (duration_ms, evidence)))

    def failed(self, attempt, duration_ms, failure, evidence=None):
        self.events.append(("failure", attempt, (duration_ms, failure, evidence)))

    def fell_back(self, attempt, to, reason):
        self.events.append(("fallback", attempt, (to, reason)))

    def disabled(self, attempt, reason):
        self.events.append(("disabled", attempt, reason))

    def close(self, decision, reason=""):
        self.events.append(("close", None, f"{decision} {reason}".strip()))

    @property
    def told(self):
        """The events as short texts, in order."""
        return [f"{what} {one.provider} {one.action}" if one else f"{what} {more}" for what, one, more in self.events]


class Scripted(Provider):
    """Raises or awaits what `plan` says of each call, one after the other, and succeeds when there is no more."""

    def __init__(self, name, *plan):
        self.name, self.plan, self.at, self.calls, self.restarts = name, list(plan), "", [], []

    async def _do(self, arguments):
        self.calls.append(arguments)
        if self.plan and (what := self.plan.pop(0)):
            if isinstance(what, Exception):
                raise what
            await what

    async def navigate(self, arguments):
        await self._do(arguments)
        self.at = arguments.url
        return NavigateResult(url=self.at)

    async def act(self, arguments):
        await self._do(arguments)
        return ActResult(url=self.at, done="it")

    async def extract(self, arguments):
        await self._do(arguments)
        return ExtractResult(url=self.at, data=arguments.model())

    async def observe(self, arguments):
        await self._do(arguments)
        return ObserveResult(url=self.at, outline='[1] button "Go"')

    async def screenshot(self, arguments):
        await self._do(arguments)
        return ScreenshotResult(url=self.at, png=b"PNG")

    async def url(self):
        return self.at

    async def evidence(self, *, failed, nodes=(), screenshot=True):
        return Evidence(self.at, b"PNG" if screenshot else None, tree=list(nodes) if failed else None)

    async def restart(self, url):
        self.restarts.append(url)
        self.at = url


@pytest.fixture
def log():
    return MemoryLog()


@pytest.fixture
def scripted():
    return Scripted
