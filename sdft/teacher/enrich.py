"""Explanations by a large model, in the place of what the teacher is told. If anything fails, that stays as it was.

An explanation that ends with the very action takes the raw action's place; one that leaves it out is put before it.

The student's prompt, and so what is on the page, is sent to the endpoint that the settings name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from selfsurf.agents.play.job import Result
from selfsurf.agents.policies.openai import usage
from selfsurf.agents.policy import Completion, Message
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.sdft.teacher.context import Told

if TYPE_CHECKING:
    from selfsurf.agents.policies.openai.usage import Prices

NEMOTRON = "nvidia/llama-3.1-nemotron-ultra-253b-v1"
"""The model that explains unless another is named: NVIDIA's Nemotron Ultra 253B, text alone, by NIM."""

ASK = """A small model is learning to use web pages. Below is what it was shown, and what its teacher is going to be \
told. Write what the teacher is told instead, in plain text: a sentence on what this page is; one on why this element \
and this action are right, by the words of the goal and of the page that decide it; one on what is expected to happen \
then.{end}

--- Shown to the model ---
{prompt}

--- Told to the teacher ---
{told}"""
_END = " End with this line and nothing after it:\nCorrect action: {action}"


class EnrichSettings(BaseModel):
    """Which model explains, how it is asked, and what that may cost."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = NEMOTRON
    """The model's name at the server."""
    endpoint: str | None = "nim"
    """Name of a known server (`agents.policies.openai.endpoints`), whose key is in its environment variable; null
    with a `base_url`: a server that wants none."""
    base_url: str | None = None
    """Where the server is, up to and including `/v1`, if not at the endpoint's own address."""
    contexts: tuple[str, ...] = ("oracle", "demonstration", "hindsight", "feedback")
    """The contexts whose texts are explained."""
    max_new_tokens: int = Field(default=200, ge=1)
    """Most tokens of an explanation."""
    temperature: float = Field(default=0.0, ge=0)
    """At which it is sampled."""
    max_tokens: int | None = Field(default=500_000, ge=0)
    """Tokens, of prompts and replies together, that a run may use; null for no limit. Then texts stay as they are."""
    max_dollars: float | None = Field(default=None, ge=0)
    """US dollars that a run may cost; null for no limit."""
    prices: dict[str, float] | None = None
    """US dollars per million tokens, e.g. `{"input": 0.2, "output": 0.6}`; needed with `max_dollars`."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds that one attempt may take."""
    retries: int = Field(default=2, ge=0)
    """Most attempts after the first."""
    patience: float = Field(default=120.0, gt=0)
    """Seconds for one reply, attempts and waits together."""
    parallel: int = Field(default=8, ge=1)
    """Most requests at the same time."""
    cache: str | None = None
    """Folder of the replies so far; by default `enrich` in the cache of the models."""

    @model_validator(mode="after")
    def _dollars_need_prices(self) -> EnrichSettings:
        if self.max_dollars is not None and self.prices is None:
            raise ValueError('max_dollars needs prices, e.g. {"input": 0.2, "output": 0.6} per million tokens')
        return self


