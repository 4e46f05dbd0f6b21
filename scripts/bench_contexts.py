"""`selfsurf bench contexts`: how much likelier each thing that a teacher can be told makes the right action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console
from rich.table import Table

from agents.compact import compact
from agents.prompt import with_told
from scripts.console import progress

if TYPE_CHECKING:
    from agents.policies.transformers import TransformersPolicy
    from agents.policy import Completion
    from sdft.contexts.context import Told
    from sdft.contexts.recording import Recording
    from sdft.rollout import Job, Step

TASKS = ("click-button", "click-dialog-2", "click-tab-2", "enter-text", "login-user", "click-option")
"""Tasks of one step and of several, with clicks and with typing; each has an oracle."""

STEPS = 4
"""Step limit of the student's episodes."""

Scores: TypeAlias = tuple[float, ...] | None
"""The probabilities of the oracle's action and of the student's; None where it can't say the oracle's."""


def measure(model: str, tasks: Sequence[str], seeds: int, seed: int) -> dict[str, Any]:
    """Let the model act, as in training, and score the oracle's action at every state with each context told.

    The demonstrations are the oracle's episodes of the same tasks and seeds; what the student did before it came to a
    state, right or wrong, is its own.

    Args:
        model: as `TransformersPolicy` takes it.
        tasks: names of MiniWoB++ tasks with an oracle.
        seeds: episodes of each task.
        seed: the first of them; of the student's sampling, too.

    Returns:
        `contexts`, by name: `states`, `told` (at how many of them something was), `named` (at how many an action),
        `agrees` (with the oracle's), and over the states at which something was told, `right` and `wrong`: mean
        probability of the oracle's action, and of what the student did where that was another, each `without` and
        `with` the context; `model`.
    """
    import torch

    from agents.policies.transformers import TransformersPolicy, make_lm_head_contiguous
    from sdft.contexts.feedback import Feedback
    from sdft.contexts.lessons import Lessons
    from sdft.contexts.oracle import Oracle
    from sdft.contexts.shown import Demonstrations, Hindsight
    from sdft.rollout import Job, Rollouts
    from sdft.settings import TrainSettings
    from sdft.train import make_agent

    settings = TrainSettings(model=model, tasks=tuple(f"MiniWoB/{task}-v0" for task in tasks), seed=seed)
    policy = TransformersPolicy(model)
    make_lm_head_contiguous(policy.model)
    jobs = [Job(task, number) for task in settings.tasks for number in range(seed, seed + seeds)]
    with Rollouts(8, max_episode_steps=STEPS) as rollouts:
        results = rollouts.run(make_agent(policy, settings, sampling=True), jobs)
    shown = Demonstrations((_oracle_episode(job) for job in jobs), settings.actions)
    arms = {
        "oracle": (Oracle(),), "oracle with its reason": (Oracle(reason=True),), "demonstration": (shown,),
        "hindsight": (Hindsight((), settings.actions),), "feedback": (Feedback(),), "feedback, oracle":
        (Feedback(), Oracle()),
    }  # fmt: skip
    lessons = {name: Lessons(contexts).of(results) for name, contexts in arms.items()}
    states = [
        (episode, number, step)
        for episode, result in enumerate(results)
        for number, step in enumerate(result.steps)
        if step.privileged is not None
    ]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in arms}
    with progress("States", len(states)) as update, policy.reading(), torch.no_grad():
        for done, (episode, number, step) in enumerate(states, 1):
            plain = _scores(policy, step, None)
            scored: dict[str, Scores] = {}  # several contexts often tell the same
            for name in rows if plain is not None else ():
                told = lessons[name][episode][number]
                if told is not None and told.text not in scored:
                    scored[told.text] = _scores(policy, step, told.text)
                rows[name].append(_row(step, told, plain, None if told is None else scored[told.text]))
            update(done)
    return {"model": model, "contexts": {name: _summary(found) for name, found in rows.items()}}


