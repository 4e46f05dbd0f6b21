"""The live view of `selfsurf run`: a panel on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from selfsurf.agents.agent import Stop
from selfsurf.agents.play import Step
from selfsurf.agents.play.job import usages_of
from selfsurf.browser_env.observation import Observation, page_status
from selfsurf.browser_env.text import visible
from selfsurf.scripts.terminal.limits import Limits

OUTLINE_LINES = 12
"""Lines of the page's outline in the panel."""

STYLES = {"action": "cyan", "error": "red", "guard": "yellow", "cost": "dim"}

REFRESH = 4
"""Redraws of the panel per second, which keep its clock running."""


@dataclass
class State:
    """The state of an episode as displayed."""

    goal: str
    max_steps: int
    stage: str = ""
    """Current activity, such as the agent's thinking."""
    step: int = 0
    url: str = ""
    status: int | None = None
    """HTTP status of the page if it is an error; else None."""
    title: str = ""
    outline: str = ""
    action: str = ""
    error: str = ""
    """Error of the last action, or of parsing the reply."""
    guard: str = ""
    prompt_tokens: int = 0
    """Prompt tokens of all steps so far."""
    sampled_tokens: int = 0
    cost: float | None = 0.0
    """Cost in US dollars; None once the price of a reply is unknown."""
    began: float = field(default_factory=time.monotonic)
    """Monotonic start time, shifted by the seconds spent waiting for a person."""
    paused: float | None = None
    """Monotonic time since which a person is awaited; None if nobody is."""

    @property
    def seconds(self) -> float:
        """Seconds that agent and page took; waiting for a person doesn't count."""
        return (time.monotonic() if self.paused is None else self.paused) - self.began

    def pause(self) -> None:
        """Stop the clock."""
        self.paused = time.monotonic() if self.paused is None else self.paused

    def go_on(self) -> None:
        """Restart the clock."""
        if self.paused is not None:
            self.began, self.paused = self.began + time.monotonic() - self.paused, None

    def see(self, observation: Observation) -> None:
        """Update the state from an observation."""
        self.goal = observation["goal"]
        self.status = page_status(observation["events"], self.status if observation["url"] == self.url else None)
        self.url, self.title, self.outline = observation["url"], observation["title"], observation["dom"]

    def take(self, step: Step) -> None:
        """Update the state from a step."""
        self.step += 1
        self.see(step.after)
        self.action = step.after["last_action"]
        self.error = step.decision.error or step.error
        self.guard = step.decision.guard_note
        spent = step.decision.completion.spent
        self._spend(spent.prompt_tokens, spent.completion_tokens, spent.cost)

    def take_up(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Update the state from the recorded steps of an episode that another process began."""
        self.step = len(steps)
        for usage in usages_of(steps):
            self._spend(usage["prompt_tokens"], usage["completion_tokens"], usage["cost"])

    def _spend(self, prompt_tokens: int, sampled_tokens: int, cost: float | None) -> None:
        self.prompt_tokens += prompt_tokens
        self.sampled_tokens += sampled_tokens
        if prompt_tokens or sampled_tokens:
            self.cost = None if cost is None or self.cost is None else self.cost + cost

    def check(self, limits: Limits, *, asked: bool = True) -> None:
        """End the goal if a limit is reached, or can't be enforced.

        Args:
            limits: Limits of the goal.
            asked: Whether the steps used a model.

        Raises:
            Stop: A limit is reached or can't be enforced; the message gives the reason.
        """
        tokens = self.prompt_tokens + self.sampled_tokens
        why = limits.reached(tokens, self.cost or 0.0, self.seconds)
        if self.step and asked:
            why = why or limits.unknown(tokens or None, self.cost if tokens else None, "the agent")
        if why:
            raise Stop(why)


def view(state: State, console: Console, *, silent: bool) -> View:
    """Return the view to use: none if silent, a panel on a terminal, else lines."""
    if silent:
        return View(state)
    return Screen(state, console) if console.is_terminal else Lines(state, console)


class View:
    """Base of views of a `State`, which displays nothing. A context manager for the duration of the work."""

    def __init__(self, state: State) -> None:
        self.state = state

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def pause(self) -> None:
        """Pause the view while a person uses the terminal."""
        self.state.pause()

    def go_on(self) -> None:
        """Resume the view."""
        self.state.go_on()

    def stage(self, text: str) -> None:
        """Set the current activity."""
        self.state.stage = text

    def opened(self) -> None:
        """Handle the loaded start page."""

    def stepped(self) -> None:
        """Handle a finished step."""


class Lines(View):
    """A view that prints a line per event."""

    def __init__(self, state: State, console: Console) -> None:
        super().__init__(state)
        self.console = console

    def stage(self, text: str) -> None:
        """Print the activity before the first step; afterwards the printed steps show it."""
        if text != self.state.stage and self.state.step == 0:
            self._say(f"{text} ...")
        super().stage(text)

    def opened(self) -> None:
        """Print the HTTP error status of the start page, if there was one."""
        if self.state.status is not None:
            self._say(f"The start page returned HTTP status {self.state.status}: {self.state.url}")

    def stepped(self) -> None:
        """Print the step's action, page, usage and errors."""
        state = self.state
        self._say(f"{state.step}/{state.max_steps}  {state.action}  {_page(state)}  {spent(state)}")
        for label, text in (("error", state.error), ("guard", state.guard)):
            if text:
                self._say(f"    {label}: {text}")

    def _say(self, text: str) -> None:
        self.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)


class Screen(View):
    """A view that redraws a panel in place."""

    def __init__(self, state: State, console: Console) -> None:
        super().__init__(state)
        self._live = Live(get_renderable=lambda: panel(state), console=console, refresh_per_second=REFRESH)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def pause(self) -> None:
        """Freeze the panel while a person uses the terminal."""
        super().pause()
        self._live.stop()

    def go_on(self) -> None:
        """Redraw the panel after a pause."""
        super().go_on()
        self._live.start(refresh=True)

    def stage(self, text: str) -> None:
        """Set the current activity and redraw the panel."""
        super().stage(text)
        self._live.refresh()

    def stepped(self) -> None:
        """Redraw the panel after a step."""
        self._live.refresh()


def panel(state: State) -> RenderableType:
    """Return the panel: goal, page, last action with its error, cost, and the first lines of the page's outline."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    texts = {"goal": state.goal, "page": _page(state), "action": state.action, "error": state.error,
             "guard": state.guard, "cost": spent(state)}  # fmt: skip
    for label, text in texts.items():
        if text:
            table.add_row(label, Text(visible(text), style=STYLES.get(label, "")))
    parts: list[RenderableType] = [table]
    lines = state.outline.splitlines()
    if lines:
        shown = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in lines[:OUTLINE_LINES]]
        left = len(lines) - len(shown)
        parts += [Text(), *shown, *([Text(f"... {left} more lines", style="dim")] if left else [])]
    title = f"step {state.step}/{state.max_steps}  {state.stage}"
    return Panel(Group(*parts), title=Text(title), title_align="left")


def _page(state: State) -> str:
    url = state.url if state.status is None else f"{state.url} ({state.status})"
    return f'{url} "{state.title}"' if state.title else url


def spent(state: State) -> str:
    """Return the usage so far: tokens and cost where they are known, and seconds."""
    tokens = f"{state.prompt_tokens}+{state.sampled_tokens} tokens, " if state.prompt_tokens else ""
    money = f"${state.cost:.4f}, " if state.cost else ""
    return f"{tokens}{money}{state.seconds:.1f} s"
