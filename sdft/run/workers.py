"""Start of the workers on a Ray cluster that play a trainer's episodes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play import PlayOptions
from selfsurf.agents.policy import Policy
from selfsurf.browser_env.classes import Sources, named_in
from selfsurf.sdft.rollouts import Generator
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.rollouts.models import Engine, LocalModel, ModelMaker, reuse

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

log = logging.getLogger(__name__)


@contextlib.contextmanager
def generating(
    layout: RolloutSettings,
    policy: TransformersPolicy,
    lora: Any,
    agent_of: Callable[[Policy], LLMAgent],
    env_options: dict[str, Any],
    lead: float = 0.0,
) -> Iterator[Generator | None]:
    """Yield the generator of a trainer with workers, or None if episodes are played in this process.

    Args:
        layout: number and resources of the workers.
        policy: policy of the model, before training has wrapped it.
        lora: `LoraConfig` of its adapter.
        agent_of: function that makes the acting agent (`sdft.rollouts.ray_browser.Setup`).
        env_options: options of every environment.
        lead: probability that the oracle takes each step at the start of an episode.

    Raises:
        RolloutError: the cluster has too few resources, or workers don't start.
        ValueError: the model exists only in this process's memory, where workers can't load it from.
    """
    if layout.workers == 0:
        yield None
        return
    from selfsurf.sdft.rollouts.ray_browser import Setup
    from selfsurf.sdft.rollouts.ray_cluster import connected
    from selfsurf.sdft.rollouts.ray_generator import RayGenerator

    model = _model(layout, policy, lora)
    play_options = PlayOptions(most=layout.batch, episode_timeout=layout.episode_timeout, lead=lead)
    setup = Setup(agent_of, layout, play_options, env_options, _sources_of(agent_of))
    log.info("Starting %d browser and %d policy workers.", layout.workers, layout.policy_workers)
    with connected(), RayGenerator(setup, model) as generator:
        yield generator


def _sources_of(agent_of: Callable[[Policy], LLMAgent]) -> Sources:
    """Return the source code of the modules named in the agent's options: a prompt, functions."""
    given = getattr(agent_of, "keywords", {}).values()
    options = [value.model_dump() if isinstance(value, BaseModel) else value for value in given]
    return Sources.of([kind.__module__ for kind in named_in(options)])


def _model(layout: RolloutSettings, policy: TransformersPolicy, lora: Any) -> ModelMaker:
    if policy.in_memory:
        raise ValueError("Workers load the model themselves: give its name or folder, not a model in memory.")
    folder = Path(policy.name).expanduser()
    name = str(folder.resolve()) if folder.is_dir() else policy.name
    if layout.engine is not None and layout.engine_folder is not None:
        return Engine(policy.name, layout.engine, layout.engine_folder, lora, tokenizer=name)
    options: dict[str, Any] = {"dtype": str(policy.model.dtype).removeprefix("torch.")}
    if getattr(policy.model, "is_loaded_in_4bit", False):
        options["quantization"] = "nf4"
    return LocalModel(name, lora, options, reuse(layout.batch))