def _oracle_episode(job: Job) -> Recording:
    """Let the oracle play the episode."""
    from browser_env import AsyncBrowserEnv
    from browser_env.actions import parse_action
    from browser_env.runtime import runtime
    from envs_registry import task_of
    from sdft.contexts.recording import Recording, Shown

    env = AsyncBrowserEnv(task=task_of(job.env_id), screenshot=False)
    try:
        observation, _ = runtime().run(env.reset(seed=job.seed))
        steps, goal = [], observation["goal"]
        while (view := env.privileged()) is not None:
            action = parse_action(view["action"])
            steps.append(Shown(observation, action))
            observation = runtime().run(env.step(action))[0]
    finally:
        runtime().run(env.close())
    return Recording(job.env_id, goal, job.seed, tuple(steps))


def _row(step: Step, told: Told | None, plain: Scores, taught: Scores) -> dict[str, Any]:
    right = _right(step)
    return {
        "told": told is not None,
        "named": told is not None and told.action is not None,
        "agrees": told is not None and told.action == right,
        "erred": step.decision.completion.text != right,
        "without": plain,
        "with": taught,
    }


def _right(step: Step) -> str:
    assert step.privileged is not None
    return compact(step.privileged["action"])


def _scores(policy: TransformersPolicy, step: Step, told: str | None) -> Scores:
    completion = step.decision.completion
    messages = step.decision.messages if told is None else with_told(step.decision.messages, told)
    prompt = policy.encode(messages) + completion.prefill_token_ids
    prefill = policy.tokenizer.decode(completion.prefill_token_ids)
    try:
        right = policy.tokenizer.encode(_right(step).removeprefix(prefill), add_special_tokens=False)
        return tuple(_probability(policy, prompt, reply, completion) for reply in (right, completion.token_ids))
    except ValueError:
        return None


def _probability(policy: TransformersPolicy, prompt: list[int], reply: list[int], completion: Completion) -> float:
    """The probability of a reply under the grammar that the student sampled under."""
    import torch

    from agents.constraint import token_masks

    allowed = token_masks(
        policy.tokenizer, completion.grammar or "", reply, completion.prefill_token_ids,
        vocabulary=policy.model.get_output_embeddings().weight.shape[0], eos_token_ids=sorted(policy.eos_token_ids),
    )  # fmt: skip
    ids = torch.tensor([prompt + reply])
    logits = policy.model(input_ids=ids, logits_to_keep=len(reply) + 1).logits[0, :-1].float()
    logprobs = torch.log_softmax(logits.masked_fill(~torch.from_numpy(allowed), -torch.inf), -1)
    return math.exp(float(logprobs.gather(1, torch.tensor(reply)[:, None]).sum()))


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    told = [row for row in rows if row["told"]]
    erred = [row for row in told if row["erred"]]
    return {
        "states": len(rows),
        "told": len(told),
        "named": sum(row["named"] for row in told),
        "agrees": sum(row["agrees"] for row in told),
        "right": {when: _mean([row[when][0] for row in told]) for when in ("without", "with")},
        "wrong": {when: _mean([row[when][1] for row in erred]) for when in ("without", "with")},
        "erred": len(erred),
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def show(figures: dict[str, Any]) -> None:
    """Print the table."""
    table = Table(title=f"{figures['model']}: mean probability without and with each context")
    for column in (
        "context", "told at", "named an action", "the oracle's", "right action", "student's, where wrong",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column == "context" else "right")
    for name, row in figures["contexts"].items():
        table.add_row(
            name, f"{row['told']} of {row['states']}", str(row["named"]), str(row["agrees"]),
            *(_change(row[what]) for what in ("right", "wrong")),
        )  # fmt: skip
    Console().print(table)


def _change(pair: dict[str, float | None]) -> str:
    without, told = pair["without"], pair["with"]
    return "-" if without is None or told is None else f"{without:.2f} -> {told:.2f} ({told - without:+.2f})"
