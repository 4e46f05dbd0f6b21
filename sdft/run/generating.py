"""Where a training run's episodes are made, as its settings say."""

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
from selfsurf.sdft.rollouts.layout import Layout
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
        learner: `model` and `peft_config`, as `sdft.run.adapter.student` gives them.
        env_options: passed to every environment.

    Raises:
        RolloutError: the cluster has too little, or workers don't start.
        ValueError: the model is in this process's memory, where workers can't load it from.
    """
    if settings.rollout_workers == 0:
        yield None
        return
    from selfsurf.sdft.rollouts.ray_browser import Setup
    from selfsurf.sdft.rollouts.ray_cluster import connected
    from selfsurf.sdft.rollouts.ray_generator import RayGenerator
    from selfsurf.sdft.teacher.weights import STUDENT

    layout = layout_of(settings)
    lora = learner["peft_config"] or learner["model"].peft_config[STUDENT]
    model = _model(settings, policy, lora)
    setup = Setup(
        agent_of=partial(make_agent, settings=settings, sampling=True),
        contexts=layout.contexts,
        manner=Manner(most=settings.rollout_batch, episode_timeout=layout.episode_timeout, lead=settings.lead),
        env_options=env_options,
        call_timeout=layout.call_timeout,
        patience=layout.patience,
    )
    log.info("Starting %d browser and %d policy workers.", layout.browser_workers, layout.policy_workers)
    with connected(), RayGenerator(setup, model, layout, ahead=settings.ahead) as generator:
        yield generator


def layout_of(settings: TrainSettings) -> Layout:
    """The workers that a run's settings ask for."""
    return Layout(
        browser_workers=settings.rollout_workers,
        contexts=settings.rollout_contexts,
        policy_workers=settings.policy_workers,
        browser=settings.browser_resources,
        policy=settings.policy_resources,
        start_timeout=settings.rollout_start_timeout,
        call_timeout=settings.rollout_call_timeout,
        patience=settings.rollout_patience,
        episode_timeout=settings.rollout_episode_timeout,
    )


def _model(settings: TrainSettings, policy: TransformersPolicy, lora: Any) -> ModelMaker:
    if policy.in_memory:
        raise ValueError("Workers load the model themselves: give its name or folder, not a model in memory.")
    folder = Path(policy.name).expanduser()
    name = str(folder.resolve()) if folder.is_dir() else policy.name
    if settings.rollout_engine is not None:
        assert settings.rollout_engine_folder is not None
        return Engine(settings.model, settings.rollout_engine, settings.rollout_engine_folder, lora, tokenizer=name)
    options: dict[str, Any] = {"dtype": str(policy.model.dtype).removeprefix("torch.")}
    if getattr(policy.model, "is_loaded_in_4bit", False):
        options["quantization"] = "nf4"
    return LocalModel(name, lora, options, reuse(settings.rollout_batch))
