"""The agent around a language model: prompt, completion, parser, guards. Episodes share policy calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast, get_args

from pydantic import AfterValidator

from selfsurf.agents import guards as guarding
from selfsurf.agents.agent import UNASKED, Act, DecidingAgent, Decision, Privileged, Query, raise_first
from selfsurf.agents.kinds import MAX_TEXT, Labels, Texts, check_kinds
from selfsurf.agents.llm.memory import Memory
from selfsurf.agents.llm.query_policy import PendingRequest, ask
from selfsurf.agents.llm.sequence import PendingActions
from selfsurf.agents.options import Amount, Count
from selfsurf.agents.policy import Completion, Conversation, Message, Policy, PolicyError
from selfsurf.agents.prompt.examples import Example
from selfsurf.agents.prompt.named import AUTO, PromptName, writer_of
from selfsurf.agents.prompt.prompt import (
    DEMONSTRATION,
    LISTED_DEMONSTRATION,
    Budget,
    Prompt,
    Turn,
    with_demonstration,
)
from selfsurf.agents.prompt.vision import MAX_IMAGE_SIDE, Picture, picture
from selfsurf.agents.reply.compact import compact
from selfsurf.agents.reply.constraint import grammar
from selfsurf.agents.reply.functions import functions_of
from selfsurf.agents.reply.read import read_reply, unread
from selfsurf.agents.reply.said import longest_said, said_in
from selfsurf.agents.reply.schema import action_schema, thoughtful
from selfsurf.agents.reply.thought import thought_in
from selfsurf.browser_env import Action, Observation, Wait
from selfsurf.browser_env.observe.outlines import Outlines

if TYPE_CHECKING:
    from selfsurf.agents.prompt.prompt import PromptWriter

SMALL = 3_000_000_000
"""Number of weights below which models are constrained by default, because they rarely keep to a format unaided."""

Vision: TypeAlias = Literal["auto", "none", "screenshot", "marks"]
"""Image shown to the model: none, the screenshot, or the screenshot marked with the elements' ids; `auto` picks one."""

_POLICY_HAS = (*Policy.__annotations__, *(name for name in vars(Policy) if not name.startswith("_")))

_REPLY_OVERHEAD = 20
"""Number of tokens of a constrained reply that are not part of its text."""

_LONG_TEXT, _LONG_THOUGHT = 4000, 1000
"""Maximum lengths, in characters, of a text and of a thought in a constrained reply that begins with a thought."""

_Shown: TypeAlias = tuple[tuple[Message, ...], frozenset[int]]
"""The prompt's messages, and the ids of the elements shown in them."""


