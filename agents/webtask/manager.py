"""Entry point of the high-level API: makes agents and their browser."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any, Self

from selfsurf import agents
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policy import Policy
from selfsurf.agents.roles import TaskExecutor
from selfsurf.agents.webtask.web_agent import Visit, WebAgent
from selfsurf.browser_env import Safety
from selfsurf.browser_env.environment.env import make_core
from selfsurf.browser_env.router.logged_env import env_class
from selfsurf.browser_env.safety.policy import LATER


class Webtask:
    """Makes agents, each with its own tabs and cookies. The browser starts on first use.

    If `CLAW_LOG_DIR` is set, each task is logged.

    Args:
        options: options of the environments (`browser_env.environment.env.make_core`): `headless`, `viewport`,
            `session`, `safety`, ...

    Raises:
        TypeError: an option is unknown.
        ValueError: the options request answers at a later time, which this API can't deliver.

    Example:
        async with Webtask() as webtask:
            agent = await webtask.create_agent("openai", model="gpt-5-mini")
            await agent.navigate("https://example.org")
            result = await agent.execute("What is this page for?")
    """

    def __init__(self, **options: Any) -> None:
        inspect.signature(make_core).bind_partial(**options)
        if given := {"task", "goal", "start_url"} & options.keys():
            raise TypeError(
                f"Webtask does not take {', '.join(sorted(given))}: use the agent's navigate(url) and execute(task)."
            )
        if LATER in (options.get("user"), (options.get("safety") or Safety()).confirm):
            raise ValueError(
                "Webtask can't wait for later answers: pass functions as user= and Safety(confirm=), or "
                'confirm="ask" to ask user=.'
            )
        self._options = options
        self._agents: list[WebAgent] = []
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def create_agent(
        self, llm: str | Policy | TaskExecutor = "transformers", *, episodes: str | Path | None = None, **options: Any
    ) -> WebAgent:
        """Make an agent.

        Args:
            llm: a backend's name, `file.py:Class` of a policy, or a policy or an agent of roles in memory.
            episodes: folder in which each task's episode is recorded; None for no record.
            options: options of the agent (`agents.make("roles", ...)`).

        Raises:
            ValueError: an option is wrong, the model is unavailable, the agent of roles belongs to another open agent,
                or the `Webtask` is closed.
        """
        if self._closed:
            raise ValueError("The Webtask is closed: create another one.")
        executor = await asyncio.to_thread(_executor, llm, options)
        env = await asyncio.to_thread(env_class(), task=Visit(), **self._options)
        agent = WebAgent(executor, env, None if episodes is None else Path(episodes))
        self._agents.append(agent)
        return agent

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._agents)} agents)"

    async def close(self) -> None:
        """Close all agents. The browser ends with the process, or by `browser_env.shutdown()`."""
        self._closed = True
        made, self._agents = self._agents, []
        for agent in made:
            await agent.close()


def _executor(llm: str | Policy | TaskExecutor, options: dict[str, Any]) -> TaskExecutor:
    if isinstance(llm, str):
        if "policy" in options:
            raise ValueError(f"The policy is the first argument, {llm!r}: leave policy= out.")
        made: Any = agents.make("roles", policy=llm, **options)
        return made  # type: ignore[no-any-return]
    if isinstance(llm, TaskExecutor):
        if options:
            raise ValueError(f"An agent in memory already has its options: leave out {', '.join(options)}.")
        return llm
    own = {name: options.pop(name) for name in ("verifier", "verifier_adapter") if name in options}
    return TaskExecutor(LLMAgent(llm, **{"actions": TaskExecutor.actions, **options}), **own)
