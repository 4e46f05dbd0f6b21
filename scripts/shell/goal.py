"""Plays one goal of a shell as an episode. Ctrl-C ends the goal and leaves the tabs as they are."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from selfsurf.agents.agent import Decision, Stop
from selfsurf.agents.play import Ask, Decider, Given, Job, Manner, Player, Result, Step, Watch
from selfsurf.browser_env import ActionError, Observation, Outcome
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.record.format import recorded_action
from selfsurf.scripts.shell.reader import Reader
from selfsurf.scripts.shell.tabs import Tabs
from selfsurf.scripts.terminal.limits import Limits
from selfsurf.scripts.terminal.live import View

INTERRUPTED = "interrupted by the user"


class Interrupt:
    """Ctrl-C, or a SIGTERM, while a goal is carried out.

    The first one stops an agent that thinks and a question that waits, and else waits for the step under way, so that
    the tabs stay. The second one cuts that off as well, and the tabs are lost.
    """

    def __init__(self) -> None:
        self.seen = False
        self.terminated = False
        """Whether the shell is to end as well."""
        self.thinks = False
        """Whether the agent or a person is being asked."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals for as long as the context lasts."""
        before = {each: signal.signal(each, self._handle) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def check(self) -> None:
        """Raise `Stop` if there has been one, whatever the agent has made of it."""
        if self.seen:
            raise Stop(INTERRUPTED) from None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.seen = self.seen, True
        self.terminated = self.terminated or number == signal.SIGTERM
        if again or self.thinks:
            self.thinks = False
            raise KeyboardInterrupt


class Interruptible(Decider):
    """Another decider, which an interrupt stops, and which is told of the steps that a goal goes on with."""

    def __init__(self, inner: Decider, interrupt: Interrupt, past: Sequence[dict[str, Any]]) -> None:
        super().__init__(inner.agent, make=inner._make)
        self._interrupt, self._past = interrupt, past

    def begin(self, slot: int, job: Job, goal: str, **told: Any) -> None:
        """As `Decider.begin`."""
        super().begin(slot, job, goal, **told)
        for step in self._past:
            with contextlib.suppress(ActionError):  # a reply that was no action
                self.follow(slot, step["observation"], recorded_action(step["actions"][0]))

    def decide(self, *args: Any, **options: Any) -> list[Decision | BaseException]:
        """As `Decider.decide`."""
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


class Goal(Watch):
    """One goal.

    Args:
        agent: who acts.
        tabs: where.
        reader: who answers questions.
        writer: of the episode.
        view: shows what happens.
        limits: of what it may use up.
        past: recorded steps that it goes on with.
    """

    def __init__(
        self,
        agent: Decider,
        tabs: Tabs,
        reader: Reader,
        writer: EpisodeWriter,
        view: View,
        limits: Limits,
        past: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.interrupt = Interrupt()
        self.places: list[str] = []
        """For each step, what was open before it."""
        self._tabs, self._reader, self._view, self._limits = tabs, reader, view, limits
        self._asked: tuple[Ask, dict[str, str]] | None = None
        self._player = Player(
            Interruptible(agent, self.interrupt, past),
            Given(tabs.env),
            1,
            Manner(agent_errors="fail", keep_steps=False),
            record=lambda ask: writer,
            watch=self,
        )

    def play(self) -> Result:
        """Play it to its end.

        Raises:
            Exception: an error in this program, or the episode can't be written.
        """
        ended: list[tuple[Ask, Result]] = []
        with self.interrupt.listening():
            try:
                self._player.begin(Ask(0, Job("Browser-v0", 0)))
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
        """Bring the answer to the question that the goal waits for, if it does. Without one it is refused."""
        if self._asked is None:
            return
        (ask, question), self._asked = self._asked, None
        self._view.pause()
        try:
            self.interrupt.thinks = True  # an interrupt is told at once
            text = "" if self.interrupt.seen else self._reader.answer(question["kind"], question["text"])
        except EOFError:
            text = ""
        except KeyboardInterrupt:
            text, self.interrupt.seen = "", True
        finally:
            self.interrupt.thinks = False
            self._view.go_on()
        self._player.answer(ask, text)

    def opened(self, ask: Ask, observation: Observation) -> None:
        """As `Watch.opened`."""
        self._see(observation)

    def acting(self, asks: Sequence[Ask]) -> None:
        """As `Watch.acting`."""
        self._view.state.check(self._limits)
        self._view.stage("Thinking and acting")
        self.places.append(self._tabs.address())

    def stepped(self, ask: Ask, step: Step) -> None:
        """As `Watch.stepped`."""
        self._view.state.take(step)
        self._view.stepped()
        self._tabs.seen = step.after

    def waiting(self, ask: Ask, question: dict[str, str]) -> None:
        """As `Watch.waiting`."""
        self._asked = ask, question

    def _see(self, observation: Observation) -> None:
        self._tabs.seen = observation
        self._view.state.see(observation)
