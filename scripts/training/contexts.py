"""Measurement of how much more likely the right action becomes with each context of a teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from selfsurf.agents.prompt.prompt import Sight, with_hint
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env import parse_action
from selfsurf.scripts.terminal.console import progress

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.agents.policy import Completion
    from selfsurf.sdft.rollouts import Job, Step
    from selfsurf.sdft.teacher.context import PrivilegedContext, TeacherContext
    from selfsurf.sdft.teacher.recording import Recording

TASKS = ("click-button", "click-dialog-2", "click-tab-2", "enter-text", "login-user", "click-option")
"""Tasks of one or several steps, with clicks and typing, all of which have an oracle."""

STEPS = 4
"""Step limit of the student's episodes."""


@dataclass(frozen=True)
class _Scores:
    """A teacher's scores at a state."""

    right: float
    """Probability of the oracle's action."""
    likeliest: bool
    """Whether greedy decoding produces the oracle's action."""
    wrong: float
    """Probability of the student's action."""


def measure(
    model: str, tasks: Sequence[str], seeds: int, seed: int, *, lead: float = 0.0, wordings: Sequence[str] = ()
) -> dict[str, Any]:
    """Let the model act as in training, and score the oracle's action at every state with each context.

    The demonstrations are the oracle's episodes of the same tasks and seeds. The student's actions before a state,
    right or wrong, are its own.

    Args:
        model: Model, as for `TransformersPolicy`.
        tasks: Names of MiniWoB++ tasks with an oracle.
        seeds: Episodes per task.
        seed: First of their seeds, and seed of the student's sampling.
        lead: Probability that the oracle takes an episode's first step, and each further step after one of its own.
        wordings: Further templates for telling the oracle's action, containing `{action}`.

    Returns:
        `contexts`, by name: the number of `states`, of those where the context `told` something, where it `named` an
        action, and where that `agrees` with the oracle's. Over the states where something was told, `without` and
        `with`
        the context: `right` and `wrong`, the mean probabilities of the oracle's action and of the student's action
        where
        it differed, and `likeliest`, the share of states at which greedy decoding produces the oracle's action.
        `model`.
    """
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy, make_lm_head_contiguous
    from selfsurf.sdft.agent import make_agent
    from selfsurf.sdft.rollouts import Job, Rollouts
    from selfsurf.sdft.settings import TrainSettings
    from selfsurf.sdft.teacher.demonstrations import DemonstrationContext, HindsightContext
    from selfsurf.sdft.teacher.feedback import FeedbackContext
    from selfsurf.sdft.teacher.lessons import LessonContext
    from selfsurf.sdft.teacher.oracle import OracleContext

    settings = TrainSettings(model=model, tasks=tuple(f"MiniWoB/{task}-v0" for task in tasks), seed=seed)
    policy = TransformersPolicy(model)
    make_lm_head_contiguous(policy.model)
    jobs = [Job(task, number) for task in settings.tasks for number in range(seed, seed + seeds)]
    with Rollouts(8, max_episode_steps=STEPS) as rollouts:
        results = rollouts.run(make_agent(policy, settings, sampling=True), jobs, lead=lead)
    shown = DemonstrationContext((_oracle_episode(job) for job in jobs), settings.actions)
    arms: dict[str, tuple[Sequence[TeacherContext], Sight]] = {
        "oracle": ([OracleContext()], "all"),
        "oracle, page only": ([OracleContext()], "page"),
        "oracle, goal only": ([OracleContext()], "goal"),
        "demonstration": ([shown], "all"),
        "hindsight": ([HindsightContext((), settings.actions)], "all"),
        "feedback": ([FeedbackContext()], "all"),
        "feedback, oracle": ([FeedbackContext(), OracleContext()], "all"),
    }
    for wording in wordings:
        oracle = OracleContext()
        oracle.wording = wording
        arms[f'oracle, "{wording}"'] = ([oracle], "all")
    lessons = {name: LessonContext(contexts).of(results) for name, (contexts, _) in arms.items()}
    states = [
        (episode, number, step)
        for episode, result in enumerate(results)
        for number, step in enumerate(result.steps)
        if step.privileged is not None and step.decision.completion.token_ids
    ]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in arms}
    with progress("States", len(states)) as update, policy.reading(), torch.no_grad():
        for done, (episode, number, step) in enumerate(states, 1):
            plain = _scores(policy, step, None)
            if plain is None:
                continue
            scored: dict[tuple[str, Sight], _Scores | None] = {}  # several contexts often give the same hint
            for name, (_, sight) in arms.items():
                told = lessons[name][episode][number]
                if told is not None and (told.text, sight) not in scored:
                    scored[told.text, sight] = _scores(policy, step, told.text, sight)
                rows[name].append(_row(step, told, plain, None if told is None else scored[told.text, sight]))
            update(done)
    return {"model": model, "contexts": {name: _summary(found) for name, found in rows.items()}}