class Enricher:
    """Asks the model, or the cache, and keeps count.

    Args:
        settings: whom to ask, and how.
        folder: what was spent is kept here as `enrichment.json`, so that a limit holds over resumed runs.

    Raises:
        ImportError: the `openai` package is not installed.
        ValueError: the endpoint is unknown, or needs a key and there is none.
    """

    def __init__(self, settings: EnrichSettings, folder: Path | None = None) -> None:
        from selfsurf.agents import model_files
        from selfsurf.agents.policies.openai.policy import OpenAIPolicy

        self._settings = settings
        shared = settings.model_dump(include={"base_url", "prices", "timeout", "retries", "patience"})
        self._policy = OpenAIPolicy(
            settings.model, settings.endpoint, guidance="none", max_concurrency=settings.parallel, **shared
        )
        self._cache = Path(settings.cache) if settings.cache else model_files.home() / "enrich"
        self._ledger = folder / "enrichment.json" if folder else None
        self.spent = _read_spent(self._ledger)
        """`tokens` and `dollars` of this run, its earlier starts included; while it is asked, with the most that the
        requests under way may come to."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.RLock()

    def enrich(self, results: Sequence[Result], lessons: list[list[dict[str, Told]]]) -> list[list[dict[str, Told]]]:
        """Return what is told, by episode, step and context, each with its explanation."""
        enriched = [[dict(said) for said in steps] for steps in lessons]
        questions = [
            (said, name, _question(step.decision.messages, told))
            for result, steps in zip(results, enriched, strict=True)
            for step, said in zip(result.steps, steps, strict=True)
            for name, told in said.items()
            if name in self._settings.contexts
        ]
        asked = dict.fromkeys(question for _, _, question in questions)
        with ThreadPoolExecutor(self._settings.parallel) as pool:
            explanations = dict(zip(asked, pool.map(self._explained, asked), strict=True))
        for said, name, question in questions:
            if explanation := explanations[question]:
                said[name] = replace(said[name], text=_instead(said[name], explanation))
        return enriched

    def take_counts(self) -> dict[str, int]:
        """Return since the last call how many texts were asked for anew, cached, failed, or beyond the limit."""
        counts = {f"enrich/{name}": self._counts[name] for name in ("asked", "cached", "failed", "capped")}
        self._counts.clear()
        return counts

    def close(self) -> None:
        """Close the connections."""
        self._policy.close()

    def _explained(self, question: str) -> str:
        """The explanation, or nothing."""
        path = self._path(question)
        text = _read_cached(path)
        if text:
            self._count("cached")
            return text
        most = self._most(question)
        if not self._reserve(most):
            self._count("capped")
            return ""
        used, text = {"tokens": 0.0, "dollars": 0.0}, ""
        options = self._settings.model_dump(include={"temperature", "max_new_tokens"})
        with contextlib.suppress(Exception):  # training goes on with the text as it was, and the failure is counted
            (reply,) = self._policy.complete([self._messages(question)], **options)
            used, text = _used(reply, most), reply.text.strip()
        self._spend({name: used[name] - most[name] for name in most})
        self._count("asked" if text else "failed")
        if text:
            _write_cached(path, {"text": text, "model": self._settings.model, "question": question})
        return text

    def _messages(self, question: str) -> list[Message]:
        """What is sent: Nemotron thinks aloud unless its system prompt says otherwise (by its model card)."""
        quiet = [Message("system", "detailed thinking off")] if self._settings.model == NEMOTRON else []
        return [*quiet, Message("user", question)]

    def _path(self, question: str) -> Path:
        """Where the reply to it is cached: by what the model is given, and nothing else."""
        asked = {
            "model": self._settings.model,
            "server": self._policy.base_url,
            "messages": [{"role": one.role, "content": one.text} for one in self._messages(question)],
            "temperature": self._settings.temperature,
            "max_tokens": self._settings.max_new_tokens,
        }
        name = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        return self._cache / name[:2] / f"{name}.json"

    def _most(self, question: str) -> dict[str, float]:
        """What the request may come to at most, nearly."""
        prompt, reply = usage.conversation_tokens(self._messages(question)), self._settings.max_new_tokens
        prices: Prices | None = self._policy.prices
        return {"tokens": prompt + reply, "dollars": prices.cost(prompt, 0, reply) if prices else 0.0}

    def _reserve(self, most: dict[str, float]) -> bool:
        """Count the most that a request may come to as spent, unless that is beyond a limit."""
        limits = {"tokens": self._settings.max_tokens, "dollars": self._settings.max_dollars}
        with self._lock:
            if any(limit is not None and self.spent[name] + most[name] > limit for name, limit in limits.items()):
                return False
            self._spend(most)
            return True

    def _spend(self, amounts: dict[str, float]) -> None:
        with self._lock:
            for name, amount in amounts.items():
                self.spent[name] += amount
            if self._ledger is not None:
                write_atomically(self._ledger, json.dumps(self.spent))

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1


def _question(messages: Sequence[Message], told: Told) -> str:
    prompt = "\n\n".join(message.text for message in messages)
    end = "" if told.action is None else _END.format(action=told.action)
    return ASK.format(prompt=prompt, told=told.text, end=end)


def _instead(told: Told, explanation: str) -> str:
    """What the teacher is told: the explanation, and the raw text after it unless that ends with the very action."""
    if told.action is not None and explanation.endswith(f"Correct action: {told.action}"):
        return explanation
    return f"{explanation}\n{told.text}"


def _used(reply: Completion, most: dict[str, float]) -> dict[str, float]:
    """What a reply came to: as the server says, else what it may have come to at most."""
    if reply.usage is None:
        return most
    return {"tokens": reply.usage.prompt_tokens + reply.usage.completion_tokens, "dollars": reply.usage.cost or 0.0}


def _read_spent(path: Path | None) -> dict[str, float]:
    if path is None or not path.exists():
        return {"tokens": 0.0, "dollars": 0.0}
    spent: dict[str, float] = json.loads(path.read_text(encoding="utf8"))
    return spent


def _read_cached(path: Path) -> str:
    """The cached text; empty if there is none, or if it is damaged."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        return str(found["text"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _write_cached(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry, whole or not at all, whoever else writes the same one. If that fails, it is not cached."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(entry, ensure_ascii=False), encoding="utf8")
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
