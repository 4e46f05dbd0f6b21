"""The judge's rules, one by one, on nodes made by hand; then the judge on the hand-made pages in a real browser."""

import gymnasium
import pytest

from selfsurf import browser_env  # noqa: F401
from selfsurf.scripts.observation.chromium_view import collect
from selfsurf.scripts.observation.fidelity import (
    Disagreement,
    Node,
    accepted_roles,
    can_be_acted_on,
    grouped,
    is_interactive,
    judge,
    mean,
    names_agree,
    plain,
    same_name,
    total,
)
from selfsurf.scripts.observation.measure import VIEWPORT, quiet
from selfsurf.scripts.observation.pages.serve import Pages
from selfsurf.scripts.observation.pages.table import SOURCES, choose
from tests.few import few

HARD_NAMES = [page.name.removeprefix("hard-") for page in choose([], "hard")]
BOX = (10.0, 10.0, 50.0, 20.0)


def node(tag="button", role="button", number=1, **more):
    given = {"box": BOX, "ignored": False, "name": "Save", **more}
    return Node(key=(0, number), tag=tag, role=role, **given)


def element(id=1, role="button", name="Save", states=(), in_viewport=True):
    return {"id": id, "role": role, "name": name, "states": states, "in_viewport": in_viewport}


@pytest.mark.parametrize(
    "one",
    [
        node(),
        node("div", "treeitem"),
        node("input", "Date", focusable=True),
        node("summary", "DisclosureTriangle"),
        node("div", "generic", focusable=True, attributes={"tabindex": "0"}),
        node("pre", "Pre", focusable=True, attributes={"tabindex": " 1 "}),
        node("video", "Video", focusable=True),
        node("div", "generic", focusable=True, editable=True, attributes={"contenteditable": ""}),
        node("body", "generic", focusable=True, editable=True),
        node("button", "button", attributes={"tabindex": "-1"}),
        node("li", "option"),
    ],
)
def test_interactive(one):
    assert is_interactive(one)


@pytest.mark.parametrize(
    "one",
    [
        node(ignored=True),
        node(box=None),
        node(inert=True),
        node(built_in=True),
        node("p", "paragraph"),
        node("option", "option", in_select=True),
        node("iframe", "Iframe", focusable=True),
        node("html", "RootWebArea", focusable=True),
        node("body", "generic", focusable=True),
        node("div", "generic", focusable=True),  # it scrolls
        node("div", "generic", focusable=True, attributes={"contenteditable": "false"}),
        node("main", "main", focusable=True, attributes={"tabindex": "-1"}),
    ],
)
def test_not_interactive(one):
    assert not is_interactive(one)


@pytest.mark.parametrize("why", ["clickable", "pointer", "labels", "focusable", "editable"])
def test_what_can_be_acted_on(why):
    assert can_be_acted_on(node("div", "generic", **{why: True}), ())
    assert not can_be_acted_on(node("div", "generic", **{why: True}, shown=False), ())


def test_what_can_not_be_acted_on():
    assert not can_be_acted_on(node("div", "generic"), ())
    assert can_be_acted_on(node("div", "generic", attributes={"draggable": "true"}), ())
    assert can_be_acted_on(node("div", "", attributes={"role": "button"}), ())


def test_inert_is_false_unless_it_is_said():
    inert = node(inert=True, clickable=True)
    assert not can_be_acted_on(inert, ("focused",))
    assert can_be_acted_on(inert, ("disabled",))


def test_roles():
    assert accepted_roles(node("input", "DateTime", attributes={"type": "month"})) == {"month"}
    assert "date" in accepted_roles(node("input", "Date", own_role=True))
    assert "button" in accepted_roles(node("summary", "DisclosureTriangle", own_role=True))
    assert "textbox" in accepted_roles(node("div", "generic", editable=True))
    assert accepted_roles(node("a", "link")) == {"link"}
    assert "link" in accepted_roles(node("a", "doc-noteref"))  # whose superclass it is