def _oracle_episode(job: Job) -> Recording:
    """Let the oracle play the episode, and return the recording."""
    from selfsurf.agents.scripted import OracleAgent
    from selfsurf.sdft.rollouts import Rollouts
    from selfsurf.sdft.teacher.recording import RecordedStep, Recording

    with Rollouts(1) as rollouts:
        (result,) = rollouts.run(OracleAgent(), [job])
    told = [step for step in result.steps if step.privileged]
    if not told:
        raise RuntimeError(
            f"{job.env_id}, seed {job.seed}: the oracle did not play ({result.outcome}): {result.detail}"
        )
    shown = tuple(RecordedStep(step.observation, parse_action(step.decision.action)) for step in told)
    return Recording(job.env_id, told[0].observation["goal"], job.seed, shown)


def _row(step: Step, told: PrivilegedContext | None, plain: _Scores, taught: _Scores | None) -> dict[str, Any]:
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


def _scores(policy: TransformersPolicy, step: Step, told: str | None, sight: Sight = "all") -> _Scores | None:
    """Return the scores at a state; None if the student can't produce the oracle's action."""
    completion = step.decision.completion
    messages = step.decision.messages if told is None else with_hint(step.decision.messages, told, sight=sight)
    prompt = policy.encode(messages) + completion.prefill_token_ids
    prefill = policy.tokenizer.decode(completion.prefill_token_ids)
    try:
        right = policy.tokenizer.encode(_right(step).removeprefix(prefill), add_special_tokens=False)
        probability, likeliest = _probability(policy, prompt, right, completion)
    except ValueError:
        return None
    return _Scores(probability, likeliest, _probability(policy, prompt, completion.token_ids, completion)[0])


def _probability(
    policy: TransformersPolicy, prompt: list[int], reply: list[int], completion: Completion
) -> tuple[float, bool]:
    """Return the probability of a reply under the student's grammar, and whether greedy decoding produces it."""
    import torch

    from selfsurf.agents.reply.constraint import token_masks

    allowed = token_masks(
        policy.tokenizer, completion.grammar or "", reply, completion.prefill_token_ids,
        vocabulary=policy.model.get_output_embeddings().weight.shape[0], eos_token_ids=sorted(policy.eos_token_ids),
    )  # fmt: skip
    ids = torch.tensor([prompt + reply])
    logits = policy.model(input_ids=ids, logits_to_keep=len(reply) + 1).logits[0, :-1].float()
    logprobs = torch.log_softmax(logits.masked_fill(~torch.from_numpy(allowed), -torch.inf), -1)
    chosen = torch.tensor(reply)
    probability = math.exp(float(logprobs.gather(1, chosen[:, None]).sum()))
    return probability, bool((logprobs.argmax(-1) == chosen).all())


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    told = [row for row in rows if row["told"]]
    erred = [row for row in told if row["erred"]]
    return {
        "states": len(rows),
        "told": len(told),
        "named": sum(row["named"] for row in told),
        "agrees": sum(row["agrees"] for row in told),
        "right": {when: _mean([row[when].right for row in told]) for when in ("without", "with")},
        "likeliest": {when: _mean([row[when].likeliest for row in told]) for when in ("without", "with")},
        "wrong": {when: _mean([row[when].wrong for row in erred]) for when in ("without", "with")},
        "erred": len(erred),
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
