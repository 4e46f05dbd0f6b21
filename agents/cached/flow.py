"""A flow: the actions of one solved episode, with what is needed to do them again, for its goal or one like it.

What was typed, chosen or clicked and stands in the goal word for word is a parameter: the flow holds `<param:1>` in its
place, and another goal brings another value. A secret stays `<secret:name>`. An action that can't be done again safely
ends the flow before it; `ends` says why.
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
"""A value of another goal may have so many words more than the recorded one."""

_PARAM = re.compile(r"<param:(\d+)>")
_ELEMENTS = ("id", "from", "to")
_TEXTS = ("text", "options", "files", "url", "answer")
_PASSWORD = re.compile(r"(?i)passw|passphrase|\bpin\b|\bcvc\b|\bcvv\b|secret|security code|one.time")


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FlowStep(_Data):
    """One action."""

    action: dict[str, Any]
    """As `Action.to_dict`, without the elements' ids, with parameters."""
    targets: dict[str, Target] = {}
    """What it was done to, by the name of the action's field."""
    page: tuple[str, ...] = ()
    """Fingerprints of the page's elements."""
    dialogs: tuple[str, ...] = ()
    """Those that were open: they belong to the flow."""
    waits: float = 0.0
    """Milliseconds that were waited before it: so long it may take until its element is there."""


class Flow(_Data):
    """A solved episode's actions, for a goal on a site."""

    format: int = FORMAT
    goal: str
    """With parameters."""
    words: tuple[int, ...] = ()
    """Of each parameter's recorded value."""
    only: str = ""
    """`digest` of the only goal that it is for; empty if others with its words may come."""
    site: str
    """Origin of its first page."""
    steps: tuple[FlowStep, ...]
    away: dict[str, str] = {}
    """Lines of dialogs that may lie over a page and are no part of it, and names of the buttons that put them away."""
    ends: str = ""
    """Why it ends before the episode did; empty if it doesn't."""
    learned: float = 0.0
    """Unix seconds."""
    episode: str = ""
    """Id of the episode that it is from."""

    @property
    def id(self) -> str:
        """What it is for, as a short hash: of goal, site and what is on the first page."""
        start = self.steps[0].page if self.steps else ()
        parts = (self.goal, self.only, self.site, *start)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def values(self, goal: str) -> tuple[str, ...] | None:
        """Return the values that a goal has for the parameters; None if the flow isn't for it, or in doubt."""
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
        """Read the values, of these numbers of words or of any, the first ones as short or as long as can be."""
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
    """Return what stands for a goal whose values are not kept: slow to compute, so that they can't be guessed."""
    return hashlib.scrypt(goal.strip().encode(), salt=template.encode(), n=2**14, r=8, p=1, dklen=32).hex()


