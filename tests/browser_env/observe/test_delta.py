import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from selfsurf.browser_env.observe.delta import NO_CHANGE, apply_delta, make_delta
from selfsurf.browser_env.outline import element_line

FORM = """heading "Order" level=1
form
  [1] textbox "Name" value="Ada"
  [2] checkbox "Fast"
  list
    listitem: one
    listitem: two
  [3] button "Buy" disabled
heading "Help" level=2
[4] link "Questions"
text at the end, which is long enough for changes to be shorter than the whole of the page"""

a_row = st.one_of(
    st.text(st.characters(exclude_characters="\n"), max_size=12),
    st.builds(
        lambda depth, text: "  " * depth + text,
        st.integers(0, 3),
        st.sampled_from(["list", "listitem: a", 'heading "H" level=2', "x (was y", " (was (was ", "- x", "line 3:"])
        | st.builds(
            lambda number, name, rest: f"[{number}] link {name}{rest}",
            st.integers(1, 6),
            st.sampled_from(['"A"', '"B (was C)"', '"say \\"hi\\""', ""]),
            st.sampled_from(["", ' value="1"', ' value="2" checked', " disabled", " (was x", " level=2", " level=3"]),
        ),
    ),
)
an_outline = st.lists(a_row, min_size=1, max_size=25).map("\n".join)


@st.composite
def two_outlines(draw):
    """Two outlines, the second made from the first: rows dropped, moved, repeated, changed and added."""
    before = draw(st.lists(a_row, min_size=1, max_size=25))
    after = list(before)
    for _ in range(draw(st.integers(0, 5))):
        start, length, to = draw(st.integers(0, 25)), draw(st.integers(0, 8)), draw(st.integers(0, 25))
        block = after[start : start + length]
        what = draw(st.sampled_from(["drop", "move", "repeat", "add"]))
        if what in ("drop", "move"):
            del after[start : start + length]
        if what == "add":
            block = draw(st.lists(a_row, max_size=4))
        if what != "drop":
            after[to:to] = block
    return "\n".join(before), "\n".join(after)


@settings(max_examples=250, deadline=None)
@given(two_outlines() | st.tuples(an_outline, an_outline) | st.tuples(st.text(), st.text()))
@example(("x (was y\nz", "list\nz"))
@example(("(was y\nz", "list\nz"))
@example(('[1] link "B (was C)"', '[1] link "A"'))
def test_a_delta_is_lossless_and_never_longer_than_the_whole(outlines):
    before, after = outlines
    # Measured so that changes always count as shorter, the form that has to be read back is what is tested.
    changes = make_delta(before, after, count=lambda text: text.startswith("much changed"))
    assert apply_delta(before, changes) == after
    assert apply_delta(before, make_delta(before, after, new_page=True)) == after
    delta = make_delta(before, after)
    assert apply_delta(before, delta) == after
    assert len(delta) <= len(after) + len("much changed, the whole page:\n")
    assert (delta == NO_CHANGE) == (before == after)


def changed(*swaps):
    after = FORM
    for old, new in swaps:
        assert old in after
        after = after.replace(old, new)
    delta = make_delta(FORM, after)
    assert apply_delta(FORM, delta) == after
    return delta.split("\n")


def test_a_changed_element_says_what_it_was():
    assert changed(('[2] checkbox "Fast"', '[2] checkbox "Fast" checked focused')) == [
        "changed:",
        'line 4, in heading "Order" level=1 > form:',
        '~   [2] checkbox "Fast" checked focused (was unchecked, not focused)',
    ]
    assert changed(('value="Ada"', 'value="Eve"'))[2] == '~   [1] textbox "Name" value="Eve" (was value="Ada")'
    assert changed((' value="Ada"', ""))[2] == '~   [1] textbox "Name" (was value="Ada")'
    assert changed((' "Buy" disabled', ' "Pay"'))[2] == '~   [3] button "Pay" (was "Buy", disabled)'
    assert changed(('"Buy" disabled', '"Buy" expanded'))[2].endswith("(was disabled, not expanded)")
    assert make_delta(FORM.replace('"Fast"', '"Fast" collapsed'), FORM.replace('"Fast"', '"Fast" expanded')).endswith(
        '[2] checkbox "Fast" expanded (was collapsed)'
    )
    assert changed(("level=2", "level=3"))[2] == '~ heading "Help" level=3 (was heading "Help" level=2)'


