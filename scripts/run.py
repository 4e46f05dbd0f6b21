"""`selfsurf run`: one goal on one page, by one agent, with the episode on disk."""

from __future__ import annotations

import json
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from selfsurf.scripts.terminal.agent_options import checked_options, read_options, refusals
from selfsurf.scripts.terminal.arguments import check_address, check_new_episode
from selfsurf.scripts.terminal.console import console
from selfsurf.scripts.terminal.interrupts import Interrupts

if TYPE_CHECKING:
    from selfsurf.agents import Agent
    from selfsurf.agents.play.episodes import Running
    from selfsurf.browser_env import AsyncBrowserEnv, Task
    from selfsurf.browser_env.record.episode import EpisodeWriter
    from selfsurf.scripts.terminal.live import State, View

OPEN_STEPS = 10
"""Step limit of a goal that no task sets one for."""


def main(
    goal: Annotated[str, typer.Option(help="What is wanted, in words. Not with --task.")] = "",
    url: Annotated[str, typer.Option(help="Where to start. Not with --task.")] = "",
    task: Annotated[str, typer.Option(help="Gymnasium id of a task, instead of a goal and a URL.")] = "",
    backend: Annotated[str, typer.Option(help="The agent: transformers, openai, mlx, tensorrt, oracle, random, "
                                              "or module:Class of a policy.")] = "transformers",
    model: Annotated[str, typer.Option(help="Short name, hub id or folder of the model; the backend's own if not "
                                            "given.")] = "",
    adapter: Annotated[str, typer.Option(help="Folder of a LoRA adapter, or its name on a server.")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help="Another option of the agent, name=JSON value or "
                                                                 "text, e.g. temperature=0.7. Repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the episode.")] = 0,
    max_steps: Annotated[int | None, typer.Option(help=f"Step limit; the task's own, or {OPEN_STEPS}, if not given.",
                                                  min=1)] = None,
    headful: Annotated[bool, typer.Option(help="Show the browser's window.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the episode; a new one under runs/ if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and nothing else.")] = False,
) -> int:  # fmt: skip
    """Run an agent for one goal.

    The exit code is 0 if the task was solved, or if the agent finished a goal that no task judges; 130 after Ctrl-C,
    which ends the episode as `stopped`, and 143 after a SIGTERM, which does the same; 2 for options that can't be,
    which leave no episode; else 1.
    """
    if bool(task) == bool(goal and url):
        raise typer.BadParameter("Give either --task, or both --goal and --url.")
    if url:
        check_address(url)
    if out is not None:
        check_new_episode(out)
    from selfsurf.browser_env.record.episode import new_folder
    from selfsurf.browser_env.session.browsers import require_window

    options = read_options(set_ or [], model, adapter)
    if headful:
        require_window()
    with Interrupts() as interrupts:
        attempt: _Attempt | None = None
        try:
            wanted = _task(task, goal, url)
            if backend == "oracle" and not wanted.has_oracle:
                raise typer.BadParameter("There is no oracle for this: only tasks have one (`selfsurf envs`), not all.")
            options = checked_options(backend, options, seed)
            steps = max_steps or wanted.max_steps or OPEN_STEPS
            meta = {"env_id": task or "Browser-v0", "seed": seed, "goal": wanted.goal or "", "url": url or None,
                    "agent": backend, "model": model or None, "adapter": adapter or None}  # fmt: skip
            interrupts.hold()  # a folder that is there must have an end
            attempt = _begin(wanted, out or new_folder("run"), meta, steps, headless=not headful, silent=as_json)
            interrupts.release()
            with attempt.view:
                attempt.work(backend, options, seed, interrupts)
            interrupts.hold()
        except KeyboardInterrupt:
            pass
        except Exception as error:
            if attempt is not None:
                attempt.fail(error, silent=as_json or interrupts.seen)
            elif not interrupts.seen:
                raise
        finally:
            if attempt is not None:
                attempt.finish(interrupted=interrupts.seen)
        if attempt is None:  # nothing has begun
            return interrupts.exit_code
        if attempt.refused:
            raise typer.BadParameter(attempt.error)
        return attempt.report(as_json=as_json, exit_code=interrupts.exit_code)


