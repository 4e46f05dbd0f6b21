"""The chat-completions format: messages out, replies in."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from typing import Any

from selfsurf.agents.policies.openai.requests import ReplyError
from selfsurf.agents.policies.request import pil_image
from selfsurf.agents.policy import Completion, FinishReason, Message, PolicyError, Usage
from selfsurf.agents.reply.schema import Schema

TOOL = "act"
"""Name of the one tool that takes the action, where replies are tool calls."""


def written(message: Message) -> dict[str, Any]:
    """Return a message in the server's form: images before the text, as PNG in data URIs.

    Raises:
        ValueError: an image is not a uint8 array (height, width, 3).
    """
    if not message.images:
        return {"role": message.role, "content": message.text}
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": data_uri(image)}} for image in message.images
    ]
    return {"role": message.role, "content": [*parts, {"type": "text", "text": message.text}]}


def data_uri(image: Any) -> str:
    """The image as PNG in a data URI.

    Raises:
        ValueError: it is not a uint8 array (height, width, 3).
    """
    buffer = io.BytesIO()
    pil_image(image).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def tool_fields(parameters: Schema, *, strict: bool) -> dict[str, Any]:
    """The fields of a request that make the reply a call of one tool."""
    function = {"name": TOOL, "description": "Carry out one action on the page.", "parameters": parameters}
    choice = {"type": "function", "function": {"name": TOOL}}
    if not strict:
        return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    tool = {"type": "function", "function": {**function, "strict": True}}
    return {"tools": [tool], "tool_choice": choice, "parallel_tool_calls": False}  # it holds for single calls only


def read(data: Any) -> Completion:
    """Read a server's answer.

    Returns:
        Its text without the model's reasoning, its tokens with that. Lists are empty where the server reports nothing.

    Raises:
        ReplyError: it is not a chat completion, or holds no choice.
        PolicyError: the server withheld the reply.
    """
    if not isinstance(data, dict):
        raise ReplyError("The answer is not a JSON object.")
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        error = data.get("error")
        why = error.get("message") if isinstance(error, dict) else error
        raise ReplyError(f"The answer holds no choices{f': {why}' if why else ''}.")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ReplyError("The answer's choice holds no message.")
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        raise PolicyError("The server's content filter withheld the reply.")
    if reason in ("abort", "error"):
        raise ReplyError(f"The server broke off the reply ({reason}).")
    token_ids, logprobs = _tokens(choice)
    prompt_ids = _integers(data.get("prompt_token_ids") or choice.get("prompt_token_ids"))
    ended: FinishReason = "length" if reason in ("length", "max_tokens") else "eos"
    usage = _usage(data.get("usage"))
    return Completion(_text(message), prompt_ids, token_ids, logprobs, None, ended, usage=usage)


def _usage(given: Any) -> Usage | None:
    """What the reply used; None where the server doesn't report it."""
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


def _text(message: Mapping[str, Any]) -> str:
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls and isinstance(calls[0], dict):
        function = calls[0].get("function") or {}
        name, arguments = function.get("name"), function.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        if not isinstance(name, str) or name in ("", TOOL):
            return written
        # A function that was not offered, such as `click`: its name may be the action's. A cut-off call stays cut off.
        written = written.strip() or "{}"
        return f'{{"name": {json.dumps(name)}, "arguments": {written}{"}" if _is_json(written) else ""}'
    content = message.get("content")
    if isinstance(content, list):  # parts; reasoning has another type
        parts = (part for part in content if isinstance(part, Mapping) and part.get("type") == "text")
        content = "".join(str(part.get("text", "")) for part in parts)
    # Separate reasoning (`reasoning_content`, `reasoning`) is not part of the reply; a refusal is, and has no action.
    return without_reasoning(content or message.get("refusal") or "")


def _tokens(choice: Mapping[str, Any]) -> tuple[list[int], list[float]]:
    """The sampled tokens' ids and log-probabilities, each empty where not reported."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    entries = [entry for entry in content or [] if isinstance(entry, Mapping)]
    ids = _integers(choice.get("token_ids"))
    names = [str(entry.get("token", "")) for entry in entries]
    if not ids and names and all(name.startswith("token_id:") for name in names):
        ids = [int(name.removeprefix("token_id:")) for name in names]
    values = [float(entry["logprob"]) for entry in entries if isinstance(entry.get("logprob"), (int, float))]
    if len(values) != len(entries) or (ids and len(values) != len(ids)):
        values = []  # there must be one for each token
    return ids, values


def _integers(value: Any) -> list[int]:
    return list(value) if isinstance(value, list) and all(isinstance(item, int) for item in value) else []


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
