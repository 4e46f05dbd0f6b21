"""`selfsurf run`: one goal on one page, by one agent, with the episode on disk."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import Field

from selfsurf.agents.play import Ask, Decider, Environments, Job, Manner, Player, Result, Step, Watch, make_decider
from selfsurf.scripts.terminal.agent_options import AgentArguments, checked_options, read_options, refusals
from selfsurf.scripts.terminal.arguments import Agent, Out, check_address, check_new_episode, chosen_task
from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.console import console
from selfsurf.scripts.terminal.interrupts import Interrupts
from selfsurf.scripts.terminal.live import State, View, view

if TYPE_CHECKING:
    from selfsurf.browser_env import Observation, Task
    from selfsurf.browser_env.record.episode import EpisodeWriter

OPEN_STEPS = 10
"""Step limit of a goal that no task sets one for."""


class Settings(AgentArguments):
    """What is wanted, and who does it."""

    goal: str = ""
    """What is wanted, in words. Not with --task."""
    url: str = ""
    """Where to start. Not with --task."""
    task: str = ""
    """Gymnasium id of a task, instead of a goal and a URL."""
    agent: Agent = "transformers"
    seed: int = Field(default=0, ge=0)
    """Seed of the episode."""
    max_steps: int | None = Field(
        default=None, ge=1, description=f"Step limit; the task's own, or {OPEN_STEPS}, if not given."
    )
    headful: bool = False
    """Show the browser's window."""
    out: Out = None
    """Folder of the episode; a new one under runs/ if not given."""


@command
def main(settings: Settings) -> int:
    """Run an agent for one goal.

    The exit code is 0 if the task was solved, or if the agent finished a goal that no task judges; 130 after Ctrl-C,
    which ends the episode as `stopped`, and 143 after a SIGTERM, which does the same; 2 for options that can't be,
    which leave no episode; else 1.
    """
    task, agent, headless, silent = settings.task, settings.agent, not settings.headful, settings.as_json
    if bool(task) == bool(settings.goal and settings.url):
        raise typer.BadParameter("Give either --task, or both --goal and --url.")
    if settings.url:
        check_address(settings.url)
    if settings.out is not None:
        check_new_episode(settings.out)
    from selfsurf.browser_env.record.episode import new_folder
    from selfsurf.browser_env.session.browsers import require_window

    options = read_options(settings.set_, settings.model, settings.adapter)
    if settings.headful:
        require_window()
    with Interrupts() as interrupts:
        attempt: _Attempt | None = None
        try:
            wanted = chosen_task(task, settings.url, settings.goal)
            if agent == "oracle" and not wanted.has_oracle:
                raise typer.BadParameter("There is no oracle for this: only tasks have one (`selfsurf envs`), not all.")
            options = checked_options(agent, options, settings.seed)
            meta = {"env_id": task or "Browser-v0", "seed": settings.seed, "goal": wanted.goal or "", "agent": agent,
                    "model": settings.model or None, "adapter": settings.adapter or None}  # fmt: skip
            steps = settings.max_steps or wanted.max_steps or OPEN_STEPS
            folder = settings.out or new_folder("run")
            interrupts.hold()  # a folder that is there must have an end
            attempt = _begin(wanted, folder, meta, steps, headless=headless, silent=silent)
            interrupts.release()
            with attempt.view:
                attempt.work(agent, options, interrupts)
            interrupts.hold()
        except KeyboardInterrupt:
            pass
        except (Exception, SystemExit) as error:
            if attempt is not None:
                attempt.fail(error, silent=silent or interrupts.seen)
            elif not interrupts.seen:
                raise
        finally:
            if attempt is not None:
                attempt.finish(interrupted=interrupts.seen)
        if attempt is None:  # nothing has begun
            return interrupts.exit_code
        if attempt.refused:
            raise typer.BadParameter(attempt.result.detail)
        return attempt.report(as_json=silent, exit_code=interrupts.exit_code)


