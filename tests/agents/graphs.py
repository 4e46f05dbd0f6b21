"""Graphs that are really played: a server of the OpenAI protocol that follows a script, and the player."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from selfsurf import agents
from selfsurf.agents.play import AgentAdapter, Environments, EpisodeRequest, Job, Player, PlayOptions
from selfsurf.browser_env import Safety
from selfsurf.browser_env.record.episode import EpisodeWriter
from tests.agents.policy_server import answer, completion, serve_raw, tool_call

LAST = {"finish": "answer", "infeasible": "reason", "press": "key", "scroll": "direction", "wait": "ms",
        "navigate": "url", "ask_user": "question", "focus_tab": "index", "drag": "from"}  # fmt: skip


def call(kind: str, main: Any = True, **more: Any) -> dict[str, Any]:
    """A call of the tool of a kind of action."""
    own = {} if main is True else {LAST.get(kind, "id"): main}
    return tool_call(kind, {"thought": f"I {kind}.", **own, **more})


def shown(body: dict[str, Any]) -> dict[str, Any]:
    """A call of the action that a prompt demonstrates."""
    found = re.search(r"Reply with exactly this: (\{.*\})", body["messages"][-1]["content"])
    assert found, body["messages"][-1]["content"][-300:]
    (kind, main), *more = json.loads(found[1]).items()
    return call(kind, main, **dict(more))


Reply = dict[str, Any] | int | Callable[[dict[str, Any]], dict[str, Any]]
"""A message, the status of an error, or what makes a message of a request."""


@contextmanager
def serving(*script: Reply, bodies: list[dict[str, Any]] | None = None) -> Any:
    """Serve these replies in turn, then what each prompt demonstrates; yields the address."""
    left = list(script)

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if bodies is not None:
            bodies.append(body)
        reply = left.pop(0) if left else shown
        if isinstance(reply, int):
            answer(handler, reply, {"error": {"message": "Too much."}}, {"retry-after": "0"})
            return
        message = reply(body) if callable(reply) else reply
        answer(handler, body=completion(**{"text": "", **message}))

    with serve_raw(handle, ["m"]) as url:
        yield url


def graph(url: str, **options: Any) -> Any:
    """An agent of a graph around that server."""
    return agents.make("graph", policy="openai", model="m", base_url=url, **{"retries": 0, **options})


def play(
    agent: Any, make: Callable[[str], Any], folder: Path, *, seeds: Sequence[int] = (0,), names: Sequence[str] = ("",),
    safety: Safety | None = None, user: Any = None, steps: int = 25,
) -> list[Any]:  # fmt: skip
    """Play an episode of each seed, at the same time, with the oracle's action in the prompts; return the results."""
    jobs = [Job(name, seed) for name in names for seed in seeds]
    environments = Environments(
        make, len(jobs), screenshot=False, user=user, safety=safety or Safety(), max_episode_steps=steps
    )

    def record(ask: EpisodeRequest) -> EpisodeWriter:
        return EpisodeWriter(folder / f"episode-{ask.number}", {"goal": "", "seed": ask.job.seed})

    player = Player(AgentAdapter(agent), environments, len(jobs), PlayOptions(demonstrate=True), record=record)
    ended: list[Any] = []
    try:
        for number, job in enumerate(jobs):
            player.begin(EpisodeRequest(number, job))
        while len(ended) < len(jobs):
            ended += player.turn()
    finally:
        player.close()
        environments.close()
    return [result for _, result in sorted(ended, key=lambda pair: pair[0].number)]


def trace_of(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The records of an episode's nodes, and the summary."""
    lines = [json.loads(line) for line in (folder / "logs" / "trace.jsonl").read_text().splitlines()]
    (summary,) = [line for line in lines if line.get("summary")]
    return [line for line in lines if not line.get("summary")], summary
