"""A worker: some episodes at a time in one process, each at its own pace, and one agent for all of them.

It knows nothing of the run's books: requests come in, records go out (`Message`).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import re
import shutil
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from selfsurf.agents import PolicyError
from selfsurf.agents.play.gather import Gather
from selfsurf.agents.play.record import policy_record, versions
from selfsurf.browser_env import AsyncBrowserEnv, Outcome
from selfsurf.browser_env.observe.screenshot import encode_png
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.session.runtime import runtime, shutdown
from selfsurf.browser_env.text import well_formed
from selfsurf.envs_registry.loading import load_task
from selfsurf.scripts.suite.agents import AgentHost, Chosen
from selfsurf.scripts.suite.plan import Key, Plan, Record, Request

Message: TypeAlias = tuple[Any, ...]
"""To the run: `("ready",)`, `("begun", request)`, `("acting", requests)` before the agent is asked and `("acted",)`
after it, `("done", request, record)`, `("broken", text)`. To the worker: `("run", request)`, `("stop",)`."""

_CLOSING = 10.0
"""Seconds that an environment may take to close before it is left alone."""

_LONGEST = 2000
"""Characters of a text in a record; the episode's log has the whole."""


@dataclass
class _Slot:
    """One of the places where an episode runs. Its environment stays for the next episode of the same task."""

    number: int
    env: AsyncBrowserEnv | None = None
    task: int = -1
    request: Request | None = None
    work: Future[Any] | None = None
    """What it waits for: a reset, a step, an end."""
    ready: bool = False
    """It waits for the agent."""
    chosen: Chosen | None = None
    writer: EpisodeWriter | None = None
    observation: Any = None
    record: Record = field(default_factory=lambda: Record("", 0, ""))
    begun: float = 0.0
    since: float = 0.0


