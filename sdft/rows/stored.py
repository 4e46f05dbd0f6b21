"""Recorded episodes for training: states at which a student is prompted without a browser or the site.

An episode may come from anyone (`browser_env.record.untrusted`), so nothing that it names is loaded or opened, not even
its task. Unreadable episodes are left out and reported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from selfsurf.agents.agent import Act
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policy import Completion, Message
from selfsurf.agents.reply.compact import as_written
from selfsurf.agents.roles.proposer import REJECTED
from selfsurf.agents.roles.task import rejected_in
from selfsurf.browser_env import Action, ActionError, Observation, Outcome
from selfsurf.browser_env.observe.outlines import Outlines
from selfsurf.browser_env.record.episode import EpisodeError
from selfsurf.browser_env.record.format import recorded_action
from selfsurf.browser_env.record.untrusted import UntrustedEpisode
from selfsurf.envs_registry import OPEN, open_id
from selfsurf.sdft.rows.hindsight import Hindsight, Try, beside, in_hindsight, page_of
from selfsurf.sdft.teacher.recording import RecordedStep, Recording

FEWEST = 5
"""Minimum number of different episodes of which some are held out, one in five, to measure a gain. Fewer are all
trained on."""

_ID = re.compile(r"[\w.-]+/[\w.-]+-v\d+")


@dataclass(frozen=True)
class StoredStep:
    """A recorded step."""

    observation: Observation
    """Observation with the page's complete outline."""
    actions: tuple[Act, ...]
    """Actions of the step. A str is a reply without an action; a rejected claim of success is a `finish`."""
    reward: float
    error: str
    """Reason why the action failed; empty if it succeeded."""
    completion: Completion | None
    """Reply of a model, without its tokens; None if no model was asked."""
    messages: tuple[Message, ...]
    """Messages of the model's prompt."""
    unread: str
    """Reason why the model's reply was unreadable; empty if it was readable."""
    guarded: str
    """Advice of the guards."""
    rejected: str = ""
    """Reason why a verifier rejected the claim of success; empty without a rejection. Nothing was done in a rejected
    step."""
    reached: bool = False
    """Whether the goal was reached after the step, although the episode continued (`browser_env.task.Task.ends`)."""
    told: str = ""
    """Text that a graph added to the model's prompt besides goal and page."""
    instead: bool = False
    """Whether a graph replaced the model's action, for example by a request for permission."""

    @cached_property
    def shown(self) -> Action | None:
        """Action done on this page; None if it failed or a reply can't express it."""
        return self.done if self.done is not None and as_written(self.done, self.observation) is not None else None

    @property
    def done(self) -> Action | None:
        """Action done on this page, even if a reply can't express it; None if it failed."""
        first = self.actions[0]
        return None if self.error or self.rejected or self.instead or isinstance(first, str) else first


