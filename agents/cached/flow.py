"""The replayable actions of one solved episode, for its goal or a similar goal.

Typed, chosen or clicked texts that occur literally in the goal become parameters: the flow contains `<param:0>`
instead, and another goal provides another value. A secret remains `<secret:name>`. The flow ends before the first
action that can't be repeated safely; `ends` gives the reason.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, ConfigDict

from selfsurf.agents.cached.overlays import is_overlay, way_of
from selfsurf.agents.cached.place import dialogs
from selfsurf.agents.cached.target import Target, find, fingerprints, origin, target_of
from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.goal.words import bounded, texts_of_goal
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.record.episode import Episode
from selfsurf.browser_env.record.format import recorded_action
from selfsurf.browser_env.safety.redaction import masked
from selfsurf.browser_env.safety.secrets import PLACEHOLDER

FORMAT = 1

MORE_WORDS = 1
"""Maximum number of words by which a parameter's new value may exceed the recorded value."""

_PARAM = re.compile(r"<param:(\d+)>")
_ELEMENTS = ("id", "from", "to")
_TEXTS = ("text", "options", "files", "url", "answer")
_PASSWORD = re.compile(r"(?i)passw|passphrase|\bpin\b|\bcvc\b|\bcvv\b|secret|security code|one.time")


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FlowStep(_Data):
    """One action of a flow, with the description of its page."""

    action: dict[str, Any]
    """The action as in `Action.to_dict`, with parameters and without element ids."""
    targets: dict[str, Target] = {}
    """Elements that the action refers to, by the name of the action's field."""
    page: tuple[str, ...] = ()
    """Fingerprints of the page's elements."""
    dialogs: tuple[str, ...] = ()
    """Outline lines of the open dialogs that belong to the flow."""
    waits: float = 0.0
    """Recorded waiting time before the action, in milliseconds; the replay may wait twice as long for the element."""


class Flow(_Data):
    """A solved episode's actions, for a goal on a site."""

    format: int = FORMAT
    goal: str
    """The goal, with parameters instead of values."""
    words: tuple[int, ...] = ()
    """Number of words of each parameter's recorded value."""
    only: str = ""
    """`digest` of the only goal that the flow is valid for; empty if other values are allowed."""
    site: str
    """Origin of the first page."""
    steps: tuple[FlowStep, ...]
    away: dict[str, str] = {}
    """Names of the buttons that dismiss overlays, by the outline line of the dialog."""
    ends: str = ""
    """Why the flow ends before its episode did; empty if complete."""
    learned: float = 0.0
    """Time of recording, in Unix seconds."""
    episode: str = ""
    """Id of the recorded episode."""

    @property
    def id(self) -> str:
        """A short hash of the goal, the site and the elements of the first page."""
        start = self.steps[0].page if self.steps else ()
        parts = (self.goal, self.only, self.site, *start)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def values(self, goal: str) -> tuple[str, ...] | None:
        """Return the parameters' values in a goal; None if the flow isn't for the goal or the values are ambiguous."""
        if self.only:
            values = self._read(goal, self.words)
            return values if values is not None and digest(goal, self.goal) == self.only else None
        values = self._read(goal)
        if values is None or values != self._read(goal, greedy=True):
            return None
        for value, words in zip(values, self.words, strict=True):
            if len(value.split()) > words + MORE_WORDS or re.search(r"[.;!?]\s|\n", value):
                return None
        return values

    def _read(self, goal: str, words: Sequence[int] = (), *, greedy: bool = False) -> tuple[str, ...] | None:
        """Return the parameters' values in a goal: of the given numbers of words, or matched lazily or greedily."""
        pattern, seen = "", set()
        for number, part in enumerate(_PARAM.split(self.goal)):
            if number % 2 == 0:
                pattern += re.escape(part)
            elif part in seen:
                pattern += f"(?P=p{part})"
            else:
                one = rf"\S+(?:\s+\S+){{{words[int(part)] - 1}}}" if words else ".+" if greedy else ".+?"
                pattern += f"(?P<p{part}>{one})"
                seen.add(part)
        found = re.fullmatch(pattern, goal.strip(), re.DOTALL)
        return tuple(found[f"p{number}"] for number in range(len(self.words))) if found else None


def digest(goal: str, template: str) -> str:
    """Return a hash of a goal whose values are not stored; slow to compute, so that the values can't be guessed."""
    return hashlib.scrypt(goal.strip().encode(), salt=template.encode(), n=2**14, r=8, p=1, dklen=32).hex()


