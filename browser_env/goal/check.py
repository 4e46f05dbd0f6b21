"""Checks of a goal's criteria against an episode. Facts that the episode doesn't show are unknown, never missed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from selfsurf.browser_env.goal.evidence import SAYS, Evidence, Moment
from selfsurf.browser_env.goal.shown import elements_for, goes_on, may_be_there
from selfsurf.browser_env.goal.spec import (
    ActionDone,
    Criterion,
    ElementState,
    GoalSpec,
    Parameters,
    WhichElement,
    fill_in,
)
from selfsurf.browser_env.session.calls import MOST

Found: TypeAlias = Literal["met", "missed", "unknown"]

MASK = "•"
"""Character that replaces each character of a secret field."""

LONGEST = 300
"""Maximum length of a reason in characters."""


@dataclass(frozen=True)
class Finding:
    """Result of one criterion."""

    kind: str
    found: Found
    why: str


@dataclass(frozen=True)
class Judgement:
    """Verdict on an episode by a goal's specification."""

    says: Literal["solved", "failed", "unknown"]
    why: str
    findings: tuple[Finding, ...] = ()

    def details(self) -> dict[str, Any]:
        """Return the findings as plain data."""
        return {"criteria": [asdict(one) for one in self.findings]}


Ask: TypeAlias = Callable[[str, Evidence], Finding]
"""Function that asks a model a question about an episode."""


class SuccessChecker:
    """A judge of episodes by the specification of their goals.

    Args:
        spec: specification of the episodes' goals.
        ask: answers the specification's questions; None if there is no model to ask. Questions are asked last, and only
            if the agent claims to be done and no other criterion is missed: the model can veto success but never grant
            it.
    """

    def __init__(self, spec: GoalSpec, ask: Ask | None = None) -> None:
        self.spec = spec
        self._ask = ask

    def judge(self, evidence: Evidence) -> Judgement:
        """Judge an episode: solved if all criteria are met, failed if one is missed, otherwise unknown."""
        parameters = self.spec.parameters(evidence.goal)
        if parameters is None:
            return Judgement("unknown", "The specification's pattern does not fit the episode's goal.")
        findings = [_checked(one, evidence, parameters) for one in self.spec.criteria if one.question is None]
        missed = any(one.found == "missed" for one in findings)
        questions = [fill_in(one.question, parameters) for one in self.spec.criteria if one.question is not None]
        findings += [self._asked(one, evidence, missed=missed) for one in questions]
        for found, says in (("missed", "failed"), ("unknown", "unknown")):
            if which := [one for one in findings if one.found == found]:
                return Judgement(says, _cut("; ".join(one.why for one in which)), tuple(findings))  # type: ignore[arg-type]
        return Judgement("solved", _cut("; ".join(one.why for one in findings)), tuple(findings))

    def _asked(self, question: str, evidence: Evidence, *, missed: bool) -> Finding:
        if missed:
            return Finding("question", "unknown", "not asked, because another criterion was missed")
        if not evidence.claims:
            return Finding("question", "missed", "the agent did not say that it was done")
        if self._ask is None:
            return Finding("question", "unknown", "there was no model to ask")
        return self._ask(question, evidence)


def _checked(criterion: Criterion, evidence: Evidence, parameters: Parameters) -> Finding:
    items: Sequence[str] = parameters[criterion.each] if criterion.each else ("",)  # type: ignore[assignment]
    if not items:
        return Finding(criterion.kind, "unknown", f"the goal names nothing for {criterion.each}")
    findings = [_CHECKS[criterion.kind](criterion, evidence, _Filler(parameters, item)) for item in items]
    for found in ("missed", "unknown"):
        for one in findings:
            if one.found == found:
                return one
    return findings[-1]


@dataclass(frozen=True)
class _Filler:
    """Callable that fills a goal's parameters into texts."""

    parameters: Parameters
    item: str

    def __call__(self, text: str) -> _FilledCriterion:
        return _FilledCriterion(fill_in(text, self.parameters, item=self.item), text.startswith("re:"))


