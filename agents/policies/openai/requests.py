"""Requests to a server: concurrent requests from synchronous code, with retries and helpful errors."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from selfsurf.agents.policy import PolicyError

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds of the first wait before a retry, which doubles each time, and of the longest wait."""

QUIET = 30.0
"""Seconds for which a repeated warning is suppressed."""

_log = logging.getLogger(__name__)
_announced: dict[str, float] = {}

_LONGEST = 400
"""Character limit of a server's message in an error."""

_CURE = "Leave out a field that the server does not accept (omit=), or shorten the prompt (max_prompt_tokens=)."

SAMPLING = frozenset({
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "logit_bias",
})  # fmt: skip
"""Request fields that make a server sample from another distribution than the model's."""
_LENGTHS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Request fields that limit a reply's length, each with its alternative name."""
_UNSUPPORTED = re.compile(
    r"unsupported|(?:not|n't) (?:\w+ )?(?:supported?|accept(?:ed)?|allowed|permitted|recogni[sz]ed?)|unknown|unexpected"
    r"|unrecogni[sz]ed|deprecated", re.IGNORECASE,
)  # fmt: skip

_Result = TypeVar("_Result")


class ReplyError(Exception):
    """The server's answer is not a reply."""


class RequestRefused(PolicyError):
    """The server refuses the request and would refuse it again.

    Args:
        text: the server's message.
        cure: the remedy.
        fields: words of the server's message on unsupported fields, including their names; empty if it names none.
    """

    def __init__(self, text: str, cure: str, fields: frozenset[str] = frozenset()) -> None:
        super().__init__(f"{text} {cure}")
        self.text = text
        self.fields = fields