@dataclass(frozen=True, eq=False)
class StoredEpisode:
    """A complete recorded episode."""

    folder: Path
    env_id: str
    """Local id of the episode's task. A task from a file is not looked up."""
    goal: str
    seed: int
    solved: bool
    """Whether the goal was reached, according to a task, a person or a judge."""
    rewarded: bool
    """Whether the rewards of the steps count; False if the infrastructure failed the episode."""
    steps: tuple[StoredStep, ...]
    judged: bool = False
    """Whether the episode has a verdict."""
    final: Observation | None = None
    """Observation after the last step, with the page's complete outline; None if it is unknown."""
    hindsight: Hindsight | None = None
    """Lessons in hindsight, where a step went wrong; None if they aren't used."""

    def teaches(self, index: int) -> Action | None:
        """Return the action that a step teaches; None if it teaches nothing.

        In an unsolved episode a step needs a reward to teach. In hindsight, a step that went wrong teaches the action
        that worked later.
        """
        step = self.steps[index]
        if self.hindsight is not None and index in self.hindsight.later:
            return self.hindsight.later[index]
        return step.shown if self.solved or (self.rewarded and step.reward > 0) else None

    @property
    def recording(self) -> Recording:
        """Recording of the steps that teach; if solved, without mistakes and with actions that no reply can express."""
        mistakes = self.hindsight.later if self.solved and self.hindsight else ()
        shown = (
            (step.observation, self.teaches(index) or (step.done if self.solved else None))
            for index, step in enumerate(self.steps)
            if index not in mistakes
        )
        steps = tuple(RecordedStep(seen, action) for seen, action in shown if action is not None)
        return Recording(self.env_id, self.goal, self.seed, steps)

    @property
    def what(self) -> str:
        """Hash of the observed pages and the actions, which is equal for copies."""
        digest = hashlib.sha256()
        for step in self.steps:
            done = [one if isinstance(one, str) else one.to_dict() for one in step.actions]
            digest.update(json.dumps([step.observation["url"], step.observation["dom"], done]).encode())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class State:
    """A step of an episode as a state to act at."""

    episode: StoredEpisode
    index: int

    @property
    def shown(self) -> Action:
        """Action that the state teaches."""
        action = self.episode.teaches(self.index)
        assert action is not None
        return action

    @property
    def place(self) -> tuple[object, ...]:
        """Identity of the page and its action, equal for states that teach the same."""
        return page_of(self.episode.steps[self.index].observation), self.shown.to_json()

    def bring(self, agent: LLMAgent, slot: int = 0) -> Observation:
        """Replay the episode's steps before the state into the agent's memory; return the state's observation."""
        agent.reset(slot=slot)
        for step in self.episode.steps[: self.index]:
            agent.recall(
                step.observation, () if step.instead else step.actions, slot, completion=step.completion,
                messages=step.messages, error=step.unread, guarded=step.guarded,
            )  # fmt: skip
            if step.rejected:
                agent.advise(REJECTED.format(missing=step.rejected), slot)
        here = self.episode.steps[self.index]
        if here.told:
            agent.advise(here.told, slot)
        return here.observation


@dataclass(frozen=True, eq=False)
class RetainedState(State):
    """A state at which the agent should repeat its recorded action."""

    @property
    def shown(self) -> Action:
        """Action that was done at the state."""
        action = self.episode.steps[self.index].shown
        assert action is not None
        return action


@dataclass(frozen=True)
class StoredEpisodes:
    """Contents of folders with recorded episodes."""

    episodes: list[StoredEpisode]
    """Complete episodes, in the order of their paths."""
    left_out: dict[Path, str]
    """Reasons why episodes were left out, by folder."""

    def teaching(self, kinds: Iterable[str] | None = None) -> list[StoredEpisode]:
        """Return the episodes with a step that teaches an action of these kinds (None for all kinds)."""
        return [one for one in self.episodes if states_of([one], kinds)]

    def text(self) -> str:
        """Describe the episodes, and those that were left out."""
        solved, count = sum(one.solved for one in self.episodes), len(self.episodes)
        rest = [one for one in self.teaching() if not one.solved]
        earned = sum(any(step.reward > 0 for step in one.steps) for one in rest)
        said = ["1 episode, " + ("" if solved else "not ") + "solved"] * (count == 1)
        said = said or [f"{count} episodes, {solved} of them solved"]
        said += [f"{earned} not solved, but with steps that earned a reward"] * bool(earned)
        said += [f"{len(rest) - earned} not solved, but with steps where another action worked later"] * (
            len(rest) > earned
        )
        unsaid = sum(step.done is not None and step.shown is None for one in self.episodes for step in one.steps)
        said += [f"{unsaid} step{'s' * (unsaid != 1)} that no reply can express, such as an upload"] * bool(unsaid)
        unjudged = sum(not one.judged for one in self.episodes)
        said += [f"{unjudged} without a verdict (use selfsurf mark or selfsurf judge)"] * bool(unjudged)
        said += [f"left out {folder}: {why.removesuffix('.')}" for folder, why in self.left_out.items()]
        text = "; ".join(said) + "."
        return "".join(one if one.isprintable() else "\ufffd" for one in text)  # names may contain any characters


