"""What `selfsurf run` shows while it works: a live panel on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from selfsurf.agents.play import Step
from selfsurf.browser_env.observation import Observation, page_status
from selfsurf.browser_env.text import visible

OUTLINE_LINES = 12
"""Of the page's outline, in the panel."""

STYLES = {"action": "cyan", "error": "red", "guard": "yellow", "cost": "dim"}

REFRESH = 4
"""Times a second that the panel is drawn anew, for its clock."""


@dataclass
class State:
    """What is to be seen."""

    goal: str
    max_steps: int
    stage: str = ""
    """What is being done now."""
    step: int = 0
    url: str = ""
    status: int | None = None
    """HTTP status of the page, where it is an error."""
    title: str = ""
    outline: str = ""
    action: str = ""
    error: str = ""
    """Why the last action did not work, or the reply could not be read."""
    guard: str = ""
    prompt_tokens: int = 0
    """Of all steps together, as the next."""
    sampled_tokens: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self.began

    def see(self, observation: Observation) -> None:
        """Take over the page."""
        self.goal = observation["goal"]
        self.url, self.title, self.outline = observation["url"], observation["title"], observation["dom"]
        self.status = page_status(observation["events"], self.status)

    def take(self, step: Step) -> None:
        """Take over a step."""
        self.step += 1
        self.see(step.after)
        self.action = step.after["last_action"]
        self.error = step.decision.error or step.error
        self.guard = step.decision.guard_note
        completion = step.decision.completion
        usage = completion.usage
        self.prompt_tokens += usage.prompt_tokens if usage else len(completion.prompt_token_ids)
        self.sampled_tokens += usage.completion_tokens if usage else len(completion.token_ids)


def view(state: State, console: Console, *, silent: bool) -> View:
    """Return the view that suits: none, a panel on a terminal, else lines."""
    if silent:
        return View(state)
    return Screen(state, console) if console.is_terminal else Lines(state, console)


class View:
    """Shows a `State`: this one nothing. A context manager for as long as the work lasts."""

    def __init__(self, state: State) -> None:
        self.state = state

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def pause(self) -> None:
        """Leave the terminal to a person for a while."""

    def go_on(self) -> None:
        """Show what happens again."""

    def stage(self, text: str) -> None:
        """Something else is being done now."""
        self.state.stage = text

    def opened(self) -> None:
        """The start page is there."""

    def stepped(self) -> None:
        """A step has been taken."""


class Lines(View):
    """A line for every thing that happens."""

    def __init__(self, state: State, console: Console) -> None:
        super().__init__(state)
        self.console = console

    def stage(self, text: str) -> None:
        """Say it, but not that the agent thinks again, which the steps show."""
        if text != self.state.stage and self.state.step == 0:
            self._say(f"{text} ...")
        super().stage(text)

    def opened(self) -> None:
        """Say that the start page was answered with an error, if it was."""
        if self.state.status is not None:
            self._say(f"The start page was answered with {self.state.status}: {self.state.url}")

    def stepped(self) -> None:
        """Say what was done and what came of it."""
        state = self.state
        self._say(f"{state.step}/{state.max_steps}  {state.action}  {_page(state)}  {_cost(state)}")
        for label, text in (("error", state.error), ("guard", state.guard)):
            if text:
                self._say(f"    {label}: {text}")

    def _say(self, text: str) -> None:
        self.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)


class Screen(View):
    """A panel that stays where it is."""

    def __init__(self, state: State, console: Console) -> None:
        super().__init__(state)
        self._live = Live(get_renderable=lambda: panel(state), console=console, refresh_per_second=REFRESH)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def pause(self) -> None:
        """Leave the panel as it is."""
        self._live.stop()

    def go_on(self) -> None:
        """Draw it anew."""
        self._live.start(refresh=True)

    def stage(self, text: str) -> None:
        """Show it at once."""
        super().stage(text)
        self._live.refresh()

    def stepped(self) -> None:
        """Show it at once."""
        self._live.refresh()


def panel(state: State) -> RenderableType:
    """Return the panel: goal, page, last action and what came of it, cost, and the beginning of the page's outline."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    texts = {"goal": state.goal, "page": _page(state), "action": state.action, "error": state.error,
             "guard": state.guard, "cost": _cost(state)}  # fmt: skip
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


def _cost(state: State) -> str:
    tokens = f"{state.prompt_tokens}+{state.sampled_tokens} tokens, " if state.prompt_tokens else ""
    return f"{tokens}{state.seconds:.1f} s"
