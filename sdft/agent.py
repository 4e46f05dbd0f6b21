"""The agent that a run trains and evaluates. Loads no training code, so that a worker for episodes can use it."""

from __future__ import annotations

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.policy import Policy
from selfsurf.sdft.settings import TrainSettings


def make_agent(
    policy: Policy,
    settings: TrainSettings,
    *,
    sampling: bool,
    constrained: bool = True,
    kind: type[LLMAgent] = LLMAgent,
) -> LLMAgent:
    """Make the agent that a run trains (`sampling`) or evaluates (greedy), with the prompt that the run uses."""
    return kind(
        policy,
        constrained=constrained,
        temperature=settings.temperature if sampling else 0.0,
        max_new_tokens=settings.max_new_tokens,
        max_prompt_tokens=settings.max_prompt_tokens,
        actions=settings.actions,
        guards=False,
        vision=settings.vision if policy.sees_images else "none",
        max_image_side=settings.max_image_side,
        seed=settings.seed,
    )