@dataclass(eq=False, repr=False)
class LLMAgent(DecidingAgent):
    """An agent around a `Policy`.

    Args:
        policy: the language model.
        prompt: writer of the prompts: `compact` (for small models), `chat` (for strong models), `file.py:Class` of your
            own `PromptWriter`, or an instance. `auto`: `compact` for models below 3e9 weights.
        instructions: additional text for the prompt.
        functions: Python functions that the model may call while it decides, or `file.py:function`
            (`agents.reply.functions`); require free replies, or a policy that takes replies as tool calls.
        constrained: sample under a grammar of valid actions on visible elements. None: for models below 3e9 weights,
            and for replies as tool calls that begin with a thought.
        temperature: 0 takes the most likely token.
        max_new_tokens: most tokens of a reply, thinking included; None: the prompt's own.
        max_prompt_tokens: most tokens of a prompt; the page is cut to fit. `"auto"`: the backend's own budget; None:
            the model's context length less the reply.
        prefill: the reply's first characters, given to the model; None: the prompt's own.
        actions: the kinds of actions offered, or names of groups of them (`agents.kinds.GROUPS`); None: the
            prompt's own, which may differ for goals that no task judges.
        more_actions: kinds of actions offered in addition.
        max_actions: most actions of a reply. Several actions are executed, a step each, until one fails or leads to
            another page (`agents.llm.sequence`).
        labels: whether a constrained reply names the element before its id, and a field again before its text (True); a
            field only before its text (`"fields"`); or no element (False).
        texts: texts that a constrained reply may fill in or type: any, or only texts of the goal (`"goal"`): its words,
            runs of them and its quotations (`agents.reply.said`).
        guards: guards that check and correct actions: True for all, False for none, or their names (`agents.guards`).
        examples: few-shot examples, the most useful first; examples that leave too little room for the page are
            dropped.
        vision: image shown to the model. `"auto"`: the screenshot with marks if the policy sees images and the
            observation has a screenshot, else none.
        max_image_side: screenshots are scaled down to this many pixels of the longer side; None leaves them.
        text_page: whether the page is also shown as text. False requires a screenshot with marks.
        seed: seed of the first policy call; each call has its own. None leaves it to the policy.

    Raises:
        ValueError: the options conflict, or the policy doesn't support them.
    """

    policy: Policy
    _: KW_ONLY
    prompt: PromptName | PromptWriter = AUTO
    instructions: str = ""
    functions: Annotated[Sequence[Any], AfterValidator(functions_of)] = ()
    constrained: bool | None = None
    temperature: Amount = 0.0
    max_new_tokens: Count | None = None
    max_prompt_tokens: Count | Literal["auto"] | None = "auto"
    prefill: str | None = None
    actions: Annotated[Sequence[str], AfterValidator(check_kinds)] | None = None
    more_actions: Sequence[str] = ()
    max_actions: Count = 1
    labels: Labels = False
    texts: Texts = "free"
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
        small = policy.parameter_count is not None and policy.parameter_count < SMALL
        self.prompt = self._writer = writer_of(self.prompt, small=small)
        if self.max_new_tokens is None:
            longest = self._writer.max_new_tokens * (1 if self._writer.thinks else self.max_actions)
            self.max_new_tokens = min(longest, (policy.context_length or 2 * longest) // 2)
        if self.max_new_tokens < 1 or self.temperature < 0:
            raise ValueError("max_new_tokens must be at least 1 and temperature at least 0.")
        self.functions = functions_of(self.functions)
        self._calls = getattr(policy, "calls", False)
        if self.constrained is None:
            self.constrained = policy.guidance != "none" and (small or (self._calls and self._writer.thinks))
        if self.constrained and policy.guidance == "none":
            raise ValueError(f"{policy.name} does not support constrained replies; pass constrained=False.")
        if self.functions and self.constrained and not self._calls:
            raise ValueError(
                "Constrained replies can't call functions: pass constrained=False, or tools=True if the server "
                "supports tool calls."
            )
        wanted = policy.prompt_budget if self.max_prompt_tokens == "auto" else self.max_prompt_tokens
        limits = [wanted, policy.context_length and policy.context_length - self.max_new_tokens]
        self.max_prompt_tokens = min((limit for limit in limits if limit is not None), default=None)
        self.prefill = self._writer.prefill if self.prefill is None else self.prefill
        if self.max_actions < 1:
            raise ValueError("max_actions must be at least 1.")
        own = self._writer.actions if self.actions is None else self.actions
        open_ended = own if self.actions else getattr(self._writer, "open_actions", ()) or own
        self._open_actions = check_kinds((*open_ended, *self.more_actions))
        self.actions = check_kinds((*own, *self.more_actions))
        self.guards = guarding.guard_names(self.guards)
        self._slots: dict[int, Memory] = {}
        self._outlines: dict[int, Outlines] = {}  # kept if the goal changes during an episode
        if self.constrained and self.prefill and not '{"'.startswith(self.prefill):
            raise ValueError(f'A constrained reply is a JSON object: prefill must be "" or {{", not {self.prefill!r}.')
        if vision not in get_args(Vision):
            raise ValueError(f"vision must be one of {', '.join(get_args(Vision))}, not {vision!r}.")
        if vision in ("screenshot", "marks") and not policy.sees_images:
            raise ValueError(f'{policy.name} does not accept images; pass vision="none".')
        if not self.text_page and (vision in ("none", "screenshot") or not policy.sees_images):
            raise ValueError('text_page=False needs vision="marks" and a policy that accepts images.')
        if self.max_image_side is not None and self.max_image_side < 1:
            raise ValueError("max_image_side must be at least 1 pixel, or None.")

    def reseed(self, seed: int | None) -> None:
        """Restart the agent's random stream: the same seed and observations give the same actions again."""
        self.seed = seed

    def reset(
        self,
        goal: str = "",
        slot: int = 0,
        *,
        open_ended: bool = False,
        files: Sequence[str] = (),
        queries: bool = False,
    ) -> None:
        """Begin a new episode.

        Args:
            goal: the goal; empty: `obs["goal"]`.
            slot: slot of the episode.
            open_ended: whether no task judges the episode: then the prompt's `open_actions` are offered by default.
            files: names of the files that may be uploaded; without any, uploading is not offered.
            queries: whether a `Query` is answered: then the page is looked at again before an action is repeated.
        """
        kinds = self._open_actions if open_ended else cast("tuple[str, ...]", self.actions)
        kinds = tuple(kind for kind in kinds if kind != "upload" or files) or ("wait",)
        guards = guarding.make_guards(self.guards)
        self._slots[slot] = Memory(goal, guards=guards, kinds=kinds, files=tuple(files), queries=queries)

    def told(self, answer: dict[str, Any], slot: int = 0) -> None:
        """Update the guards with the page in the answer to the last decision's query."""
        if "page" in answer:
            self._slots[slot].look(answer["page"])

    def act(self, obs: Observation, *, privileged: Privileged | None = None) -> Act:
        """Choose the next action of slot 0; `privileged` is shown to the model as a demonstration."""
        return self.decide([obs], privileged=[privileged])[0].action

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
            slots: the slot of each episode; None: 0, 1, 2, ...
            privileged: for each episode, the result of `env.unwrapped.privileged()` to be shown as a demonstration (the
                base-with-demonstration arm), or None.
            seeds: for each episode, the seed of its reply; None continues the agent's own random stream.

        Raises:
            PolicyError: the model could not be asked.
            agents.prompt.prompt.PromptTooLong: the goal and instructions alone exceed `max_prompt_tokens`.
            ValueError: slots and observations don't match, a required screenshot is missing, or an observation contains
                only changes to a page that the agent hasn't seen.
            Exception: a user's function raised it.
        """
        slots = list(range(len(observations))) if slots is None else list(slots)
        answers = self.decide_each(observations, slots, privileged=privileged, seeds=seeds)
        decisions = [answer for answer in answers if isinstance(answer, Decision)]
        if len(decisions) < len(answers):
            for slot, answer in zip(slots, answers, strict=True):
                if isinstance(answer, Decision):
                    self.take_back(slot)
            raise_first(answers)
        return decisions

    def decide_each(
        self,
        observations: Sequence[Observation],
        slots: Sequence[int] | None = None,
        *,
        privileged: Sequence[Privileged | None] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Decision | BaseException]:
        """Choose the next action of several episodes; a failed episode gets its error instead of a decision.

        Raises:
            ValueError: slots and observations don't match.
        """
        slots = list(range(len(observations))) if slots is None else list(slots)
        told = [None] * len(observations) if privileged is None else list(privileged)
        drawn = [None] * len(observations) if seeds is None else list(seeds)
        if not len(slots) == len(told) == len(drawn) == len(observations) or len(set(slots)) != len(slots):
            raise ValueError("slots, privileged and seeds must be as long as observations, and slots must not repeat.")
        turns: list[Decision | BaseException | PendingRequest] = []
        lost: PolicyError | None = None
        for obs, slot, hint, seed in zip(observations, slots, told, drawn, strict=True):
            try:
                turns.append(lost or self._next(obs, slot, hint, seed))
            except Exception as error:
                lost = error if isinstance(error, PolicyError) else None  # a failed server fails the others, too
                turns.append(error)
        ask(
            [one for one in turns if isinstance(one, PendingRequest)],
            self._complete,
            self.functions,
            tools=bool(self._calls),
        )
        return [one if not isinstance(one, PendingRequest) else one.error or self._decide(one) for one in turns]

    def _next(
        self, obs: Observation, slot: int, hint: Privileged | None, seed: int | None
    ) -> Decision | PendingRequest:
        """Return the next action of the last reply, or else the request to the model."""
        obs, memory = self._seen(obs, slot)
        decision, memory.held = memory.held, None
        if (decision := decision or self._go_on(obs, memory)) is not None:
            return decision
        messages, ids = self._prompt(obs, memory, hint)
        return PendingRequest(obs, memory, hint, seed, messages, ids, self._guide(obs, memory, ids))

    def _go_on(self, obs: Observation, slot: Memory) -> Decision | None:
        """Return the next action of the last reply; None if the model is to be asked."""
        rest, slot.rest = slot.rest, None
        action = None if rest is None else rest.take(obs)
        if rest is None or action is None:
            slot.left = slot.left if rest is None else " ".join(filter(None, (rest.left, slot.left)))
            return None
        verdict = guarding.apply(slot.guards, action, obs, slot.goal or obs["goal"])
        if verdict.action != action:
            rest.drop("something else was done before it")
        slot.rest, slot.error, slot.advice = rest, "", verdict.feedback
        slot.did(verdict.action, obs)
        ids, counts = frozenset(element["id"] for element in obs["elements"]), guarding.counts(slot.guards)
        return Decision(
            verdict.action, UNASKED, (), ids, "json", guard_note=verdict.note, guard_counts=counts, place=rest.place
        )

    def _complete(self, rows: Sequence[PendingRequest]) -> list[Completion]:
        """Ask the policy for all rows in one call."""
        seeds = [row.seed + row.replies for row in rows if row.seed is not None]
        by_schema, guides = self.policy.guidance == "schema", [row.guide for row in rows]
        more: dict[str, Any] = {"functions": self.functions} if self.functions and self._calls else {}
        completions = self.policy.complete(
            [row.messages for row in rows],
            grammars=None if by_schema else guides,
            schemas=guides if by_schema else None,
            prefill=cast(str, self.prefill),
            temperature=self.temperature,
            max_new_tokens=cast(int, self.max_new_tokens),
            seed=seeds or self.next_seed(),
            **more,
        )
        if not isinstance(completions, list) or len(completions) != len(rows):
            made = len(completions) if isinstance(completions, list) else type(completions).__name__
            raise TypeError(f"{self.policy.name}: complete returned {made} for {len(rows)} conversations.")
        return completions

    @property
    def thinks(self) -> bool:
        """Whether the model's replies begin with a thought."""
        return self._writer.thinks

    def advise(self, text: str, slot: int = 0) -> None:
        """Add a text to the model's next prompt and drop the remaining actions of its last reply."""
        memory = self._slots[slot]
        memory.rest, memory.left = None, " ".join(filter(None, (memory.left, text)))

    def take_back(self, slot: int = 0) -> None:
        """Forget the last chosen action, which was not executed."""
        self._slots[slot].take_back()

    def follow(self, obs: Observation, action: Action, slot: int = 0) -> Decision:
        """Record an action chosen by somebody else, so that the agent continues after it.

        The model is not asked: the decision's completion has no tokens.
        """
        obs, memory = self._seen(obs, slot)
        memory.error, memory.advice, memory.left, memory.rest = "", "", "", None
        memory.did(action, obs)
        ids = frozenset(element["id"] for element in obs["elements"])
        return Decision(action, Completion(compact(action), [], [], [], None, "eos"), (), ids, "json")

    def recall(
        self,
        obs: Observation,
        actions: Sequence[Act],
        slot: int = 0,
        *,
        completion: Completion | None = None,
        messages: Conversation = (),
        error: str = "",
        guarded: str = "",
    ) -> None:
        """Replay a recorded step into the agent's memory, so that it continues as if it had taken the step itself.

        Args:
            obs: the observation before the step.
            actions: the step's actions; a str is a reply without an action.
            slot: slot of the episode.
            completion: the model's completion; None: no model was asked.
            messages: the prompt.
            error: why the reply could not be read.
            guarded: the guards' note on the step. The guards' advice is restored if they return the same note now.
        """
        obs, memory = self._seen(obs, slot)
        memory.error, memory.advice, memory.left, memory.rest, thought = error, "", "", None, ""
        if completion is not None:
            thought = thought_in(completion.text) if self._writer.thinks else ""
            parsed = read_reply(completion, messages, obs, memory.known, self.functions, self.max_actions)
            memory.left = unread(parsed)
            if parsed.action is not None and not error:
                if self.constrained and self.labels:
                    memory.hear(completion)
                verdict = guarding.apply(memory.guards, parsed.action, obs, memory.goal or obs["goal"])
                memory.advice = verdict.feedback if verdict.note == guarded else ""
        for action in actions:
            memory.did(action, obs, thought)

    def kinds(self, slot: int = 0) -> tuple[str, ...]:
        """Return the kinds of actions offered in the episode; before its start, those offered for a task."""
        return self._slots[slot].kinds if slot in self._slots else cast("tuple[str, ...]", self.actions)

    def guard_counts(self, slot: int = 0) -> dict[str, int]:
        """Return the guards' interventions in this episode: `{"submit.overridden": 1, "vanished.noticed": 2}`."""
        return guarding.counts(self._slots[slot].guards) if slot in self._slots else {}

    def _seen(self, obs: Observation, slot: int) -> tuple[Observation, Memory]:
        """Return the complete observation and the episode's memory."""
        if slot not in self._slots:
            self.reset(slot=slot)
        return self._outlines.setdefault(slot, Outlines()).whole(obs), self._slots[slot]

    def _prompt(self, obs: Observation, slot: Memory, hint: Privileged | None) -> _Shown:
        shown, prefill = self._picture(obs), cast(str, self.prefill)
        turn = Turn(
            goal=slot.goal or obs["goal"],
            history=slot.history,
            thoughts=slot.thoughts,
            error=slot.error,
            advice=slot.report,
            actions=slot.kinds,
            files=slot.files,
            max_actions=self.max_actions,
            constrained=bool(self.constrained),
            calls=self._calls,
            functions=() if self._calls else self.functions,
            instructions=self.instructions,
            examples=self.examples,
            picture=shown,
            text_page=self.text_page or shown is None,
        )
        budget = Budget(
            cast("int | None", self.max_prompt_tokens),
            lambda messages: self.policy.count_prompt_tokens(self._with_hint(messages, hint), prefill),
            self.policy.count_tokens,
        )
        prompt = self._writer.build(obs, turn, budget)
        if not isinstance(prompt, Prompt) or not prompt.messages or prompt.messages[-1].role != "user":
            what = type(self._writer).__name__
            raise TypeError(f"{what}.build must return a Prompt whose last message has the role user.")
        return self._with_hint(prompt.messages, hint), prompt.visible_ids

    def _with_hint(self, messages: Conversation, hint: Privileged | None) -> tuple[Message, ...]:
        return with_demonstration(messages, hint, DEMONSTRATION if self.max_actions == 1 else LISTED_DEMONSTRATION)

    def _guide(self, obs: Observation, slot: Memory, visible_ids: frozenset[int]) -> Any:
        """Return the grammar or schema of a valid reply, whichever the policy supports; None if unconstrained."""
        if not self.constrained:
            return None
        seen = [element for element in obs["elements"] if element["id"] in visible_ids]
        thinks = self._writer.thinks
        room = cast(int, self.max_new_tokens) // self.max_actions - _REPLY_OVERHEAD
        goal = slot.goal or obs["goal"]
        most = max(room, longest_said(goal))  # in characters; a token has several characters
        longest = max(1, min(_LONG_TEXT if thinks else MAX_TEXT, most))
        more: dict[str, Any] = {"max_actions": self.max_actions, "tabs": obs["tabs"], "files": slot.files}
        more |= {"labels": self.labels, "said": said_in(goal) if self.texts == "goal" else ()}
        if self.policy.guidance == "grammar":
            thought = max(1, min(_LONG_THOUGHT, room)) if thinks else 0
            return grammar(seen, slot.kinds, max_text=longest, thought=thought, **more)
        schema = action_schema(seen, slot.kinds, max_text=longest, **more)
        return thoughtful(schema) if thinks else schema

    def _decide(self, row: PendingRequest) -> Decision:
        obs, slot, completion, messages = row.obs, row.memory, row.completion, row.messages
        parsed = read_reply(completion, messages, obs, slot.known, self.functions, self.max_actions)
        action: Act
        slot.error, slot.advice, note = parsed.error, "", ""
        left, slot.left = slot.left, unread(parsed)
        thought = thought_in(completion.text) if self._writer.thinks else ""
        if parsed.action is None:
            action = parsed.absent or completion.text
            slot.did(action, obs, thought)
        else:
            if self.constrained and self.labels:
                slot.hear(completion)
            verdict = guarding.apply(slot.guards, parsed.action, obs, slot.goal or obs["goal"])
            action, note, slot.advice = verdict.action, verdict.note, verdict.feedback
            slot.rest = PendingActions(action, parsed.more, obs) if parsed.more else None
            if slot.rest is not None and action != parsed.action:
                slot.rest.drop("something else was done before it")
            slot.did(verdict.action, obs, thought)
        counts = guarding.counts(slot.guards)
        decision = Decision(
            action, completion, messages, row.visible_ids, parsed.how, parsed.error, note, counts, row.hint,
            more=parsed.more, left=left,
        )  # fmt: skip
        if isinstance(action, str) or not slot.doubts(action, obs):
            return decision
        slot.held = decision
        return Decision(Wait(ms=0), query=Query("look"))

    def _picture(self, obs: Observation) -> Picture | None:
        vision = self.vision
        if vision == "auto":
            vision = "marks" if self.policy.sees_images and "screenshot" in obs else "none"
        if vision == "none":
            return None
        return picture(obs, marked=vision == "marks", max_side=self.max_image_side)

    def next_seed(self) -> int | None:
        """Return the next seed of the agent's random stream; None leaves sampling to the policy's own stream."""
        if self.seed is None:
            return None
        self.seed += 1_000_003  # far apart, because the rows of a call use consecutive seeds
        return self.seed
