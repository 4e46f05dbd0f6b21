"""Changes between two outlines (`obs["dom"]` with `obs_mode="delta"`), as readable text that can be applied exactly.

A delta is one of:

    no change

    new page:                               another document; the whole outline follows
    ...

    much changed, the whole page:           the changes would be longer than the outline, which follows
    ...

    changed:
    line 4, in form "Order":                where: the line of the previous outline, and its containers
    ~   [12] checkbox "Fast" checked (was unchecked)
    +   [19] button "Pay"                   new
    - Loading                               gone, shortened if long
    -12 more lines                          gone as well
    >3 lines from line 40: [7] link "A"     moved here unchanged; line 40 of the previous outline and the two after
    line 52:
    -3 lines, moved                         they reappear at a `>`

Lines that are not mentioned stay. `+`, `~` and whole outlines contain their lines exactly, indentation included, so
`apply_delta(previous, make_delta(previous, current)) == current` for any two texts. Line numbers start at 1 and are
those of the previous outline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from selfsurf.browser_env.observe.align import align
from selfsurf.browser_env.outline import ELEMENT, indent_of, parse_line, quote
from selfsurf.browser_env.text import clip

NO_CHANGE = "no change"
NEW_PAGE = "new page:"
WHOLE = "much changed, the whole page:"
CHANGED = "changed:"

_WAS = " (was "
_NOT = {"checked": "unchecked", "disabled": "enabled"}
_OPPOSITE = {"expanded": "collapsed", "collapsed": "expanded"}
_REMOVED_SHOWN = 5
"""Maximum number of consecutive removed lines to list; the rest of a longer run is only counted."""


def make_delta(previous: str, current: str, *, new_page: bool = False, count: Callable[[str], int] = len) -> str:
    """Return the changes from one outline to the next as text.

    Args:
        previous: the previous outline.
        current: the current outline.
        new_page: whether `current` is of another document; then it is returned whole.
        count: measures texts; the shorter of the changes and the whole outline is returned.
    """
    if new_page:
        return f"{NEW_PAGE}\n{current}"
    if previous == current:
        return NO_CHANGE
    whole = f"{WHOLE}\n{current}"
    changes = "\n".join([CHANGED, *_changes(previous.split("\n"), current.split("\n"))])
    return changes if count(changes) < count(whole) else whole


def apply_delta(previous: str, delta: str) -> str:
    """Return the current outline, given the previous outline and the result of `make_delta`.

    Raises:
        ValueError: the text is not a delta, or not a delta of this outline.
    """
    first, _, rest = delta.partition("\n")
    if first in (NEW_PAGE, WHOLE):
        return rest
    if delta == NO_CHANGE:
        return previous
    if first != CHANGED:
        raise ValueError(f"This is not a delta: it begins with {first[:50]!r}.")
    old = previous.split("\n")
    new: list[str] = []
    at = 0
    for number, line in enumerate(rest.split("\n"), 2):
        try:
            at = _apply_line(old, new, at, line)
        except (ValueError, IndexError):
            raise ValueError(f"Line {number} of the delta does not fit the outline: {line[:80]!r}.") from None
    return "\n".join(new + old[at:])


def _apply_line(old: Sequence[str], new: list[str], at: int, line: str) -> int:
    """Apply one line of a delta; return how many lines of the old outline have been consumed."""
    if line.startswith("line "):
        start = int(_number(line[5:])) - 1
        if not at <= start <= len(old):
            raise ValueError(start)
        new.extend(old[at:start])
        return start
    if line.startswith("+ "):
        new.append(line[2:])
        return at
    if line.startswith(">"):
        length, start = int(_number(line[1:])), int(_number(line.split(" from line ", 1)[1])) - 1
        if start + length > len(old):
            raise ValueError(start)
        new.extend(old[start : start + length])
        return at
    if line.startswith("~ "):
        new.append(line[2:].rsplit(_WAS, 1)[0])
        used = 1
    elif line.startswith("- "):
        used = 1
    elif line.startswith("-"):
        used = int(_number(line[1:]))
    else:
        raise ValueError(line)
    if at + used > len(old):
        raise ValueError(at)
    return at + used


def _number(text: str) -> str:
    return text[: next((i for i, letter in enumerate(text) if letter not in "0123456789"), len(text))]


@dataclass(frozen=True)
class _Edit:
    """An edit of a row: kept (`=`), changed (`~`), removed (`-`) or added (`+`), with its index before and after."""

    kind: str
    a: int
    b: int


def _changes(old: list[str], new: list[str]) -> Iterator[str]:
    edits = list(_edits(old, new))
    moves = _moves(old, new, edits)
    moved = {a for start, length in moves.values() for a in range(start, start + length)}
    hunks = [list(run) for same, run in groupby(edits, lambda edit: edit.kind == "=") if not same]
    starts = [(hunk[0].b, indent_of(old[hunk[0].a] if hunk[0].kind != "+" else new[hunk[0].b])) for hunk in hunks]
    for hunk, path in zip(hunks, _paths(new, starts), strict=True):
        yield f"line {hunk[0].a + 1}{', in ' if path else ''}{path}:"
        for kind, run in groupby(hunk, lambda edit: edit.kind):
            if kind == "~":
                yield from (f"~ {new[edit.b]}{_WAS}{_was(old[edit.a], new[edit.b])})" for edit in run)
            elif kind == "-":
                yield from _gone(old, [edit.a for edit in run], moved)
            else:
                yield from _came(old, new, [edit.b for edit in run], moves)


def _edits(old: list[str], new: list[str]) -> Iterator[_Edit]:
    pairs = align([_key(row) for row in old], [_key(row) for row in new])
    a = b = 0
    for i, j in [*pairs, (len(old), len(new))]:
        if _rewritten(old[a:i], new[b:j]):
            yield from (_Edit("~", a + step, b + step) for step in range(i - a))
        else:
            yield from (_Edit("-", gone, b) for gone in range(a, i))
            yield from (_Edit("+", i, came) for came in range(b, j))
        if i < len(old):
            if old[i] == new[j]:
                yield _Edit("=", i, j)
            elif _can_be_read_back(old[i], new[j]):
                yield _Edit("~", i, j)
            else:
                yield from (_Edit("-", i, j), _Edit("+", i + 1, j))
        a, b = i + 1, j + 1


def _key(row: str) -> Hashable:
    """Return a row's identity: depth and id of an element, or the whole text."""
    element = ELEMENT.match(row)
    return element[0] if element else row