@dataclass
class _Attempt(Watch):
    """One episode from the first moment on, so that it ends properly wherever it is stopped."""

    ask: Ask
    environments: Environments
    writer: EpisodeWriter
    state: State
    view: View
    result: Result
    player: Player | None = None
    agent: Decider | None = None
    ended: bool = False
    """Whether the episode came to its own end."""
    refused: bool = False
    """Whether the agent could not be made of its options: then there is no episode."""

    def work(self, agent: str, options: dict[str, Any], interrupts: Interrupts) -> None:
        """Load the model, open the page, and act until the end."""
        from selfsurf.agents import BACKENDS

        self.view.stage("Loading the model" if agent in BACKENDS or ":" in agent else "Starting")
        self.agent = make_decider(agent, options)
        interrupts.check()
        self.writer.note(model=getattr(getattr(self.agent.agent, "policy", None), "name", None))
        self.view.stage("Opening the page")
        self.player = Player(
            self.agent, self.environments, 1, Manner(keep_steps=False), record=lambda ask: self.writer, watch=self
        )
        self.player.begin(self.ask)
        while not self.ended:
            interrupts.check()
            for _, result in self.player.turn():
                self.result, self.ended = result, True
        self.view.stage("Done")

    def opened(self, ask: Ask, observation: Observation) -> None:
        """As `Watch.opened`."""
        self.state.see(observation)

    def acting(self, asks: Sequence[Ask]) -> None:
        """As `Watch.acting`."""
        self.view.stage("Thinking and acting")

    def stepped(self, ask: Ask, step: Step) -> None:
        """As `Watch.stepped`."""
        self.state.take(step)
        self.view.stepped()

    def fail(self, error: Exception | SystemExit, *, silent: bool) -> None:
        """Note that this error ended the episode. A request that can't be made is nobody's failure.

        Of an error that nobody foresaw, the episode keeps where it came from, and it is shown unless `silent`.
        """
        from selfsurf.browser_env import Outcome

        detail = str(error) or type(error).__name__
        self.refused = self.agent is None and isinstance(error, refusals())
        if not isinstance(error, _expected()):
            detail = f"{type(error).__name__}: {error}"
            self.result.traceback = "".join(traceback.format_exception(error))
            if not silent:
                console.print(self.result.traceback, markup=False, highlight=False, soft_wrap=True)
        asked = self.state.step > 0 or bool(self.state.url)
        outcome = Outcome.STOPPED if asked and isinstance(error, ValueError) else Outcome.ENV_ERROR
        self.result.end(outcome, trainable=False, detail=detail)

    def finish(self, *, interrupted: bool) -> None:
        """Put everything away: the episode first."""
        from selfsurf.browser_env import Outcome
        from selfsurf.browser_env.session.runtime import shutdown

        if interrupted and not self.ended:
            self.refused = False
            self.result.end(Outcome.STOPPED, trainable=False)
        if self.refused:
            self.writer.discard()
            return
        if self.player is None:  # no episode was begun
            if self.result.traceback:
                self.writer.note(traceback=self.result.traceback)
            self.writer.finish(self.result.outcome, trainable=False, detail=self.result.detail)
        elif not self.ended:
            if self.result.traceback:
                self.writer.note(traceback=self.result.traceback)
            cut = self.player.close(Outcome(self.result.outcome), self.result.detail)
            self.result = cut[0][1] if cut else self.result
        if self.agent is not None:
            self.agent.close()
        if not interrupted:
            self.environments.close()
        shutdown()  # a browser that is still starting belongs to no environment yet

    def report(self, *, as_json: bool, exit_code: int) -> int:
        """Print how it ended and return the exit code: the given one, unless that is 0."""
        ended, state = self.result, self.state
        error = ended.detail if ended.masked or not self.ended else ""
        result = {
            "outcome": ended.outcome, "reward": ended.reward, "answer": ended.answer, "error": error,
            "steps": state.step, "prompt_tokens": state.prompt_tokens, "sampled_tokens": state.sampled_tokens,
            "seconds": round(state.seconds, 3), "episode": str(self.writer.folder),
        }  # fmt: skip
        if as_json:
            print(json.dumps(result))
        else:
            if error:
                console.print(error, style="red", markup=False)
            print(f"{ended.outcome}. {ended.answer}".strip() + f"\nEpisode: {self.writer.folder}")
        if exit_code:
            return exit_code
        # An open-ended goal ends as `stopped`: nobody but the user can judge the answer.
        return 0 if ended.solved or (ended.outcome == "stopped" and self.ended) else 1


def _begin(task: Task, folder: Path, meta: dict[str, Any], steps: int, *, headless: bool, silent: bool) -> _Attempt:
    from selfsurf.agents.play.record import versions
    from selfsurf.browser_env.record.episode import EpisodeWriter

    state = State(meta["goal"], steps)
    ask = Ask(0, Job(meta["env_id"], meta["seed"]))
    return _Attempt(
        ask=ask,
        environments=Environments(lambda name: task, 1, screenshot=True, headless=headless, max_episode_steps=steps),
        writer=EpisodeWriter(folder, {"episode_id": folder.name, **meta, "versions": versions()}),
        state=state,
        view=view(state, console, silent=silent),
        result=Result(ask.job, "running", trainable=False),
    )


def _expected() -> tuple[type[Exception], ...]:
    """The errors whose message says it all."""
    from selfsurf.agents import PolicyError
    from selfsurf.agents.models import ModelError
    from selfsurf.browser_env import EnvError

    return PolicyError, EnvError, ModelError, ImportError, OSError, ValueError
