"""The agent around a language model: prompt, completion, parser, guards. One policy call for many episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

from pydantic import AfterValidator

from selfsurf.agents import guards as guarding
from selfsurf.agents.agent import Act, Decision, Privileged
from selfsurf.agents.options import Amount, Count
from selfsurf.agents.policy import Completion, Conversation, Message, Policy
from selfsurf.agents.prompt.examples import Example
from selfsurf.agents.prompt.outlines import Outlines
from selfsurf.agents.prompt.page import label
from selfsurf.agents.prompt.prompt import build, with_demonstration
from selfsurf.agents.prompt.vision import MAX_IMAGE_SIDE, Picture, picture
from selfsurf.agents.reply.compact import compact
from selfsurf.agents.reply.constraint import MAX_TEXT, grammar
from selfsurf.agents.reply.kinds import DEFAULT_KINDS, check_kinds
from selfsurf.agents.reply.parse import Parsed, parse
from selfsurf.agents.reply.schema import action_schema
from selfsurf.browser_env import Action, Observation

SMALL = 3_000_000_000
"""Models with fewer weights are constrained by default: they rarely keep to a format by themselves."""

Vision: TypeAlias = Literal["auto", "none", "screenshot", "marks"]
"""What the model is shown: nothing, the screenshot, or the screenshot with the elements' ids on it."""

_POLICY_HAS = (*Policy.__annotations__, *(name for name in vars(Policy) if not name.startswith("_")))

_REPLY_OVERHEAD = 20
"""Tokens of a reply that are not its text."""


_Shown: TypeAlias = tuple[tuple[Message, ...], frozenset[int]]
"""What the model is given, and the elements whose ids are in it."""


@dataclass
class _Slot:
    goal: str = ""
    history: list[str] = field(default_factory=list)
    error: str = ""
    advice: str = ""
    """From the guards, for the next prompt."""
    guards: list[guarding.Guard] = field(default_factory=list)


