"""Requests to a server: many at once from synchronous code, retried where that may help, with errors that explain."""

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
"""Seconds of the first wait, doubled each time, and of the longest."""

QUIET = 30.0
"""Seconds for which the same trouble is not told again."""

_log = logging.getLogger(__name__)
_announced: dict[str, float] = {}

_LONGEST = 400
"""Most characters of a server's own message that are shown."""

_CURE = "A field that the server doesn't take can be left out (omit=), a prompt shortened (max_prompt_tokens=)."

SAMPLING = frozenset({
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "logit_bias",
})  # fmt: skip
"""Fields by which a server samples from another distribution than its model's."""
_LENGTHS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Fields that limit a reply's length, each with the other name for it."""
_UNSUPPORTED = re.compile(
    r"unsupported|(?:not|n't) (?:\w+ )?(?:supported?|accept(?:ed)?|allowed|permitted|recogni[sz]ed?)|unknown|unexpected"
    r"|unrecogni[sz]ed|deprecated", re.IGNORECASE,
)  # fmt: skip

_Result = TypeVar("_Result")


class ReplyError(Exception):
    """The server's answer is not a reply."""


class RequestRefused(PolicyError):
    """The server refuses a request as it stands: the same request would be refused again.

    Args:
        text: what the server said.
        cure: what to do about it.
        fields: the names, and other words, by which the server says what it doesn't support; empty if it names nothing.
    """

    def __init__(self, text: str, cure: str, fields: frozenset[str] = frozenset()) -> None:
        super().__init__(f"{text} {cure}")
        self.text = text
        self.fields = fields


class RefusedFields:
    """Sampling fields that a server has refused: left out of requests from then on, or sent by their other name.

    Args:
        kept: fields that are sent in any case.
    """

    def __init__(self, kept: Collection[str] = ()) -> None:
        self.names: dict[str, str] = {}
        """Of each refused field the name that is sent instead; empty: none."""
        self._kept = kept

    def without(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request's body without the fields."""
        sent = {self.names.get(name, name): value for name, value in body.items()}
        sent.pop("", None)
        return sent

    def note(self, refusal: RequestRefused, body: Mapping[str, Any]) -> bool:
        """Note the fields of a body that a refusal names, and return whether there are any."""
        refused = refusal.fields & body.keys() & {*SAMPLING, *_LENGTHS, "seed"} - set(self._kept)
        for field in sorted(refused - self.names.keys()):
            other = _LENGTHS.get(field, "")
            if other in self.names:  # the server takes neither name
                self.names[other], other = "", ""
            self.names[field] = other
            what = f"Sending {other} instead of" if other else "Leaving out"
            _log.warning("%s %s %s from now on; omit= leaves it out from the start.", refusal.text, what, field)
        return bool(refused)


@dataclass(frozen=True)
class Problem:
    """What went wrong with one request."""

    text: str
    """One sentence, with what to do about it if anything can be done."""
    again: bool = False
    """Whether another attempt may succeed."""
    cure: str = ""
    """What to do about a request that the server refuses as it stands; empty for other troubles."""
    fields: frozenset[str] = frozenset()
    """As in `RequestRefused`."""
    wait: float | None = None
    """Seconds that the server asked for."""


@dataclass(frozen=True)
class Limits:
    """When to give up."""

    retries: int
    """Most attempts after the first."""
    timeout: float
    """Seconds that one attempt may take."""
    patience: float
    """Seconds for one reply, all attempts and waits together."""


async def persist(
    send: Callable[[], Awaitable[_Result]], limits: Limits, explain: Callable[[Exception], Problem | None]
) -> tuple[_Result, int]:
    """Send a request until it succeeds, and return the reply and the number of attempts.

    Args:
        send: makes one attempt.
        limits: when to give up.
        explain: what an exception of `send` means; None for one that is not the server's, which is raised as it is.

    Raises:
        RequestRefused: the server refuses the request as it stands.
        PolicyError: no reply within the limits, or a failure that another attempt can't change.
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
        # Raised outside the handler: the client's exception, which may hold the key, must not become our context.
        if problem.cure:
            raise RequestRefused(problem.text, problem.cure, problem.fields)
        if not problem.again:
            raise PolicyError(problem.text)
        spent = time.monotonic() - start
        wait = backoff(attempts) if problem.wait is None else problem.wait + random.uniform(0, 0.1)
        if attempts > limits.retries:
            raise PolicyError(f"{problem.text} Given up after {attempts} attempts.")
        if spent + wait >= limits.patience:
            asked = "" if problem.wait is None else f"; the server asks to wait {problem.wait:.0f} s"
            raise PolicyError(
                f"{problem.text} Given up after {attempts} attempts, since patience is {limits.patience:g} s{asked}."
            )
        _announce(f"{problem.text} Trying again, up to {limits.retries} times.")
        await asyncio.sleep(wait)


def _announce(text: str) -> None:
    """Say in the log why nothing happens, once for all requests that meet the same trouble at the same time."""
    now = time.monotonic()
    if now - _announced.get(text, -math.inf) > QUIET:
        _announced[text] = now
        _log.warning("%s", text)


def backoff(attempts: int) -> float:
    """Seconds to wait after a number of attempts: doubling, half of it fixed and half random.

    The random part keeps clients that failed together from retrying together.
    """
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempts - 1, 16))
    return longest * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a `Retry-After` header asks for, or None without a readable one.

    Args:
        headers: of the response, names in any case.
        now: seconds since the epoch, for a header that names a time.
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
    """Explains the failures of requests to one server."""

    base_url: str
    model: str
    key: str
    key_variable: str
    """Environment variable of the key; empty if there is none."""

    def __call__(self, error: Exception) -> Problem | None:
        """Return what the exception means; None if it is not the server's."""
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
        """Return the text without the key, cut to a readable length."""
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
    """The server's message, in the form of OpenAI, vLLM or FastAPI; else the raw body."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        for key in ("message", "detail"):
            if isinstance(inner, dict) and inner.get(key):
                return str(inner[key])
        return str(inner)
    return str(body or error.response.text)


def _unsupported(error: Any) -> frozenset[str]:
    """Return what a refusal names as unsupported: its `param` where it has one, else the words of its message."""
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
        """Run the coroutine on the loop and wait for its result, from any thread but the loop's own.

        Raises:
            RuntimeError: the loop was closed.
        """
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("This policy was closed; make a new one.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # such as Ctrl-C while waiting: the requests stop too
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread. Safe to call twice."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)
            self._loop.close()
