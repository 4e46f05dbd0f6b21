"""What the openai client's exceptions mean, in words that say what to do and never hold the key."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from selfsurf.agents.policies.openai.retry import Problem, ReplyError, retry_after
from selfsurf.agents.policy import PolicyError

_LONGEST = 400


@dataclass(frozen=True)
class Explainer:
    """Explains the failures of requests to one server."""

    base_url: str
    model: str
    key: str
    key_variable: str
    """Where the key is looked for; empty if nowhere."""

    def __call__(self, error: Exception) -> Problem | None:
        """What the exception means; None if it is not the server's."""
        import openai

        if isinstance(error, PolicyError):
            return Problem(f"{self._where}: {self.clean(str(error))}")
        if isinstance(error, ReplyError):
            return Problem(f"{self._where} gave no reply. {self.clean(str(error))}", again=True)
        if isinstance(error, openai.APIStatusError):
            return self._status(error)
        if isinstance(error, (TimeoutError, openai.APITimeoutError)):
            return Problem(f"{self._where} did not answer in time; raise timeout= if it is just slow.", again=True)
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            why = f"{type(cause).__name__} {self.clean(str(cause))}".strip()
            return Problem(f"No connection to {self._where} ({why}).", again=True)
        return None

    @property
    def _where(self) -> str:
        parts = urlsplit(self.base_url)
        return self.clean(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))

    def clean(self, text: str) -> str:
        """The text without the key, cut to a readable length."""
        if len(self.key) > 3:
            text = text.replace(self.key, "[key]")
        text = " ".join(text.split())
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

    def _status(self, error: Any) -> Problem:
        status = int(error.status_code)
        told = self.clean(_message(error))
        where = f"{self._where} answered {status}"
        if status in (401, 403):
            fix = f"pass api_key=, or set {self.key_variable}" if self.key_variable else "pass api_key="
            return Problem(f"{where}: the key is missing or not accepted; {fix}. {told}")
        if status == 404:
            return Problem(f"{where}: check model={self.model!r} and base_url=, which ends in /v1. {told}")
        if status in (400, 413, 422):
            return Problem(f"{where}: the request is not accepted. {told}", wrong=True)
        if status == 429 and error.code == "insufficient_quota":
            return Problem(f"{where}: the account has no quota left. {told}")
        if status in (408, 429) or status >= 500:
            wait = retry_after(error.response.headers, time.time())
            return Problem(f"{where}. {told}", again=True, wait=wait)
        return Problem(f"{where}. {told}")


def _message(error: Any) -> str:
    """What the server says, in the OpenAI form, vLLM's or FastAPI's; else the raw body."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        for key in ("message", "detail"):
            if isinstance(inner, dict) and inner.get(key):
                return str(inner[key])
        return str(inner)
    return str(body or error.response.text)