@dataclass(eq=False, repr=False)
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
        guards: which guards check and correct actions: True for all, False for none, or their names (`agents.guards`).
        examples: few-shot examples, the most useful first; those that leave too little room for the page are dropped.
        vision: what is shown of the screenshot. `"auto"`: marks, where the policy sees images and the observation has
            a screenshot, else nothing.
        max_image_side: screenshots are scaled down to this many pixels of the longer side; None leaves them.
        text_page: also show the page as text. Without it there must be a screenshot with marks.
        seed: of the first policy call; each call has its own. None leaves it to the policy.

    Raises:
        ValueError: the options don't go together, or the policy can't do what they ask.
    """

    policy: Policy
    _: KW_ONLY
    constrained: bool | None = None
    temperature: Amount = 0.0
    max_new_tokens: Count = 64
    max_prompt_tokens: Count | Literal["auto"] | None = "auto"
    prefill: str = '{"'
    actions: Annotated[Sequence[str], AfterValidator(check_kinds)] = DEFAULT_KINDS
    guards: Annotated[bool | Sequence[str], AfterValidator(guarding.guard_names)] = True
    examples: Sequence[Example] = ()
    vision: Vision = "auto"
    max_image_side: Count | None = MAX_IMAGE_SIDE
    text_page: bool = True
    seed: int | None = None

    def __post_init__(self) -> None:
        policy, vision = self.policy, self.vision
        lacking = [name for name in _POLICY_HAS if not hasattr(policy, name)]
        if lacking:
            what = type(policy).__name__
            raise TypeError(f"{what} is not a policy: it lacks {', '.join(lacking)} (agents.policy.Policy).")
        if self.max_new_tokens < 1 or self.temperature < 0:
            raise ValueError("max_new_tokens is at least 1 and temperature at least 0.")
        small = policy.parameter_count is not None and policy.parameter_count < SMALL
        if self.constrained is None:
            self.constrained = policy.guidance != "none" and small
        if self.constrained and policy.guidance == "none":
            raise ValueError(f"{policy.name} can't be constrained; pass constrained=False.")
        wanted = policy.prompt_budget if self.max_prompt_tokens == "auto" else self.max_prompt_tokens
        limits = [wanted, policy.context_length and policy.context_length - self.max_new_tokens]
        self.max_prompt_tokens = min((limit for limit in limits if limit is not None), default=None)
        self.actions = check_kinds(self.actions)
        self.guards = guarding.guard_names(self.guards)
        self._slots: dict[int, _Slot] = {}
        self._outlines: dict[int, Outlines] = {}  # those outlive a new goal in the middle of an episode
        if self.constrained and self.prefill and not '{"'.startswith(self.prefill):
            raise ValueError(f'A constrained reply is a JSON object: its prefill is "" or {{", not {self.prefill!r}.')
        if vision not in get_args(Vision):
            raise ValueError(f"vision is one of {', '.join(get_args(Vision))}, not {vision!r}.")
        if vision in ("screenshot", "marks") and not policy.sees_images:
            raise ValueError(f'{policy.name} sees no images; pass vision="none".')
        if not self.text_page and (vision in ("none", "screenshot") or not policy.sees_images):
            raise ValueError("Without text_page, the elements' ids must be seen: a policy that sees, and marks.")
        if self.max_image_side is not None and self.max_image_side < 1:
            raise ValueError("max_image_side is at least 1 pixel, or None.")

    def reseed(self, seed: int | None) -> None:
        """Restart the agent's random stream: the same seed and observations give the same actions again."""
        self.seed = seed

    def reset(self, goal: str = "", slot: int = 0) -> None:
        """Begin a new episode in `slot`. An empty goal means `obs["goal"]`."""
        self._slots[slot] = _Slot(goal, guards=guarding.make_guards(self.guards))

    def act(self, obs: Observation, *, privileged: Privileged | None = None) -> Act:
        """Choose the next action of slot 0; `privileged` shows the model the right one."""
        return self.decide([obs], privileged=[privileged])[0].action

    def act_batch(self, observations: Sequence[Observation], slots: Sequence[int] | None = None) -> list[Act]:
        """Choose the next action of several episodes with one policy call."""
        return [decision.action for decision in self.decide(observations, slots)]

    def decide(
        self,
        observations: Sequence[Observation],
        slots: Sequence[int] | None = None,
        *,
        privileged: Sequence[Privileged | None] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Decision]:
        """Choose the next action of several episodes with one policy call.

        Args:
            observations: one for each episode.
            slots: whose history each belongs to; 0, 1, 2, ... if None.
            privileged: for each, what `env.unwrapped.privileged()` gave, or None: the base-with-demonstration arm.
            seeds: for each, what its reply is drawn from; None continues the agent's own random stream.

        Raises:
            agents.prompt.prompt.PromptTooLong: the goal and instructions alone exceed `max_prompt_tokens`.
            ValueError: slots and observations don't match; a screenshot was asked for and is not there; or the
                observation holds only what changed, and what was there before was not seen.
        """
        slots = list(range(len(observations))) if slots is None else list(slots)
        told = [None] * len(observations) if privileged is None else list(privileged)
        if not len(slots) == len(told) == len(observations) or len(set(slots)) != len(slots):
            raise ValueError("slots and privileged must match observations one to one, without repeated slots.")
        seen = [self._seen(obs, slot) for obs, slot in zip(observations, slots, strict=True)]
        prompts = [self._prompt(obs, memory, hint) for (obs, memory), hint in zip(seen, told, strict=True)]
        guides = [self._guide(obs, ids) for (obs, _), (_, ids) in zip(seen, prompts, strict=True)]
        by_schema = self.policy.guidance == "schema"
        completions = self.policy.complete(
            [messages for messages, _ in prompts],
            grammars=None if by_schema else guides,
            schemas=guides if by_schema else None,
            prefill=self.prefill,
            temperature=self.temperature,
            max_new_tokens=self.max_new_tokens,
            seed=self.next_seed() if seeds is None else list(seeds),
        )
        if not isinstance(completions, list) or len(completions) != len(prompts):
            made = len(completions) if isinstance(completions, list) else type(completions).__name__
            raise TypeError(f"{self.policy.name}: complete returned {made} for {len(prompts)} conversations.")
        return [
            self._decide(*turn, prompt, completion, hint)
            for turn, prompt, completion, hint in zip(seen, prompts, completions, told, strict=True)
        ]

    def follow(self, obs: Observation, action: Action, slot: int = 0) -> Decision:
        """Note an action that somebody else took in an episode, so that the agent goes on from there.

        Nothing is asked of the model: the decision's completion has no tokens.
        """
        obs, memory = self._seen(obs, slot)
        memory.error, memory.advice = "", ""
        memory.history.append(describe(action, obs))
        ids = frozenset(element["id"] for element in obs["elements"])
        return Decision(action, Completion(compact(action), [], [], [], None, "eos"), (), ids, "json")

    def guard_counts(self, slot: int = 0) -> dict[str, int]:
        """What the guards did in this episode: `{"submit.overridden": 1, "vanished.noticed": 2}`, zeros left out."""
        return guarding.counts(self._slots[slot].guards) if slot in self._slots else {}

    def _seen(self, obs: Observation, slot: int) -> tuple[Observation, _Slot]:
        """The whole observation, and what is remembered of its episode."""
        if slot not in self._slots:
            self.reset(slot=slot)
        return self._outlines.setdefault(slot, Outlines()).whole(obs), self._slots[slot]

    def _prompt(self, obs: Observation, slot: _Slot, hint: Privileged | None) -> _Shown:
        shown = self._picture(obs)
        prompt = build(
            obs,
            goal=slot.goal,
            history=slot.history,
            error=slot.error,
            advice=slot.advice,
            kinds=self.actions,
            spelled=not self.constrained,
            examples=self.examples,
            picture=shown,
            text_page=self.text_page or shown is None,
            max_tokens=cast("int | None", self.max_prompt_tokens),
            count=lambda messages: self.policy.count_prompt_tokens(with_demonstration(messages, hint), self.prefill),
            count_text=self.policy.count_tokens,
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
        self, obs: Observation, slot: _Slot, shown: _Shown, completion: Completion, hint: Privileged | None
    ) -> Decision:
        messages, visible_ids = shown
        parsed = _read(completion.text, messages, obs, slot.guards)
        action: Act = completion.text
        slot.error, slot.advice, note = parsed.error, "", ""
        if parsed.action is None:
            slot.history.append("an unreadable reply")
        else:
            verdict = guarding.apply(slot.guards, parsed.action, obs, slot.goal or obs["goal"])
            action, note, slot.advice = verdict.action, verdict.note, verdict.feedback
            slot.history.append(describe(verdict.action, obs))
        counts = guarding.counts(slot.guards)
        return Decision(action, completion, messages, visible_ids, parsed.how, parsed.error, note, counts, hint)

    def _picture(self, obs: Observation) -> Picture | None:
        vision = self.vision
        if vision == "auto":
            vision = "marks" if self.policy.sees_images and "screenshot" in obs else "none"
        if vision == "none":
            return None
        return picture(obs, marked=vision == "marks", max_side=self.max_image_side)

    def next_seed(self) -> int | None:
        """The next seed of the agent's random stream; None leaves it to the policy."""
        if self.seed is None:
            return None
        self.seed += 1_000_003  # rows of a call take the seeds that follow, so calls keep their distance
        return self.seed


def _read(text: str, messages: Conversation, obs: Observation, guards: Sequence[guarding.Guard]) -> Parsed:
    """Read the reply; an element that was there before is left to the guard that may find it again."""
    present = {element["id"] for element in obs["elements"]}
    prompt = "\n".join(message.text for message in messages)
    parsed = parse(text, present, prompt)
    known = {number for guard in guards if isinstance(guard, guarding.Vanished) for number in guard.known}
    if parsed.action is None and not known <= present:
        again = parse(text, present | known, prompt)
        return parsed if again.action is None else again
    return parsed


def describe(action: Action, obs: Observation) -> str:
    """An action for the history: its compact form and what the element was called, for ids may change their page."""
    short = compact(action)
    number: Any = getattr(action, "id", None)
    element = next((element for element in obs["elements"] if element["id"] == number), None)
    return short if element is None else f"{short} {label({**element, 'value': '', 'states': ()})}"
