"""`selfsurf mcp`: the browser as tools for any MCP client, over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import typer
from pydantic import Field

from selfsurf.scripts.terminal.agent_options import AgentArguments, checked_options, read_options, refusals
from selfsurf.scripts.terminal.arguments import Agent
from selfsurf.scripts.terminal.attempt_log import LogArguments, attempt_log
from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.environment import EnvironmentArguments, environment_options

if TYPE_CHECKING:
    from selfsurf.browser_env.router.provider import Provider


CALL_ENDS = 1.0
"""Seconds that a cancelled call gets to end, and the attempt log to be written."""


class Settings(AgentArguments, LogArguments, EnvironmentArguments):
    """Options of `selfsurf mcp`: the providers that carry out the tools, and the attempt log."""

    provider: tuple[str, ...] = ("playwright",)
    """Provider that carries out the tools: playwright, stagehand, webview, or module:Class. When one fails, the next is
    tried. Repeatable."""
    webview: str = ""
    """DevTools address of the application whose page the provider webview takes over."""
    agent: Agent = ""
    scope: Literal["call", "session"] = "call"
    """Period for which a provider that failed too often is skipped: the rest of the tool call, or of the session."""
    retries: int = Field(default=1, ge=0)
    """Retries of a call by a failed provider before the next one is tried; webview never retries."""
    deadline: float = Field(default=60.0, gt=0)
    """Seconds until an attempt times out."""
    goal: str = ""
    """Goal of the session's episode. Episodes without a goal can't be learned from."""
    out: Path | None = None
    """Folder of the session's episode; a new one under runs/ if not given."""
    tools: Literal["few", "small"] = "few"
    """Tools offered: few, with browser_act for all actions; or small ones, such as browser_click and browser_fill."""
    changes: int = Field(default=3000, ge=0)
    """Maximum number of characters of the page's change in the result of an action; 0 for results without it."""


@command
def main(settings: Settings) -> int:
    """Serve browser.navigate, act, extract, observe and screenshot until the client disconnects.

    --json prints the tools with their schemas in OpenAI's format instead. Instructions in words to act or extract need
    --agent; without it, the tools take actions on the elements that browser.observe lists.
    """
    from selfsurf.browser_env.router.tools import openai_tools

    if settings.as_json:
        typer.echo(json.dumps(openai_tools(), indent=2))
        return 0
    import mcp.server.stdio  # noqa: F401  (what is missing is said before anything begins)

    asyncio.run(_serve(settings, make_providers(settings)))
    return 0


def make_providers(settings: Settings) -> list[Provider]:
    """Return the requested providers, none of them started.

    Raises:
        typer.BadParameter: A provider can't be made, or is named twice.
    """
    from selfsurf.browser_env.router.providers import make

    options = environment_options(settings.environment, elsewhere=True)
    goal = {"goal": settings.goal} if settings.goal else {}
    given = {"playwright": {**options, **goal}, "stagehand": {k: v for k, v in options.items() if k == "safety"}}
    given["webview"] = {"address": settings.webview, **{k: v for k, v in options.items() if k != "session"}}
    if "webview" in settings.provider and not settings.webview:
        raise typer.BadParameter("The provider webview needs --webview, such as http://127.0.0.1:9222.")
    if settings.out is not None and (settings.out / "episode.json").exists():
        raise typer.BadParameter(f"--out: {settings.out} already holds an episode; choose another folder.")
    if len(set(settings.provider)) < len(settings.provider):
        raise typer.BadParameter("--provider: name each provider only once.")
    words = _words(settings)
    try:
        return [make(name, given.get(name, {}), **words) for name in settings.provider]
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None


def _words(settings: Settings) -> dict[str, Any]:
    """Return the callbacks that interpret instructions in words; empty if no agent is given."""
    if not settings.agent:
        return {}
    from selfsurf import agents
    from selfsurf.agents.language_callbacks import complete_by, decide_by

    options = read_options(settings.set_, settings.model, settings.adapter)
    options = checked_options(settings.agent, options, 0, settings.set_)
    try:
        agent: Any = agents.make(settings.agent, **options)
    except refusals() as error:
        raise typer.BadParameter(str(error)) from None
    policy = getattr(agent, "policy", None)
    asking = Lock()  # a shared lock, because the agent queries the policy as well
    words: dict[str, Any] = {"decide": decide_by(agent, asking)}
    return words if policy is None else words | {"complete": complete_by(policy, asking)}


async def _serve(settings: Settings, providers: list[Provider]) -> None:
    """Serve until the client disconnects, or a signal ends the process."""
    from selfsurf.agents.play.provenance import versions
    from selfsurf.browser_env.browser.runtime import shutdown
    from selfsurf.browser_env.outcome import Outcome
    from selfsurf.browser_env.record.client_episode import ClientEpisode
    from selfsurf.browser_env.router.mcp_server import serve
    from selfsurf.browser_env.router.policy import Policy
    from selfsurf.browser_env.router.providers.environment import EnvironmentProvider
    from selfsurf.browser_env.router.router import Router
    from selfsurf.envs_registry import OPEN

    scope: Literal["step", "request"] = "step" if settings.scope == "call" else "request"
    router = Router(providers, policy=Policy(retries=settings.retries, scope=scope, deadline=settings.deadline))
    router.log = log = attempt_log(settings.log_settings, router.trace_id)
    about = {"env_id": OPEN, "goal": settings.goal, "seed": 0, "versions": versions()}
    episode = ClientEpisode("mcp", settings.out, **about, **({} if log is None else {"traceId": log.trace_id}))
    for provider in providers:
        if isinstance(provider, EnvironmentProvider):
            provider.on_step, provider.change_limit = episode.step, settings.changes
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def note(code: int) -> None:
        if not signalled.done():
            signalled.set_result(code)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, note, 128 + number)
    serving = asyncio.ensure_future(serve(router, small=settings.tools == "small"))
    either: set[asyncio.Future[Any]] = {serving, signalled}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    serving.cancel()  # cancels the current call, if there is one
    await asyncio.wait({serving}, timeout=CALL_ENDS)
    router.end(str(Outcome.STOPPED))
    await router.close()
    if (folder := episode.finish()) is not None:
        typer.echo(f"Episode: {folder}", err=True)
    if not signalled.done():
        serving.result()
        return
    if log is not None:
        log.flush(CALL_ENDS)
    shutdown()
    os._exit(signalled.result())  # the thread that reads standard input would block a normal exit