def test_what_came_and_went_stands_where_it_is():
    assert changed(("    listitem: two\n", ""), ("[4] link", '[9] button "New"\n[4] link')) == [
        "changed:",
        'line 7, in heading "Order" level=1 > list:',
        "- listitem: two",
        'line 10, in heading "Help" level=2:',
        '+ [9] button "New"',
    ]


def test_text_that_changed_in_its_place_is_one_line():
    assert changed(("listitem: one", "listitem: three"))[2:] == ["~     listitem: three (was listitem: one)"]


def test_moved_lines_are_referred_to():
    rows = [f'[{i}] link "An entry with a name of some length, number {i}"' for i in range(20)]
    delta = make_delta("\n".join(rows), "\n".join([*rows[12:16], *rows[:12], *rows[16:]]))
    assert delta.split("\n") == [
        "changed:",
        "line 1:",
        '>4 lines from line 13: [12] link "An entry with a name of some…',
        "line 13:",
        "-4 lines, moved",
    ]


def test_many_lines_that_are_gone_are_counted():
    rows = [f"text {i}" for i in range(100)]
    delta = make_delta("\n".join(rows), "\n".join(rows[:10] + rows[70:]))
    assert delta.split("\n")[1:] == ["line 11:", *(f"- text {i}" for i in range(10, 14)), "-56 more lines"]


@pytest.mark.parametrize(
    "delta", ["", "changes", "changed:\nline 90:\n- x", "changed:\n? x", "changed:\nline 11:\n-3 more lines"]
)
def test_what_is_no_delta_of_the_outline_is_refused(delta):
    with pytest.raises(ValueError, match="delta"):
        apply_delta(FORM, delta)


def test_large_outlines_are_quick():
    rows = [row for i in range(10_000) for row in ("listitem", f'  [{i}] link "Entry {i}"', "  text", "  text")]
    after = [*rows[:8000], "new", *rows[8100:30_000], *rows[:200], *rows[30_000:]]
    after[20_000] = after[20_000] + " focused"
    start = time.perf_counter()
    delta = make_delta("\n".join(rows), "\n".join(after))
    assert time.perf_counter() - start < 4  # 0.2 s on an idle machine
    assert apply_delta("\n".join(rows), delta) == "\n".join(after)
    assert len(delta) < 12_000


DELTA = {"obs_mode": "delta"}

TODO = """<h1>To do</h1><form onsubmit="event.preventDefault(); list.append(Object.assign(document.createElement('li'),
 {innerHTML: '<label><input type=checkbox> ' + thing.value + '</label>'})); thing.value = ''">
<label>Thing <input id=thing></label><button>Add</button></form><ul id=list aria-label="Things"></ul>
<h2>Notes</h2><p>Everything here stays as it is, and there is enough of it for changes to be shorter.</p>
<p>A second paragraph of the same kind, so that the outline has some length to it, and a third.</p>
<a href="other.html">Other page</a> <a href="#here">Same page</a> <a href="javascript:history.pushState(0, '', 'x')">Push</a>"""


def steps_of(env, obs, actions):
    """Carry actions out; yield each delta with the outline that it leads to."""
    outline = obs["dom"]
    for action in actions:
        obs, *_ = env.step(action)
        assert obs["last_error"] == ""
        outline = apply_delta(outline, obs["dom"])
        yield obs, outline


