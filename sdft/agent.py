"""The agent that a run trains and evaluates. Loads no training code, so that a worker for episodes can use it."""

from __future__ import annotations

from selfsurf.agents.adapters.prompt import AdapterPrompt
from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.policy import Policy
from selfsurf.sdft.settings import TrainSettings


def prompt_of(settings: TrainSettings) -> AdapterPrompt:
    """Return the prompt that a run trains under; it is saved beside the adapter (`agents.adapters.prompt`)."""
    return AdapterPrompt.model_validate(settings.model_dump(include=set(AdapterPrompt.model_fields)))


def make_agent(
    policy: Policy,
    settings: TrainSettings,
    *,
    sampling: bool,
    constrained: bool = True,
    kind: type[LLMAgent] = LLMAgent,
) -> LLMAgent:
    """Make the agent that a run trains (`sampling`) or evaluates (greedy), with the prompt that the run uses."""
    options = {**prompt_of(settings).options(policy), "constrained": constrained, "guards": False}
    return kind(policy, temperature=settings.temperature if sampling else 0.0, seed=settings.seed, **options)