def load_stored(folders: Iterable[str | Path], *, images: bool = False, hindsight: bool = False) -> StoredEpisodes:
    """Read all episodes in the folders and their subfolders.

    Args:
        folders: folders to search.
        images: whether to load screenshots, for a vision model.
        hindsight: whether to add what worked later after a step went wrong, in solved and unsolved episodes; for an
            unsolved episode with a solved run of the same task, goal and seed, what worked in that run.

    Raises:
        EpisodeError: a folder doesn't exist, or there is nothing to learn from in any of them.
    """
    episodes, left_out = [], {}
    for folder in folders:
        if not Path(folder).is_dir():
            raise EpisodeError(f"There is no folder {Path(folder).resolve()}.")
        found_in = (Path(folder).rglob(name) for name in ("episode.json", "steps.jsonl"))
        for path in sorted({path.parent for paths in found_in for path in paths}):
            try:
                episodes.append(_stored(path, images, _stamp(path)))
            except EpisodeError as error:
                left_out[path] = str(error)
    if hindsight:
        solved = {(one.env_id, one.goal, one.seed): one for one in episodes if one.solved}
        episodes = [_looked_at_again(one, solved.get((one.env_id, one.goal, one.seed))) for one in episodes]
    found = StoredEpisodes(episodes, left_out)
    if not found.teaching():
        raise EpisodeError(
            f"There is nothing to learn from in {', '.join(map(str, folders))}: {found.text()} Training uses only "
            "episodes judged solved and steps that earned a reward."
        )
    return found


def states_of(episodes: Iterable[StoredEpisode], kinds: Iterable[str] | None = None) -> list[State]:
    """Return the states of episodes that teach an action of these kinds (None for all kinds)."""
    wanted = None if kinds is None else set(kinds)
    found = [State(one, index) for one in episodes for index in range(len(one.steps)) if one.teaches(index) is not None]
    return [state for state in found if wanted is None or state.shown.name in wanted]


def recordings_of(episodes: Iterable[StoredEpisode]) -> list[Recording]:
    """Return recordings of episodes: a solved episode from beginning to end, an unsolved one as single steps.

    An unsolved episode may teach the same action at many steps that went wrong, so its steps don't form a sequence. In
    a solved episode, an action that worked later is a recording of its own, too, unless it was done on the same page.
    """
    found = []
    for one in episodes:
        whole, later = one.recording, one.hindsight.later if one.hindsight else {}
        known = set()
        if one.solved:
            found += [whole] * bool(whole.steps)
            known = {_told_at(step) for step in whole.steps}
            alone = [RecordedStep(one.steps[at].observation, action) for at, action in later.items()]
        else:
            alone = list(whole.steps)
        shown = {_told_at(step): step for step in alone}
        found += [replace(whole, steps=(step,)) for told, step in shown.items() if told not in known]
    return found


def _told_at(step: RecordedStep) -> tuple[tuple[str, str, int], Action]:
    return page_of(cast(Observation, step.observation)), step.action


def done_well(episodes: Iterable[StoredEpisode], kinds: Iterable[str]) -> list[State]:
    """Return the states at which the agent should keep doing what it did, with actions of these kinds.

    They are the states of solved episodes, and in hindsight those where the page changed, except where another action
    worked later.
    """
    wanted = set(kinds)
    found: list[State] = []
    for one in episodes:
        later = one.hindsight.later if one.hindsight else {}
        worked = one.hindsight.worked if one.hindsight else frozenset()
        for index, step in enumerate(one.steps):
            good = one.solved or index in worked or one.teaches(index) is not None
            if good and index not in later and step.shown is not None and step.shown.name in wanted:
                found.append(RetainedState(one, index))
    return found


def divide(episodes: Sequence[StoredEpisode]) -> tuple[list[StoredEpisode], list[StoredEpisode]]:
    """Split episodes into those to learn from and those held out, evenly over the tasks.

    Copies stay together. None is held out of fewer than `FEWEST` different episodes.
    """
    copies: dict[str, list[StoredEpisode]] = {}
    for one in sorted(episodes, key=lambda one: one.env_id):
        copies.setdefault(one.what, []).append(one)
    groups = list(copies.values())
    held = {id(one) for group in groups[FEWEST - 1 :: FEWEST] for one in group}
    return [one for one in episodes if id(one) not in held], [one for one in episodes if id(one) in held]


def fingerprint_of(stored: StoredEpisodes) -> str:
    """Return the SHA-256 of all episodes' contents."""
    told = [[one.env_id, one.goal, one.seed, one.solved, one.what] for one in stored.episodes]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _stamp(folder: Path) -> tuple[int, ...]:
    """Return a cache key that changes when an episode's files do."""
    files = [folder / name for name in ("episode.json", "steps.jsonl", "manifest.json")]
    kinds = [file.lstat() for file in files if file.exists()]
    return tuple(number for kind in kinds for number in (kind.st_mtime_ns, kind.st_size))


