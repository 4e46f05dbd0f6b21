"""`selfsurf shell`: the command and its loop."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from pydantic import Field

from selfsurf.scripts.terminal.agent_options import AgentArguments, checked_options, offered, read_options, refusals
from selfsurf.scripts.terminal.arguments import Agent, check_address, check_browser, refused_together
from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.configuration import absolute
from selfsurf.scripts.terminal.console import console, show_error
from selfsurf.scripts.terminal.environment import EnvironmentArguments, environment_options, tell_confirmation
from selfsurf.scripts.terminal.limits import LimitArguments

if TYPE_CHECKING:
    from selfsurf.scripts.shell.commands import CommandExecutor
    from selfsurf.scripts.shell.folder import SessionFolder
    from selfsurf.scripts.shell.goal import GoalInterrupt
    from selfsurf.scripts.shell.reader import Reader
    from selfsurf.scripts.shell.tabs import Tabs

MOST_STEPS = 30
"""Default step limit of a goal, higher than that of `selfsurf run` because the user watches."""

TERMINATED = 128 + signal.SIGTERM


class Settings(AgentArguments, LimitArguments, EnvironmentArguments):
    """Options of `selfsurf shell`: the agent, the session, and the environment."""

    table: ClassVar[str] = "shell"

    url: str = ""
    """Address of the start page; if not given, a blank tab, or the last page of the session."""
    agent: Agent = "transformers"
    session: Path | None = None
    """Folder of a session to begin, or to continue with its options unless they are given; a new folder under runs/ if
    not given."""
    last: Annotated[bool, typer.Option("--last")] = False
    """Continue the session under runs/ that was used last."""
    max_steps: int = Field(default=MOST_STEPS, ge=1)
    """Step limit of each goal."""
    seed: int = Field(default=0, ge=0)
    """Seed of the agent, if it takes one."""
    headful: bool = False
    """Show the browser window."""
    confirm: Literal["ask", "auto", "never"] = "ask"
    """Policy for risky actions, such as purchases: ask here, carry out and log (auto), or refuse (never)."""
    user: str = "ask"
    """Responder to the agent's questions: ask (you, here), none, or a function of the question as file.py:answer or
    module:answer."""


_OF_THE_DAY = ("session", "last", "url", "as_json", "list_settings", "headful")
"""Options that a session doesn't store."""


@command
def main(settings: Settings) -> int:
    """Give an agent goals, one after the other, in one browser session.

    A line is a goal, or a command if it begins with / (/help lists the commands). Ctrl-C ends a goal; pressed twice at
    the prompt, it ends the shell. Without a terminal, lines are read from standard input, as answers if the agent asks.
    Exit code 2: invalid options; 1: no browser, or no agent; 143: a SIGTERM.
    """
    from selfsurf.browser_env import shutdown
    from selfsurf.scripts.shell.folder import SessionError, SessionFolder, last_session

    folder, there, session, typed = settings.session, False, None, settings._typed
    if settings.last:
        folder = last_session()
        if settings.session is not None or folder is None:
            raise typer.BadParameter(
                "--last needs an earlier session under runs/, and can't be combined with --session."
            )
    try:
        there = folder is not None and (folder / "session.json").exists()
        if there:
            session = SessionFolder(folder)
            settings = _as_before(settings, session.about["settings"])
        around, options = _checked(settings)
        tell_confirmation(settings)
        session = session or SessionFolder(folder)
        session.note(settings=absolute(settings, exclude_defaults=True, exclude={*_OF_THE_DAY}))
        own = around["session"]
        if there and own.profile is None and own.cdp_url is None and "storage_state" not in typed:
            around["session"] = replace(own, storage_state=session.state or own.storage_state)
        return _converse(settings, session, around, options)
    except SessionError as error:
        raise typer.BadParameter(f"--session: {error}") from None
    finally:
        if session is not None:
            session.release()
        shutdown()


def _as_before(settings: Settings, kept: dict[str, Any]) -> Settings:
    """Return the stored options of a session, overridden by those on the command line.

    Raises:
        typer.BadParameter: The stored options are invalid.
    """
    here = {*_OF_THE_DAY, *settings._typed}
    given = {name: getattr(settings, name) for name in here & settings.model_fields_set}
    try:
        return Settings(**{**kept, **given})
    except ValueError:
        raise typer.BadParameter("session.json holds invalid options: begin a new session.") from None


