"""Parsers of actions that are not JSON: tagged functions, calls, lines beginning with an action, plain statements."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from selfsurf.agents.kinds import KEYS
from selfsurf.agents.reply.reading.naming import ALIASES, action_name, arguments, full_forms, positional
from selfsurf.browser_env.actions import ACTION_TYPES
from selfsurf.browser_env.callstring import CALLS
from selfsurf.browser_env.compact import BARE, expand

WORK = 40_000
"""Total number of characters of calls that are read in a reply."""

_NAMES = sorted({*ACTION_TYPES, *ALIASES, *CALLS, "goback", "goforward", "element_click"}, key=len, reverse=True)
_ANY = "|".join(name.replace("_", "[_ ]") for name in _NAMES)
_EXPLICIT = {"goback", "go_back", "go back", "goforward", "go_forward", "go forward", "close_tab", "tab_close"}

_FUNCTION = re.compile(r"<(?:function=|(?:invoke|function|tool) name=[\"'])(\w{2,40})[\"']?>", re.IGNORECASE)
_PARAMETER = re.compile(
    r"<parameter(?:=| name=[\"'])(\w{1,40})[\"']?(?:\s[^<>]{0,40})?>\n?"
    r"((?:[^<]|<(?!/?parameter)){0,5000}+)</parameter>",
    re.IGNORECASE,
)

_OWNER = r"(?:(?:await|browser|page|env|self|computer|actions?|functions?|tools?)[. ]){0,2}"
_CALL = re.compile(rf"(?<![\w'\"])({_OWNER})({_ANY})(?:\.call)?\(", re.IGNORECASE)
_ARGUMENTS = re.compile(
    r"(?:[^()\"'\n]|\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|\([^()\"'\n]{0,100}+\)){0,2000}+\)"
)
_LINE_START = re.compile(
    r"(?i)[ \t*#`\"'“_\-•]*+"
    r"(?:(?:\d{1,2}[.)]|step \d{1,2}[.:)])[ \t*`]*+)?"
    r"(?:(?:(?:next|final|my|chosen|correct|the|best)[ \t]+){0,3}"
    r"(?:action|answer|output|response|command|decision|result)[ \t*_]*[:：=][ \t*_]*+)?"
    r"(?:<(?:action|answer|tool_call)>)?[*`\"'“]*+"
)
_KEYWORD = re.compile(rf"(?:{_ANY})(?![\w'’])", re.IGNORECASE)
_PROPOSAL = re.compile(
    r"(?im)(?:^|(?<=[.!?:] ))[ \t*#`_\-•]*(?:(?:so|now|then|first|next|therefore)\b,? ){0,2}"
    r"(?:(?:i|we)(?: will|['’]ll| am going to| are going to)|i['’]m going to|let me|let['’]s)"
    r"(?: now| first| next| then| just)? "
    r"(click|hover|press|scroll)\b([^.!?\n]{1,80})(?=[.!]|$)"
)
_TAGGED = re.compile(
    r"(?<=[^\n])```[ \t]*([^`\n]{2,2000})[ \t]*```|<(click|hover|press|scroll|navigate|finish)>([^<>]{1,500})</\2>",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"[*`\"'”]*[ \t]*[:=;]?[ \t*]*")
_GROUPS = re.compile(r"(?:\[([^\[\]\n]{0,2000}+)\][\s;,.]*+){1,4}[`*\"']*")
_GROUP = re.compile(r"\[([^\[\]\n]*+)\]")
_TARGET = re.compile(r"(?:(?:on|the|element|id|number)\b[ \t]*|[#\[=:])*(\d{1,9})\b\]?[ \t,:]*(.*)", re.IGNORECASE)
_LEAD_IN = re.compile(r"(?:with|text|option|value)\b[\s:=]*", re.IGNORECASE)
_SCROLL = re.compile(r"(up|down|left|right)(?: (?:the page|once|a bit|a little))?", re.IGNORECASE)
_WORD = re.compile(r"""(?:(?:direction|key)[ ]*=[ ]*)?["']?([\w+]+)["']?""")
"""Pattern of a call's only argument, with or without quotation marks."""
_KEYS = {key.lower(): key for key in KEYS}
_CHORD = re.compile(r"((?:Control|Ctrl|Shift|Alt|Meta|Cmd)\+)+(?:[A-Za-z0-9]|[A-Z][A-Za-z]{1,12})")
_DIRECT_URL = re.compile(r"(?:to )?[<(\[]?(https?://[^\s<>()\[\]\"'`]+)[>)\]]?", re.IGNORECASE)
_INPUT_LINE = re.compile(r"\s*\n[ \t*]*action[ _]input[ \t*]*:[ \t*]*([^\n{]+)", re.IGNORECASE)

_BEFORE = re.compile(
    rf"(?i)(?:\A|[\s\]>(.=:*`])({_ANY})[\"'*`]*\s*(?:\[ARGS\]|[(>:]|\n[ \t*]*action[ _]input[ \t*]*:)?"
    r"\s*(?:```(?:json)?\s*)?\Z"
)

_DONE = re.compile(
    r"(?im)\b(?:goal|task|objective|mission) (?:of [^.!?\n]{1,80}? )?(?:is|has been|was) "
    r"(?:now |already |successfully |fully ){0,2}(?:achieved|reached|complete|completed|done|finished|accomplished)\b"
    r"|^[ \t*#]*(?:goal|task|objective|mission) (?:achieved|reached|complete|completed|done|finished|accomplished)\b"
    r"|\b(?:i|we)(?: have|['’]ve) (?:now |already |successfully )?(?:completed|finished|achieved|accomplished|reached) "
    r"(?:the|this|your) (?:goal|task|objective)\b"
)
_NOT_YET = re.compile(
    r"(?i)\b(?:not|never|cannot|until|unless|if|when|once|whether|verify|check|ensure|sure|before|after|so that|"
    r"assum\w+|should|would|could|might|may|in order|order to|as soon as|make|means|because|what|how|where|"
    r"hardly|nearly)\b|n['’]t\b|[\"“]"
)


_ALONE = re.compile(
    r"(?i)[\s*#`]*(?:(?:i am|i['’]m|i have|i['’]ve|we are|it is|it['’]s|that is|that['’]s|all) )?(?:all |now )?"
    r"(?:done|finished)[\s.!*`]*"
)
_ANSWER = re.compile(
    r"(?i)[\s*#`]*(?:so,? |therefore,? |thus,? )?(?:the |my )?(?:final |correct )?answer[* ]*(?: is\b|:)[* :]*"
    r"([^\n]{1,200}?)[\s.!*`]*"
)
_FACT = re.compile(r"[\"“](?P<text>[^\"“”]+)[\"”]|[-+]?[$€£¥#]?\d\S*(?: \S+){0,3}|(?-i:[A-Z])\S*(?: \S+){0,4}|\w+")
_NO_FACT = re.compile(
    r"(?:not|un\w+|here|there|below|above|missing|hidden|wrong|incorrect|correct|I|We|It|The \w+ (?:is|are|was))\b.*"
    r"|.*(?:\b(?:not|cannot|but|let me|maybe|perhaps|probably)\b|n['’]t\b|\?).*"
)


def name_before(text: str, start: int) -> str | None:
    """Return the action named right before an object of arguments: `click {"id": 4}`, `<function=click>{...}`."""
    found = _BEFORE.search(text[max(0, start - 80) : start])
    return action_name(found[1]) if found else None


def functions(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield tagged tool calls, `<function=click><parameter=id>4</parameter></function>`, as start, end, full dict."""
    heads = list(_FUNCTION.finditer(text))
    for found, following_head in zip_longest(heads, heads[1:]):
        name = action_name(found[1])
        following = text.find("</", found.end())
        end = min(following_head.start() if following_head else len(text), found.end() + 10_000)
        given = {one[1].lower(): one[2].strip("\n") for one in _PARAMETER.finditer(text, found.end(), end)}
        if name is not None and (given or following >= 0):
            yield found.start(), end, arguments(name, given)
        elif name is None:
            yield from ((found.start(), end, form) for form in full_forms(given) if isinstance(form, dict))


def calls(text: str) -> Iterator[tuple[int, int, str, bool, dict[str, Any] | str]]:
    """Yield calls such as `click(4)` as start, end, name, whether they begin a line, and full dict or call string."""
    work = 0
    for found in _CALL.finditer(text):
        inside = _ARGUMENTS.match(text, found.end())
        work += (inside.end() if inside else min(found.end() + 2000, len(text))) - found.start()
        if work > WORK:
            return
        if inside is None:
            continue
        begin = text.rfind("\n", 0, found.start()) + 1
        begins = _LINE_START.match(text, begin, found.start()).end() == found.start()  # type: ignore[union-attr]
        read = call(found[2], text[found.end() : inside.end() - 1])
        if read is not None:
            yield found.start(), inside.end(), found[2].lower(), begins, read


def call(name: str, inside: str) -> dict[str, Any] | str | None:
    """Return a call's full dict, or a string for the environment's own parser of calls; None if it is unreadable."""
    plain = action_name(name)
    target = _TARGET.fullmatch(inside.strip())
    if plain in ("click", "hover") and target and not target[2]:
        return {"action": plain, "id": int(target[1])}
    word = _WORD.fullmatch(inside.strip())
    if plain == "scroll" and word and _SCROLL.fullmatch(word[1]):
        return expand({"scroll": word[1].lower()})
    if plain == "press" and word and word[1].lower() in _KEYS:
        return {"action": "press", "key": _KEYS[word[1].lower()]}
    if name.lower() in CALLS:
        return f"{name.lower()}({inside})"
    if plain is None:
        return None
    try:
        node = ast.parse(f"f({inside})", mode="eval").body
        assert isinstance(node, ast.Call)
        values = [ast.literal_eval(value) for value in node.args]
        named = {word.arg.lower(): ast.literal_eval(word.value) for word in node.keywords if word.arg}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return arguments(plain, {**positional(plain, values), **named})


def keywords(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield lines that begin with an action (`CLICK 4`, `- **Action:** type [3] [Ada]`) as start, end, full dict."""
    alone = len([line for line in text.splitlines() if line.strip().strip("`")]) == 1
    begin = 0
    for line in text.split("\n"):
        start = _LINE_START.match(line).end()  # type: ignore[union-attr]
        name = _KEYWORD.match(line, start)
        if name and len(line) <= 5000:
            labelled = ":" in line[:start] or "<" in line[:start]
            read = _line(name[0], line[name.end() :], alone or labelled)
            if read is None and not line[name.end() :].strip(" *`\"'"):
                following = _INPUT_LINE.match(text, begin + name.end())
                read = _line(name[0], following[1], False) if following else None
            if read is not None:
                yield begin + start, begin + len(line.rstrip()), read
        begin += len(line) + 1


def sentences(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield sentences such as `I will click element 4.` as start, end and full dict."""
    for found in _PROPOSAL.finditer(text):
        read = _line(found[1], found[2], alone=False)
        if read is not None:
            yield found.start(), found.end(), read


def tagged(text: str) -> Iterator[tuple[int, int, dict[str, Any] | str]]:
    """Yield actions in a code fence inside a line, or named by a tag (`<click>4</click>`)."""
    for found in _TAGGED.finditer(text):
        read = phrase(found[1]) if found[1] else _line(found[2], f": {found[3].strip()}", alone=True)
        if read is not None:
            yield found.start(), found.end(), read


def phrase(text: str) -> dict[str, Any] | str | None:
    """Return the action if the whole text is one, such as `click [4]` or `click('4')`, else None."""
    text = text.strip()
    found = _CALL.match(text)
    if found:
        inside = _ARGUMENTS.fullmatch(text, found.end())
        return call(found[2], text[found.end() : -1]) if inside else None
    name = _KEYWORD.match(text)
    return _line(name[0], text[name.end() :], True) if name and "\n" not in text else None


def done(text: str) -> tuple[int, int] | None:
    """Return the span of a statement that the goal is reached, or None; negations and conditions don't count."""
    if _ALONE.fullmatch(text):
        return 0, len(text)
    for found in _DONE.finditer(text):
        begin = max(text.rfind(mark, 0, found.start()) for mark in ".!?\n") + 1
        sentence_end = re.compile(r"[.!?\n]|\Z").search(text, found.end())
        question = sentence_end is not None and sentence_end[0] == "?"
        if not question and not _NOT_YET.search(text, max(begin, found.start() - 300), found.end()):
            return found.start(), found.end()
    return None


def answer(text: str) -> str | None:
    """Return the answer if the whole reply states one: a quotation, number, name or word (`The answer is 42.`)."""
    found = _ANSWER.fullmatch(text) if len(text) <= 400 else None
    fact = _FACT.fullmatch(found[1]) if found else None
    return None if fact is None or _NO_FACT.fullmatch(fact[0]) else fact["text"] or fact[0]


def _line(name: str, rest: str, alone: bool) -> dict[str, Any] | None:
    """Read the rest of a line after an action's name; None if the line is prose.

    Args:
        name: the name as written.
        rest: the rest of the line.
        alone: whether the line is the only one, or follows a label such as `Action:`, so that a bare name is an action.
    """
    written = name.lower()
    kind = action_name(name)
    separator = _SEPARATOR.match(rest)[0]  # type: ignore[index]
    rest = rest[len(separator) :].strip()
    if kind is None:
        return None
    groups = _GROUPS.fullmatch(rest)
    if groups and not (kind == "press" and rest.count("[") == 1 and rest.strip("[]. ").isdecimal()):
        return positional(kind, [group.strip() for group in _GROUP.findall(rest)])
    rest = rest.rstrip(". ").strip("*`").strip()
    if rest and rest[-1] in "\"'" and rest.count(rest[-1]) % 2:  # the quotation began before the name
        rest = rest[:-1].rstrip(". ")
    if kind in BARE or kind == "wait":
        return {"action": kind} if not rest and (alone or written in _EXPLICIT) else None
    if kind == "scroll":
        way = _SCROLL.fullmatch(rest)
        return expand({"scroll": way[1].lower()}) if way else None
    if kind == "press":
        key = rest.strip("\"'` ").removesuffix(" key")
        key = _KEYS.get(key.lower(), key if _CHORD.fullmatch(key) else "")
        return {"action": kind, "key": key} if key else None
    if kind in ("click", "hover"):
        target = _TARGET.fullmatch(rest)
        return {"action": kind, "id": int(target[1])} if target and not target[2] else None
    if kind in ("fill", "type", "select"):
        return _with_text(kind, rest, shouted=name.isupper())
    if kind in ("finish", "infeasible"):
        return _ending(kind, written, separator, rest, alone)
    url = _DIRECT_URL.fullmatch(rest) if kind in ("navigate", "new_tab") else None
    return {"action": kind, "url": url[1]} if url else None


def _with_text(kind: str, rest: str, *, shouted: bool) -> dict[str, Any] | None:
    """Read `FILL 3 Ada`, `fill 3 with Ada` or `fill 3 "Ada"`; None for prose such as `Select 3 items from the list`."""
    target = _TARGET.fullmatch(rest)
    if not target:
        return None
    lead_in = _LEAD_IN.match(target[2])
    words = target[2][lead_in.end() if lead_in else 0 :].strip()
    if not (shouted or lead_in or words[:1] in ("[", '"', "'", "`", "“", "‘")):
        return None
    if words[:1] == "[":
        if not words.endswith("]"):
            return None  # the closing bracket is missing
        words = words[1:-1]
    quote = words[:1]
    if quote and quote in "\"'`“‘":
        close = {"“": "”", "‘": "’"}.get(quote, quote)
        if len(words) < 2 or not words.endswith(close):
            return None  # the closing quotation mark is missing or followed by more text
        words = words[1:-1]
    return {"action": kind, "id": int(target[1]), ("options" if kind == "select" else "text"): words} if words else None


def _ending(kind: str, written: str, separator: str, rest: str, alone: bool) -> dict[str, Any] | None:
    """Read `FINISH: the answer`. Prose such as `Finish the form` or `Answer: I think ...` must not end an episode."""
    field = "answer" if kind == "finish" else "reason"
    if not rest:
        plain = written in ("finish", "done", "stop", "terminate", "infeasible") and ":" not in separator
        return {"action": kind, field: ""} if plain and (alone or written == "finish") else None
    labelled = written in ("finish", "infeasible", "stop") and any(mark in separator for mark in ":=;")
    if labelled and len(rest) <= 500:
        return {"action": kind, field: rest.strip("\"'“”`")}
    quoted = rest[0] == '"' and rest[-1] == '"' and len(rest) > 1 and '"' not in rest[1:-1]
    return {"action": kind, field: rest[1:-1]} if written == kind and quoted else None
