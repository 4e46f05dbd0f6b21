"""Messages and replies in the chat-completions format."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from selfsurf.agents.kinds import KINDS
from selfsurf.agents.policies.openai.kinds import reply_of
from selfsurf.agents.policies.openai.requests import ReplyError
from selfsurf.agents.policies.request import pil_image
from selfsurf.agents.policy import Completion, FinishReason, Message, PolicyError, Usage
from selfsurf.agents.reply.functions import Function
from selfsurf.agents.reply.schema import Schema

TOOL = "act"
"""Name of the single tool for actions, if replies are tool calls."""


def written(message: Message) -> dict[str, Any]:
    """Return a message in the server's format: images before the text, as PNG in data URIs.

    Raises:
        ValueError: an image is not a uint8 array (height, width, 3).
    """
    if message.call is not None and message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call.id, "content": message.text}
    if message.call is not None:
        function = {"name": message.call.name, "arguments": message.call.arguments}
        call = {"id": message.call.id, "type": "function", "function": function}
        return {"role": message.role, "content": None, "tool_calls": [call]}
    if not message.images:
        return {"role": message.role, "content": message.text}
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": data_uri(image)}} for image in message.images
    ]
    return {"role": message.role, "content": [*parts, {"type": "text", "text": message.text}]}


def data_uri(image: Any) -> str:
    """Return the image as PNG in a data URI.

    Raises:
        ValueError: the image is not a uint8 array (height, width, 3).
    """
    buffer = io.BytesIO()
    pil_image(image).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def tool_fields(parameters: Schema, *, strict: bool, functions: Sequence[Function] = ()) -> dict[str, Any]:
    """Return the request fields that make the reply a call of the single action tool, or of a function."""
    act = _tool(TOOL, "Carry out one action on the page.", parameters)
    own = [_tool(one.name, one.description, one.schema) for one in functions]
    choice: Any = "required" if own else {"type": "function", "function": {"name": TOOL}}
    if not strict:
        return {"tools": [act, *own], "tool_choice": choice}
    act["function"]["strict"] = True
    return {"tools": [act, *own], "tool_choice": choice, "parallel_tool_calls": False}  # strict mode needs single calls


def _tool(name: str, description: str, parameters: Schema) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def read(data: Any, *, by_kind: bool = False) -> Completion:
    """Parse a server's answer.

    Args:
        data: the answer's JSON.
        by_kind: whether there was one tool per kind of action (`kinds.kind_tools`).

    Returns:
        The reply, with the model's reasoning separate from the text but included in the tokens. Lists are empty if the
        server doesn't report them.

    Raises:
        ReplyError: the answer is not a chat completion, or has no choice.
        PolicyError: the server withheld the reply.
    """
    if not isinstance(data, dict):
        raise ReplyError("The answer is not a JSON object.")
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        error = data.get("error")
        why = error.get("message") if isinstance(error, dict) else error
        raise ReplyError(f"The answer contains no choices{f': {why}' if why else ''}.")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ReplyError("The answer's first choice contains no message.")
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        raise PolicyError("The server's content filter withheld the reply.")
    if reason in ("abort", "error"):
        raise ReplyError(f"The server aborted the reply ({reason}).")
    token_ids, logprobs = _tokens(choice)
    prompt_ids = _integers(data.get("prompt_token_ids") or choice.get("prompt_token_ids"))
    ended: FinishReason = "length" if reason in ("length", "max_tokens") else "eos"
    usage = _usage(data.get("usage"))
    return Completion(
        _text(message, by_kind), prompt_ids, token_ids, logprobs, None, ended, usage=usage, thinking=_thinking(message)
    )


def _usage(given: Any) -> Usage | None:
    """Return the token usage of a reply; None if the server doesn't report it."""
    if not isinstance(given, Mapping) or not isinstance(given.get("prompt_tokens"), int):
        return None
    details = given.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(given["prompt_tokens"], int(given.get("completion_tokens") or 0), int(cached or 0))


def without_reasoning(text: str) -> str:
    """Return the text after a `<think>` block; empty if the block never ends.

    The opening tag is often part of the chat template, so that the reply begins inside the block.
    """
    if "</think>" in text and not _is_json(text):
        return text.partition("</think>")[2].lstrip()
    return "" if text.lstrip().startswith("<think>") else text


def _text(message: Mapping[str, Any], by_kind: bool) -> str:
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls and isinstance(calls[0], dict):
        return "\n".join(_call_text(call, by_kind) for call in calls if isinstance(call, dict))
    # Separate reasoning (`reasoning_content`, `reasoning`) is not part of the reply; a refusal is, but has no action.
    return without_reasoning(_content(message, "text") or message.get("refusal") or "")


def _call_text(call: Mapping[str, Any], by_kind: bool) -> str:
    function = call.get("function") or {}
    name, arguments = function.get("name"), function.get("arguments")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    if not isinstance(name, str) or name in ("", TOOL):
        return written
    reply = reply_of(name, written) if by_kind and name in KINDS else None
    if reply is not None:
        return reply
    # A function that was not offered, such as `click`, may have the name of an action. A cut-off call stays cut off.
    written = written.strip() or "{}"
    return f'{{"name": {json.dumps(name)}, "arguments": {written}{"}" if _is_json(written) else ""}'


def _content(message: Mapping[str, Any], kind: str) -> str:
    """Return a message's content as text; of content in parts, only parts of this kind, which excludes reasoning."""
    content = message.get("content")
    if isinstance(content, str) or not content:
        return (content or "") if kind == "text" else ""
    if not isinstance(content, list):
        raise ReplyError(f"The message's content is {type(content).__name__}, not a text or a list of parts.")
    parts = (part for part in content if isinstance(part, Mapping) and part.get("type") == kind)
    return "".join(str(part.get(kind, "")) for part in parts)


def _thinking(message: Mapping[str, Any]) -> str:
    """Return the model's reasoning, from any of the fields that servers use, or from the text before the reply."""
    given = message.get("reasoning_content") or message.get("reasoning") or _content(message, "thinking")
    if isinstance(given, str) and given:
        return given
    whole = _content(message, "text")
    reply = without_reasoning(whole)
    thought = whole[: len(whole) - len(reply)] if whole.endswith(reply) else ""
    return thought.strip().removeprefix("<think>").removesuffix("</think>").strip()


def _tokens(choice: Mapping[str, Any]) -> tuple[list[int], list[float]]:
    """Return the ids and log-probabilities of the sampled tokens, each empty if not reported."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    entries = [entry for entry in content or [] if isinstance(entry, Mapping)]
    ids = _integers(choice.get("token_ids"))
    names = [str(entry.get("token", "")) for entry in entries]
    if not ids and names and all(name.startswith("token_id:") for name in names):
        ids = [int(name.removeprefix("token_id:")) for name in names]
    values = [float(entry["logprob"]) for entry in entries if isinstance(entry.get("logprob"), (int, float))]
    if len(values) != len(entries) or (ids and len(values) != len(ids)):
        values = []  # there must be a value for each token
    return ids, values


def _integers(value: Any) -> list[int]:
    return list(value) if isinstance(value, list) and all(isinstance(item, int) for item in value) else []


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
