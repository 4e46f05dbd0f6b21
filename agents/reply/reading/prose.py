"""Separation of a reply's own answer from its thinking, and from what it rejects or quotes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from selfsurf.agents.reply.reading.loose_json import LooseObject, inside, objects
from selfsurf.agents.reply.reading.raw_calls import with_json_calls

_THOUGHTS = "think|thinking|thoughts?|reasoning|reflection|scratch_?pad|analysis|plan|memory|observation"
_TAG = re.compile(
    rf"(?i)<\|?(/|end_(?:of_)?)?(?:(?:start|begin)_(?:of_)?|\w{{1,20}}:)?(?:{_THOUGHTS})(?:\s[^<>\n]{{0,80}})?\|?>"
    rf"|\[(/?)THINK\]|◁(/?)think▷|<(?:\|channel|unused\d{{1,4}})>\s*(?:{_THOUGHTS})\b|(<channel\|>|<unused\d{{1,4}}>)"
)
"""Pattern of the beginning or, with a group, the end of thinking: tags of any namespace, or special tokens."""
_OTHER_SPEAKER = re.compile(
    r"<\|im_start\|>\s*(?:user|system)|<\|start_header_id\|>\s*user|\[INST\]|<start_of_turn>\s*user|^(?:Human|User)\s*:",
    re.MULTILINE,
)
_ANSWERS = "action|answer|output|response|command|decision|result|json"
_ASIDES = (
    "thought|thoughts|thinking|reasoning|reason|rationale|explanation|observation|note|plan|history|reflection|"
    "analysis|page|example|examples"
)
_LABEL = re.compile(
    rf"(?im)^[ \t*_#\-]*(?:(?:next|final|my|chosen|correct|the|best)[ \t]+){{0,3}}(?:({_ANSWERS})|(?:{_ASIDES}))"
    r"[ \t*_]*(?:[:：=]|(?<=[\w*_])[ \t]*$)|<(?:(action|answer|tool_call|function_call)>)|\n[ \t]*\n"
)
_NOT = (
    r"(?:\bnot\b|n['’]t\b|\bcannot\b|\bnever\b|\binstead of\b|\brather than\b|\bavoid\b|\bwithout\b|\brefuse to\b"
    r"|\bwrong to\b)"
)
_VERBS = (
    r"(?:do|use|try|click|choose|reply|send|pick|want|write|output|take|perform|execute|call|issue|answer|say|go|pick"
    r"|respond|select|press|doing|using|clicking|trying|sending|writing)"
)
_REJECTED_BEFORE = re.compile(
    rf"(?i){_NOT}(?:\s+(?:to|be|we|i|you|just|simply|ever|going|gonna))*(?:\s+{_VERBS})?"
    r"(?:\s+(?:with|this|the|that|action|actions|a|an|on|as|like|json|anything)){0,3}\s*[:\s`\"'“‘(\[]*"
    r"(?:<\w{1,20}>\s*)?$"
)
_REJECTED_AFTER = re.compile(
    r"(?i)[\s`\"'”’)\].,;]*(?:(?:is|was|would be|seems|looks)\s+(?:not\b|wrong|incorrect|a mistake|bad)|isn['’]t\b|"
    r"wouldn['’]t\b|won['’]t work|does(?: not|n['’]t) work|(?:wait,? )?no,? (?:wait|that)|wait,? no\b|oops\b|"
    r"scratch that|correction\b|actually,? no\b)"
)
_HYPOTHETICAL = re.compile(
    r"(?i)\b(?:could|might|may|would|should|if|whether|unless|until|when|once|after|before|maybe|perhaps|e\.g\.|"
    r"for example)\b[^.!?\n]{0,60}$"
)
_REPORTED = re.compile(
    r"(?i)\b(?:says?|said|reads?|shows?|displays?|contains?|states?|labell?ed|titled|tells?|text|quote|wrote|written|"
    r"called|named|asks?)\b[^\"“\n]{0,40}[\"“][^\"”\n]*$"
)


def without_thinking(text: str) -> tuple[str, bool]:
    """Remove the model's thinking and invented turns of other speakers, and rewrite raw tool calls as JSON.

    A tag inside a strict JSON object is text. A closing tag without an opening one ends thinking that began in the
    prompt; thinking that is never closed reaches to the end.

    Returns:
        The remaining text, and whether thinking was never closed.
    """
    text, unfinished = with_json_calls(text)
    tags = list(_TAG.finditer(text))
    others = list(_OTHER_SPEAKER.finditer(text))
    if not tags and not others:
        return text, unfinished
    spans = [(found.start, found.end) for found in objects(text, sloppy=False)]
    kept: list[str] = []
    position, thinking = 0, False
    for tag in tags:
        if inside(spans, tag.start()):
            continue
        closes = any(tag.groups())
        if closes and not thinking:
            kept = []
        elif not closes and not thinking:
            kept.append(text[position : tag.start()])
        thinking = not closes
        position = tag.end()
    if not thinking:
        kept.append(text[position:])
    rest = "\n".join(kept)
    if others:
        spans = [(found.start, found.end) for found in objects(rest, sloppy=False)]
        cuts = [other.start() for other in _OTHER_SPEAKER.finditer(rest) if not inside(spans, other.start())]
        rest = rest[: cuts[0]] if cuts and rest[: cuts[0]].strip() else rest
    return rest, thinking or unfinished


def after_thinking(text: str) -> str:
    """Return the text after the last end of thinking; empty if there is none."""
    ends = [tag.end() for tag in _TAG.finditer(text) if any(tag.groups())]
    return text[ends[-1] :] if ends else ""


class PositionClassifier:
    """Classifier of positions in a reply by the words around them.

    Args:
        text: the reply without its thinking.
        found: the JSON objects in the reply.
    """

    def __init__(self, text: str, found: Sequence[LooseObject]) -> None:
        self._text = text
        spans = [(one.start, one.end) for one in found]
        self._labels: list[int] = []
        self._ranks: list[int] = []
        for label in _LABEL.finditer(text):
            if inside(spans, label.start()):
                continue
            blank = not label[0].strip()
            if blank and (not self._ranks or self._ranks[-1] == 0):
                continue  # `Action:` also covers text after a blank line
            self._labels.append(label.end())
            self._ranks.append(1 if blank else 0 if label[1] or label[2] else 2)

    def rank(self, position: int) -> int:
        """Return a rank: 0 after a label such as `Action:` or a tag such as `<action>`, 2 after `Thought:`, else 1."""
        index = bisect_right(self._labels, position) - 1
        return self._ranks[index] if index >= 0 else 1

    def rejected(self, start: int, end: int) -> bool:
        """Whether the surrounding words reject the span or attribute it to someone else."""
        before = self._before(start)
        if _REPORTED.search(before):
            return True
        if not before.strip(" \t`*->"):  # `I will not do:` with the action on the next line
            above = self._text[max(start - 300, 0) : start].rstrip(" \t\n`*->").removesuffix("```json").rstrip()
            before = above.rpartition("\n")[2] if above.endswith(":") else ""
        clause = re.split(r"[,.;!?](?=\s)|\bbut\b", before)[-1]
        return bool(_REJECTED_BEFORE.search(clause) or _REJECTED_AFTER.match(self._text, end))

    def hypothetical(self, start: int) -> bool:
        """Whether the words before a position make its sentence hypothetical ("could", "if", "after")."""
        return bool(_HYPOTHETICAL.search(self._before(start)))

    def quoted(self, start: int) -> bool:
        """Whether a quotation is open at a position, judging by its line."""
        before = self._before(start)
        return before.count('"') % 2 == 1 or before.count("“") > before.count("”")

    def _before(self, start: int) -> str:
        """Return the text of the line before a position, at most its last 200 characters."""
        return self._text[max(start - 200, self._text.rfind("\n", 0, start) + 1) : start]