def test_plain_names():
    assert plain("  a\n\u00a0b ") == "a b"
    assert plain("\ue900 Home\u200b") == "Home"
    assert same_name("Save  it", "Save it")
    assert not same_name("Save", "Saves")


def test_cut_names():
    long = "word " * 30
    assert same_name(long, long[:60] + "…")
    assert not same_name(long, "other" + long[:60] + "…")
    assert not same_name("More of it", "More…")


def test_text_stands_for_a_name_where_the_role_takes_none():
    text = node("div", "generic", name="", text="Some  text")
    assert names_agree(text, "Some text")
    assert names_agree(text, "")
    assert not names_agree(text, "Other")
    assert not names_agree(node(name="", text="Text"), "Text")


def test_a_field_without_a_name_may_have_that_of_its_host():
    field = node("input", "checkbox", name="", host_name="Agree")
    assert names_agree(field, "Agree")
    assert names_agree(field, "")
    assert not names_agree(field, "Other")
    assert not names_agree(node("input", "checkbox", name="Own", host_name="Agree"), "Agree")
    assert not names_agree(node("input", "checkbox", name=""), "Agree")


def test_what_the_browser_writes_on_a_file_input_is_no_name():
    assert names_agree(node("input", "button", name="Choose File"), "")
    assert not names_agree(node("input", "button", name="Choose File"), "Photo")
    assert not names_agree(node("button", "button", name="Choose File"), "")


def test_title_stands_for_a_name_of_icons():
    icon = node(name="\ue900", attributes={"title": "Undo"})
    assert names_agree(icon, "Undo")
    assert names_agree(icon, "")
    assert not names_agree(icon, "Redo")
    assert not names_agree(node(name="", attributes={"title": "Undo"}), "Undo")


def test_verdict():
    nodes = [
        node(number=1, stamp="1"),
        node(number=2, stamp="2", name="Open"),
        node("a", "link", number=3, name="Home"),
        node("div", "generic", number=4, stamp="4"),
        node("div", "generic", number=5, stamp="5", pointer=True),
    ]
    elements = [
        element(1),
        element(2, role="link", name="Open"),
        element(4, role="generic", name=""),
        element(5, role="generic", name=""),
    ]
    verdict = judge(nodes, elements)
    assert (verdict.judged, verdict.matched, verdict.roles, verdict.names, verdict.both) == (3, 2, 1, 2, 1)
    assert (verdict.elements, verdict.false) == (4, 1)
    assert sorted(one.kind for one in verdict.disagreements) == ["false", "missing", "role"]
    assert verdict.recall == pytest.approx(2 / 3)
    assert not verdict.good


def test_viewport_leaves_out_what_is_elsewhere_on_both_sides():
    nodes = [node(number=1, stamp="1"), node(number=2, box=(0.0, 900.0, 10.0, 10.0), stamp="2")]
    verdict = judge(nodes, [element(1), element(2, in_viewport=False)], "viewport", (1280, 720))
    assert (verdict.judged, verdict.matched, verdict.elements) == (1, 1, 1)


def test_totals():
    whole = judge([node(stamp="1"), *(node(number=n) for n in range(2, 5))], [element(1)])
    small = judge([node(stamp="1")], [element(1)])
    assert total([whole, small]).recall == pytest.approx(2 / 5)
    assert mean([whole, small])["recall"] == pytest.approx((1 / 4 + 1) / 2)


def test_alike_disagreements_are_together():
    many = [Disagreement("missing", node(number=n), "button 'x'", "") for n in range(3)]
    other = Disagreement("missing", node("a", "link"), "link 'y'", "")
    assert [len(group) for group in grouped([other, *many])] == [3, 1]