@dataclass
class _Attempt:
    """One episode from the first moment on, so that it ends properly wherever it is stopped."""

    env: AsyncBrowserEnv
    writer: EpisodeWriter
    state: State
    view: View
    running: Running | None = None
    agent: Agent | None = None
    outcome: str = "stopped"
    trainable: bool = False
    reward: float = 0.0
    score: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    done: bool = False
    """Whether the episode came to its own end."""
    refused: bool = False
    """Whether the agent could not be made of its options: then there is no episode."""

    def work(self, backend: str, options: dict[str, Any], seed: int, interrupts: Interrupts) -> None:
        """Load the model, open the page, and act until the end."""
        from selfsurf import agents
        from selfsurf.agents.play.episodes import Running, advance
        from selfsurf.browser_env.session.runtime import runtime

        self.view.stage("Loading the model" if backend in agents.BACKENDS or ":" in backend else "Starting")
        if backend == "oracle":
            self.agent = agents.make(backend, privileged=lambda slot: self.env.privileged())
        else:
            self.agent = agents.make(backend, **agents.check_options(backend, options))
        interrupts.check()
        self.writer.note(model=getattr(getattr(self.agent, "policy", None), "name", None))
        self.view.stage("Opening the page")
        observation, _ = runtime().run(self.env.reset(seed=seed))
        interrupts.check()
        self.writer.note(goal=observation["goal"])
        self.state.see(observation)
        self.running = Running(0, self.env, observation, self.writer)
        self.agent.reset(observation["goal"])
        while not self.done:
            self.view.stage("Thinking and acting")
            (taken,) = advance(self.agent, [self.running])
            self.reward += taken.reward
            self.score, self.done = taken.info["score"], taken.ended
            self.state.take(taken)
            self.view.stepped()
            if self.done:
                self.outcome, self.trainable = taken.info["outcome"], taken.info["trainable"]
                self.error = taken.info["outcome_detail"] if self.outcome == "env_error" else ""
            else:
                interrupts.check()
        self.view.stage("Done")

    def fail(self, error: Exception, *, silent: bool) -> None:
        """Take down that this error ended the episode. A request that can't be made is nobody's failure.

        Of an error that nobody has foreseen, the episode keeps where it came from, and it is shown unless `silent`.
        """
        self.error = str(error) or type(error).__name__
        self.refused = self.agent is None and isinstance(error, refusals())
        asked = self.running is not None and isinstance(error, ValueError)
        self.outcome, self.trainable = "stopped" if asked else "env_error", False
        if not isinstance(error, _expected()):
            self.error = f"{type(error).__name__}: {error}"
            where = "".join(traceback.format_exception(error))
            self.writer.note(traceback=where)
            if not silent:
                console.print(where, markup=False, highlight=False, soft_wrap=True)

    def finish(self, *, interrupted: bool) -> None:
        """Put everything away: the episode first."""
        from selfsurf.browser_env.session.runtime import runtime, shutdown

        if interrupted and not self.done:
            self.refused = False
            self.outcome, self.trainable, self.error = "stopped", False, ""
        if self.refused:
            self.writer.discard()
            return
        after = None if self.running is None else self.running.observation
        self.writer.finish(self.outcome, trainable=self.trainable, after=after, detail=self.error, score=self.score)
        close = getattr(getattr(self.agent, "policy", None), "close", None)
        if close is not None:
            close()
        if interrupted:
            shutdown()  # a browser that is still starting belongs to no environment yet
        else:
            runtime().run(self.env.close(), timeout=30)

    def report(self, *, as_json: bool, exit_code: int) -> int:
        """Print how it ended and return the exit code: the given one, unless that is 0."""
        messages = self.running.observation["messages"] if self.running else ()
        answer = messages[-1]["text"] if messages and messages[-1]["role"] == "assistant" else ""
        state = self.state
        result = {
            "outcome": self.outcome, "reward": self.reward, "answer": answer, "error": self.error,
            "steps": state.step, "prompt_tokens": state.prompt_tokens, "sampled_tokens": state.sampled_tokens,
            "seconds": round(state.seconds, 3), "episode": str(self.writer.folder),
        }  # fmt: skip
        if as_json:
            print(json.dumps(result))
        else:
            if self.error:
                console.print(self.error, style="red", markup=False)
            print(f"{self.outcome}. {answer}".strip() + f"\nEpisode: {self.writer.folder}")
        if exit_code:
            return exit_code
        # An open-ended goal ends as `stopped`: nobody but the user can judge the answer.
        return 0 if self.outcome == "solved" or (self.outcome == "stopped" and self.done) else 1


def _begin(task: Task, folder: Path, meta: dict[str, Any], steps: int, *, headless: bool, silent: bool) -> _Attempt:
    from selfsurf.agents.play.record import versions
    from selfsurf.browser_env import AsyncBrowserEnv
    from selfsurf.browser_env.record.episode import EpisodeWriter
    from selfsurf.scripts.terminal.live import State, view

    state = State(meta["goal"], steps)
    return _Attempt(
        env=AsyncBrowserEnv(task=task, headless=headless, max_episode_steps=steps),
        writer=EpisodeWriter(folder, {"episode_id": folder.name, **meta, "versions": versions()}),
        state=state,
        view=view(state, console, silent=silent),
    )


def _expected() -> tuple[type[Exception], ...]:
    """The errors whose message says it all."""
    from selfsurf.agents import PolicyError
    from selfsurf.agents.models import ModelError
    from selfsurf.browser_env import EnvError

    return PolicyError, EnvError, ModelError, ImportError, OSError, ValueError


def _task(name: str, goal: str, url: str) -> Task:
    from selfsurf.browser_env import Task

    if not name:
        return Task(start_url=url, goal=goal)
    from selfsurf.envs_registry import task_of

    try:
        return task_of(name)
    except (ValueError, KeyError) as error:
        raise typer.BadParameter(f"There is no environment {name!r}; `selfsurf envs` lists them.") from error