class RefusedFields:
    """Sampling fields that a server refused: omitted from later requests, or sent under their alternative name.

    Args:
        kept: fields that are always sent.
    """

    def __init__(self, kept: Collection[str] = ()) -> None:
        self.names: dict[str, str] = {}
        """Alternative names of refused fields; empty for a field that is omitted."""
        self._kept = kept

    def without(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request's body without the refused fields."""
        sent = {self.names.get(name, name): value for name, value in body.items()}
        sent.pop("", None)
        return sent

    def note(self, refusal: RequestRefused, body: Mapping[str, Any]) -> bool:
        """Record the fields of a body that a refusal names, and return whether there are any."""
        refused = refusal.fields & body.keys() & {*SAMPLING, *_LENGTHS, "seed"} - set(self._kept)
        for field in sorted(refused - self.names.keys()):
            other = _LENGTHS.get(field, "")
            if other in self.names:  # the server accepts neither name
                self.names[other], other = "", ""
            self.names[field] = other
            what = f"Sending {other} instead of" if other else "Leaving out"
            _log.warning(
                "%s %s %s from now on; use omit= to leave the field out from the start.", refusal.text, what, field
            )
        return bool(refused)


@dataclass(frozen=True)
class Problem:
    """The cause of a failed request."""

    text: str
    """Error message in one sentence, with a remedy if there is one."""
    again: bool = False
    """Whether another attempt may succeed."""
    cure: str = ""
    """Remedy for a request that the server refuses; empty for other problems."""
    fields: frozenset[str] = frozenset()
    """Words of the server's message on unsupported fields, including their names; empty if it names none."""
    wait: float | None = None
    """Seconds that the server asks to wait before a retry; None if unspecified."""


@dataclass(frozen=True)
class Limits:
    """Limits of retries and time for a request."""

    retries: int
    """Maximum number of attempts after the first."""
    timeout: float
    """Seconds until one attempt is given up."""
    patience: float
    """Seconds until a reply is given up, over all attempts and waits."""


async def persist(
    send: Callable[[], Awaitable[_Result]], limits: Limits, explain: Callable[[Exception], Problem | None]
) -> tuple[_Result, int]:
    """Send a request until it succeeds, and return the reply and the number of attempts.

    Args:
        send: function that makes one attempt.
        limits: limits of retries and time.
        explain: function that explains an exception of `send`; None for an exception that is not the server's, which is
            raised unchanged.

    Raises:
        RequestRefused: the server refuses the request and would refuse it again.
        PolicyError: there was no reply within the limits, or the failure is permanent.
    """
    start = time.monotonic()
    attempts = 0
    while True:
        attempts += 1
        left = limits.patience - (time.monotonic() - start)
        try:
            async with asyncio.timeout(min(limits.timeout, left)):
                return await send(), attempts
        except Exception as error:
            problem = explain(error)
            if problem is None:
                raise
        # Raised outside the handler: the client's exception, which may contain the key, must not become the context.
        if problem.cure:
            raise RequestRefused(problem.text, problem.cure, problem.fields)
        if not problem.again:
            raise PolicyError(problem.text)
        spent = time.monotonic() - start
        wait = backoff(attempts) if problem.wait is None else problem.wait + random.uniform(0, 0.1)
        if attempts > limits.retries:
            raise PolicyError(f"{problem.text} Gave up after {attempts} attempts.")
        if spent + wait >= limits.patience:
            asked = "" if problem.wait is None else f"; the server asks to wait {problem.wait:.0f} s"
            raise PolicyError(
                f"{problem.text} Gave up after {attempts} attempts, because patience is {limits.patience:g} s{asked}."
            )
        _announce(f"{problem.text} Trying again, up to {limits.retries} times.")
        await asyncio.sleep(wait)


def _announce(text: str) -> None:
    """Log the reason for a wait, once for all requests with the same problem at the same time."""
    now = time.monotonic()
    if now - _announced.get(text, -math.inf) > QUIET:
        _announced[text] = now
        _log.warning("%s", text)


def backoff(attempts: int) -> float:
    """Return the seconds to wait after a number of attempts: doubling, half of it fixed and half random.

    The random part keeps clients that failed together from retrying together.
    """
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempts - 1, 16))
    return longest * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds in a `Retry-After` header, or None without a readable header.

    Args:
        headers: headers of the response, with names in any case.
        now: current time in seconds since the epoch, for headers with a date.
    """
    value = next((value.strip() for name, value in headers.items() if name.lower() == "retry-after"), "")
    if value.replace(".", "", 1).isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None


@dataclass(frozen=True)
class Explainer:
    """Callable that explains failed requests to one server."""

    base_url: str
    model: str
    key: str
    key_variable: str
    """Environment variable of the API key; empty if there is none."""

    def __call__(self, error: Exception) -> Problem | None:
        """Return the problem behind an exception; None if the exception is not the server's."""
        import openai

        if isinstance(error, PolicyError):
            return Problem(f"{self._where}: {self.clean(str(error))}")
        if isinstance(error, ReplyError):
            return Problem(f"{self._where} gave no reply. {self.clean(str(error))}", again=True)
        if isinstance(error, openai.APIStatusError):
            return self._status(error)
        if isinstance(error, (TimeoutError, openai.APITimeoutError)):
            return Problem(
                f"{self._where} did not answer in time; raise timeout= if the server is only slow.", again=True
            )
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
        """Return the text without the API key, cut to `_LONGEST` characters."""
        if len(self.key) > 3:
            text = text.replace(self.key, "[key]")
        text = " ".join(text.split())
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

    def _status(self, error: Any) -> Problem:
        status = int(error.status_code)
        message = self.clean(_message(error)).rstrip(".") + "."
        where = f"{self._where} answered {status}"
        if status in (401, 403):
            fix = f"pass api_key=, or set {self.key_variable}" if self.key_variable else "pass api_key="
            return Problem(f"{where}: the key is missing or not accepted; {fix}. {message}")
        if status == 404:
            cure = f"Check model={self.model!r} and base_url=, which ends in /v1."
            return Problem(f"{where}: {message}", cure=cure)
        if status in (400, 413, 415, 422, 501):
            fields = _unsupported(error)
            return Problem(f"{where}: the request is not accepted. {message}", cure=_CURE, fields=fields)
        if status == 429 and error.code == "insufficient_quota":
            return Problem(f"{where}: the account has no quota left. {message}")
        if status in (408, 429) or status >= 500:
            wait = retry_after(error.response.headers, time.time())
            return Problem(f"{where}. {message}", again=True, wait=wait)
        return Problem(f"{where}. {message}")


def _message(error: Any) -> str:
    """Return the server's message in the form of OpenAI, vLLM or FastAPI, or else the raw body."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        for key in ("message", "detail"):
            if isinstance(inner, dict) and inner.get(key):
                return str(inner[key])
        return str(inner)
    return str(body or error.response.text)


def _unsupported(error: Any) -> frozenset[str]:
    """Return the field names in an error on unsupported fields: its `param` if it has one, else all words."""
    message = _message(error)
    if not _UNSUPPORTED.search(message):
        return frozenset()
    return frozenset([error.param] if error.param else re.findall(r"(?<![\w-])\w+(?![\w-])", message))


class Background:
    """An event loop on its own thread, which ends with `close` or with the process."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run the coroutine on the loop and wait for its result. Callable from any thread except the loop's own.

        Raises:
            RuntimeError: the loop was closed.
        """
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("This policy is closed; create a new one.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # such as Ctrl-C while waiting: stop the requests, too
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and its thread. Safe to call twice."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)
            self._loop.close()
