"""Pages that show, each by itself, what widgets of many libraries do; the smallest that behave like them."""

from pathlib import Path

import pytest

from tests.in_page import value
from tests.processes import crowd

PAGES = Path(__file__).parents[1] / "pages" / "widgets"


@pytest.fixture
def widget(open_page):
    """Return a function that opens a page of `PAGES`: `env, obs = widget("ro")`."""
    return lambda name: open_page((PAGES / f"{name}.html").read_text(encoding="utf8"))


def test_the_text_of_a_code_editor_is_the_one_that_was_given(widget, by_name):
    env, obs = widget("indent")
    text = "if a:\n    b\n    c\nd"
    obs, *_ = env.step({"action": "fill", "id": by_name(obs, "Code")["id"], "text": text})
    assert (value(env, "e.innerText.trimEnd()"), obs["last_error"]) == (text, "")


@pytest.mark.parametrize(
    ("name", "text", "becomes"),
    [
        ("Date", "2026-03-05", "2026-03-05"),
        ("Date", "03/05/2026", ""),
        ("Time", "01:45 PM", ""),
        ("Time", "13:45", "13:45"),
        ("Month", "2026-03", "2026-03"),
    ],
)
def test_what_is_typed_into_a_native_date_is_its_value_or_refused(widget, by_name, name, text, becomes):
    env, obs = widget("date")
    obs, *_ = env.step({"action": "type", "id": by_name(obs, name)["id"], "text": text})
    assert by_name(obs, name)["value"] == becomes
    assert bool(obs["last_error"]) == (not becomes)
    if not becomes:
        assert "takes 2026-01-31" in obs["last_error"] or "takes 13:45" in obs["last_error"]


def test_a_form_that_the_browser_does_not_send_says_why(widget, by_name):
    env, obs = widget("form")
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Send")["id"]})
    assert "invalid" in by_name(obs, "Name")["states"]
    assert any(event.startswith("form not sent: ") and '"Name"' in event and "fill" in event for event in obs["events"])
    env.step({"action": "fill", "id": by_name(obs, "Name")["id"], "text": "Ada"})
    env.step({"action": "fill", "id": by_name(obs, "Tel")["id"], "text": "abc"})
    obs, *_ = env.step({"action": "fill", "id": by_name(obs, "Num")["id"], "text": "50"})
    assert "10" in obs["last_error"]
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Send")["id"]})
    assert "invalid" in by_name(obs, "Tel")["states"]
    assert "like 123-4567" in " ".join(obs["events"])


@pytest.mark.parametrize(
    ("name", "field", "options", "result"),
    [
        ("ro", "Colour", ["Blue"], ("document.querySelector('input').value", "Blue")),
        ("wrap", "Pet", ["Dog"], ("o.textContent", "Dog")),
        ("norole", "City", ["Rome"], ("o.textContent", "Rome")),
        ("datalist", "Browser", ["Firefox"], ("document.querySelector('input').value", "Firefox")),
        ("closes", "Colours", ["Red", "Blue"], ("o.textContent", "none,Red,Blue")),
    ],
)
def test_options_of_comboboxes_of_every_make_are_selected(widget, by_name, name, field, options, result):
    env, obs = widget(name)
    obs, *_ = env.step({"action": "select", "id": by_name(obs, field)["id"], "options": options})
    assert obs["last_error"] == ""
    assert value(env, result[0]).removeprefix("none,") == result[1].removeprefix("none,")


def test_the_value_of_a_combobox_is_not_all_of_its_options(widget, by_name):
    _, obs = widget("wrap")
    assert by_name(obs, "Pet")["value"] == ""


def test_a_datalist_is_among_the_options(widget, by_name):
    _, obs = widget("datalist")
    assert by_name(obs, "Browser")["options"] == ("Chrome", "Firefox")
    assert 'option "Firefox"' in obs["dom"]


