"""The workers on a Ray cluster that make a training run's episodes, if its settings ask for them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.agents.play import Manner
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rollouts import Generator
from selfsurf.sdft.rollouts.models import Engine, LocalModel, ModelMaker, reuse
from selfsurf.sdft.settings import TrainSettings

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

log = logging.getLogger(__name__)


@contextlib.contextmanager
def generating(
    settings: TrainSettings, policy: TransformersPolicy, learner: dict[str, Any], env_options: dict[str, Any]
) -> Iterator[Generator | None]:
    """Yield the generator of a run with workers, or None for one in this process.

    Args:
        settings: of the run.
        policy: its model, before training has wrapped it.
        learner: `model` and `peft_config`, as `sdft.run.model.student` gives them.
        env_options: passed to every environment.

    Raises:
        RolloutError: the cluster has too little, or workers don't start.
        ValueError: the model is in this process's memory, where workers can't load it from.
    """
    if settings.rollouts.workers == 0:
        yield None
        return
    from selfsurf.sdft.rollouts.ray_browser import Setup
    from selfsurf.sdft.rollouts.ray_cluster import connected
    from selfsurf.sdft.rollouts.ray_generator import RayGenerator
    from selfsurf.sdft.teacher.weights import STUDENT

    layout = settings.rollouts
    lora = learner["peft_config"] or learner["model"].peft_config[STUDENT]
    model = _model(settings, policy, lora)
    setup = Setup(
        agent_of=partial(make_agent, settings=settings, sampling=True),
        layout=layout,
        manner=Manner(most=layout.batch, episode_timeout=layout.episode_timeout, lead=settings.lead),
        env_options=env_options,
    )
    log.info("Starting %d browser and %d policy workers.", layout.workers, layout.policy_workers)
    with connected(), RayGenerator(setup, model) as generator:
        yield generator


def _model(settings: TrainSettings, policy: TransformersPolicy, lora: Any) -> ModelMaker:
    if policy.in_memory:
        raise ValueError("Workers load the model themselves: give its name or folder, not a model in memory.")
    folder = Path(policy.name).expanduser()
    name = str(folder.resolve()) if folder.is_dir() else policy.name
    engine, shared = settings.rollouts.engine, settings.rollouts.engine_folder
    if engine is not None and shared is not None:
        return Engine(settings.model, engine, shared, lora, tokenizer=name)
    options: dict[str, Any] = {"dtype": str(policy.model.dtype).removeprefix("torch.")}
    if getattr(policy.model, "is_loaded_in_4bit", False):
        options["quantization"] = "nf4"
    return LocalModel(name, lora, options, reuse(settings.rollouts.batch))