def filled(data: Any, values: Sequence[str]) -> Any:
    """Return plain data with the values in the parameters' places; what only looks like a parameter stays."""
    if isinstance(data, str):
        return _PARAM.sub(lambda match: values[int(match[1])] if int(match[1]) < len(values) else match[0], data)
    if isinstance(data, Mapping):
        return {key: filled(value, values) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return type(data)(filled(value, values) for value in data)
    return data


class _Weak(ValueError):
    """An action can't be done again; the message says why."""


class NotCacheable(ValueError):
    """An episode makes no flow; the message says why."""


def flow_of(episode: Episode) -> Flow:
    """Make a flow of an episode, which must have been judged solved.

    Raises:
        NotCacheable: none of its actions can be done again.
        EpisodeError: it can't be read.
    """
    goal, recorded = episode.meta["goal"].strip(), list(episode.steps())
    done = [(action, step) for step in recorded if (action := _worked(step)) is not None]
    if not goal or not done:
        raise NotCacheable("The episode has no goal, or no action that worked.")
    if "<param:" in goal or (masked(goal) != goal and not _only_values_are_masked(goal, done)):
        raise NotCacheable("The goal has something personal in it that is not a value that was typed.")
    values, exact = _parameters(goal, done)
    put = _Replacing(values)
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
        except _Weak as weak:
            ends = f"{action.name}: {weak}"
            break
        steps.append(own)
        exact, waited = exact or constant, 0.0
    if not steps:
        raise NotCacheable(f"Its first action can't be done again: {ends}")
    flow = Flow(
        goal=put(goal), words=tuple(len(value.split()) for value in values),
        site=origin(done[0][1]["observation"]["url"]), steps=tuple(steps), away=away, ends=ends, learned=time.time(),
        episode=episode.meta["episode_id"],
    )  # fmt: skip
    if exact or flow.values(goal) != tuple(values):  # where one value ends and the next begins is not certain
        flow = flow.model_copy(update={"only": digest(goal, flow.goal)})
    if flow.values(goal) != tuple(values):
        raise NotCacheable("The values in its goal can't be told apart.")
    return flow


def _worked(step: Mapping[str, Any]) -> Action | None:
    if step["error"]:
        return None
    with suppress(ActionError):
        return recorded_action(step["actions"][0])
    return None


def _parameters(goal: str, done: Sequence[tuple[Action, Mapping[str, Any]]]) -> tuple[list[str], bool]:
    """Return the values that are parameters, and whether the flow is for this very goal only."""
    shown = []
    for action, step in done:
        roles = {one["id"]: one["role"] for one in step["observation"]["elements"]}
        if action.name == "click" and roles.get(getattr(action, "id", None)) in ("button", "checkbox", "radio", "tab"):
            continue  # a command, not a value
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
            nested = True  # it is a part of another value, which another goal needn't share
    return values, nested


def _only_values_are_masked(goal: str, done: Sequence[tuple[Action, Mapping[str, Any]]]) -> bool:
    put = _Replacing(_parameters(goal, done)[0])
    return masked(put(goal)) == put(goal)


class _Replacing:
    """Puts parameters in the place of values."""

    def __init__(self, values: Sequence[str]) -> None:
        self._places = {value: f"<param:{number}>" for number, value in enumerate(values)}
        longest = sorted(values, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(bounded, longest))) if values else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._places[match[0]], text) if self._pattern else text

    def data(self, value: Any) -> Any:
        """The same in plain data, with what is personal in it masked."""
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
    put: _Replacing,
    waited: float,
) -> tuple[FlowStep, bool]:
    """Describe an action, and say whether it types something that the goal doesn't say.

    Raises:
        _Weak: it can't be done again.
    """
    data = action.to_dict()
    if data["action"] in ("message", "ask_user", "infeasible"):
        raise _Weak("it is for a person, and their answer may be another one")
    if "x" in data or "selector" in data or any(isinstance(data.get(key), (str, list)) for key in ("from", "to")):
        raise _Weak("it is at a point or a selector, not at an element")
    elements = {one["id"]: one for one in seen["elements"]}
    targets = {}
    for key in _ELEMENTS:
        if isinstance(data.get(key), int):
            targets[key] = _target(elements.get(data.pop(key)), seen)
    if data["action"] in ("type", "press") and not targets:
        raise _Weak("it is wherever the focus is")
    constant = _check_texts(data, targets, after, goal, read)
    described = {key: Target.model_validate(put.data(one.model_dump())) for key, one in targets.items()}
    texts = {key: put(value) if isinstance(value, str) else [put(each) for each in value]
             for key, value in data.items() if key in _TEXTS}  # fmt: skip
    open_ = tuple(sorted({masked(put(line)) for line in dialogs(seen["dom"]).values()}))
    page = fingerprints(seen["elements"])
    return FlowStep(action={**data, **texts}, targets=described, page=page, dialogs=open_, waits=waited), constant


def _put_away(step: Mapping[str, Any]) -> bool:
    """Whether a flow's dialog was put away by the cache."""
    return any(role.get("away") for role in (step["decision"] or {}).get("roles", ()))


def _target(element: Any, seen: Observation) -> Target:
    if element is None:
        raise _Weak("the episode does not say what its element was")
    if not element["name"].strip():
        raise _Weak(f"the {element['role']} has no name")
    target = target_of(element, seen)
    found = find(target, seen, known=fingerprints(seen["elements"]))
    if found.element is None or found.element["id"] != element["id"]:
        raise _Weak(f'the {target.role} "{masked(target.name)}" can\'t be told from others: {masked(found.why)}')
    return target


def _check_texts(
    data: Mapping[str, Any], targets: Mapping[str, Target], after: Mapping[str, Any], goal: str, read: str
) -> bool:
    """Refuse texts that are of that day only, or a secret; return whether one is not from the goal.

    Raises:
        _Weak: the action types, chooses or answers such a text.
    """
    constant = False
    for key in _TEXTS:
        given = data.get(key, ())
        for text in [given] if isinstance(given, str) else given:
            if not text.strip() or PLACEHOLDER.fullmatch(text):
                continue
            if key == "answer":  # also where the goal has its words: "Is it in stock? Answer yes or no."
                raise _Weak("its text was read from a page")
            if re.search(bounded(text), goal):
                continue
            if key in ("text", "files") and text in read:
                raise _Weak("its text was read from a page")
            if key == "text" and _hidden(targets, after):
                raise _Weak("it types a secret that is not a declared one")
            if key != "options" and masked(text) != text:
                raise _Weak("its text has something personal in it that the goal does not say")
            constant = True
    return constant


def _hidden(targets: Mapping[str, Target], after: Mapping[str, Any]) -> bool:
    """Whether what is typed there is shown as dots."""
    target = targets.get("id")
    if target is None:
        return True
    shown = [one["value"] for one in after.get("elements", ()) if one["name"] == target.name]
    return bool(_PASSWORD.search(target.name)) or any(value.startswith("•") for value in shown)
