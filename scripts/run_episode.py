"""The episode of `selfsurf run`: played, shown, and always finished properly, wherever an interrupt comes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from selfsurf.agents.play import (
    AgentAdapter,
    Environments,
    EpisodeRequest,
    Player,
    PlayerCallbacks,
    PlayOptions,
    Result,
    Step,
    make_decider,
)
from selfsurf.browser_env.disk import NoRoom
from selfsurf.browser_env.errors import traceback_of
from selfsurf.scripts.terminal.caching import cached_line
from selfsurf.scripts.terminal.console import show_error
from selfsurf.scripts.terminal.ending import answer_data, expected, headline, reason_of, why_ended
from selfsurf.scripts.terminal.interrupts import Interrupts
from selfsurf.scripts.terminal.limits import Limits
from selfsurf.scripts.terminal.live import State, View, spent
from selfsurf.scripts.waiting.kept import WaitingRun
from selfsurf.scripts.waiting.person import Person

if TYPE_CHECKING:
    from selfsurf.agents.cached import Cache
    from selfsurf.browser_env import Observation, Task
    from selfsurf.browser_env.attempts.log import FileLog
    from selfsurf.browser_env.record.episode import EpisodeWriter

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a process ended by SIGTERM."""


@dataclass
class RunEpisode(PlayerCallbacks):
    """An episode from its first moment on, so that it is finished properly wherever it is interrupted."""

    ask: EpisodeRequest
    task: Task
    environments: Environments
    writer: EpisodeWriter
    state: State
    view: View
    result: Result
    person: Person
    limits: Limits
    log: FileLog | None = None
    """Attempt log; None if none is written."""
    interrupts: Interrupts | None = None
    player: Player | None = None
    agent: AgentAdapter | None = None
    cache: Cache | None = None
    kept: WaitingRun | None = None
    """Files that outlive the process; None for a run that can't wait."""
    goes_on: bool = False
    """Whether another process began the run. If so, the run is left unchanged until its page is open again."""
    at_page: bool = False
    start_status: int | None = None
    """HTTP status of the start page if it is an error; else None."""
    ended: bool = False
    """Whether the episode finished by itself, without an interrupt or error."""
    refusal: Exception | SystemExit | None = None
    """Exception raised while making the agent from its options; if set, the episode is discarded."""

    def work(
        self, agent: str, options: dict[str, Any], interrupts: Interrupts, answer: str | None, cache: Cache | None
    ) -> None:
        """Load the model, open the page, and act until the episode ends."""
        from selfsurf.agents import BACKENDS, COMPOSED
        from selfsurf.agents.cached import CachedAgentAdapter
        from selfsurf.agents.play.resume_point import take_up
        from selfsurf.browser_env.goal.evidence import evidence_of
        from selfsurf.browser_env.record.episode import Episode
        from selfsurf.tasks.goal import GoalTask

        self.interrupts = interrupts
        self.cache = cache
        self.view.stage("Loading the model" if agent in (*BACKENDS, *COMPOSED) and cache is None else "Starting")
        make = partial(make_decider, agent, options)
        self.agent = make() if cache is None else CachedAgentAdapter(cache, make, needs_privileged=agent == "oracle")
        self.state.began = time.monotonic()
        interrupts.check()
        self.writer.note(model=getattr(getattr(self.agent.agent, "policy", None), "name", None))
        self.view.stage("Opening the page")
        self.player = Player(
            self.agent, self.environments, 1, PlayOptions(agent_errors="fail", keep_steps=False),
            record=lambda ask: self.writer, watch=self,
        )  # fmt: skip
        resume_point = take_up(self.writer, answer) if self.goes_on else None
        if resume_point is not None:
            self.state.take_up(resume_point.steps)
            if isinstance(self.task, GoalTask):
                self.task.go_on(evidence_of(Episode(self.writer.folder)))
        self.player.begin(self.ask, resume_point)
        while not self.ended:
            interrupts.check()
            self.person.look(self.player)
            for _, result in self.player.turn():
                self.result, self.ended = result, True
        if self.state.step:
            self.view.stage("Done")

    def opened(self, ask: EpisodeRequest, observation: Observation) -> None:
        """Show the start page and note its HTTP status."""
        self.at_page = True
        self.state.see(observation)
        self.start_status = self.state.status
        self.view.opened()

    def acting(self, asks: Sequence[EpisodeRequest]) -> None:
        """Show the activity and check the limits before the agent decides."""
        self.view.stage("Thinking and acting")
        if self.player is not None:
            self.state.check(self.limits, asked=self.cache is None)

    def acted(self) -> None:
        """Raise a pending interrupt, which the agent may have turned into an error of its own."""
        if self.interrupts is not None:
            self.interrupts.check()

    def stepped(self, ask: EpisodeRequest, step: Step) -> None:
        """Show the finished step."""
        self.state.take(step)
        self.view.stepped()

    def waiting(self, ask: EpisodeRequest, question: dict[str, str]) -> None:
        """Pass the agent's question to the person."""
        self.person.asked(ask, question)

    def fail(self, error: Exception | SystemExit) -> None:
        """Record that the agent couldn't be made, or that an error outside the agent ended the episode."""
        from selfsurf.browser_env import Outcome

        detail = str(error) or type(error).__name__
        if not isinstance(error, expected()):
            detail = f"{type(error).__name__}: {error}"
            self.result.traceback = traceback_of(error)
        self.refusal = error if self.agent is None else None
        self.result.end(Outcome.ENV_ERROR, trainable=False, detail=detail)

    def finish(self, *, interrupted: bool) -> None:
        """Finish the episode, then close the agent, the environment and the browser."""
        from selfsurf.browser_env import Outcome
        from selfsurf.browser_env.browser.runtime import shutdown

        self.person.leave()
        if interrupted and not self.ended:
            self.refusal = None
            self.result.end(Outcome.STOPPED, trainable=False)
        if self.refusal is not None:
            if not self.goes_on:
                self.writer.discard()
                if self.kept is not None:
                    self.kept.clean()
            return
        left = self.left
        if left:
            if self.player is not None:
                self.player.leave()
        elif self.player is None:  # no episode was begun
            self.writer.finish(self.result.outcome, trainable=False, detail=self.result.detail)
        elif not self.ended:
            trace = self.result.traceback
            if trace:
                self.writer.note(traceback=trace)
            with suppress(NoRoom):  # a full disk has already ended the episode
                cut = self.player.close(Outcome(self.result.outcome), self.result.detail)
                self.result = cut[0][1] if cut else self.result
            self.result.traceback = trace
        if self.agent is not None:
            self.agent.close()
        if not interrupted:
            self.environments.close()
        if self.log is not None and not left:
            self.log.close(self.result.ending, self.result.detail)
        shutdown()  # a browser that is still starting belongs to no environment yet
        if self.kept is not None and not left:
            self.kept.clean()

    @property
    def left(self) -> bool:
        """Whether the run stays unfinished: it couldn't continue, or was terminated while waiting for a person."""
        if self.kept is not None and self.person.waited_for and self.interrupts is not None:
            return self.interrupts.exit_code == TERMINATED
        return self.goes_on and not self.at_page

    def keep(self) -> dict[str, Any]:
        """Add the solved episode to the cache; return the usage of the cache, empty without one."""
        from selfsurf.agents.cached import CachedAgentAdapter
        from selfsurf.browser_env.record.episode import Episode

        if self.cache is None or not isinstance(self.agent, CachedAgentAdapter):
            return {}
        kept = self.cache.keep(Episode(self.writer.folder))
        flow = kept.flow and {"flow": kept.flow.id, "actions": len(kept.flow.steps)}
        return {**self.agent.did(), "kept": flow, "why": kept.why}

    def report(self, *, as_json: bool, interrupts: Interrupts, after: Callable[[], dict[str, Any]]) -> int:
        """Print the result, run `after`, and return the exit code, which is that of an interrupt if there was one."""
        ended, state = self.result, self.state
        fine = ended.ending in ("solved", "done")
        error = ended.detail if ended.masked or ended.agent_raised or not self.ended else ""
        result = {
            "outcome": ended.outcome, "reward": ended.reward, "answer": ended.answer, "error": error,
            "detail": ended.detail, **ended.terminal, "reason": reason_of(ended),
            "start_status": self.start_status, "steps": state.step, "max_steps": state.max_steps,
            "prompt_tokens": state.prompt_tokens, "sampled_tokens": state.sampled_tokens, "cost": state.cost or None,
            "seconds": round(state.seconds, 3), "episode": str(self.writer.folder),
        }  # fmt: skip
        result |= answer_data(self.task, ended)
        if self.left and self.kept is not None:
            outcome, error = self.kept.parting(error or "Interrupted")
            result |= {"outcome": outcome, "error": error}
            print(json.dumps(result)) if as_json else show_error(error, ended.traceback)
            return interrupts.exit_code or 1
        cached = self.keep()
        if as_json:
            print(json.dumps({**result, **({"cache": cached} if cached else {}), **after()}))
        else:
            if error:
                show_error(error, ended.traceback)
            lines = why_ended(self.task, ended, state.step, state.max_steps, detail=not error)
            why = "".join(f"\n{line}" for line in lines) + (cached_line(cached) if cached else "")
            head = headline(ended, self.start_status, self.writer.folder)
            print(f"{head}{why}\nUsed: {spent(state)}\nEpisode: {self.writer.folder}", flush=True)
            after()
        return interrupts.exit_code if interrupts.seen else 0 if fine else 1
