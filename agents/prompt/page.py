"""The page as lines of a prompt, with each element's id after its label, and the shortening of long pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from selfsurf.agents.kinds import DEFAULT_KINDS, is_editable
from selfsurf.agents.prompt.tokens import cut
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.outline import parse_line, quote
from selfsurf.browser_env.text import one_line, visible

_OF_PROMPTS = re.compile(
    r"(?:Goal|Page|Done so far|Your steps so far|Events|Since the last action|Tabs|Note|The last action failed"
    r"|Your actions|Action|user|assistant|system): ?|Address: \w+:|Reply with |The user's own instructions"
    r"|Correct action"
    r"|\(\d+ more lines with \d+ elements left out\)"
)
"""Pattern of the line beginnings that prompts use, which page text must not imitate."""


_LISTED = 3000
"""Character limit of a title or an event."""


@dataclass(frozen=True)
class PageLine:
    """One line of the page's outline."""

    text: str
    element_id: int | None = None
    handle: str = ""
    """The end of the text, with the element's id in the form of an action; never cut."""

    def shortened(self, limit: int, count: Callable[[str], int]) -> PageLine:
        """Return the line with at most `limit` tokens before its handle; a note gives the original length."""
        label = self.text.removesuffix(self.handle).rstrip() if self.handle else self.text
        short = cut(label, limit, count)
        return self if short == label else replace(self, text=f"{short} {self.handle}".rstrip())


def page_lines(obs: Observation, kinds: Sequence[str] = DEFAULT_KINDS, goal: str = "") -> list[PageLine]:
    """Return the page's outline with each element's handle after its label, without lines that only repeat the goal.

    Text that imitates a line of the prompt (`Goal: ...`) is quoted, like text that imitates a line of the outline.
    """
    by_id = {element["id"]: element for element in obs["elements"]}
    lines, used = [], set()
    for row in obs["dom"].split("\n"):
        line = parse_line(row)
        element = None if line.id is None else by_id.get(line.id)
        if element and element["id"] not in used and line.text.startswith(element["role"]):
            used.add(element["id"])
            lines.append(_line(f"{' ' * line.indent}{line.text.rstrip()}", element, kinds))
        elif row.strip() and line.words.strip() != goal.strip():
            ours = line.id is None and _OF_PROMPTS.match(line.text)
            lines.append(PageLine(f"{' ' * line.indent}text {quote(line.text)}" if ours else row.rstrip()))
    if not obs["dom"].strip():
        lines += [_line(label(element), element, kinds) for element in obs["elements"]]
    return lines


def handle(element: Element, kinds: Sequence[str] = DEFAULT_KINDS) -> str:
    """Return an element's id in the form of its usual action: `{"click":4}`, `{"fill":3}`, `{"select":5}`.

    A small model that has found the label copies the text after it, which is the first skill it learns; it copies a
    bare id (`link "Eget" id 4`) far less often.
    """
    if "select" in kinds and element["tag"] == "select":
        kind = "select"
    elif "upload" in kinds and "file" in element["states"]:
        kind = "upload"
    elif "fill" in kinds and is_editable(element):
        kind = "fill"
    else:
        kind = "click"
    return f'{{"{kind}":{element["id"]}}}'


def label(element: Element) -> str:
    """Return an element's line in the outline without its id: `button "OK" disabled`."""
    value = f" value={quote(element['value'])}" if element["value"] else ""
    return " ".join([f"{element['role']} {quote(element['name'])}{value}", *element["states"]])


def listed(texts: Iterable[str], separator: str) -> str:
    """Join titles or events, each on one line, and quoted if it contains the separator."""
    shown = (visible(one_line(text, _LISTED)) for text in texts)
    return separator.join(quote(text) if separator.strip() in text or text.startswith('"') else text for text in shown)


def priority(lines: Sequence[PageLine], seen: Sequence[Element]) -> list[int]:
    """Return line numbers by importance: first the viewport, then the lines below, then those above.

    The viewport is the longest run of elements in view. Other elements in view, such as a sticky header, come next.
    """
    elements = [index for index, line in enumerate(lines) if line.element_id is not None]
    visible = {element["id"] for element in seen if element["in_viewport"]}
    runs = [[*run] for shown, run in groupby(elements, lambda at: lines[at].element_id in visible) if shown]
    if not runs:
        passed = {element["id"] for element in seen if element["bbox"][1] + element["bbox"][3] <= 0}
        above = [at for at in elements if lines[at].element_id in passed]
        start = above[-1] + 1 if above else 0
        return [*range(start, len(lines)), *range(start - 1, -1, -1)]
    run = max(runs, key=len)
    start = run[0] if run[0] != elements[0] else 0
    others = [at for one in runs if one is not run for at in one]
    ordered = [*range(start, run[-1] + 1), *others, *range(run[-1] + 1, len(lines)), *range(start - 1, -1, -1)]
    return [*dict.fromkeys(ordered)]


def render(lines: Sequence[PageLine], order: Sequence[int], number: int, *, handles: bool = True) -> str:
    """Return the `number` most important lines in page order, with a note wherever lines are left out.

    Args:
        lines: the lines of the page.
        order: indices of the lines, the most important first.
        number: number of lines to show.
        handles: whether to show the elements' handles, which are needed to act on them.
    """
    kept = set(order[:number])
    parts: list[str] = []
    gap: list[PageLine] = []

    def close() -> None:
        if gap:
            elements = sum(line.element_id is not None for line in gap)
            parts.append(f"({len(gap)} more lines with {elements} elements left out)")
            gap.clear()

    for index, line in enumerate(lines):
        if index in kept:
            close()
            parts.append(line.text if handles else line.text.removesuffix(line.handle).rstrip())
        else:
            gap.append(line)
    close()
    return "\n".join(parts) if parts else "(empty)"


def _line(text: str, element: Element, kinds: Sequence[str]) -> PageLine:
    end = handle(element, kinds)
    return PageLine(f"{text} {end}", element["id"], end)