@dataclass(frozen=True)
class _FilledCriterion:
    """A criterion's text with the goal's parameters filled in. Parameters never make the text a regular expression."""

    said: str
    is_pattern: bool

    def within(self, text: Any) -> Found:
        """Return whether a text contains the wanted text or pattern; unknown if the argument is not a string."""
        if not isinstance(text, str):
            return "unknown"
        found = re.search(self.said[3:], text) if self.is_pattern else self.said in text
        return "met" if found else "missed"

    def equals(self, text: str) -> bool:
        """Whether a whole text equals the wanted text or matches its pattern."""
        if self.is_pattern:
            return re.fullmatch(self.said[3:], text.strip()) is not None
        return self.said.strip() == text.strip()


def _pages(criterion: Criterion, evidence: Evidence) -> list[Mapping[str, Any]]:
    """Return the observations on which a criterion may hold; empty if none were recorded."""
    final = [] if evidence.final is None else [evidence.final]
    if criterion.at == "before":
        return [evidence.acting[-1].seen] if evidence.acting else []
    return [*(one.seen for one in evidence.moments), *final] if criterion.at == "ever" else final


def _on_pages(
    criterion: Criterion, evidence: Evidence, holds: Callable[[Mapping[str, Any]], Found], what: str
) -> Finding:
    pages = _pages(criterion, evidence)
    if not pages:
        return Finding(criterion.kind, "unknown", f"no page was recorded that could show whether {what}")
    found = [holds(page) for page in pages]
    best: Found = "met" if "met" in found else "unknown" if "unknown" in found else "missed"
    says = {"met": what, "missed": f"not so: {what}", "unknown": f"the episode does not show whether {what}"}
    return Finding(criterion.kind, best, says[best])


def _url(criterion: Criterion, evidence: Evidence, fill: _Filler) -> Finding:
    wanted = fill(str(criterion.url))
    return _on_pages(
        criterion, evidence, lambda page: wanted.within(page.get("url")), f"the address has {wanted.said!r}"
    )


def _text(criterion: Criterion, evidence: Evidence, fill: _Filler) -> Finding:
    wanted = fill(str(criterion.text))

    def says(page: Mapping[str, Any]) -> Found:
        found = wanted.within(page.get("page_text"))
        return "unknown" if found == "missed" and goes_on(page) else found

    return _on_pages(criterion, evidence, says, f"the page says {wanted.said!r}")


def _answer(criterion: Criterion, evidence: Evidence, fill: _Filler) -> Finding:
    wanted = fill(str(criterion.answer))
    if evidence.answer is None:
        return Finding("answer", "missed", "the agent gave no answer")
    found = wanted.within(evidence.answer)
    return Finding("answer", found, f"the answer {'has' if found == 'met' else 'lacks'} {wanted.said!r}")


def _request(criterion: Criterion, evidence: Evidence, fill: _Filler) -> Finding:
    wanted = criterion.request
    assert wanted is not None
    url = fill(wanted.url)
    what = f"{wanted.method} {url.said}".strip()
    for moment in evidence.moments:
        for one in moment.requests or ():
            status = one.get("status")
            right = isinstance(status, int) and (status == wanted.status if wanted.status else status < 400)
            same = not wanted.method or str(one.get("method", "")).upper() == wanted.method.upper()
            if right and same and url.within(one.get("url")) == "met":
                return Finding("request", "met", f"{what} was requested")
    if any(one.requests is None for one in evidence.moments):
        return Finding("request", "unknown", f"requests were not recorded, so {what} may have been requested unnoticed")
    if any(len(one.requests or ()) >= MOST for one in evidence.moments):
        return Finding(
            "request", "unknown", f"only some requests were recorded, so {what} may have been requested unnoticed"
        )
    return Finding("request", "missed", f"{what} was not requested, or was refused")


def _action(criterion: Criterion, evidence: Evidence, fill: _Filler) -> Finding:
    wanted = criterion.action
    assert wanted is not None
    moments = evidence.acting if criterion.at == "ever" else evidence.acting[-1:]
    named = wanted.element.name
    what = f"{wanted.kind or 'action'} on {wanted.element.role or wanted.element.tag or 'element'}" + (
        f" {fill(named).said!r}" if named is not None else ""
    )
    done = [_did(wanted, one, fill) for one in moments]
    found: Found = "met" if "met" in done else "unknown" if "unknown" in done else "missed"
    says = {
        "met": what,
        "missed": f"not done: {what}",
        "unknown": f"the episode does not show whether this was done: {what}",
    }
    return Finding("action", found, says[found])