class Worker:
    """Runs episodes.

    Args:
        plan: the run.
        slots: most episodes at the same time.
        send: takes a `Message` to the run.
        inbox: gives the messages to this worker.
    """

    def __init__(
        self, plan: Plan, slots: int, send: Callable[[Message], None], inbox: queue.SimpleQueue[Message]
    ) -> None:
        self._plan = plan
        self._slots = [_Slot(number) for number in range(slots)]
        self._send = send
        self._inbox = inbox
        self._waiting: deque[Request] = deque()
        self._stopping = False
        self._names = _names([str(task["id"]) for task in plan.tasks])
        self._gather = Gather()

    def serve(self) -> None:
        """Load the agent, then work until told to stop. Closes everything at the end."""
        try:
            self._host = AgentHost(self._plan.agent, dict(self._plan.agent_options), self._privileged)
        except (Exception, SystemExit) as error:
            self._send(("broken", f"The agent can't be made: {type(error).__name__}: {error}"))
            return
        self._send(("ready",))
        try:
            while not self._stopping:
                self._turn()
        except OSError as error:  # a full disk, say: nothing that an episode has done
            self._send(("broken", f"{self._plan.folder} can't be written: {error}."))
        finally:
            self._host.close()
            with contextlib.suppress(Exception):
                for slot in self._slots:
                    if slot.env is not None:
                        runtime().run(slot.env.close(), timeout=10)
            shutdown()

    def _privileged(self, slot: int) -> Any:
        env = self._slots[slot].env
        return None if env is None else env.privileged()

    def _turn(self) -> None:
        """Take what has come, let the agent act, and wait for the next thing to happen."""
        busy = [slot for slot in self._slots if slot.work is not None]
        ready = [slot for slot in self._slots if slot.ready]
        self._receive(block=not busy and not ready and not self._waiting)
        for slot in self._slots:
            if slot.request is None and self._waiting:
                self._begin(slot, self._next(slot))
        busy = [slot for slot in self._slots if slot.work is not None]
        if busy:
            # With none ready there is nothing to do but wait; requests that come meanwhile can wait, too.
            patience = min(0.25, self._gather.left([slot.since for slot in ready])) if ready else 0.05
            wait([slot.work for slot in busy if slot.work is not None], patience, FIRST_COMPLETED)
        for slot in busy:
            if slot.work is not None and slot.work.done():
                self._arrived(slot)
        ready = [slot for slot in self._slots if slot.ready]
        moving = [slot for slot in self._slots if slot.work is not None]
        if self._gather.due([slot.since for slot in ready], moving=bool(moving)):
            self._act(ready)

    def _receive(self, *, block: bool) -> None:
        while not self._stopping:
            try:
                kind, *content = self._inbox.get(block=block)
            except queue.Empty:
                return
            block = False
            if kind == "stop":
                self._stopping = True
            else:
                self._waiting.append(content[0])

    def _next(self, slot: _Slot) -> Request:
        """Take the slot's next request: one of the same task, whose environment is there, before others."""
        same = next((one for one in self._waiting if one.task == slot.task), None)
        taken = same or self._waiting[0]
        self._waiting.remove(taken)
        return taken

    def _begin(self, slot: _Slot, request: Request) -> None:
        key = self._key(request)
        slot.request = request
        slot.record = Record(key[0], key[1], str(Outcome.RUNNING), attempts=request.attempt)
        slot.writer, slot.observation = None, None
        slot.begun = slot.since = time.monotonic()
        self._send(("begun", request))
        slot.work = self._start(self._open(slot, request))

    def _key(self, request: Request) -> Key:
        return str(self._plan.tasks[request.task]["id"]), request.seed

    async def _open(self, slot: _Slot, request: Request) -> Any:
        if slot.env is None or slot.task != request.task:
            if slot.env is not None:
                with contextlib.suppress(Exception):  # the last task's end is no matter of this one's
                    async with asyncio.timeout(_CLOSING):
                        await slot.env.close()
                slot.env = None
                slot.begun = slot.since = time.monotonic()
            about = self._plan.tasks[request.task]
            task = await asyncio.to_thread(load_task, about["id"], about["folder"], **about["options"])
            slot.env = AsyncBrowserEnv(
                task=task,
                max_episode_steps=self._plan.max_steps,
                screenshot=self._plan.screenshots or self._host.sees_images,
                headless=self._plan.headless,
            )
            slot.task = request.task
        return await slot.env.reset(seed=request.seed)

    def _start(self, coroutine: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, runtime().loop)

    def _arrived(self, slot: _Slot) -> None:
        """A reset, a step or an end has come back."""
        work, slot.work = slot.work, None
        assert work is not None
        now = time.monotonic()
        slot.record.env_seconds += now - slot.since
        slot.since = now
        error = work.exception()
        if slot.record.outcome != Outcome.RUNNING:  # its last picture
            if error is None and work.result():
                slot.record.screenshot = work.result()
            self._done(slot)
        elif error is not None:
            self._end(slot, Outcome.ENV_ERROR, f"{type(error).__name__}: {error}")
        elif slot.chosen is None:
            self._opened(slot, *work.result())
        else:
            self._stepped(slot, *work.result())

    def _opened(self, slot: _Slot, observation: Any, info: Any) -> None:
        slot.observation = observation
        assert slot.env is not None
        key = (slot.record.task, slot.record.seed)
        try:
            self._host.begin(slot.number, key, observation["goal"])
        except Exception as error:
            slot.record.agent_raised = True
            self._end(slot, Outcome.FAILED, f"the agent raised {type(error).__name__}: {error}")
            return
        if self._plan.logs != "none":
            name = self._name(slot)
            folder = Path(self._plan.folder) / "episodes" / name
            shutil.rmtree(folder, ignore_errors=True)  # of an attempt that failed, or of a run that was killed
            about = {"episode_id": name, "env_id": key[0], "seed": key[1], "goal": observation["goal"]}
            slot.writer = EpisodeWriter(folder, {**about, "agent": self._plan.agent, "versions": versions()})
        slot.ready = True

    def _act(self, ready: list[_Slot]) -> None:
        late = [slot for slot in ready if time.monotonic() - slot.begun > self._plan.episode_timeout]
        for slot in late:
            self._too_late(slot)
        acting = [slot for slot in ready if slot.ready]
        if not acting:
            return
        self._send(("acting", [slot.request for slot in acting]))
        try:
            with self._gather.call():
                answers = self._host.act([slot.observation for slot in acting], [slot.number for slot in acting])
        except PolicyError as error:
            for slot in acting:
                self._end(slot, Outcome.ENV_ERROR, str(error))
            return
        finally:
            self._send(("acted",))
        for slot, chosen in zip(acting, answers, strict=True):
            slot.ready = False
            slot.record.agent_seconds += self._gather.last_call / len(acting)
            slot.since = time.monotonic()
            if chosen.action is None:
                slot.record.agent_raised = True
                self._end(slot, Outcome.FAILED, chosen.error)
                continue
            slot.chosen = chosen
            assert slot.env is not None
            slot.work = self._start(slot.env.step(chosen.action))

    def _too_late(self, slot: _Slot) -> None:
        """End an episode that took too long, on whose account it was."""
        seconds = self._plan.episode_timeout
        record = slot.record
        if record.env_seconds > (time.monotonic() - slot.begun) / 2:
            detail = f"the environment took {record.env_seconds:.0f} of the {seconds:g} s of an episode"
            self._end(slot, Outcome.ENV_ERROR, detail)
        else:
            self._end(slot, Outcome.TIMEOUT, f"not done in {seconds:g} s")

    def _stepped(self, slot: _Slot, after: Any, reward: float, ended: bool, cut: bool, info: Any) -> None:
        record, chosen = slot.record, slot.chosen
        assert chosen is not None
        assert chosen.action is not None
        if slot.writer is not None:
            slot.writer.step(
                slot.observation,
                chosen.action,
                reward=reward,
                info=info,
                after=after,
                policy=None if chosen.decision is None else policy_record(chosen.decision),
            )
        usage = None if chosen.decision is None else chosen.decision.completion.usage
        if usage is not None:
            record.prompt_tokens = (record.prompt_tokens or 0) + usage.prompt_tokens
            record.completion_tokens = (record.completion_tokens or 0) + usage.completion_tokens
            if usage.cost is not None:
                record.cost = (record.cost or 0.0) + usage.cost
        slot.observation, slot.chosen = after, None
        record.steps += 1
        record.reward += reward
        record.last_error = after["last_error"] or record.last_error
        record.raw_reward = info["score"].get("raw_reward")
        record.time_reward = info["score"].get("reward")
        record.reason = str(info["score"].get("reason") or "")
        if ended or cut:
            self._end(slot, info["outcome"], info["outcome_detail"])
        else:
            slot.ready = True

    def _end(self, slot: _Slot, outcome: str, detail: str) -> None:
        """Take down how an episode ended; one that was not solved leaves a picture."""
        record = slot.record
        record.outcome, record.outcome_detail = str(outcome), detail
        slot.ready, slot.chosen, slot.since = False, None, time.monotonic()
        said = [
            message["text"]
            for message in (slot.observation or {}).get("messages", ())
            if message["role"] == "assistant"
        ]
        record.answer = said[-1] if said else ""
        if outcome in (Outcome.SOLVED, Outcome.ENV_ERROR) or slot.env is None or slot.observation is None:
            self._done(slot)
        else:
            slot.work = self._start(self._picture(slot))

    async def _picture(self, slot: _Slot) -> str:
        assert slot.env is not None
        name = f"{self._name(slot)}.png"
        path = Path(self._plan.folder) / "unsolved" / name
        async with asyncio.timeout(10):
            pixels = await slot.env.core.screenshot()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode_png(pixels))
        return f"unsolved/{name}"

    def _name(self, slot: _Slot) -> str:
        return f"{self._names[slot.record.task]}_{slot.record.seed}"

    def _done(self, slot: _Slot) -> None:
        record, request = slot.record, slot.request
        assert request is not None
        record.seconds = round(time.monotonic() - slot.begun, 4)
        for text in ("outcome_detail", "last_error", "reason", "answer"):
            setattr(record, text, _clipped(getattr(record, text)))
        record.agent_seconds = round(record.agent_seconds, 4)
        record.env_seconds = round(record.env_seconds, 4)
        if slot.writer is not None:
            trainable = record.outcome not in (Outcome.ENV_ERROR, Outcome.STOPPED) and not record.agent_raised
            slot.writer.finish(
                record.outcome, trainable=trainable, after=slot.observation, detail=record.outcome_detail
            )
            folder = slot.writer.folder
            if self._plan.logs == "unsolved" and record.outcome == Outcome.SOLVED:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                record.episode = str(folder.relative_to(self._plan.folder))
        if record.outcome == Outcome.ENV_ERROR:
            slot.task = -1  # a new environment for the next
        slot.request = None
        self._send(("done", request, asdict(record)))


def _names(ids: list[str]) -> dict[str, str]:
    """Return a name for files for each task."""
    names = [re.sub(r"[^\w.-]", "_", one) for one in ids]
    return {
        one: name if names.count(name) == 1 else f"{name}_{number}"
        for number, (one, name) in enumerate(zip(ids, names, strict=True))
    }


def _clipped(text: str) -> str:
    text = well_formed(str(text))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
