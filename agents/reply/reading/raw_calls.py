"""Conversion of tool calls in a chat template's own tokens to JSON, as in servers with a tool parser.

The formats of gpt-oss (harmony), GLM, Kimi, DeepSeek and Mistral become
`<tool_call>{"name": "click", "arguments": {"id": 4}}</tool_call>`. The analysis of a harmony reply is removed. Marks
inside a strict JSON object are text. Arguments that are cut off stay cut off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from selfsurf.agents.reply.reading.loose_json import inside, objects

_MARKS = ("<|", "<｜", "<arg_key>", "[TOOL_CALLS]")
_NAME = r"(?:functions?\.)?([A-Za-z_][\w.-]{0,63})"
_SEPARATOR = r"<[|｜]tool[_▁](?:sep|call[_▁]argument[_▁]begin)[|｜]>"
_CALL = re.compile(
    rf"<[|｜]tool[_▁]call[_▁]begin[|｜]>\s*(?:function{_SEPARATOR})?{_NAME}(?::\d+)?\s*(?:{_SEPARATOR}\s*)?(?:```(?:json)?\s*)?"
    rf"|\[TOOL_CALLS\]\s*{_NAME}(?:\[CALL_ID\]\w+\s*)?(?:\[ARGS\]|(?=\{{))\s*"
)
_CALL_END = re.compile(r"<[|｜]|```|\[TOOL_CALLS\]")
_PAIRS = re.compile(rf"<tool_call>\s*{_NAME}\s*(?:<tool_sep>\s*)?(?=<arg_key>)")
_PAIR = re.compile(r"\s*<arg_key>\s*(\w{1,40})\s*</arg_key>\s*<arg_value>")
_PAIRS_END = re.compile(r"\s*(?:</tool_call>|\Z)")
_DSML = re.compile(r"(</?)[|｜]DSML[|｜]")

_MESSAGE = re.compile(
    r"(?:<\|start\|>)?(?:assistant)?(?:\s?to=([\w.-]{1,80}))?\s?"
    r"<\|channel\|>\s*(\w{1,20})(?:\s+to=([\w.-]{1,80}))?[^{}\n]{0,80}?<\|message\|>"
)
_MESSAGE_END = re.compile(r"<\|(?:end|call|return|start)\|>")
_BARE_MESSAGE = re.compile(
    r"(?:\A\s*(?:assistant)?|assistant)(analysis|commentary|final)( to=[\w.-]{1,80})?(?: ?(?:json|code)(?=\s*[{\[]))?"
)
"""Pattern of the head of a harmony message whose special tokens were dropped in decoding."""
_BARE = re.compile(r"\s*(?:analysis(?:[A-Z]|.*assistant(?:final|commentary))|(?:assistant)?commentary to=)", re.DOTALL)

Spans = Sequence[tuple[int, int]]


def with_json_calls(text: str) -> tuple[str, bool]:
    """Rewrite a reply's raw tool calls.

    Returns:
        The reply, and whether it ends inside its analysis.
    """
    text, unfinished = _without_analysis(text)
    if not any(mark in text for mark in _MARKS):
        return text, unfinished
    text = _DSML.sub(r"\1", text)
    spans = _strict_spans(text)
    parts: list[str] = []
    position = 0
    for head in sorted([*_CALL.finditer(text), *_PAIRS.finditer(text)], key=re.Match.start):
        if head.start() < position or inside(spans, head.start()):
            continue
        name = next(filter(None, head.groups()))
        if head.re is _PAIRS:
            call, end = _paired(text, name, head.end())
        else:
            call, end = _call(text, name, head.end(), spans, _CALL_END)
        if call:
            parts += [text[position : head.start()], call]
            position = end
    return "".join([*parts, text[position:]]), unfinished


def _without_analysis(text: str) -> tuple[str, bool]:
    """Return a harmony reply without its analysis, and whether it ends inside the analysis; other texts unchanged."""
    if _BARE.match(text):
        spans = _strict_spans(text)

        def marked(head: re.Match[str]) -> str:
            return head[0] if inside(spans, head.start()) else f"<|channel|>{head[1]}{head[2] or ''}<|message|>"

        text = _BARE_MESSAGE.sub(marked, text)
    if "<|channel|>" not in text:
        return text, False
    spans = _strict_spans(text)
    heads = [head for head in _MESSAGE.finditer(text) if not inside(spans, head.start())]
    if not heads:
        return text, False
    kept = [text[: heads[0].start()]]
    unfinished = False
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        recipient, last = head[1] or head[3], following.start() if following else len(text)
        call, end = "", _end(text, head.end(), spans, _MESSAGE_END, last)
        if recipient:
            call, _ = _call(text, recipient.removeprefix("functions."), head.end(), spans, _MESSAGE_END, last)
            kept.append(call)
        elif head[2] != "analysis":
            kept.append(text[head.end() : end])
        unfinished = not recipient and head[2] == "analysis" and end == len(text)
    return "\n".join(kept), unfinished


def _call(
    text: str, name: str, start: int, spans: Spans, until: re.Pattern[str], last: int | None = None
) -> tuple[str, int]:
    """Return the call with arguments from `start` on as JSON, and the position of its end."""
    last = len(text) if last is None else last
    end = next((end for begin, end in spans if begin == start), None)
    whole = end is not None
    if end is None:
        end = _end(text, start, spans, until, last)
        whole = end < len(text)
    given = text[start:end].strip() or "{}"
    return f'<tool_call>{{"name": {json.dumps(name)}, "arguments": {given}' + ("}</tool_call>" if whole else ""), end


def _end(text: str, start: int, spans: Spans, until: re.Pattern[str], last: int) -> int:
    """Return the position of the first mark outside of JSON objects."""
    ends = (mark.start() for mark in until.finditer(text, start, last))
    return next((end for end in ends if not inside(spans, end)), last)


def _paired(text: str, name: str, start: int) -> tuple[str, int]:
    """Return the call with tagged arguments from `start` on as JSON, and its end; empty if it is cut off."""
    given: dict[str, str] = {}
    pair = _PAIR.match(text, start)
    while pair:
        close = text.find("</arg_value>", pair.end())
        if close < 0:
            return "", start
        given[pair[1]] = text[pair.end() : close].strip("\n")
        start = close + len("</arg_value>")
        pair = _PAIR.match(text, start)
    end = _PAIRS_END.match(text, start)
    if end is None:
        return "", start
    written = json.dumps({"name": name, "arguments": given}, ensure_ascii=False)
    return f"<tool_call>{written}</tool_call>", end.end()


def _strict_spans(text: str) -> Spans:
    return [(found.start, found.end) for found in objects(text, sloppy=False)]
