"""The agent that asks a language model: prompt, completion, parse, guard. One policy call for many episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agents import guards as guarding
from agents.agent import Act, Privileged
from agents.compact import compact
from agents.constraint import DEFAULT_KINDS, MAX_TEXT, check_kinds, grammar
from agents.parse import How, parse
from agents.policy import Completion, Message, Policy
from agents.prompt import build, label, with_demonstration
from agents.schema import action_schema
from browser_env.actions import Action
from browser_env.observation import Observation

SMALL = 3_000_000_000
"""Models with fewer weights are constrained by default: they rarely keep a format by themselves."""

_REPLY_OVERHEAD = 20
"""Tokens of a reply that are not its text."""


@dataclass(frozen=True)
class Decision:
    """How one action came about: everything that training and logs need."""

    action: Act
    """What was returned. A str is the raw reply, which could not be read as an action."""
    completion: Completion
    messages: tuple[Message, ...]
    """What the model saw; with `privileged`, the demonstration included."""
    visible_ids: frozenset[int]
    """Elements whose ids stood in the prompt."""
    how: How
    """Where in the reply the action was found."""
    error: str = ""
    """Why the reply could not be read; empty when it could."""
    guard_note: str = ""
    """What the guards overrode or noticed."""
    privileged: Privileged | None = None
    """The demonstration that the model was given, if any."""


@dataclass
class _Slot:
    goal: str = ""
    history: list[str] = field(default_factory=list)
    error: str = ""
    guards: list[guarding.Guard] = field(default_factory=list)


class LLMAgent:
    """An agent around a `Policy`.

    Args:
        policy: the language model.
        constrained: sample under a grammar of valid actions on visible elements. None: for models below 3e9 weights.
        temperature: 0 takes the most likely token.
        max_new_tokens: most tokens of a reply.
        max_prompt_tokens: most tokens of a prompt; the page is cut to fit. `"auto"`: the backend's own budget; None:
            what the model's context leaves.
        prefill: the reply's first characters, given to the model.
        actions: the kinds of actions offered.
        guards: check and mend actions. Turn off for training rollouts.
        seed: of the first policy call; each call has its own. None leaves it to the policy.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        constrained: bool | None = None,
        temperature: float = 0.0,
        max_new_tokens: int = 64,
        max_prompt_tokens: int | Literal["auto"] | None = "auto",
        prefill: str = '{"',
        actions: Sequence[str] = DEFAULT_KINDS,
        guards: bool = True,
        seed: int | None = None,
    ) -> None:
        self.policy = policy
        small = policy.parameter_count is not None and policy.parameter_count < SMALL
        self.constrained = policy.guidance != "none" and small if constrained is None else constrained
        if self.constrained and policy.guidance == "none":
            raise ValueError(f"{policy.name} can't be constrained; pass constrained=False.")
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens
        wanted = policy.prompt_budget if max_prompt_tokens == "auto" else max_prompt_tokens
        limits = [wanted, policy.context_length and policy.context_length - max_new_tokens]
        self.max_prompt_tokens = min((limit for limit in limits if limit is not None), default=None)
        self.prefill = prefill
        self.actions = check_kinds(actions)
        self.guards = guards
        self.decisions: list[Decision] = []
        self._slots: dict[int, _Slot] = {}
        self._seed = seed
        if self.constrained and prefill and not '{"'.startswith(prefill):
            raise ValueError(f'A constrained reply is a JSON object, so the prefill may be "" or {{", not {prefill!r}.')

    def reseed(self, seed: int | None) -> None:
        """Start the agent's random stream anew: the same seed and observations give the same actions again."""
        self._seed = seed

    def reset(self, goal: str = "", slot: int = 0) -> None:
        """Begin a new episode in `slot`. An empty goal means `obs["goal"]`."""
        self._slots[slot] = _Slot(goal, guards=guarding.default_guards() if self.guards else [])

    def act(self, obs: Observation, *, privileged: Privileged | None = None) -> Act:
        """Choose the next action of slot 0; `privileged` tells the model the right one."""
        return self.act_batch([obs], privileged=[privileged])[0]

    def act_batch(
        self,
        observations: Sequence[Observation],
        slots: Sequence[int] | None = None,
        *,
        privileged: Sequence[Privileged | None] | None = None,
    ) -> list[Act]:
        """Choose the next action of several episodes with one policy call.

        Args:
            observations: one for each episode.
            slots: whose history each belongs to; 0, 1, 2, ... if None.
            privileged: for each, what `env.unwrapped.privileged()` gave, or None: the base-with-demonstration arm.

        Returns:
            The actions; how each came about is in `decisions`, in the same order.

        Raises:
            agents.prompt.PromptTooLong: the goal and instructions alone exceed `max_prompt_tokens`.
        """
        slots = list(range(len(observations))) if slots is None else list(slots)
        told = [None] * len(observations) if privileged is None else list(privileged)
        if not len(slots) == len(told) == len(observations) or len(set(slots)) != len(slots):
            raise ValueError("slots and privileged must match observations one to one, without repeated slots.")
        for slot in slots:
            if slot not in self._slots:
                self.reset(slot=slot)
        prompts = [
            self._prompt(obs, self._slots[slot], hint)
            for obs, slot, hint in zip(observations, slots, told, strict=True)
        ]
        guides = [self._guide(obs, ids) for obs, (_, ids) in zip(observations, prompts, strict=True)]
        by_schema = self.policy.guidance == "schema"
        completions = self.policy.complete(
            [messages for messages, _ in prompts],
            grammars=None if by_schema else guides,
            schemas=guides if by_schema else None,
            prefill=self.prefill,
            temperature=self.temperature,
            max_new_tokens=self.max_new_tokens,
            seed=self._next_seed(),
        )
        self.decisions = [
            self._decide(obs, self._slots[slot], messages, ids, completion, hint)
            for obs, slot, (messages, ids), completion, hint in zip(
                observations, slots, prompts, completions, told, strict=True
            )
        ]
        return [decision.action for decision in self.decisions]

    def _prompt(
        self, obs: Observation, slot: _Slot, hint: Privileged | None
    ) -> tuple[tuple[Message, ...], frozenset[int]]:
        prompt = build(
            obs,
            goal=slot.goal,
            history=slot.history,
            error=slot.error,
            kinds=self.actions,
            spelled=not self.constrained,
            max_tokens=self.max_prompt_tokens,
            count=lambda messages: self.policy.count_prompt_tokens(with_demonstration(messages, hint), self.prefill),
        )
        return with_demonstration(prompt.messages, hint), prompt.visible_ids

    def _guide(self, obs: Observation, visible_ids: frozenset[int]) -> Any:
        """The grammar or the schema of a valid reply, whichever the policy follows."""
        if not self.constrained:
            return None
        seen = [element for element in obs["elements"] if element["id"] in visible_ids]
        longest = max(1, min(MAX_TEXT, self.max_new_tokens - _REPLY_OVERHEAD))
        write = action_schema if self.policy.guidance == "schema" else grammar
        return write(seen, self.actions, max_text=longest)

    def _decide(
        self,
        obs: Observation,
        slot: _Slot,
        messages: tuple[Message, ...],
        visible_ids: frozenset[int],
        completion: Completion,
        hint: Privileged | None,
    ) -> Decision:
        parsed = parse(completion.text, {element["id"] for element in obs["elements"]})
        if parsed.action is None:
            slot.error = parsed.error
            slot.history.append("an unreadable reply")
            return Decision(
                completion.text, completion, messages, visible_ids, parsed.how, parsed.error, privileged=hint
            )
        slot.error = ""
        verdict = guarding.apply(slot.guards, parsed.action, obs, slot.goal or obs["goal"])
        slot.history.append(describe(verdict.action, obs))
        return Decision(
            verdict.action, completion, messages, visible_ids, parsed.how, guard_note=verdict.note, privileged=hint
        )

    def _next_seed(self) -> int | None:
        if self._seed is None:
            return None
        self._seed += 1_000_003  # rows of a call take the seeds that follow, so calls keep their distance
        return self._seed


def describe(action: Action, obs: Observation) -> str:
    """An action for the history: its compact form and what the element was called, for ids may change their page."""
    short = compact(action)
    number: Any = getattr(action, "id", None)
    element = next((element for element in obs["elements"] if element["id"] == number), None)
    return short if element is None else f"{short} {label({**element, 'value': '', 'states': ()})}"