def _rewritten(old: list[str], new: list[str]) -> bool:
    """Whether two stretches hold static texts at the same depths with different words."""
    return len(old) == len(new) and all(
        indent_of(before) == indent_of(after)
        and not ELEMENT.match(before)
        and not ELEMENT.match(after)
        and _can_be_read_back(before, after)
        for before, after in zip(old, new, strict=True)
    )


def _can_be_read_back(before: str, after: str) -> bool:
    return (after + _WAS + _was(before, after)).rsplit(_WAS, 1)[0] == after


def _was(before: str, after: str) -> str:
    """Describe how a row was before, as far as it differs from the current row."""
    old, new = parse_line(before).element, parse_line(after).element
    if old is None or new is None:
        return clip(before.strip(), 200)
    was = []
    if old.role != new.role:
        was.append(old.role)
    if old.name != new.name:
        was.append(quote(old.name) if old.name else "without name")
    if old.value != new.value:
        was.append(f"value={quote(old.value)}" if old.value else "without value")
    old_states, new_states = old.states.split(), new.states.split()
    was += [state for state in old_states if state not in new_states]
    old_names = {state.split("=")[0] for state in old_states}
    old_names |= {_OPPOSITE.get(name, name) for name in old_names}
    without = [state for state in new_states if state.split("=")[0] not in old_names]
    was += [_NOT.get(state, f"not {state}") for state in without]
    return ", ".join(was) or clip(before.strip(), 200)


def _moves(old: list[str], new: list[str], edits: list[_Edit]) -> dict[int, tuple[int, int]]:
    """Return moved rows of `old` as (start, number), by the index in `new` of the first row."""
    left: dict[str, list[int]] = defaultdict(list)
    free = {edit.a for edit in edits if edit.kind == "-"}
    for a in sorted(free, reverse=True):
        left[old[a]].append(a)
    came = {edit.b for edit in edits if edit.kind == "+"}
    moves: dict[int, tuple[int, int]] = {}
    taken = -1
    for b in sorted(came):
        if b < taken:
            continue
        best = (0, 0)
        for start in left[new[b]][-8:]:
            length = 0
            while start + length in free and b + length in came and old[start + length] == new[b + length]:
                length += 1
            best = max(best, (length, start))
        length, start = best
        if length > 1 or (length == 1 and ELEMENT.match(new[b])):
            moves[b] = (start, length)
            taken = b + length
            for a in range(start, start + length):
                free.remove(a)
                left[old[a]].remove(a)
    return moves


def _gone(old: list[str], rows: list[int], moved: set[int]) -> Iterator[str]:
    for is_moved, run in groupby(rows, moved.__contains__):
        gone = list(run)
        if is_moved:
            yield f"-{_lines(len(gone))}, moved"
            continue
        shown = len(gone) if len(gone) <= _REMOVED_SHOWN else _REMOVED_SHOWN - 1
        yield from (f"- {clip(old[a].strip(), 80)}" for a in gone[:shown])
        if shown < len(gone):
            yield f"-{len(gone) - shown} more lines"


def _came(old: list[str], new: list[str], rows: list[int], moves: dict[int, tuple[int, int]]) -> Iterator[str]:
    at = rows[0]
    while at <= rows[-1]:
        if at in moves:
            start, length = moves[at]
            yield f">{_lines(length)} from line {start + 1}: {clip(old[start].strip(), 40)}"
            at += length
        else:
            yield f"+ {new[at]}"
            at += 1


def _paths(rows: list[str], places: list[tuple[int, int]]) -> list[str]:
    """Return the headings and containers around each place (index and depth) as text."""
    paths = []
    above: list[tuple[int, bool, str]] = []  # depth, whether it is a heading, text
    at = 0
    for index, place_depth in places:
        for row in rows[at:index]:
            text = row.strip()
            heading = text.startswith("heading ")
            _leave(above, indent_of(row), heading)
            above.append((indent_of(row), heading, text))
        at = index
        inside = above.copy()
        _leave(inside, place_depth, heading=False)
        telling = [text for _, heading, text in inside[:-1] if heading or '"' in text]
        telling += [text for _, _, text in inside[-1:]]
        paths.append(" > ".join(clip(text, 40) for text in telling[-3:]))
    return paths


def _leave(above: list[tuple[int, bool, str]], depth: int, heading: bool) -> None:
    """Drop rows that don't contain a row of this depth. A heading contains rows at its depth up to the next heading."""
    while above and (above[-1][0] > depth or (above[-1][0] == depth and (heading or not above[-1][1]))):
        above.pop()


def _lines(number: int) -> str:
    return f"{number} line{'s' * (number != 1)}"
