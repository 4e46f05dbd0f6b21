"""Base class of roles: a model with its own prompt and tools, which proposes tool calls and carries them out.

Proposals for many episodes take one policy call. Replies are calls of the role's tools: constrained by a grammar or
schema where the policy is guided, and otherwise given as tool calls or JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from pydantic import BaseModel

from selfsurf.agents.llm.llm_agent import SMALL
from selfsurf.agents.policy import Completion, Message, Policy, PolicyError
from selfsurf.agents.prompt.fit import PageContent, PromptSection, compose
from selfsurf.agents.prompt.prompt import Budget, Turn
from selfsurf.agents.prompt.tokens import cut
from selfsurf.agents.prompt.vision import picture
from selfsurf.agents.reply.schema import thoughtful
from selfsurf.agents.reply.thought import thought_in
from selfsurf.agents.roles.task import ExecutionResult, Proposal, RoleTask
from selfsurf.agents.roles.tools import Tool, ToolRegistry, name_of
from selfsurf.browser_env.text import visible

SHORT, LONG = 160, 1500
"""Character limits of a text in a reply: of small models, and of all others."""

REPLY, LONG_REPLY = 128, 2048
"""Token limits of a reply: of small models, and of all others."""

STEPS = 15
"""Number of last steps in the prompt."""

_FORM = {
    "call": "Reply with a call of the tool `act`: a short `thought`, then as `action` one of the above.",
    "thinks": "Think first, in a few sentences. Then end your reply with one of the above as JSON.",
    "bare": "Reply with one of the above as JSON.",
}


class BaseRole:
    """A role around a policy. Subclasses set other `instructions` or `tools`, or override `question`.

    Args:
        policy: the language model.
        vision: "none" for prompts without screenshots; otherwise a model that sees images gets screenshots with marks.
    """

    name: ClassVar[str] = "role"
    instructions: ClassVar[str] = ""
    """System message, to which the list of tools is added."""
    tools: ClassVar[ToolRegistry] = ToolRegistry()
    decisive: ClassVar[str] = ""
    """Tool whose call counts at any position in a reply; empty if the last call counts."""

    def __init__(self, policy: Policy, *, vision: str = "auto") -> None:
        if not isinstance(self.tools, ToolRegistry):
            raise TypeError(f"{type(self).__name__}.tools must be a ToolRegistry, such as ToolRegistry(MyTool, ...).")
        self.policy = policy
        self._sees = policy.sees_images and vision != "none"
        small = policy.parameter_count is not None and policy.parameter_count < SMALL
        self._calls = bool(getattr(policy, "calls", False))
        self.constrained = policy.guidance != "none" and (small or self._calls)
        self.thinks = not small
        longest = LONG_REPLY if self.thinks else REPLY
        self.max_new_tokens = min(longest, (policy.context_length or 2 * longest) // 2)

    def question(self, task: RoleTask) -> list[str]:
        """Return the first lines of the user's message, which are never cut; steps and page follow."""
        return [f"Goal: {task.goal}"]

    def schema(self, task: RoleTask) -> dict[str, Any]:
        """Return the JSON schema of a valid reply, for constrained models."""
        return self.tools.schema(LONG if self.thinks else SHORT)

    def propose(self, tasks: Sequence[RoleTask], *, seeds: Sequence[int] | None = None) -> list[Proposal]:
        """Request one tool call for each task, with one call of the policy.

        Args:
            tasks: the tasks with their current observations.
            seeds: the seed of each task's reply.

        Raises:
            PolicyError: the model could not answer.
            agents.prompt.prompt.PromptTooLong: the instructions and the question alone don't fit.
        """
        conversations = [self.messages(task) for task in tasks]
        guides: dict[str, Any] = {}
        if self.constrained:
            schemas = [self.schema(task) for task in tasks]
            schemas = [thoughtful(schema) if self.thinks else schema for schema in schemas]
            by_schema = self.policy.guidance == "schema"
            guides = {"schemas": schemas} if by_schema else {"grammars": [_grammar(schema) for schema in schemas]}
        completions = self.policy.complete(
            conversations, max_new_tokens=self.max_new_tokens, seed=None if seeds is None else list(seeds), **guides
        )
        return [self._proposal(*each) for each in zip(completions, conversations, strict=True)]

    def propose_each(
        self, tasks: Sequence[RoleTask], *, seeds: Sequence[int] | None = None
    ) -> list[Proposal | BaseException]:
        """Request one tool call for each task as `propose` does, but return a task's error in place of its proposal."""
        try:
            return list(self.propose(tasks, seeds=seeds))
        except PolicyError as error:
            return [
                one if isinstance(one, BaseException) else self._proposal(one, self.messages(task))
                for one, task in zip(error.of_each(len(tasks)), tasks, strict=True)
            ]
        except Exception as error:
            if len(tasks) == 1:
                return [error]
            drawn = [None] * len(tasks) if seeds is None else [[seed] for seed in seeds]
            return [
                one for task, seed in zip(tasks, drawn, strict=True) for one in self.propose_each([task], seeds=seed)
            ]

    def _proposal(self, completion: Completion, messages: Sequence[Message]) -> Proposal:
        shown = "\n".join(message.text for message in messages)
        call, error = self.tools.read(completion.text, shown, decisive=self.decisive)
        calls: tuple[BaseModel, ...] = () if call is None else (call,)
        return Proposal(self.name, calls, thought_in(completion.text), completion, messages, error)

    def execute(self, task: RoleTask, proposal: Proposal) -> list[ExecutionResult]:
        """Carry out the proposed calls, and return the results of all calls of the proposal."""
        for call in proposal.calls:
            if not isinstance(call, Tool):
                raise TypeError(f"{name_of(call)} is an action: only the proposer may act on the page.")
            proposal.results.append(ExecutionResult(name_of(call), ok=True, said=call.run(task) or ""))
        return proposal.results

    def messages(self, task: RoleTask) -> tuple[Message, ...]:
        """Return the model's prompt for a task."""
        obs, policy = task.observation, self.policy
        sees = self._sees and "screenshot" in obs
        turn = Turn(goal=task.goal, actions=(), picture=picture(obs, marked=True) if sees else None)
        form = "call" if self._calls else "thinks" if self.thinks else "bare"
        system = "\n".join([self.instructions, "You can call:", self.tools.described(), _FORM[form]])
        limits = [policy.prompt_budget, policy.context_length and policy.context_length - self.max_new_tokens]
        budget = Budget(
            min(limit for limit in limits if limit is not None), policy.count_prompt_tokens, policy.count_tokens
        )
        heading = f"Page: {visible(' '.join(obs['title'].split()))}\nAddress: {obs['url'][:300]}"
        done = _done(task)
        asides = [PromptSection("history", _told(done), partial(_latest, done))] if done else []
        if obs["last_error"]:
            asides.append(PromptSection("error", f"The last action failed: {obs['last_error']}"))
        if task.unread:
            asides.append(PromptSection("error", f"Your last reply could not be read: {task.unread}"))
        first = [*self.question(task), *([turn.picture.note] if turn.picture else [])]
        return compose(
            PageContent.of(obs, turn), turn, budget, system=system, first=first, heading=heading, asides=asides
        ).messages