def test_options_of_groups_are_told_apart(widget, by_name):
    env, obs = widget("opt")
    item = by_name(obs, "Item")["id"]
    assert 'group "Trousers"' in obs["dom"]
    obs, *_ = env.step({"action": "select", "id": item, "options": ["Small"]})
    assert obs["last_error"] == (
        f'Element {item} has several options "Small": choose Shirt / Small or Trousers / Small.'
    )
    env.step({"action": "select", "id": item, "options": ["Trousers / Small"]})
    assert value(env, "document.querySelector('select').value") == "t1"
    env.step({"action": "select", "id": item, "options": ["s1"]})
    assert value(env, "document.querySelector('select').value") == "s1"


def test_white_space_is_kept_where_the_page_keeps_it(widget, by_name):
    _, obs = widget("ws")
    assert by_name(obs, "Note")["value"] == "def f():\n    if x:\n        return 1"
    assert "alpha\n    beta" in obs["page_text"].replace("\u00a0", " ")
    assert "one\n    two" in obs["page_text"].replace("\u00a0", " ")


def test_targets_within_a_named_one_have_names_of_their_own(widget):
    env, obs = widget("inner")
    names = [one["name"] for one in obs["elements"]]
    assert names == ["Card of Ann", "Call", "Mail"]
    obs, *_ = env.step({"action": "click", "id": obs["elements"][2]["id"]})
    assert value(env, "o.textContent") == "mail"


def test_a_menu_that_was_announced_is_in_the_next_observation(widget, by_name):
    env, obs = widget("late")
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Actions")["id"]})
    assert by_name(obs, "Copy")


def test_text_slotted_into_a_button_does_not_cover_it(widget, by_name):
    _, obs = widget("slotcov")
    assert "covered" not in by_name(obs, "Save draft")["states"]


def test_a_timer_bar_is_not_waited_for(widget, by_name):
    env, obs = widget("progress")
    *_, info = env.step({"action": "click", "id": by_name(obs, "Save")["id"]})
    assert info["timing"]["settle"] < 1000 * crowd()


def test_a_link_that_leads_nowhere_says_why(make, loopback, by_name):
    gone = loopback(lambda request: b"")
    gone.stop()
    page = loopback(lambda request: f"<a href='{gone.url}/'>Refused</a>".encode())
    env, obs = make(page.url)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Refused")["id"]})
    assert obs["last_error"] == f"{gone.url}/ could not be loaded: ERR_CONNECTION_REFUSED."
    assert not [event for event in obs["events"] if "chrome-error" in event]


def test_a_file_chooser_is_an_event(widget, by_name):
    env, obs = widget("chooser")
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Attach")["id"]})
    assert any("file chooser" in event and "upload" in event for event in obs["events"])


def test_a_placeholder_stands_beside_another_name(widget, by_name):
    _, obs = widget("ph")
    assert 'placeholder="DD/MM/YYYY"' in obs["dom"]


def test_a_drag_holds_still_when_moving_at_once_did_nothing(widget, by_name):
    env, obs = widget("hold")
    card = by_name(obs, "Card")["id"]
    env.step({"action": "drag", "from": card, "to": [300, 200], "hold": 300})
    assert value(env, "o.textContent") == "dropped"
    value(env, "o.textContent = 'none'")
    obs, *_ = env.step({"action": "drag", "from": card, "to": [300, 200]})
    assert (value(env, "o.textContent"), obs["last_error"]) == ("dropped", "")


@pytest.mark.parametrize("closes_after", [5, 60, 150, 250])
def test_a_list_that_closes_after_each_choice_is_opened_again(open_page, by_name, closes_after):
    page = (
        (PAGES / "closes.html")
        .read_text(encoding="utf8")
        .replace("setTimeout(draw,20)", f"setTimeout(draw,{closes_after})")
    )
    env, obs = open_page(page)
    obs, *_ = env.step({"action": "select", "id": by_name(obs, "Colours")["id"], "options": ["Red", "Blue", "Green"]})
    assert (obs["last_error"], value(env, "o.textContent")) == ("", "Red,Blue,Green")