def _checked(settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the validated options of the environment and of the agent.

    Raises:
        typer.BadParameter: An option is invalid.
    """
    from selfsurf.browser_env import SessionOptions

    around: dict[str, Any] = {}
    options: dict[str, Any] = {}
    with refused_together() as checking:
        with checking():
            if settings.url:
                check_address(settings.url)
            if settings.agent == "oracle":
                raise typer.BadParameter("--agent oracle plays tasks only; give another agent for goals in words.")
        with checking():
            around = environment_options(settings.environment, later=True, reads=True)
        with checking():
            options = read_options(settings.set_, settings.model, settings.adapter)
            settings.limits.check(settings.agent, options)
            options = offered(settings.agent, options, ["ask_user"] * (settings.user != "none"))
            options = checked_options(settings.agent, options, settings.seed, settings.set_)
        with checking():
            check_browser(headless=not settings.headful, around=around)
    return {"session": SessionOptions(), **around, "headless": not settings.headful}, options


def _converse(settings: Settings, session: SessionFolder, around: dict[str, Any], options: dict[str, Any]) -> int:
    """Create agent and browser, and carry out lines until the end."""
    from selfsurf.agents import BACKENDS, COMPOSED
    from selfsurf.agents.play import make_decider
    from selfsurf.browser_env import EnvError
    from selfsurf.scripts.shell.commands import CommandExecutor
    from selfsurf.scripts.shell.goal import GoalInterrupt
    from selfsurf.scripts.shell.tabs import Tabs

    tabs, agent, interrupt = Tabs(around), None, GoalInterrupt()
    try:
        with interrupt.listening():
            interrupt.thinks = True  # a signal at the prompt interrupts at once
            reader = _reader(lambda: tabs.url, lambda order: orders.words(order))
            if not settings.as_json and settings.agent in (*BACKENDS, *COMPOSED):
                console.print("Loading the model ...")
            try:
                agent = make_decider(settings.agent, options)
            except refusals() as error:
                raise typer.BadParameter(str(error)) from None
            try:
                _open(tabs, settings.url or session.about["address"])
            except EnvError as error:
                show_error(str(error))
                return 1
            about = {
                "env_id": "Browser-v0", "seed": settings.seed, "agent": settings.agent,
                "model": getattr(getattr(agent.agent, "policy", None), "name", None) or settings.model or None,
                "adapter": settings.adapter or None, "environment": settings.environment.given(),
            }  # fmt: skip
            orders = CommandExecutor(
                agent, about, tabs, session, reader,
                most_steps=settings.max_steps, limits=settings.limits, as_json=settings.as_json,
            )  # fmt: skip
            if not settings.as_json:
                console.print(f"Session {session.folder}. Type a goal, or /help for the commands.")
            _read(reader, orders, interrupt)
            with contextlib.suppress(EnvError):
                orders.keep()
            return TERMINATED if orders.terminated or interrupt.terminated else 0
    except KeyboardInterrupt:  # interrupted before the first line
        return TERMINATED if interrupt.terminated else 130
    finally:
        if agent is not None:
            agent.close()
        with contextlib.suppress(EnvError):
            tabs.close()


def _read(reader: Reader, orders: CommandExecutor, interrupt: GoalInterrupt) -> None:
    """Read and carry out lines until the end of the input."""
    pressed = False
    while not (orders.over or interrupt.terminated):
        try:
            if pressed:
                console.print("Press Ctrl-C again, or Ctrl-D, to leave.")
            line = reader.line()
        except EOFError:
            return
        except KeyboardInterrupt:
            if pressed or interrupt.terminated:
                return
            pressed = True
            continue
        pressed = False
        orders.carry_out(line)


def _open(tabs: Tabs, url: str) -> None:
    """Open the first page, or a blank page if that fails.

    Raises:
        EnvError: There is no browser.
    """
    from selfsurf.browser_env import EnvError
    from selfsurf.browser_env.observation import page_status

    if url and url != "about:blank":
        try:
            status = page_status(tabs.look(url)["events"])
            if status is not None:
                show_error(f"{url} returned HTTP status {status}.")
            return
        except EnvError as error:
            show_error(str(error))
    tabs.look()


def _reader(below: Callable[[], str], words: Callable[[str], Iterable[str]]) -> Reader:
    """Return the reader of this process's input.

    Raises:
        ModuleNotFoundError: The input is a terminal, and prompt_toolkit is not installed.
    """
    from selfsurf.agents.model_files import home
    from selfsurf.scripts.shell.commands import CommandExecutor
    from selfsurf.scripts.shell.reader import Lines, Terminal

    if not sys.stdin.isatty():
        return Lines()
    return Terminal(home() / "shell_history", below, CommandExecutor.all(), words)