@pytest.fixture(scope="module")
def verdict_on():
    """Return a function that judges a hand-made page, once for all tests."""
    known = {}
    with Pages() as pages:

        def verdict(name):
            if name not in known:
                url = f"{pages.base(SOURCES['hard'])}/{name}.html"
                env = gymnasium.make(
                    "Browser-v0", start_url=url, viewport=VIEWPORT, stamp_ids=True, screenshot=False, reach=None
                )
                try:
                    observation = quiet(env)
                    known[name] = judge(collect(env.unwrapped.core), observation["elements"])
                finally:
                    env.close()
            return known[name]

        yield verdict


JUDGED = {"inputs": 44, "aria": 40, "names": 66, "shadow": 18, "frames": 25, "listeners": 15, "hidden": 29, "dialog": 3, "popover": 12}  # fmt: skip


@pytest.mark.parametrize("name", few(4, HARD_NAMES))
def test_judge_sees_all_of_a_hard_page(verdict_on, name):
    assert verdict_on(name).judged == pytest.approx(JUDGED[name], abs=1)  # versions of Chromium differ a little


@pytest.mark.parametrize("name", HARD_NAMES)
def test_targets_on_a_hard_page(verdict_on, name):
    verdict = verdict_on(name)
    assert verdict.good, [(one.kind, one.node.html, one.theirs, one.ours) for one in verdict.disagreements]


HOSTS = """<!doctype html><label><x-c></x-c> Agree</label><x-c></x-c><script>
customElements.define("x-c", class extends HTMLElement {
  static formAssociated = true;
  constructor() {
    super();
    this.attachInternals();
    this.attachShadow({mode: "open", delegatesFocus: true}).innerHTML = "<input type=checkbox>";
    this.addEventListener("click", () => 0);
  }
});
</script>"""


def test_chromium_names_the_host_of_a_field(tmp_path):
    page = tmp_path / "hosts.html"
    page.write_text(HOSTS, encoding="utf8")
    env = gymnasium.make("Browser-v0", start_url=page.as_uri(), viewport=VIEWPORT, screenshot=False)
    try:
        observation, _ = env.reset(seed=0)
        fields = [one for one in collect(env.unwrapped.core) if one.tag == "input"]
    finally:
        env.close()
    assert [(one.name, one.host_name) for one in fields] == [("", "Agree"), ("", "")]
    assert [one["name"] for one in observation["elements"] if one["role"] == "checkbox"] == ["Agree", ""]


DAYS = """<!doctype html><table role=grid id=days><tr><th>Mo<td data-date=19>19<td>20</table>
<table role=grid><tr><td data-date=21>21</table>
<script>
  document.querySelectorAll('td').forEach((cell) => { cell.dataset.agentId = cell.textContent; });
  days.addEventListener('pointerdown', (event) => { document.title = `picked ${event.target.dataset.date}`; });
</script>"""


def test_a_cell_that_a_listener_around_it_knows_is_not_false(tmp_path):
    page = tmp_path / "days.html"
    page.write_text(DAYS, encoding="utf8")
    env = gymnasium.make("Browser-v0", start_url=page.as_uri(), viewport=VIEWPORT, screenshot=False)
    try:
        env.reset(seed=0)
        cells = {one.stamp: can_be_acted_on(one, ()) for one in collect(env.unwrapped.core) if one.stamp}
        obs, *_ = env.step({"action": "click", "selector": "[data-date='19']"})
    finally:
        env.close()
    assert cells == {"19": True, "20": False, "21": False}
    assert obs["title"] == "picked 19"


@pytest.mark.slow
def test_frames_in_processes_of_their_own_are_joined():
    with Pages() as pages:
        url = f"{pages.base(SOURCES['hard'])}/frames.html"
        options = {"viewport": VIEWPORT, "stamp_ids": True, "screenshot": False, "reach": None}
        env = gymnasium.make("Browser-v0", start_url=url, switches=("--site-per-process",), **options)
        try:
            observation = quiet(env)
            nodes = collect(env.unwrapped.core)
            assert len({one.key[0] for one in nodes}) > 1
            verdict = judge(nodes, observation["elements"])
        finally:
            env.close()
    assert verdict.judged == pytest.approx(JUDGED["frames"], abs=1)
    assert verdict.good
