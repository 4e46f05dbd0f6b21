"""The provider `playwright`: this project's environment, with its own Chromium."""

from __future__ import annotations

from typing import Any

from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.browser_env.router.provider import Complete, Decide
from selfsurf.browser_env.router.providers.environment import EnvironmentProvider


class PlaywrightProvider(EnvironmentProvider):
    """A provider that runs an environment of this project.

    Args:
        env: an environment that has been reset; by default a new one, created with `options`.
        decide: policy that performs instructions in words.
        complete: model that reads a page into a type.
        options: as for `AsyncBrowserEnv`: `safety=`, `session=` and so on.
    """

    name = "playwright"

    def __init__(
        self,
        env: AsyncBrowserEnv | None = None,
        *,
        decide: Decide | None = None,
        complete: Complete | None = None,
        **options: Any,
    ) -> None:
        super().__init__(env, decide=decide, complete=complete)
        if env is not None and options:
            raise ValueError(f"Give either an environment or its options ({', '.join(options)}), not both.")
        self._options = options

    async def make(self) -> AsyncBrowserEnv:
        """Create an environment with the given options, without screenshots by default."""
        return AsyncBrowserEnv(**{"screenshot": False, **self._options})
