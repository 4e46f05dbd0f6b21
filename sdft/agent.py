"""The agent that a run trains and evaluates. Loads no training code, so that episode workers can import it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selfsurf.agents.adapters.prompt import AdapterPrompt
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policy import Policy
from selfsurf.sdft.settings import TrainSettings


def prompt_of(settings: TrainSettings) -> AdapterPrompt:
    """Return the prompt settings that a run trains under; saved beside the adapter (`agents.adapters.prompt`)."""
    return AdapterPrompt.model_validate(settings.model_dump(include=set(AdapterPrompt.model_fields)))


def make_agent(
    policy: Policy,
    settings: TrainSettings,
    *,
    sampling: bool,
    constrained: bool = True,
    kind: type[LLMAgent] = LLMAgent,
    guarded: bool = False,
) -> LLMAgent:
    """Make the agent that a run trains (`sampling`) or evaluates (greedy), with the run's prompt.

    With `guarded`, the agent recalls the guards' advice in recorded episodes; its sampling is unchanged.
    """
    options = {**prompt_of(settings).options(policy), "constrained": constrained}
    options["guards"] = guarded and options["guards"]
    return kind(policy, temperature=settings.temperature if sampling else 0.0, seed=settings.seed, **options)


def default_agent(policy: Policy, options: Mapping[str, Any]) -> LLMAgent:
    """Make the agent that a run trains by default, with `options` of `LLMAgent` overridden."""
    usual = {**AdapterPrompt().options(policy), "guards": False, "temperature": 1.0, "seed": 0}
    return LLMAgent(policy, **{**usual, **options})
