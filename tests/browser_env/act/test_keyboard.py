"""Keys and chords as the page hears them."""

import pytest

from selfsurf.browser_env.keys import key_chord
from tests.few import few

LISTEN = """<input id=i aria-label=field><p id=out></p><script>addEventListener('keydown', (e) => { if (['Control', 'Shift', 'Alt', 'Meta'].includes(e.key)) return;
out.textContent = [e.ctrlKey && 'C', e.altKey && 'A', e.metaKey && 'M', e.shiftKey && 'S', e.key, e.code].filter(Boolean).join(' '); if (e.ctrlKey || e.altKey || e.key === 'F5') e.preventDefault() })</script>"""


@pytest.mark.parametrize(
    ("key", "heard"),
    few(
        4,
        [
            ("control+shift+k", "C S K KeyK"),
            ("Control++", "C + Equal"),
            ("cmd+a", "M a KeyA"),
            ("alt+left", "A ArrowLeft ArrowLeft"),
            ("Enter", "Enter Enter"),
            ("Ctrl+Alt+Delete", "C A Delete Delete"),
            ("+", "+ Equal"),
            ("ctrl+plus", "C + Equal"),
            ("F5", "F5 F5"),
            ("shift+f10", "S F10 F10"),
            ("pgdn", "PageDown PageDown"),
            ("space", "Space"),
            ("A", "A KeyA"),
        ],
    ),
)
def test_chords(open_page, key, heard):
    env, _ = open_page(LISTEN)
    obs, *_ = env.step({"action": "press", "key": key, "id": 1})
    assert obs["last_error"] == ""
    assert obs["page_text"].rstrip().endswith(heard)


def test_keys_that_the_page_leaves_to_the_browser_do_what_they_do_there(open_page):
    env, obs = open_page(
        "<p>one<a href=two.html>on</a><script>document.body.append(performance.now())</script>", two="<p>two"
    )
    before = obs["page_text"]
    obs, *_ = env.step({"action": "press", "key": "F5"})
    assert obs["page_text"] != before
    env.step({"action": "click", "selector": "text=on"})
    obs, *_ = env.step({"action": "press", "key": "alt+left"})
    assert (obs["title"], obs["last_error"]) == ("index", "")
    obs, *_ = env.step({"action": "press", "key": "alt+right"})
    assert obs["title"] == "two"
    obs, *_ = env.step({"action": "press", "key": "ctrl+t"})
    assert len(obs["tabs"]) == 2
    obs, *_ = env.step({"action": "press", "key": "ctrl+w"})
    assert len(obs["tabs"]) == 1
    before = obs["page_text"]
    obs, *_ = env.step({"action": "reload"})
    assert (obs["title"], obs["last_error"]) == ("two", "")


def test_spelling_of_chords():
    assert key_chord("ctrl+A") == "Control+a"
    assert key_chord("Option + ESC") == "Alt+Escape"
    assert key_chord("+") == "+"


def test_nothing_stays_held_after_a_chord_that_fails(open_page):
    env, _ = open_page(LISTEN)
    obs, *_ = env.step({"action": "press", "key": "Control+Shift+NoSuchKey"})
    assert "no key 'Control+Shift+NoSuchKey'" in obs["last_error"]
    obs, *_ = env.step({"action": "press", "key": "a", "id": 1})
    assert obs["page_text"].rstrip().endswith("a KeyA")
    assert "C " not in obs["page_text"]


@pytest.mark.parametrize("key", ["Enter+a", "Enter+", "a+b", "Control+"])
def test_only_modifiers_can_be_held(open_page, key):
    env, _ = open_page(f"<button onclick=\"document.title = 'pressed'\">Go</button>{LISTEN}")
    obs, *_ = env.step({"action": "press", "key": key, "selector": "text=Go"})
    assert f"{key!r} is not a chord" in obs["last_error"]
    obs, *_ = env.step({"action": "press", "key": "a", "id": 1})
    assert obs["page_text"].rstrip().endswith("a KeyA")
    assert obs["title"] == "index"


def test_text_of_any_script(open_page, by_name):
    env, obs = open_page(LISTEN)
    for text in ("Ünïcödé ñ", "日本語テキスト", "العربية", "👩‍👩‍👧 🎉", "tab\tless".replace("\t", " ")):
        obs, *_ = env.step({"action": "fill", "id": 1, "text": ""})
        obs, *_ = env.step({"action": "type", "id": 1, "text": text})
        assert by_name(obs, "field")["value"] == text
    obs, *_ = env.step({"action": "press", "id": 1, "key": "é"})
    assert by_name(obs, "field")["value"].endswith("é")


def test_tab_order_space_and_enter(open_page):
    env, _ = open_page(
        """<form onsubmit="document.title = 'sent ' + new URLSearchParams(new FormData(this)); return false">
        <input name=q tabindex=2><input type=checkbox name=c tabindex=1><button tabindex=3>Send</button></form>"""
    )
    env.step({"action": "press", "key": "Tab"})
    env.step({"action": "press", "key": "space"})
    env.step({"action": "press", "key": "Tab"})
    env.step({"action": "type", "text": "hi"})
    obs, *_ = env.step({"action": "press", "key": "Enter"})
    assert obs["title"] == "sent q=hi&c=on"
    env.step({"action": "press", "key": "shift+Tab"})
    env.step({"action": "press", "key": "space"})
    env.step({"action": "press", "key": "Tab"})
    env.step({"action": "press", "key": "Tab"})
    obs, *_ = env.step({"action": "press", "key": "space"})
    assert obs["title"] == "sent q=hi"


def test_editing_keys(open_page, by_name):
    env, obs = open_page(
        "<input value='one two' aria-label=field><div contenteditable role=textbox aria-label=rich>bold</div>"
    )
    for key in ("End", "Control+Backspace", "Home", "Shift+ArrowRight", "Delete"):
        obs, *_ = env.step({"action": "press", "key": key, "id": 1})
    assert by_name(obs, "field")["value"] == "ne "
    obs, *_ = env.step({"action": "press", "key": "Control+z", "id": 1})
    assert by_name(obs, "field")["value"] == "one "
    rich = by_name(obs, "rich")["id"]
    env.step({"action": "press", "key": "Control+a", "id": rich})
    env.step({"action": "press", "key": "Control+b", "id": rich})
    obs, *_ = env.step("page.locator('div b, div strong').click()")
    assert obs["last_error"] == ""


def test_a_key_pressed_at_what_cannot_be_focused_clicks_it_first(open_page):
    env, _ = open_page('<div role=button onclick="document.title=\'clicked\'" onkeydown="">d</div>')
    obs, *_ = env.step({"action": "press", "key": "x", "id": 1})
    assert obs["title"] == "clicked"