def filled(data: Any, values: Sequence[str]) -> Any:
    """Return plain data with parameters replaced by their values; unknown parameters remain."""
    if isinstance(data, str):
        return _PARAM.sub(lambda match: values[int(match[1])] if int(match[1]) < len(values) else match[0], data)
    if isinstance(data, Mapping):
        return {key: filled(value, values) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return type(data)(filled(value, values) for value in data)
    return data


class _UnsafeAction(ValueError):
    """An action can't be repeated safely; the message gives the reason."""


class NotCacheable(ValueError):
    """An episode can't be made into a flow; the message gives the reason."""


def flow_of(episode: Episode) -> Flow:
    """Make a flow of an episode, which must have been judged solved.

    Raises:
        NotCacheable: no action can be repeated, or the goal contains private texts or ambiguous values.
        EpisodeError: the episode can't be read.
    """
    goal, recorded = episode.meta["goal"].strip(), list(episode.steps())
    done = [(action, step) for step in recorded if (action := _worked(step)) is not None]
    if not goal or not done:
        raise NotCacheable("The episode has no goal or no successful action.")
    if "<param:" in goal or (masked(goal) != goal and not _only_values_are_masked(goal, done)):
        raise NotCacheable("The goal contains private text that was not typed as a value.")
    values, exact = _parameters(goal, done)
    put = _ParameterSubstitution(values)
    steps, ends, waited, read = [], "", 0.0, ""
    away: dict[str, str] = {}
    for number, (action, step) in enumerate(done):
        observation = step["observation"]
        following = done[number + 1] if number + 1 < len(done) else None
        if action.name == "wait":
            waited += action.ms  # type: ignore[union-attr]
            continue
        if _put_away(step) or is_overlay(action, observation, None if following is None else following[0]):
            away |= {masked(put(line)): masked(put(name)) for line, name in way_of(action, observation).items()}
            continue
        read += "\n" + observation["page_text"]
        try:
            after = (
                recorded[step["step"] + 1]["observation"] if step["step"] + 1 < len(recorded) else episode.meta["final"]
            )
            own, constant = _step(action, observation, after or {}, goal, read, put, waited)
        except _UnsafeAction as weak:
            ends = f"{action.name}: {weak}"
            break
        steps.append(own)
        exact, waited = exact or constant, 0.0
    if not steps:
        raise NotCacheable(f"The episode's first action can't be repeated: {ends}")
    flow = Flow(
        goal=put(goal), words=tuple(len(value.split()) for value in values),
        site=origin(done[0][1]["observation"]["url"]), steps=tuple(steps), away=away, ends=ends, learned=time.time(),
        episode=episode.meta["episode_id"],
    )  # fmt: skip
    if exact or flow.values(goal) != tuple(values):  # the boundary between two values is ambiguous
        flow = flow.model_copy(update={"only": digest(goal, flow.goal)})
    if flow.values(goal) != tuple(values):
        raise NotCacheable("The values in the goal can't be told apart.")
    return flow


def _worked(step: Mapping[str, Any]) -> Action | None:
    if step["error"]:
        return None
    with suppress(ActionError):
        return recorded_action(step["actions"][0])
    return None


def _parameters(goal: str, done: Sequence[tuple[Action, Mapping[str, Any]]]) -> tuple[list[str], bool]:
    """Return the values that become parameters, and whether the flow is valid for this exact goal only."""
    shown = []
    for action, step in done:
        roles = {one["id"]: one["role"] for one in step["observation"]["elements"]}
        if action.name == "click" and roles.get(getattr(action, "id", None)) in ("button", "checkbox", "radio", "tab"):
            continue  # a command rather than a value
        shown.append((action, step["observation"]["elements"]))
    texts = [text for text in texts_of_goal(goal, shown) if not goal.startswith(text) and "<" not in text]
    files = [name for action, _ in done if action.name == "upload" for name in action.files]  # type: ignore[union-attr]
    texts += [name for name in files if re.search(bounded(name), goal) and name not in texts]
    values: list[str] = []
    left, nested = goal, False
    for text in sorted(texts, key=len, reverse=True):
        if re.search(bounded(text), left):
            left = re.sub(bounded(text), "\0", left)
            values.append(text)
        else:
            nested = True  # part of another value, perhaps only in this goal
    return values, nested


def _only_values_are_masked(goal: str, done: Sequence[tuple[Action, Mapping[str, Any]]]) -> bool:
    put = _ParameterSubstitution(_parameters(goal, done)[0])
    return masked(put(goal)) == put(goal)


class _ParameterSubstitution:
    """Replaces values by their parameters in texts."""

    def __init__(self, values: Sequence[str]) -> None:
        self._places = {value: f"<param:{number}>" for number, value in enumerate(values)}
        longest = sorted(values, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(bounded, longest))) if values else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._places[match[0]], text) if self._pattern else text

    def data(self, value: Any) -> Any:
        """Return plain data with values replaced by parameters and private texts masked."""
        if isinstance(value, str):
            return masked(self(value))
        if isinstance(value, Mapping):
            return {key: self.data(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.data(one) for one in value)
        return value


def _step(
    action: Action,
    seen: Observation,
    after: Mapping[str, Any],
    goal: str,
    read: str,
    put: _ParameterSubstitution,
    waited: float,
) -> tuple[FlowStep, bool]:
    """Return the flow step of an action, and whether the action uses a text that is not in the goal.

    Raises:
        _UnsafeAction: the action can't be repeated.
    """
    data = action.to_dict()
    if data["action"] in ("message", "ask_user", "infeasible"):
        raise _UnsafeAction("it addresses a person, whose answer may differ")
    if "x" in data or "selector" in data or any(isinstance(data.get(key), (str, list)) for key in ("from", "to")):
        raise _UnsafeAction("it targets a point or a selector instead of an element")
    elements = {one["id"]: one for one in seen["elements"]}
    targets = {}
    for key in _ELEMENTS:
        if isinstance(data.get(key), int):
            targets[key] = _target(elements.get(data.pop(key)), seen)
    if data["action"] in ("type", "press") and not targets:
        raise _UnsafeAction("it acts on whatever has the focus")
    constant = _check_texts(data, targets, after, goal, read)
    described = {key: Target.model_validate(put.data(one.model_dump())) for key, one in targets.items()}
    texts = {key: put(value) if isinstance(value, str) else [put(each) for each in value]
             for key, value in data.items() if key in _TEXTS}  # fmt: skip
    open_ = tuple(sorted({masked(put(line)) for line in dialogs(seen["dom"]).values()}))
    page = fingerprints(seen["elements"])
    return FlowStep(action={**data, **texts}, targets=described, page=page, dialogs=open_, waits=waited), constant


def _put_away(step: Mapping[str, Any]) -> bool:
    """Whether the step is a dismissal of an overlay by the cache."""
    return any(role.get("away") for role in (step["decision"] or {}).get("roles", ()))


def _target(element: Any, seen: Observation) -> Target:
    if element is None:
        raise _UnsafeAction("the episode does not record its element")
    if not element["name"].strip():
        raise _UnsafeAction(f"the {element['role']} has no name")
    target = target_of(element, seen)
    found = find(target, seen, known=fingerprints(seen["elements"]))
    if found.element is None or found.element["id"] != element["id"]:
        raise _UnsafeAction(
            f'the {target.role} "{masked(target.name)}" can\'t be told apart from others: {masked(found.why)}'
        )
    return target


def _check_texts(
    data: Mapping[str, Any], targets: Mapping[str, Target], after: Mapping[str, Any], goal: str, read: str
) -> bool:
    """Return whether a text of the action is not from the goal; refuse secrets and texts read from pages.

    Raises:
        _UnsafeAction: the action types, chooses or answers such a text.
    """
    constant = False
    for key in _TEXTS:
        given = data.get(key, ())
        for text in [given] if isinstance(given, str) else given:
            if not text.strip() or PLACEHOLDER.fullmatch(text):
                continue
            if key == "answer":  # even if the goal contains it: "Is it in stock? Answer yes or no."
                raise _UnsafeAction("its text comes from a page")
            if re.search(bounded(text), goal):
                continue
            if key in ("text", "files") and text in read:
                raise _UnsafeAction("its text comes from a page")
            if key == "text" and _hidden(targets, after):
                raise _UnsafeAction("it types a secret that was not declared")
            if key != "options" and masked(text) != text:
                raise _UnsafeAction("its text contains private data that is not in the goal")
            constant = True
    return constant


def _hidden(targets: Mapping[str, Target], after: Mapping[str, Any]) -> bool:
    """Whether the page hides the typed text, as in a password field."""
    target = targets.get("id")
    if target is None:
        return True
    shown = [one["value"] for one in after.get("elements", ()) if one["name"] == target.name]
    return bool(_PASSWORD.search(target.name)) or any(value.startswith("•") for value in shown)
