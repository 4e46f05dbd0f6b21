"""`selfsurf run`: one goal on one page, by one agent, with the episode on disk."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import typer

from scripts.console import console, quiet_libraries


def main(
    goal: Annotated[str, typer.Option(help="What is wanted, in words. Not with --task.")] = "",
    url: Annotated[str, typer.Option(help="Where to start. Not with --task.")] = "",
    task: Annotated[str, typer.Option(help="Gymnasium id of a task, instead of a goal and a URL.")] = "",
    model: Annotated[str, typer.Option(help="Short name, hub id or folder of the model.")] = "smollm2",
    adapter: Annotated[Path | None, typer.Option(help="Folder of a LoRA adapter.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the episode.")] = 0,
    max_steps: Annotated[int, typer.Option(help="Step limit.", min=1)] = 10,
    headful: Annotated[bool, typer.Option(help="Show the browser's window.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the episode; a new one under runs/ if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> int:
    """Run an agent for one goal.

    The exit code is 0 if the task was solved, or if the agent finished a goal that no task judges; 130 after Ctrl-C,
    which ends the episode as `stopped`; else 1.
    """
    if bool(task) == bool(goal and url):
        raise typer.BadParameter("Give either --task, or both --goal and --url.")
    import envs_registry  # noqa: F401  (registers the ids)
    from agents.adapters.identity import read_about
    from agents.prompt import PromptTooLong
    from browser_env import EnvError
    from browser_env.episode import EpisodeWriter
    from sdft.rollout import policy_record, versions
    from sdft.settings import TrainSettings

    if task and task not in gymnasium.registry:
        raise typer.BadParameter(f"There is no environment {task!r}; `selfsurf envs` lists them.")
    import agents

    quiet_libraries()
    # An adapter was trained under a prompt; the same prompt is used with it.
    about = read_about(adapter) if adapter else {}
    options: dict[str, Any] = {}
    if "settings" in about:
        trained = TrainSettings(**about["settings"])
        options = {"actions": trained.actions, "max_prompt_tokens": trained.max_prompt_tokens, "guards": False}
    with console.status("Loading the model"):
        agent: Any = agents.make("transformers", model=model, adapter=adapter, max_new_tokens=64, **options)
    where = {"id": task} if task else {"id": "Browser-v0", "start_url": url, "goal": goal}
    env = gymnasium.make(**where, max_episode_steps=max_steps, headless=not headful)  # type: ignore[arg-type]
    folder = out or Path("runs") / time.strftime("run-%Y%m%d-%H%M%S")
    outcome, trainable = "stopped", False
    info: dict[str, Any] = {}
    try:
        with console.status("Opening the page"):
            obs, info = env.reset(seed=seed)
    except EnvError as error:
        console.print(str(error), style="red")
        env.close()
        return 1
    meta = {"episode_id": folder.name, "env_id": where["id"], "seed": seed, "goal": obs["goal"], "model": model}
    writer = EpisodeWriter(folder, {**meta, "adapter": str(adapter) if adapter else None, "versions": versions()})
    agent.reset(obs["goal"])
    reward, interrupted = 0.0, False
    try:
        ended = False
        while not ended:
            with console.status("Thinking"):
                action = agent.act(obs)
            told = env.unwrapped.privileged()  # type: ignore[attr-defined]
            after, gained, terminated, truncated, info = env.step(action)
            reward = float(gained)
            writer.step(
                obs, action, reward=reward, info=info, after=after,
                privileged=told, policy=policy_record(agent.decisions[0]),
            )  # fmt: skip
            console.print(f"{after['last_action']}  {after['last_error']}", markup=False)
            obs, ended = after, terminated or truncated
        outcome, trainable = info["outcome"], info["trainable"]
    except KeyboardInterrupt:
        interrupted = True
        console.print("Stopped.")
    except PromptTooLong as error:
        console.print(str(error), style="red")
    finally:
        writer.finish(outcome, trainable=trainable, after=obs, score=info.get("score"))
        env.close()
    answer = obs["messages"][-1]["text"] if obs["messages"] and obs["messages"][-1]["role"] == "assistant" else ""
    result = {"outcome": outcome, "reward": reward, "answer": answer, "episode": str(folder)}
    print(json.dumps(result) if as_json else f"{outcome}. {answer}".strip() + f"\nEpisode: {folder}")
    if interrupted:
        return 130
    finished = outcome == "stopped" and not interrupted  # an open-ended goal: nobody but the user can judge the answer
    return 0 if outcome == "solved" or finished else 1
