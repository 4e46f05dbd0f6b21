"""Resumes an episode whose process was killed, from its steps and its journal, without executing anything twice.

An action whose intent is recorded but whose result isn't may have been executed or not. It is recorded as interrupted
and never sent again: the agent is informed, looks at the page, and decides anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.human_input import allows
from selfsurf.browser_env.observation import ChatMessage, Element
from selfsurf.browser_env.record.episode import Episode, EpisodeWriter
from selfsurf.browser_env.record.format import recorded_action
from selfsurf.browser_env.record.journal import read_journal, under_way
from selfsurf.browser_env.task import EpisodeProgress

HARMLESS = ("message", "ask_user", "finish", "infeasible", "wait")
"""Actions without effect on a page; after an interruption they are decided anew."""

CUT_OFF = (
    "The run was interrupted while this was being done: it may have happened or not. Look at the page, and do it again "
    "only if it has not."
)


@dataclass(frozen=True)
class AllowedAction:
    """An action that a person has allowed and that has not been executed."""

    action: Action
    elements: tuple[Element, ...]
    """Elements of the page on which the action was chosen; their ids may have changed."""
    why: str
    """Reason why the action needed permission."""
    text: str
    """The question to the person."""
    answer: str


@dataclass(frozen=True)
class ResumePoint:
    """The state from which a player resumes an episode."""

    so_far: EpisodeProgress
    steps: tuple[dict[str, Any], ...]
    """The recorded steps."""
    confirmed: AllowedAction | None = None


def question_of(episode: Episode) -> dict[str, Any] | None:
    """Return the pending question of an episode: `step`, `time`, `kind` and `text`; None for none."""
    lines = under_way(read_journal(journal_path(episode)), len(list(episode.steps())))
    return dict(lines[-1]) if lines and lines[-1]["event"] == "asked" else None


def end_of(episode: Episode) -> dict[str, Any] | None:
    """Return the step that ended an episode, even if its record was never finished; None for a running one."""
    last = next(reversed([*episode.steps()]), None)
    return last if last is not None and last["outcome"] != "running" else None


def journal_path(episode: Episode) -> Any:
    """Return the path of an episode's journal."""
    return episode.folder / "running" / "journal.jsonl"


def take_up(writer: EpisodeWriter, answer: str | None) -> ResumePoint | None:
    """Return the state for resuming an episode, after recording its interrupted step.

    Args:
        writer: the reopened writer of the episode.
        answer: the person's answer to the episode's pending question, if any.

    Returns:
        None if the episode's page was never opened; the episode then begins anew.
    """
    assert writer.journal is not None
    lines = read_journal(writer.journal.path)
    places = [line["address"] for line in lines if line["event"] == "at"]
    if not places:
        return None
    own = under_way(lines, writer.steps)
    confirmed = _end_step(writer, own, answer) if own else None
    episode = Episode(writer.folder)
    steps = tuple(episode.steps())
    seen = own[0]["observation"] if own else steps[-1]["observation"] if steps else {}
    ids = [element["id"] for step in (*steps, *own[:1]) for element in step["observation"]["elements"]]
    error = steps[-1]["error"] if steps else ""
    so_far = EpisodeProgress(
        goal=episode.meta["goal"],
        seed=episode.meta["seed"],
        steps=len(steps),
        reward=sum(step["reward"] for step in steps),
        messages=_messages(episode.meta["goal"], steps),
        url=str(seen.get("url", "")),
        address=next((place for place in reversed(places) if place), episode.meta["url"] or ""),
        last_action=_text(steps[-1]["actions"][0]) if steps else "",
        last_error=error,
        first_id=max(ids, default=0) + 1,
        cut_off=tuple(step["risk"]["why"] for step in steps if step["error"] == CUT_OFF and step["risk"]),
    )
    return ResumePoint(so_far, steps, confirmed)


def _end_step(writer: EpisodeWriter, own: Sequence[Mapping[str, Any]], answer: str | None) -> AllowedAction | None:
    """Record the interrupted step; return its action if it is allowed but not yet executed."""
    intent, last = own[0], own[-1]
    entry = intent["action"] if isinstance(intent["action"], dict) else {"unreadable": intent["action"]}
    asked = next((line for line in reversed(own) if line["event"] == "asked"), None)
    if last["event"] == "asked":
        if answer is None:
            raise ValueError("The episode waits for an answer.")
        writer.note_before("answered", text=answer)
    said = answer if last["event"] == "asked" else last.get("text")
    if asked is None or said is None:
        if entry.get("action") not in HARMLESS and "unreadable" not in entry:
            _record(writer, intent, entry, CUT_OFF, [])
        return None
    questions = [{"question": asked["text"], "answer": said}]
    allowed = allows(said)
    risk = {
        "kind": asked.get("risk"), "why": asked.get("why"),
        "confirmed": "by the user" if allowed else "refused",
    }  # fmt: skip
    if asked["kind"] == "question":
        _record(writer, intent, entry, "", questions)
    elif not allowed:
        _record(writer, intent, entry, f'The user did not allow this action. The user said: "{said}"', questions, risk)
    elif last["event"] == "asked":
        elements = tuple(intent["observation"]["elements"])
        return AllowedAction(recorded_action(entry), elements, asked["why"], asked["text"], said)
    else:
        _record(writer, intent, entry, CUT_OFF, questions, risk)
    return None


def _record(
    writer: EpisodeWriter,
    intent: Mapping[str, Any],
    entry: Mapping[str, Any],
    error: str,
    questions: list[dict[str, str]],
    risk: Mapping[str, Any] | None = None,
) -> None:
    after: Any = {"last_action": _text(entry), "last_error": error, "events": (), "messages": ()}
    info = {"outcome": "running", "outcome_detail": error, "score": {}, "timing": {}, "risk": risk}
    writer.step(
        intent["observation"], dict(entry), reward=0.0, info=info, after=after, policy=intent["policy"],
        decision=intent["decision"], time=intent["began"], questions=questions,
    )  # fmt: skip


def _messages(goal: str, steps: Sequence[Mapping[str, Any]]) -> tuple[ChatMessage, ...]:
    """Return the chat after the recorded steps."""
    if not steps:
        return (ChatMessage(role="user", text=goal),) if goal else ()
    messages = [ChatMessage(role=each["role"], text=each["text"]) for each in steps[-1]["observation"]["messages"]]
    action = steps[-1]["actions"][0]
    if action.get("action") in ("message", "ask_user") and not steps[-1]["error"]:
        messages.append(ChatMessage(role="assistant", text=action.get("question") or action.get("text", "")))
    if action.get("action") == "ask_user":
        messages += [ChatMessage(role="user", text=each["answer"]) for each in steps[-1]["questions"] if each["answer"]]
    return tuple(messages)


def _text(entry: Mapping[str, Any]) -> str:
    if "unreadable" in entry:
        return str(entry["unreadable"])
    return recorded_action(entry).to_json()
