"""An agent that takes demonstrated actions, and records what a student would have seen and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from selfsurf.agents import Completion, Conversation, Decision, Privileged
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.agents.policies.local.prompts import token_ids
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env import Infeasible, Observation, parse_action


class Demonstrator(LLMAgent):
    """Agent that takes the privileged actions, and records what the student would have seen and written."""

    def decide(
        self, observations: Sequence[Observation], slots: Sequence[int] | None = None, **options: Any
    ) -> list[Decision]:
        """Take the `privileged` actions, and give up an episode without one. `seeds` is ignored: nothing is sampled."""
        slots, told = slots or range(len(observations)), options.get("privileged") or [None] * len(observations)
        return [self._demonstrated(obs, slot, hint) for obs, slot, hint in zip(observations, slots, told, strict=True)]

    def _demonstrated(self, obs: Observation, slot: int, hint: Privileged | None) -> Decision:
        messages, visible_ids = self._prompt(obs, self._slots[slot], None)
        if hint is None:
            unknown = Completion("", [], [], [], None, "eos")
            return Decision(Infeasible(reason="The task has no oracle here."), unknown, messages, visible_ids, "none")
        action = parse_action(hint["action"])
        written = self._written(compact(action, labels=self.labels, elements=obs["elements"]), messages)
        return replace(self.follow(obs, action, slot), completion=written, messages=messages, visible_ids=visible_ids)

    def _written(self, reply: str, messages: Conversation) -> Completion:
        """Return the reply as the student would write it: after its prefill, as tokens, with its turn ended."""
        policy = cast(LocalPolicy, self.policy)
        prefill = token_ids(policy.tokenizer, self.prefill or "")
        return Completion(reply, policy.encode(messages) + prefill, self.written_ids(reply), [], None, "eos", prefill)

    def written_ids(self, reply: str) -> list[int]:
        """Return the tokens of a reply after the prefill, with its turn ended."""
        tokenizer = cast(LocalPolicy, self.policy).tokenizer
        return [*token_ids(tokenizer, reply.removeprefix(self.prefill or "")), tokenizer.eos_token_id]
