"""What is written as a line of an outline is read as what it was; whatever is read is written again unchanged."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from selfsurf.browser_env.outline import (
    ELEMENT,
    ElementText,
    OutlineLine,
    element_line,
    parse_line,
    parse_outline,
    with_focus,
    without_focus,
)
from tests.few import few

HOSTILE = [
    '"', '\\"', "\\", "\\\\u0041", "\n", "\r\n", "\x00", "\x1f", "\x7f", "\x85", "\u2028", "\ud800", "[3] link", "  ",
    ' value="x"', '" value="', "value=", " (was ", "/", "é", "😀", "checked", "\t", "A" * 40, "[", "]", "0",
]  # fmt: skip
text = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=3), max_size=5).map("".join)
roles = st.sampled_from(["button", "link", "menuitemcheckbox", "graphics-symbol", "generic"])
states = st.lists(
    st.sampled_from(["checked", "focused", "level=2", "red circle 16x16 at 30,82.5", "covered"]), max_size=3
)
ids = st.integers(0, 2**53)


def element(id, role, name="", value="", states=()):
    return {"id": id, "role": role, "name": name, "value": value, "states": tuple(states)}


@given(st.integers(0, 9), ids, roles, text, text, states)
def test_an_element_is_read_as_what_was_written(depth, id, role, name, value, states):
    row = "  " * depth + element_line(element(id, role, name, value, states))
    assert "\n" not in row
    line = parse_line(row)
    assert line.element == ElementText(role, name, value, " ".join(states))
    assert line == OutlineLine(2 * depth, id, str(line.element))
    assert str(line) == row


pieces = st.sampled_from(
    ['[1] link "A"', "[1] ", "link", ' "A"', ' "\\u0041"', ' ""', " value=", '"', "checked", " ", "[07] x"]
)
any_row = st.text() | st.lists(pieces | text, max_size=6).map("".join)


@given(any_row)
@example("[3] ")
@example("[3] link ")
@example("[03] link")
@example("[٣] link")
@example(f"[{'9' * 5000}] link")
@example('[3] link "A"x value="1"')
@example('[3] link "" value=""')
@example('[3] link "\\u0041" value="\\/"')
@example('[3] link value="1" value="2"')
def test_whatever_is_read_is_written_again_unchanged(row):
    line = parse_line(row)
    assert str(line) == row
    assert line.element is None or str(line.element) == line.text
    assert (line.id is not None) == (ELEMENT.match(row) is not None)
    assert "\n".join(map(str, parse_outline(row))) == row


def test_text_that_no_element_is_written_as_is_no_element():
    for row in ("[3]", "[03] link", "[-3] link", "[٣] link", "[3]link", "see [3] link", f"[{'9' * 17}] link"):
        assert parse_line(row) == OutlineLine(0, None, row)
    assert parse_line("[3] ").element is None


@pytest.mark.parametrize(
    "page", few(4, sorted((Path(__file__).parent / "pages").glob("*.html"))), ids=lambda page: page.stem
)
def test_every_page_is_read_as_its_elements(open_page, page):
    _, obs = open_page(page.read_text(encoding="utf8"), options={"reach": None})
    lines = parse_outline(obs["dom"])
    assert "\n".join(map(str, lines)) == obs["dom"]
    seen = {line.id: line for line in lines if line.id is not None}
    assert seen.keys() == {element["id"] for element in obs["elements"]}
    for element in obs["elements"]:
        states = " ".join(element["states"])
        assert seen[element["id"]].element == (element["role"], element["name"], element["value"], states)


def test_the_focus_can_be_left_out_and_moved():
    dom = 'text focused\n  [1] textbox "focused" focused required\n  [2] button "Go" value="focused"'
    assert without_focus(dom) == 'text focused\n  [1] textbox "focused" required\n  [2] button "Go" value="focused"'
    assert (
        with_focus(dom, 2)
        == 'text focused\n  [1] textbox "focused" required\n  [2] button "Go" value="focused" focused'
    )
    assert with_focus(with_focus(dom, 2), None) == without_focus(dom)
    assert without_focus(dom, ids=False) == 'text focused\n  textbox "focused" required\n  button "Go" value="focused"'