def _told(lines: Sequence[str]) -> str:
    return "\n".join(["Steps so far:", *lines])


def _latest(lines: Sequence[str], limit: int, count: Callable[[str], int]) -> str:
    """Return as many of the last lines as fit into the token limit; a single line that is too long is cut."""
    kept = next((lines[first:] for first in range(len(lines)) if count(_told(lines[first:])) <= limit), ())
    return _told(kept) if kept else cut(_told(lines[-1:]), limit, count)


def _done(task: RoleTask) -> list[str]:
    """Return the last steps, one line each. A rejected claim's line includes the verdict."""
    proposals = {id(step.proposals[0]): step.proposals[0] for step in task.history}
    lines = []
    for one in proposals.values():
        for call, result in zip(one.calls, one.results, strict=False):
            given = json.dumps({result.tool: call.model_dump(mode="json", exclude_defaults=True)}, ensure_ascii=False)
            on = f" {result.on}" if result.on else ""
            lines.append(f"{one.role}: {given}{on}{'' if result.ok else f' (failed: {result.said})'}")
    return lines[-STEPS:]


def _grammar(schema: dict[str, Any]) -> str:
    """Return the llguidance grammar of a JSON schema, for policies that are guided by grammars."""
    from llguidance import LLMatcher

    return str(LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False}))