def _did(wanted: ActionDone, moment: Moment, fill: _Filler) -> Found:
    found: Found = "missed"
    for action in moment.actions if not moment.error else ():
        if action.get("action") in SAYS or (wanted.kind and action.get("action") != wanted.kind):
            continue
        options = action.get("options")
        typed = ", ".join(map(str, options)) if isinstance(options, (list, tuple)) else str(action.get("text", ""))
        if wanted.text is not None and not fill(wanted.text).equals(typed):
            continue
        id = _target(action, moment.seen)
        meant = [one.get("id") for one in _which(wanted.element, moment.seen, fill)]
        if wanted.element == WhichElement() or (id is not None and id in meant):
            return "met"
        found = "unknown" if id is None else found
    return found


def _target(action: Mapping[str, Any], seen: Mapping[str, Any]) -> int | None:
    """Return the ID of an action's target element: 0 if it has none, None if the target is unknown."""
    if "id" in action or "selector" in action:
        return action.get("id")
    elements = [one for one in seen.get("elements", ()) if isinstance(one, Mapping)]
    if "x" in action:
        return min(_at(action["x"], action["y"], elements), default=(0.0, None))[1]
    if action.get("action") in ("press", "type"):
        return next((one.get("id") for one in elements if "focused" in one.get("states", ())), None)
    return 0


def _at(x: float, y: float, elements: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, int]]:
    """Yield area and ID of each element at a point of the viewport."""
    for one in elements:
        left, top, width, height = one.get("bbox") or (0, 0, 0, 0)
        if one.get("in_viewport") and left <= x <= left + width and top <= y <= top + height:
            yield width * height, one["id"]


def _element(criterion: Criterion, evidence: Evidence, fill: _Filler) -> Finding:
    wanted = criterion.element
    assert wanted is not None
    parts = [wanted.role or wanted.tag or "element"]
    parts += [repr(fill(wanted.name).said)] if wanted.name is not None else []
    parts += [f"with value {fill(wanted.value).said!r}"] if wanted.value is not None else []
    parts += [f"is {', '.join(wanted.states)}"] if wanted.states else []
    what = f"there is {'no ' if wanted.absent else ''}{' '.join(parts)}"
    return _on_pages(criterion, evidence, lambda page: _stands(wanted, page, fill), what)


def _stands(wanted: ElementState, page: Mapping[str, Any], fill: _Filler) -> Found:
    if not isinstance(page.get("elements"), (list, tuple)):
        return "unknown"
    has = {state for state in wanted.states if not state.startswith("not ")}
    lacks = {state.removeprefix("not ") for state in wanted.states} - has
    alike = [
        one
        for one in _which(wanted, {"elements": elements_for(wanted, page)}, fill)
        if has <= set(one.get("states", ())) and not lacks & set(one.get("states", ()))
    ]
    found: Found = "met" if alike else "missed"
    if wanted.names:
        names = fill.parameters[wanted.names]
        same = sorted(str(one.get("name")) for one in alike) == sorted(names)
        found = "unknown" if goes_on(page) else "met" if same else "missed"
    elif wanted.value is not None:
        value = fill(wanted.value)
        values = [str(one.get("value", "")) for one in alike]
        if any(value.equals(one) for one in values):
            found = "met"
        else:
            hidden = any(one and set(one) == {MASK} and len(one) == len(value.said) for one in values)
            found = "unknown" if hidden else "missed"
    if found == "missed" and may_be_there(wanted, page):
        found = "unknown"
    if wanted.absent and found != "unknown":
        return "missed" if found == "met" else "met"
    return found


def _which(wanted: WhichElement, page: Mapping[str, Any], fill: _Filler) -> list[Mapping[str, Any]]:
    elements = [one for one in page.get("elements", ()) if isinstance(one, Mapping)]
    alike = [one for one in elements if wanted.role in ("", one.get("role")) and wanted.tag in ("", one.get("tag"))]
    if wanted.nth is not None:
        alike = alike[wanted.nth - 1 : wanted.nth]
    return [one for one in alike if wanted.name is None or fill(wanted.name).equals(str(one.get("name", "")))]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


_CHECKS: Mapping[str, Callable[[Criterion, Evidence, _Filler], Finding]] = {
    "url": _url, "text": _text, "element": _element, "answer": _answer, "request": _request, "action": _action,
}  # fmt: skip