@lru_cache(maxsize=4096)
def _stored(folder: Path, images: bool, stamp: tuple[int, ...]) -> StoredEpisode:
    checked = UntrustedEpisode(folder)
    outlines, steps = Outlines(), []
    for index, record in enumerate(checked.steps):
        try:
            seen = outlines.whole(record["observation"])
        except ValueError:
            raise EpisodeError(f"step {index} records only the changes to a page that is missing") from None
        if images and (picture := checked.screenshot(index)) is not None:
            seen = Observation(**{**seen, "screenshot": picture})
        steps.append(_step(record, seen))
    if not steps:
        raise EpisodeError("it has no steps")
    meta = checked.meta
    url = meta["url"] or steps[0].observation["url"]
    name = meta["task"] or meta["env_id"]
    label = open_id(url, meta["goal"]) if meta["env_id"] == OPEN else _label(name.partition("?")[0])
    rewarded, final = meta["outcome"] != Outcome.ENV_ERROR, checked.final
    try:
        final = final and outlines.whole(final)
    except ValueError:
        final = None  # its outline is a diff to a missing page
    return StoredEpisode(
        folder, label, meta["goal"], meta["seed"] or 0, checked.solved, rewarded, tuple(steps), checked.judged, final
    )


def _label(name: str) -> str:
    """Return a task's id unchanged; replace any other name, because loading it might execute a file."""
    if _ID.fullmatch(name):
        return name
    return "recorded " + re.sub(r"[^\w.-]+", " ", name.rpartition("/")[2]).strip()


def _looked_at_again(one: StoredEpisode, solved: StoredEpisode | None) -> StoredEpisode:
    """Add the lessons in hindsight to an episode, from a solved run of the same task and seed if one exists.

    An episode that the infrastructure failed is unchanged, because the infrastructure may be why an action failed.
    """
    if not one.rewarded:
        return one
    looked = beside(_tries(one), _tries(solved)) if solved is not None and not one.solved else in_hindsight(_tries(one))
    return replace(one, hindsight=looked)


def _tries(one: StoredEpisode) -> list[Try]:
    return [
        Try(step.observation, step.actions[0], bool(step.error or step.unread or step.rejected)) for step in one.steps
    ]


def _step(record: dict[str, Any], seen: Observation) -> StoredStep:
    replies = record["completions"]
    last = replies[-1] if replies else None
    decision = record["decision"] or {}
    try:
        claim = rejected_in(decision.get("roles", ()))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise EpisodeError(f"the roles of step {record['step']} don't match the format") from None
    return StoredStep(
        observation=seen,
        actions=tuple(_action(one, seen) for one in record["actions"]) if claim is None else claim[:1],
        reward=record["reward"],
        error=record["error"],
        completion=None if last is None else _completion(last),
        messages=() if last is None else tuple(Message(one["role"], one["text"]) for one in last["prompt"]),
        unread="" if last is None else last["error"],
        guarded=decision.get("guard", ""),
        rejected="" if claim is None else claim[1],
        reached=record["score"].get("reached") is True,
        **{name: decision["graph"][name] for name in ("told", "instead") if "graph" in decision},
    )


def _completion(reply: dict[str, Any]) -> Completion:
    return Completion(reply["text"], [], [], [], None, "eos", thinking=reply["thinking"])


def _action(entry: dict[str, Any], seen: Observation) -> Act:
    """Return the action in the form of a reply, if a reply can express it."""
    try:
        action = recorded_action(entry)
        return as_written(action, seen) or action
    except ActionError:
        return str(entry.get("unreadable", ""))


def turns(states: Sequence[State], count: int, seed: int) -> list[State]:
    """Return `count` states, evenly over the tasks; the states of a task come up equally often."""
    by_task: dict[str, list[State]] = {}
    for state in states:
        by_task.setdefault(state.episode.env_id, []).append(state)
    drawn: dict[str, list[State]] = {name: [] for name in by_task}
    found: list[State] = []
    for place in range(count):
        name = list(by_task)[place % len(by_task)]
        if not drawn[name]:
            order = np.random.default_rng([seed, place]).permutation(len(by_task[name]))
            drawn[name] = [by_task[name][index] for index in order]
        found.append(drawn[name].pop())
    return found