def test_a_real_page_is_told_by_its_changes(open_page, by_name):
    env, obs = open_page(TODO, other="<h1>Elsewhere</h1><a href='index.html'>Back</a>", options=DELTA)
    _, first = open_page(TODO, other="<h1>Elsewhere</h1><a href='index.html'>Back</a>")
    assert obs["dom"] == first["dom"]  # the first observation of an episode is whole
    field, add, other, same = (by_name(obs, name)["id"] for name in ("Thing", "Add", "Other page", "Same page"))
    actions = [
        {"action": "fill", "id": field, "text": "Tea"},
        {"action": "click", "id": add},
        {"action": "wait", "ms": 1},
        {"action": "click", "id": same},
        {"action": "click", "id": by_name(obs, "Push")["id"]},
        {"action": "click", "id": other},
    ]
    deltas = []
    for seen, outline in steps_of(env, obs, actions):
        rows = sorted(row.strip() for row in outline.split("\n"))
        assert [row for row in rows if row.startswith("[")] == sorted(map(element_line, seen["elements"]))
        assert 'heading "Notes" level=2' in rows or seen["title"] == "other"
        deltas.append(seen["dom"].split("\n"))
    assert any(line.startswith("~ ") and 'value="Tea"' in line and "without value" in line for line in deltas[0])
    assert any(line.startswith("+ ") and 'checkbox "Tea"' in line for line in deltas[1])
    assert deltas[2] == ["no change"]
    assert deltas[3][0] == deltas[4][0] == "changed:"  # another address, but the same document
    assert deltas[5][:2] == ["new page:", 'heading "Elsewhere" level=1']
    obs, _ = env.reset(seed=0)
    assert obs["dom"] == first["dom"]


def test_reloading_and_other_tabs_are_new_pages(open_page):
    env, obs = open_page(TODO, other=TODO, options=DELTA)
    actions = [
        {"action": "navigate", "url": "http://site.test/index.html"},
        {"action": "new_tab", "url": "http://site.test/other.html"},
        {"action": "focus_tab", "index": 0},
    ]
    assert [obs["dom"].split("\n")[0] for obs, _ in steps_of(env, obs, actions)] == ["new page:"] * 3


@pytest.mark.parametrize("budget", [150, 400])
def test_the_budget_holds_for_whole_pages_and_changes(open_page, budget):
    rows = "".join(
        f"<p style='height:40px'><button onclick='this.remove()'>Button {i}</button></p>" for i in range(100)
    )
    env, obs = open_page(rows, options={**DELTA, "budget": budget})
    assert len(obs["dom"]) <= budget
    actions = [
        {"action": "click", "id": 2},
        {"action": "scroll", "dy": 2000},
        {"action": "navigate", "url": obs["url"]},
    ]
    for seen, outline in steps_of(env, obs, actions):
        assert len(seen["dom"]) <= budget
        assert "left out" in outline


@pytest.mark.slow
def test_a_failed_environment_changes_nothing(open_page):
    env, obs = open_page(TODO + "<button onclick='for(;;);'>Hang</button>", options={**DELTA, "step_timeout": 2.0})
    hang = next(element["id"] for element in obs["elements"] if element["name"] == "Hang")
    env.step({"action": "fill", "id": 1, "text": "x"})
    obs, *_, info = env.step({"action": "click", "id": hang})
    assert info["outcome"] == "env_error"
    assert obs["dom"] == NO_CHANGE


def test_an_unknown_mode_is_refused(open_page):
    with pytest.raises(ValueError, match="obs_mode"):
        open_page("x", options={"obs_mode": "diff"})


def test_between_real_pages_a_delta_is_lossless(open_page):
    pages = sorted((Path(__file__).parents[1] / "pages").glob("*.html"))[::3]
    env, obs = open_page(TODO, **{page.stem: page.read_text(encoding="utf8") for page in pages})
    outlines = [obs["dom"]]
    for page in pages:
        obs, *_ = env.step({"action": "navigate", "url": f"http://site.test/{page.name}"})
        outlines.append(obs["dom"])
    assert len(set(outlines)) > 4
    for before in outlines:
        for after in outlines:
            for target in (after, before + "\n" + after, after + "\n" + before):
                assert apply_delta(before, make_delta(before, target, count=lambda text: text[0] == "m")) == target
