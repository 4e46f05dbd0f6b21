"""Models behind any server with OpenAI's chat-completions format, through the `openai` client."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator

from selfsurf.agents import model_files
from selfsurf.agents.options import Count, Natural, Positive
from selfsurf.agents.policies.openai import chat
from selfsurf.agents.policies.openai.endpoints import ENDPOINTS, PLAIN, Endpoint, grammar_fields, schema_fields
from selfsurf.agents.policies.openai.kinds import kind_fields
from selfsurf.agents.policies.openai.requests import (
    SAMPLING,
    Background,
    Explainer,
    Limits,
    Problem,
    RefusedFields,
    ReplyError,
    RequestRefused,
    persist,
)
from selfsurf.agents.policies.openai.usage import (
    Prices,
    Totals,
    conversation_tokens,
    image_tokens,
    prices_of,
    text_tokens,
)
from selfsurf.agents.policies.request import CheckedPolicy, Request
from selfsurf.agents.policy import Completion, Conversation, Guidance, Message, PolicyError
from selfsurf.agents.reply.schema import any_action, in_words, strict, wrapped

_log = logging.getLogger(__name__)

CHECK_TIMEOUT = 10.0
"""Timeout of the first request to a server, in seconds (`OpenAIPolicy.check`)."""


class OpenAIPolicy(CheckedPolicy):
    """A policy for models behind an OpenAI-compatible server.

    The requests of a call run concurrently, up to `max_concurrency`. Servers apply a grammar or schema to sampled text,
    not to the beginning of a message, so a prefill is used only for free replies, and only if the server can continue a
    message. If a server refuses schemas, grammars or tools, the request is repeated without them: the prompt then
    describes the reply's format, and the reply is parsed. Sampling fields that the server reports as unsupported are
    left out.

    Args:
        model: the model's name at the server.
        endpoint: name of a known server (`openai`, `nim`, `vllm`, `vllm-guided`, `trtllm`, `ollama`), or an `Endpoint`.
            By default `openai`, or with `base_url` an unknown server without extensions.
        base_url: address of the server, up to and including `/v1`, if not the endpoint's own.
        api_key: the key; by default from the endpoint's environment variable.
        adapter: a LoRA adapter, by its name at the server; replaces the model's name in requests.
        guidance: how replies are constrained to valid actions; by default the endpoint's method.
        tools: take replies as calls of a single tool, whose arguments are the reply's text, or of your own functions. A
            call of another function, such as `click`, is read as that action. `"kinds"`: one tool per kind of action,
            each with its own schema, unless there are functions or several actions in a reply.
        sees_images: whether the model takes images.
        tokenizer: the model's tokenizer, to count tokens exactly: a folder, a hub id or an object with a chat template.
            By default the server counts tokens if it can; otherwise they are estimated (see
            `agents.policies.openai.usage`).
        context_length: maximum number of tokens of prompt and reply together, if known.
        prompt_budget: default token limit of a prompt.
        max_concurrency: maximum number of concurrent requests.
        timeout: seconds until one attempt is given up.
        retries: maximum number of further attempts at a reply after the first.
        patience: seconds until a reply is given up, counted from its first request, over all attempts and waits.
        prices: US dollars per million tokens, `Prices` or a dict with its fields (`input`, `output`, `cached`).
        logprobs: whether to request log-probabilities; by default the endpoint's setting.
        processed_logprobs: whether the server reports log-probabilities after mask and temperature (vLLM:
            `--logprobs-mode processed_logprobs`). Otherwise they are recorded only for free replies at temperature 0 or
            1, where there is no difference.
        extra_body: further fields of each request, such as `{"reasoning_effort": "low"}`.
        omit: fields that are never sent, such as `temperature`, which OpenAI's reasoning models refuse.

    Raises:
        ImportError: the `openai` package is not installed.
        ValueError: an option is unknown or conflicts with another, or the endpoint's key is missing.
    """

    def __init__(
        self,
        model: str,
        endpoint: str | Endpoint | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        adapter: str | None = None,
        guidance: Guidance | None = None,
        tools: bool | Literal["kinds"] = False,
        sees_images: bool = False,
        tokenizer: Any = None,
        context_length: Count | None = None,
        prompt_budget: Count = 16_000,
        max_concurrency: Count = 8,
        timeout: Positive = 120.0,
        retries: Natural = 5,
        patience: Positive = 300.0,
        prices: Annotated[Prices | Mapping[str, float] | None, AfterValidator(prices_of)] = None,
        logprobs: bool | None = None,
        processed_logprobs: bool = False,
        extra_body: Mapping[str, Any] | None = None,
        omit: Sequence[str] = (),
    ) -> None:
        from openai import AsyncOpenAI

        if not model:
            raise ValueError("Give the model's name on the server as model=.")
        if max_concurrency < 1 or retries < 0 or timeout <= 0 or patience <= 0:
            raise ValueError("max_concurrency must be at least 1, retries at least 0, timeout and patience above 0.")
        self.endpoint = _endpoint(endpoint, base_url)
        self.base_url = base_url or self.endpoint.base_url
        self.name = model
        self.adapter = adapter
        self.calls = tools
        self.guidance: Guidance = guidance or ("schema" if tools else self.endpoint.guidance)
        if self.guidance == "grammar" and (tools or self.endpoint.grammar_form is None):
            raise ValueError('This endpoint supports no grammars here; use guidance="schema" or "none".')
        if self.guidance == "schema" and not tools and self.endpoint.schema_form is None:
            raise ValueError('This endpoint supports no JSON schemas; use guidance="grammar", "none" or tools=True.')
        self.sees_images = sees_images
        self.prompt_budget = prompt_budget
        self.parameter_count: int | None = None  # not reported by servers
        self.context_length = context_length
        self.prices = prices_of(prices)
        self.totals = Totals()
        """Requests, tokens and dollars since the policy was created."""
        self._tokenizer = _tokenizer(tokenizer)
        self._server_counts = self.endpoint.tokenizes
        self._logprobs = self.endpoint.logprobs if logprobs is None else logprobs
        self._processed = processed_logprobs
        self._extra, self._omit = dict(extra_body or {}), frozenset(omit)
        self._refused = RefusedFields(self._extra)
        self._limits = Limits(retries, timeout, patience)
        key = _key(self.endpoint, self.base_url, api_key)
        self._explain = Explainer(self.base_url, adapter or model, key, self.endpoint.key_variable)
        self._client = AsyncOpenAI(api_key=key or "none", base_url=self.base_url, timeout=timeout, max_retries=0)
        self._guided: bool | None = None
        """Whether the server accepts guided requests; None until a guided request is answered."""
        self._slots = asyncio.Semaphore(max_concurrency)
        self._background = Background("openai-policy")
        self._closing = weakref.finalize(self, _close, self._background, self._client)

    def close(self) -> None:
        """Close the connections. Safe to call twice; called automatically when the policy is garbage-collected."""
        self._closing()

    def check(self) -> None:
        """Make sure that the server answers, accepts the key, and has the model if it lists its models.

        Raises:
            PolicyError: the server doesn't answer, or refuses the key.
            ValueError: the server doesn't have the model.
        """
        import openai

        async def ask() -> Any:
            try:
                return await self._client.get("/models", cast_to=object, options={"timeout": CHECK_TIMEOUT})
            except (openai.APIConnectionError, openai.AuthenticationError) as error:
                return self._explain(error)
            except (openai.APIError, ValueError):  # a server without a list of models, or with an unreadable one
                return None

        answer = self._background.run(ask())
        if isinstance(answer, Problem):
            raise PolicyError(answer.text)
        listed = answer.get("data") if isinstance(answer, dict) and self.endpoint.lists_models else None
        known = [str(one.get("id")) for one in listed or [] if isinstance(one, dict)]
        wanted = self.adapter or self.name
        if known and wanted not in known:
            raise ValueError(f"{self.base_url} has no model {wanted!r}; it has {', '.join(known[:10])}.")

    def _complete(
        self, requests: Sequence[Request], prefill: str, temperature: float, max_new_tokens: int
    ) -> list[Completion]:
        """Request all replies; if some fail, the error is raised after the others have finished.

        Raises:
            PolicyError: replies failed after all retries; the message lists the rows and reasons.
            ValueError: the request is invalid.
        """
        free = [not (one.grammar or one.schema) for one in requests]
        started = [self._given(prefill) if own else "" for own in free]
        sampling = self._sampling_fields(temperature, max_new_tokens)
        bodies = [
            (self._body(one, start, self._guide_fields(one), sampling), self._unguided(one, sampling))
            for one, start in zip(requests, started, strict=True)
        ]
        answers = self._background.run(self._all(bodies))
        changed = {*self._extra, *self._omit, *self._refused.names}
        as_asked = temperature in (0, 1) and not self.calls and SAMPLING.isdisjoint(changed)
        replies: list[Any] = []
        for one, start, answer in zip(requests, started, answers, strict=True):
            if isinstance(answer, BaseException):
                replies.append(answer)
                continue
            reply, guided = answer
            replies.append(
                replace(
                    reply,
                    text=start + reply.text,
                    logprobs=reply.logprobs if self._processed or (not guided and as_asked) else [],
                    grammar=one.grammar if guided else None,
                    prefill_token_ids=self._prefill_ids(start, reply.prompt_token_ids),
                )
            )
        _report(replies)
        return replies

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text` alone: exact with a tokenizer or a server's count, else an estimate.

        Raises:
            PolicyError: the server's tokenizer could not be reached.
        """
        ids = self._encode(text)
        return text_tokens(text) if ids is None else len(ids)

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """Return the number of tokens of the prompt; images are always estimated (`agents.policies.openai.usage`).

        Raises:
            PolicyError: the server's tokenizer could not be reached.
            ValueError: a message contains images, and the model reads text only.
        """
        started = self._given(prefill)
        texts = [Message(message.role, message.text) for message in messages]
        images = sum(image_tokens(image) for message in messages for image in message.images)
        if images and not self.sees_images:
            raise ValueError(f"{self.name} reads text only, but a message contains images; pass sees_images=True.")
        if self._tokenizer is not None:
            prompt = self._tokenizer.apply_chat_template(
                [chat.written(message) for message in texts], add_generation_prompt=True, tokenize=False
            )
            return len(self._encode(prompt) or []) + len(self._encode(started) or []) + images
        ids = self._ask_tokenizer(self._message_fields(texts, started))
        if ids is not None:
            return len(ids) + images
        return conversation_tokens(texts) + (text_tokens(started) if started else 0) + images

    def _given(self, prefill: str) -> str:
        """Return the prefill if the server can continue a message, else an empty text."""
        return prefill if self.endpoint.continues and not self.calls else ""

    def _body(
        self, one: Request, started: str, guide: Mapping[str, Any], sampling: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a request's body; the user's own fields take precedence."""
        seed = {} if one.seed is None else {"seed": one.seed % 2**31}  # some servers read only 32 bits
        fields = {**self._message_fields(one.messages, started), **guide, **sampling, **seed}
        fields |= self._extra
        return {name: value for name, value in fields.items() if name == "messages" or name not in self._omit}

    def _unguided(self, one: Request, sampling: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the body of a guided request without the guide, with a description of the reply in the prompt.

        None without a guide, or if the model may call functions, which requires tools.
        """
        if one.functions or not (one.grammar or one.schema or self.calls):
            return None
        schema = one.schema or any_action()
        form = f"this Lark grammar:\n{one.grammar}" if one.grammar else f"this JSON schema: {in_words(schema)}"
        last = one.messages[-1]
        words = f"{last.text}\n\nNo tool can be called. " if self.calls else f"{last.text}\n\n"
        told = replace(last, text=f"{words}Reply with nothing but a text that fits {form}")
        return self._body(replace(one, messages=(*one.messages[:-1], told)), "", {}, sampling)

    def _message_fields(self, messages: Conversation, started: str) -> dict[str, Any]:
        if not self.sees_images and any(message.images for message in messages):
            raise ValueError(f"{self.name} reads text only, but a message contains images; pass sees_images=True.")
        written = [chat.written(message) for message in messages]
        if not started:
            return {"messages": written}
        continued = {"continue_final_message": True, "add_generation_prompt": False}
        return {"messages": [*written, {"role": "assistant", "content": started}], **continued}

    def _guide_fields(self, one: Request) -> dict[str, Any]:
        schema = one.schema
        if self.calls:
            is_strict = self.endpoint.schema_form == "strict" and schema is not None
            described = wrapped(any_action() if schema is None else schema)
            parameters = strict(described) if is_strict else described
            own = kind_fields(described, is_strict=is_strict) if self.calls == "kinds" and not one.functions else None
            if own is not None:
                return own
            return chat.tool_fields(parameters, strict=is_strict, functions=one.functions)
        if one.grammar and self.endpoint.grammar_form is not None:
            return grammar_fields(self.endpoint.grammar_form, one.grammar)
        if schema and self.endpoint.schema_form is not None:
            return schema_fields(self.endpoint.schema_form, schema)
        return {}

    def _sampling_fields(self, temperature: float, max_new_tokens: int) -> dict[str, Any]:
        fields: dict[str, Any] = {"temperature": temperature, self.endpoint.length_field: max_new_tokens}
        fields |= self.endpoint.neutral
        if self.endpoint.token_ids is not None:
            fields[self.endpoint.token_ids] = True
        if self._logprobs:
            fields["logprobs"] = True
        return fields

    async def _all(self, bodies: Sequence[tuple[dict[str, Any], dict[str, Any] | None]]) -> list[Any]:
        return await asyncio.gather(*(self._one(*pair) for pair in bodies), return_exceptions=True)

    async def _one(self, body: dict[str, Any], unguided: dict[str, Any] | None) -> tuple[Completion, bool]:
        """Return the reply with its cost, and whether it was guided; the arguments are those of `_reply`."""
        async with self._slots:
            start = time.monotonic()
            reply, attempts, guided = await self._reply(body, unguided)
            usage = reply.usage
            if usage is not None:
                counts = (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
                cost = None if self.prices is None else self.prices.cost(*counts)
                usage = replace(usage, cost=cost, seconds=time.monotonic() - start, attempts=attempts)
            self.totals.add(usage)
            return replace(reply, usage=usage), guided

    async def _reply(self, body: dict[str, Any], unguided: dict[str, Any] | None) -> tuple[Completion, int, bool]:
        """Return the reply, the number of attempts, and whether the reply was guided.

        Args:
            body: the request, with its guide.
            unguided: the same request for a server that refuses the guide in `body`; None without a guide.

        Raises:
            PolicyError: the server gives no reply.
        """
        if unguided is None or self._guided is False:
            return (*await self._persist(unguided or body), False)
        try:
            answer = await self._persist(body)
        except RequestRefused as refusal:
            try:
                answer = await self._persist(unguided)
            except RequestRefused:  # the server refuses it without the guide, too
                raise refusal from None
            self._note_refusal(refusal)
            return (*answer, False)
        self._guided = True
        return (*answer, True)

    async def _persist(self, body: dict[str, Any]) -> tuple[Completion, int]:
        """Return the reply and the number of attempts, leaving out sampling fields that the server refuses."""
        while True:
            sent = self._refused.without(body)
            try:
                return await persist(partial(self._ask, sent), self._limits, self._explain)
            except RequestRefused as refusal:
                if not self._refused.note(refusal, sent):
                    raise

    def _note_refusal(self, refusal: RequestRefused) -> None:
        """Note that the server accepted a request only without a guide; send no guides again if it never took one."""
        if self._guided is None:
            self._guided = False
            what = "tools" if self.calls else f"a {self.guidance} for the reply"
            cure = "tools=False" if self.calls else "constrained=False"
            _log.warning(
                "%s Requests are now sent without %s, and replies read as text; pass %s to do so from the start.",
                refusal.text, what, cure,
            )  # fmt: skip

    async def _ask(self, body: dict[str, Any]) -> Completion:
        """Send the request once, and return the reply."""
        self.totals.requests += 1
        answer = await self._client.chat.completions.with_raw_response.create(
            model=self.adapter or self.name,
            messages=body["messages"],
            extra_body={name: value for name, value in body.items() if name != "messages"},
        )
        try:
            data = json.loads(answer.text)
        except ValueError:
            data = None
        if data is None:  # raised here, so that the parser's error doesn't become the context
            raise ReplyError("The answer is not JSON; check base_url=.")
        return chat.read(data, by_kind=self.calls == "kinds")

    def _encode(self, text: str) -> list[int] | None:
        """Return the text's token ids, or None if neither a tokenizer nor the server can encode it."""
        if not text:
            return []
        if self._tokenizer is not None:
            return [int(token) for token in self._tokenizer.encode(text, add_special_tokens=False)]
        return self._ask_tokenizer({"prompt": text, "add_special_tokens": False})

    def _ask_tokenizer(self, body: dict[str, Any]) -> list[int] | None:
        """Return the token ids from the server's `/tokenize`; None if the server doesn't have it."""
        if not self._server_counts:
            return None
        url = self.base_url.rstrip("/").removesuffix("/v1") + "/tokenize"
        body = {"model": self.adapter or self.name, **body}

        async def ask() -> Any:
            async with self._slots:
                post = partial(self._client.post, url, cast_to=object, body=body)
                try:
                    answer, _ = await persist(post, self._limits, self._explain)
                except RequestRefused:
                    return None
                return answer

        answer = self._background.run(ask())
        if not isinstance(answer, dict) or not isinstance(answer.get("tokens"), list):
            self._server_counts = False  # no `/tokenize`: estimate from now on
            return None
        return [int(token) for token in answer["tokens"]]

    def _prefill_ids(self, started: str, prompt_token_ids: list[int]) -> list[int]:
        """Return the prefill's token ids if the prompt ends with exactly these, else an empty list."""
        ids = self._encode(started) if started and prompt_token_ids else None
        return ids if ids and prompt_token_ids[-len(ids) :] == ids else []


def _report(results: Sequence[Any]) -> None:
    """Raise one error for all rows that failed, if any."""
    failed = {row: result for row, result in enumerate(results) if isinstance(result, BaseException)}
    for error in failed.values():
        if not isinstance(error, PolicyError):
            raise error
    if not failed:
        return
    reasons: dict[str, list[str]] = {}
    for row, error in failed.items():
        reasons.setdefault(str(error), []).append(str(row))
    text = " ".join(
        reason if len(results) == 1 else f"{'Rows' if len(rows) > 1 else 'Row'} {', '.join(rows)}: {reason}"
        for reason, rows in reasons.items()
    )
    if len(results) > 1:
        text = f"{len(failed)} of {len(results)} replies failed. {text}"
    raise PolicyError(text, results)


def _endpoint(endpoint: str | Endpoint | None, base_url: str | None) -> Endpoint:
    if isinstance(endpoint, Endpoint):
        found = endpoint
    elif endpoint is None:
        found = PLAIN if base_url else ENDPOINTS["openai"]
    elif endpoint in ENDPOINTS:
        found = ENDPOINTS[endpoint]
    else:
        raise ValueError(f"Unknown endpoint {endpoint!r}: choose from {', '.join(ENDPOINTS)}, or pass base_url=.")
    address = base_url or found.base_url
    if not _is_address(address):
        raise ValueError(f"base_url= must be an address such as http://localhost:8000/v1, not {address!r}.")
    return found


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in text
    except ValueError:  # the port is not a number
        return False


def _key(endpoint: Endpoint, base_url: str, api_key: str | None) -> str:
    key = (api_key or os.environ.get(endpoint.key_variable or "", "")).strip()
    if not key and base_url == endpoint.base_url and base_url.startswith("https://") and endpoint.key_variable:
        raise ValueError(f"{base_url} needs a key: set {endpoint.key_variable}, or pass api_key=.")
    return key


def _tokenizer(tokenizer: Any) -> Any:
    """Return the tokenizer, loaded if it is given by name.

    Raises:
        ValueError: the tokenizer has no chat template.
    """
    if isinstance(tokenizer, (str, Path)):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(model_files.resolve(tokenizer))
    if tokenizer is not None and not getattr(tokenizer, "chat_template", None):
        raise ValueError("The tokenizer has no chat template; pass the tokenizer of the instruction-tuned model.")
    return tokenizer


def _close(background: Background, client: Any) -> None:
    background.run(client.close())
    background.close()
