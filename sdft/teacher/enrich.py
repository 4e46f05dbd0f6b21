"""Explanations by a large model for the teacher's context. After a failure the original text is used.

An explanation that ends with the exact action replaces the original text; any other is put before the text. The
student's prompt, including the page's content, is sent to the endpoint in the settings.
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
from selfsurf.sdft.teacher.context import PrivilegedContext

if TYPE_CHECKING:
    from selfsurf.agents.policies.openai.usage import Prices

NEMOTRON = "nvidia/llama-3.1-nemotron-ultra-253b-v1"
"""Default model for explanations: NVIDIA's Nemotron Ultra 253B, text only, served by NIM."""

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
    """Settings of the explaining model: its endpoint, sampling and spending limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = NEMOTRON
    """Name of the model on the server."""
    endpoint: str | None = "nim"
    """Name of a known server (`agents.policies.openai.endpoints`), whose API key is in its environment variable; null
    with a `base_url` for a server without a key."""
    base_url: str | None = None
    """Base URL of the server, up to and including `/v1`, if it differs from the endpoint's own."""
    contexts: tuple[str, ...] = ("oracle", "demonstration", "hindsight", "feedback")
    """Contexts whose texts are explained."""
    max_new_tokens: int = Field(default=200, ge=1)
    """Maximum number of tokens in an explanation."""
    temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature of the explanations."""
    max_tokens: int | None = Field(default=500_000, ge=0)
    """Token budget of a run, prompts and replies together; null for no limit. Texts beyond it aren't explained."""
    max_dollars: float | None = Field(default=None, ge=0)
    """Budget of a run in US dollars; null for no limit."""
    prices: dict[str, float] | None = None
    """Prices in US dollars per million tokens, e.g. `{"input": 0.2, "output": 0.6}`; required by `max_dollars`."""
    timeout: float = Field(default=60.0, gt=0)
    """Timeout of one attempt, in seconds."""
    retries: int = Field(default=2, ge=0)
    """Maximum number of retries after the first attempt."""
    patience: float = Field(default=120.0, gt=0)
    """Timeout of one reply in seconds, including all attempts and waits."""
    parallel: int = Field(default=8, ge=1)
    """Maximum number of concurrent requests."""
    cache: str | None = None
    """Folder of cached replies; null for `enrich` in the model cache."""

    @model_validator(mode="after")
    def _dollars_need_prices(self) -> EnrichSettings:
        if self.max_dollars is not None and self.prices is None:
            raise ValueError('max_dollars needs prices, e.g. {"input": 0.2, "output": 0.6} per million tokens')
        return self


class Enricher:
    """Client of the explaining model, with a cache and a record of spending.

    Args:
        settings: model, endpoint and limits.
        folder: folder of `enrichment.json`, which records the spending, so that limits hold across resumed runs.

    Raises:
        ImportError: the `openai` package is not installed.
        ValueError: the endpoint is unknown, or its key is missing.
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
        """Spending of this run in `tokens` and `dollars`, earlier starts included. Requests in flight count with their
        maximum."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.RLock()

    def enrich(
        self, results: Sequence[Result], lessons: list[list[dict[str, PrivilegedContext]]]
    ) -> list[list[dict[str, PrivilegedContext]]]:
        """Return the information by episode, step and context, with explanations added."""
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
        """Return the numbers of explanations requested, cached, failed and over the limit since the last call."""
        counts = {f"enrich/{name}": self._counts[name] for name in ("asked", "cached", "failed", "capped")}
        self._counts.clear()
        return counts

    def close(self) -> None:
        """Close the connections."""
        self._policy.close()

    def _explained(self, question: str) -> str:
        """Return the explanation; empty if it failed or would exceed a limit."""
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
        with contextlib.suppress(Exception):  # training continues with the original text, and the failure is counted
            (reply,) = self._policy.complete([self._messages(question)], **options)
            used, text = _used(reply, most), reply.text.strip()
        self._spend({name: used[name] - most[name] for name in most})
        self._count("asked" if text else "failed")
        if text:
            _write_cached(path, {"text": text, "model": self._settings.model, "question": question})
        return text

    def _messages(self, question: str) -> list[Message]:
        """Return the messages to send. Nemotron's system prompt turns off its reasoning (model card)."""
        quiet = [Message("system", "detailed thinking off")] if self._settings.model == NEMOTRON else []
        return [*quiet, Message("user", question)]

    def _path(self, question: str) -> Path:
        """Return the cache file of a reply, named by a hash of the model's whole input."""
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
        """Estimate the maximum tokens and dollars of a request."""
        prompt, reply = usage.conversation_tokens(self._messages(question)), self._settings.max_new_tokens
        prices: Prices | None = self._policy.prices
        return {"tokens": prompt + reply, "dollars": prices.cost(prompt, 0, reply) if prices else 0.0}

    def _reserve(self, most: dict[str, float]) -> bool:
        """Count the maximum cost of a request as spent; return False if that would exceed a limit."""
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


def _question(messages: Sequence[Message], told: PrivilegedContext) -> str:
    prompt = "\n\n".join(message.text for message in messages)
    end = "" if told.action is None else _END.format(action=told.action)
    return ASK.format(prompt=prompt, told=told.text, end=end)


def _instead(told: PrivilegedContext, explanation: str) -> str:
    """Return the explanation, followed by the original text unless the explanation ends with the exact action."""
    if told.action is not None and explanation.endswith(f"Correct action: {told.action}"):
        return explanation
    return f"{explanation}\n{told.text}"


def _used(reply: Completion, most: dict[str, float]) -> dict[str, float]:
    """Return the cost of a reply as reported by the server, or else its estimated maximum."""
    if reply.usage is None:
        return most
    return {"tokens": reply.usage.prompt_tokens + reply.usage.completion_tokens, "dollars": reply.usage.cost or 0.0}


def _read_spent(path: Path | None) -> dict[str, float]:
    if path is None or not path.exists():
        return {"tokens": 0.0, "dollars": 0.0}
    spent: dict[str, float] = json.loads(path.read_text(encoding="utf8"))
    return spent


def _read_cached(path: Path) -> str:
    """Return the cached text; empty if it is missing or damaged."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        return str(found["text"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _write_cached(path: Path, entry: dict[str, Any]) -> None:
    """Write a cache entry atomically, even with concurrent writers. On failure the reply stays uncached."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(entry, ensure_ascii=False), encoding="utf8")
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
