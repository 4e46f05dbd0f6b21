"""Rollouts for a custom trainer: a model with an adapter, environments, and optional workers, from one call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.agents.adapters.identity import identity
from selfsurf.agents.adapters.prompt import PROMPT, AdapterPrompt
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play.provenance import versions
from selfsurf.agents.policy import Policy
from selfsurf.agents.prompt.named import name_of
from selfsurf.browser_env.arguments import checked
from selfsurf.sdft.agent import default_agent
from selfsurf.sdft.rollouts import LocalGenerator, Rollouts
from selfsurf.sdft.rollouts.checks import check_environment, check_jobs
from selfsurf.sdft.rollouts.collector import Collector
from selfsurf.sdft.rollouts.generator import Weights
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.rollouts.models import InProcess, adapted, reuse
from selfsurf.sdft.run.model import lora_config, save_adapter
from selfsurf.sdft.run.workers import generating
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.weights import STUDENT, student_weights

if TYPE_CHECKING:
    from peft import LoraConfig

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy


def make_collector(
    model: str | Path | TransformersPolicy = "smollm2",
    *,
    lora: LoraConfig | None = None,
    agent: Mapping[str, Any] | Callable[[Policy], LLMAgent] | None = None,
    environment: Mapping[str, Any] | None = None,
    rollouts: RolloutSettings | None = None,
    lead: float = 0.0,
    seed: int = 0,
) -> Collector:
    """Make the collector of a trainer's episodes (`publish`, `request`, `collect`, `books`). Close it, or use `with`.

    `collector.policy.model` is the PEFT model to train, in this process. Without workers it also acts; with workers
    each policy worker acts with a copy, which `publish` updates.

    Args:
        model: short name, hub id or folder, in the precision of its files (or float32 where that is faster); or a
            policy, for another precision or device: `TransformersPolicy("smollm2", dtype="float32")`. A policy around a
            model in memory acts in this process only.
        lora: configuration of the new adapter; by default rank 16 on all linear layers, as in `sdft.train`. Must be
            None for a policy whose model is already a PEFT model.
        agent: options of `LLMAgent`, or a function that makes an agent around a policy (with workers, a module-level
            function). By default the agent that `sdft.train` trains, at temperature 1 under the grammar.
        environment: options of every environment, such as `max_episode_steps` and `screenshot`.
        rollouts: `workers` on a Ray cluster. By default episodes are played in this process, `contexts` at a time. The
            samples are the same.
        lead: probability of each step that the oracle takes first (`agents.play.options.PlayOptions`).
        seed: seed of all random draws.

    Raises:
        agents.model_files.ModelError: the model can't be found or fetched.
        RolloutError: the cluster has too few resources, or workers don't start.
        TypeError: the agent or the environment has no such option, or an argument has the wrong type.
        ValueError: an option has an invalid value, workers are combined with a model in memory, or `lora` with a model
            that has an adapter.
    """
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    _check_kinds(model, lora, rollouts)
    layout = rollouts or RolloutSettings()
    check_environment(environment or {})
    told = agent if callable(agent) else checked("The agent", (object, LLMAgent), agent or {})
    base = model if isinstance(model, TransformersPolicy) else TransformersPolicy(model)
    config, made = _adapter(base, lora)
    agent_of = told if callable(told) else partial(default_agent, options={"seed": seed, **told})
    options = {"screenshot": base.sees_images, **(environment or {})}
    agent_of(base)  # invalid options are refused before workers start and the model is changed
    with contextlib.ExitStack() as stack:
        generator = stack.enter_context(generating(layout, base, config, agent_of, options, lead))
        acting = adapted(base, made, reuse(layout.batch))
        acts = agent_of(acting.policy)

        def weights() -> Mapping[str, Any]:
            return student_weights(acting.policy.model)

        def save(folder: Path) -> None:
            about = identity(base.name, base.source, acting.policy.model)
            save_adapter(acting.policy.model, folder, {**about, PROMPT: _prompt(acts), "versions": versions()})

        if generator is None:
            here = stack.enter_context(Rollouts(layout.contexts, most=layout.batch, **options))
            generator = LocalGenerator(here, acts, lead, use=partial(_use, acting, weights))
        check = partial(check_jobs, known=set())
        return Collector(generator, acting.policy, weights, seed=seed, save=save, check=check, stack=stack.pop_all())


def _check_kinds(model: Any, lora: Any, rollouts: Any) -> None:
    """Raise TypeError for arguments of the wrong type before anything is loaded."""
    from peft import LoraConfig

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    for name, value, kinds, instead in (
        ("model", model, (str, Path, TransformersPolicy), "a name, a folder or a TransformersPolicy"),
        ("lora", lora, (LoraConfig, type(None)), "a peft.LoraConfig, such as LoraConfig(r=4)"),
        ("rollouts", rollouts, (RolloutSettings, type(None)), "a RolloutSettings, such as RolloutSettings(workers=2)"),
    ):
        if not isinstance(value, kinds):
            raise TypeError(f"{name} must be {instead}, not {value!r}.")


def _adapter(base: TransformersPolicy, lora: LoraConfig | None) -> tuple[Any, Any]:
    """Return the adapter's configuration, and the configuration of the adapter to add, None if the model has one."""
    there = getattr(base.model, "peft_config", None)
    if there is None:
        made = lora or lora_config(base.model, TrainSettings.model_construct())  # the lora_* defaults apply
        return made, made
    if lora is not None or not hasattr(base.model, "get_base_model"):
        raise ValueError(
            f"{base.name} already has an adapter: leave out lora and give a policy around its PEFT model, or reload "
            "the base model."
        )
    return there[STUDENT], None


def _use(acting: InProcess, own: Weights, weights: Weights) -> None:
    """Load published weights into the model that acts in this process."""
    if weights is not own:
        acting.put(weights())
    acting.policy.forget()


def _prompt(agent: LLMAgent) -> dict[str, Any]:
    """Return the prompt settings of an agent, to be saved beside an adapter."""
    told = {name: getattr(agent, name) for name in AdapterPrompt.model_fields if name not in ("role", "guards")}
    told["prompt"] = name_of(agent.prompt)
    return AdapterPrompt.model_validate(told).model_dump(mode="json")
