"""Playing of one goal as an episode in a shell's tabs. Ctrl-C ends the goal and keeps the tabs."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from selfsurf.agents.agent import Decision, Stop
from selfsurf.agents.play import (
    AgentAdapter,
    EpisodeRequest,
    Job,
    Player,
    PlayerCallbacks,
    PlayOptions,
    Result,
    SingleEnvironment,
    Step,
)
from selfsurf.browser_env import ActionError, Observation, Outcome
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.record.format import recorded_action
from selfsurf.scripts.shell.reader import Reader
from selfsurf.scripts.shell.tabs import Tabs
from selfsurf.scripts.terminal.limits import Limits
from selfsurf.scripts.terminal.live import View

INTERRUPTED = "interrupted by the user"


class GoalInterrupt:
    """Handling of Ctrl-C and SIGTERM during a goal.

    The first signal interrupts the agent's thinking or an open question at once; otherwise the current step is
    finished, so that the tabs survive. The second one interrupts the step as well, and the tabs are lost.
    """

    def __init__(self) -> None:
        self.seen = False
        self.terminated = False
        """Whether the shell ends as well, because of a SIGTERM."""
        self.thinks = False
        """Whether the agent or a person is being queried, so that a signal interrupts at once."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals within this context."""
        before = {each: signal.signal(each, self._handle) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def check(self) -> None:
        """Raise `Stop` if there was a signal, even if the agent swallowed the exception."""
        if self.seen:
            raise Stop(INTERRUPTED) from None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.seen = self.seen, True
        self.terminated = self.terminated or number == signal.SIGTERM
        if again or self.thinks:
            self.thinks = False
            raise KeyboardInterrupt


class InterruptibleAgent(AgentAdapter):
    """A decider that signals can interrupt, and that replays the steps of a continued goal into the agent's memory."""

    def __init__(self, inner: AgentAdapter, interrupt: GoalInterrupt, past: Sequence[dict[str, Any]]) -> None:
        super().__init__(inner.agent, make=inner._make)
        self._interrupt, self._past = interrupt, past

    def begin(self, slot: int, job: Job, goal: str, **told: Any) -> None:
        """Begin the episode, and replay earlier steps into the agent's memory."""
        super().begin(slot, job, goal, **told)
        for step in self._past:
            with contextlib.suppress(ActionError):  # the reply of that step was not a valid action
                self.follow(slot, step["observation"], recorded_action(step["actions"][0]))

    def decide(self, *args: Any, **options: Any) -> list[Decision | BaseException]:
        """Decide on actions, unless a signal interrupts."""
        interrupt = self._interrupt
        try:
            try:
                interrupt.thinks = True
                interrupt.check()
                decisions = super().decide(*args, **options)
            finally:
                interrupt.thinks = False
            interrupt.check()
        except BaseException:
            interrupt.check()
            raise
        return decisions


class Goal(PlayerCallbacks):
    """One goal of a shell, played as an episode.

    Args:
        agent: Agent that acts.
        tabs: Browser session in which the agent acts.
        reader: Input that answers the agent's questions.
        writer: Writer of the episode.
        view: View of the episode's progress.
        limits: Limits of tokens, cost and time.
        past: Recorded steps of the goal to continue.
    """

    def __init__(
        self,
        agent: AgentAdapter,
        tabs: Tabs,
        reader: Reader,
        writer: EpisodeWriter,
        view: View,
        limits: Limits,
        past: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.interrupt = GoalInterrupt()
        self.places: list[str] = []
        """For each step, the address that was open before it."""
        self._tabs, self._reader, self._view, self._limits = tabs, reader, view, limits
        self._asked: tuple[EpisodeRequest, dict[str, str]] | None = None
        self._player = Player(
            InterruptibleAgent(agent, self.interrupt, past),
            SingleEnvironment(tabs.env),
            1,
            PlayOptions(agent_errors="fail", keep_steps=False),
            record=lambda ask: writer,
            watch=self,
        )

    def play(self) -> Result:
        """Play the goal to its end.

        Raises:
            Exception: A bug in this program, or the episode can't be written.
        """
        ended: list[tuple[EpisodeRequest, Result]] = []
        with self.interrupt.listening():
            try:
                self._player.begin(EpisodeRequest(0, Job("Browser-v0", 0)))
                while not ended:
                    self._answer()
                    ended = self._player.turn()
            except KeyboardInterrupt:
                ended = self._player.close(Outcome.STOPPED, INTERRUPTED)
            except BaseException as error:
                self._player.close(detail=str(error))
                raise
        return ended[0][1]

    def _answer(self) -> None:
        """Put the agent's open question to the user, and pass the answer on; no answer counts as a refusal."""
        if self._asked is None:
            return
        (ask, question), self._asked = self._asked, None
        self._view.pause()
        try:
            self.interrupt.thinks = True  # lets a signal interrupt the question at once
            text = "" if self.interrupt.seen else self._reader.answer(question["kind"], question["text"])
        except EOFError:
            text = ""
        except KeyboardInterrupt:
            text, self.interrupt.seen = "", True
        finally:
            self.interrupt.thinks = False
            self._view.go_on()
        self._player.answer(ask, text)

    def opened(self, ask: EpisodeRequest, observation: Observation) -> None:
        """Show the page."""
        self._see(observation)

    def acting(self, asks: Sequence[EpisodeRequest]) -> None:
        """Check the limits before the agent decides, and note the address."""
        self._view.state.check(self._limits)
        self._view.stage("Thinking and acting")
        self.places.append(self._tabs.address())

    def stepped(self, ask: EpisodeRequest, step: Step) -> None:
        """Show the finished step."""
        self._view.state.take(step)
        self._view.stepped()
        self._tabs.seen = step.after

    def waiting(self, ask: EpisodeRequest, question: dict[str, str]) -> None:
        """Store the agent's question until `play` asks it."""
        self._asked = ask, question

    def _see(self, observation: Observation) -> None:
        self._tabs.seen = observation
        self._view.state.see(observation)
