import json
import threading
import time

import pytest

from selfsurf.browser_env import Safety, parse_action
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.environment import confirm
from tests.in_page import value

PAGE = """<button onclick="document.title = 'deleted'">Delete account</button><button onclick="document.title = 'read'">Read</button>
    <form onsubmit="document.title = 'paid'; return false"><input aria-label=Number autocomplete=cc-number><input aria-label=Name><button>Continue</button></form>
    <div role=dialog aria-label=Sure>Permanently erase all photos? <button onclick="document.title = 'erased'">OK</button></div>
    <form role=search onsubmit="document.title = 'searched'; return false"><input aria-label=Query><button>Send</button></form>"""


@pytest.fixture
def asked(open_page):
    """Return a function that opens the page with a user who says `answer`: `env, obs, questions = asked(True)`."""

    def open_it(answer, html=PAGE, inner=None, **more):
        questions = []

        def confirm(action, element, risk):
            questions.append(
                (action.name, element["name"] if element else None, risk.kind, threading.current_thread().name)
            )
            return answer() if callable(answer) else answer

        framed = {} if inner is None else {"inner": inner}
        env, obs = open_page(html, options={"safety": Safety(confirm=confirm, **more)}, **framed)
        return env, obs, questions

    return open_it


def test_a_refused_action_does_not_happen(asked, by_name):
    env, obs, questions = asked(False)
    start = obs["title"]
    center = by_name(obs, "Delete account")["bbox"]
    number, name, delete = by_name(obs, "Number"), by_name(obs, "Name"), by_name(obs, "Delete account")
    for action, element, kind in [
        ({"action": "click", "id": delete["id"]}, "Delete account", "delete"),
        ({"action": "click", "x": center[0] + 5, "y": center[1] + 5}, "Delete account", "delete"),
        ({"action": "press", "key": "Enter", "id": delete["id"]}, "Delete account", "delete"),
        ({"action": "fill", "id": number["id"], "text": "4111"}, "Number", "payment"),
        ({"action": "press", "key": "Enter", "id": name["id"]}, "Name", "purchase"),
        ({"action": "click", "id": by_name(obs, "Continue")["id"]}, "Continue", "purchase"),
        ({"action": "click", "id": by_name(obs, "OK")["id"]}, "OK", "delete"),
    ]:
        obs, *_, info = env.step(action)
        assert questions.pop() == (action["action"], element, kind, "confirm")
        assert obs["last_error"].startswith(f"The user did not allow this action ({kind}).")
        assert obs["title"] == start
        assert info["risk"]["kind"] == kind
        assert info["outcome"] == "running"
    assert by_name(obs, "Number")["value"] == ""
    assert env.unwrapped.core.episode.steps == 7


def test_an_allowed_action_happens_and_a_harmless_one_is_not_asked_about(asked, by_name):
    env, obs, questions = asked(True)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Read")["id"]})
    assert obs["title"] == "read"
    obs, *_ = env.step({"action": "fill", "id": by_name(obs, "Query")["id"], "text": "delete"})
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Send")["id"]})
    assert obs["title"] == "searched"
    assert questions == []
    assert "risk" not in info
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Delete account")["id"]})
    assert obs["title"] == "deleted"
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Name")["id"]})
    obs, *_ = env.step({"action": "press", "key": "Enter"})  # wherever the focus is
    assert obs["title"] == "paid"
    assert [kind for *_, kind, _ in questions] == ["delete", "purchase"]


@pytest.mark.parametrize("answer", [lambda: 1 / 0, lambda: time.sleep(2), lambda: "yes", lambda: None])
def test_an_exception_no_answer_or_anything_but_true_refuses(asked, by_name, answer):
    env, obs, _ = asked(answer, confirm_timeout=0.3)
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Delete account")["id"]})
    assert "did not allow" in obs["last_error"]
    assert obs["title"] == "index"
    assert info["outcome"] == "running"


def test_thinking_does_not_count_as_time_of_the_step(open_page, by_name):
    def slow(action, element, risk):
        time.sleep(1.5)
        return True

    env, obs = open_page(PAGE, options={"safety": Safety(confirm=slow), "step_timeout": 1.2})
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Delete account")["id"]})
    assert (obs["title"], info["outcome"]) == ("deleted", "running")


@pytest.mark.parametrize("to", [{"id": 1}, {"x": 20, "y": 20}], ids=["element", "point"])
def test_a_button_is_judged_by_what_it_is_called_now(asked, to):
    env, obs, questions = asked(False, "<button onclick=\"document.title = 'deleted'\">Next page, please</button>")
    assert [one["name"] for one in obs["elements"]] == ["Next page, please"]
    value(env, "document.querySelector('button').textContent = 'Delete all photos'")
    obs, *_ = env.step({"action": "click", **to})
    assert questions == [("click", "Delete all photos", "delete", "confirm")]
    assert obs["title"] == "index"
    value(env, "document.querySelector('button').textContent = 'Next page, please'")
    obs, *_ = env.step({"action": "click", **to})
    assert len(questions) == 1
    assert obs["title"] == "deleted"


TALL = (
    f"""<p>top<div style='height: 9000px'></div>{PAGE}<div onclick="document.title = 'wiped'">Erase everything</div>"""
)


def test_what_the_last_observation_does_not_show_is_read_from_the_page(asked):
    env, obs, questions = asked(False, TALL)
    assert obs["elements"] == ()
    core = env.unwrapped.core
    [delete], [number] = (runtime().run(core.find(text, 0, 1)) for text in ("Delete account", "Number"))
    for action, element, kind in [
        ({"action": "click", "selector": "text=Delete account"}, "Delete account", "delete"),
        ({"action": "click", "id": delete.id}, "Delete account", "delete"),
        ({"action": "press", "id": delete.id, "key": "Enter"}, "Delete account", "delete"),
        ({"action": "fill", "id": number.id, "text": "4111"}, "Number", "payment"),
        ({"action": "click", "selector": "text=Erase everything"}, "Erase everything", "delete"),
        ({"action": "click", "selector": "text=Continue"}, "Continue", "purchase"),
    ]:
        assert runtime().run(core.judge(parse_action(action)))[0].kind == kind
        obs, *_ = env.step(action)
        assert questions[-1:] == [(action["action"], element, kind, "confirm")], (action, obs["last_error"])
        assert obs["title"] == "index"
    value(env, "document.querySelector('button').scrollIntoView()")
    place = json.loads(value(env, "JSON.stringify(document.querySelector('button').getBoundingClientRect())"))
    obs, *_ = env.step({"action": "click", "x": place["x"] + 3, "y": place["y"] + 3})
    assert "did not allow" in obs["last_error"]
    value(env, "document.querySelector('button').focus()")
    env.step({"action": "press", "key": "Enter"})
    assert questions.pop() == ("press", "Delete account", "delete", "confirm")


def test_what_is_in_a_frame_and_not_in_the_last_observation_is_read_there(open_page):
    refuse = Safety(confirm=lambda action, element, risk: False)
    frames = "".join(
        f"<iframe src='{at}inner.html' style='margin-top: 5000px'></iframe>" for at in ("", "http://other.test/")
    )
    env, obs = open_page(
        frames, options={"safety": refuse}, inner="<button onclick=\"document.title = 'gone'\">Delete all</button>"
    )
    assert obs["elements"] == ()
    for index in range(2):
        found = runtime().run(env.unwrapped.core.find("Delete all", 0, 9))
        obs, *_ = env.step({"action": "click", "id": found[index].id})
        assert "(delete)" in obs["last_error"]
    value(env, "document.querySelector('iframe').contentDocument.querySelector('button').focus({preventScroll: true})")
    obs, *_ = env.step({"action": "press", "key": "space"})
    assert "(delete)" in obs["last_error"]
    assert value(env, "document.querySelector('iframe').contentDocument.title") == "inner"


@pytest.mark.parametrize(
    "action",
    [
        *({"action": "press", "key": key} for key in ("\n", "\r", "Return", "ctrl+Enter", "NumpadEnter")),
        *({"action": "press", "key": key, "selector": "text=Delete account"} for key in ("Spacebar", " ", "SPACE")),
        *({"action": "type", "text": text} for text in ("x\n", "x\ny", "x\r", "\r\n")),
        {"action": "press", "key": "a", "selector": "text=Erase everything"},
        {"action": "type", "text": "a", "selector": "text=Erase everything"},
        {"action": "select", "options": "Erase everything", "selector": "text=More"},
    ],
    ids=str,
)
def test_no_spelling_gets_round_the_confirmation(asked, action):
    env, _, questions = asked(
        False,
        f"""{PAGE}<div onclick="document.title = 'wiped'">Erase everything</div>
        <div role=combobox tabindex=0>More</div><script>document.querySelector('form input + input').focus()</script>""",
    )
    obs, *_ = env.step(action)
    assert "did not allow" in obs["last_error"]
    assert len(questions) == 1
    assert obs["title"] == "index"


def test_without_a_callback_it_goes_ahead_and_info_says_so(open_page, by_name):
    env, obs = open_page(PAGE)
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Delete account")["id"]})
    assert obs["title"] == "deleted"
    assert info["risk"] == {
        "kind": "delete",
        "why": "The button 'Delete account' looks like one to delete or cancel something.",
        "confirmed": "automatically",
    }
    _, info = env.reset(seed=0)
    assert "risk" not in info


@pytest.mark.parametrize("name", ["querySelector", "querySelectorAll", "getAttribute", "innerText"])
def test_a_field_named_like_a_property_of_its_form_switches_nothing_off(asked, by_name, name):
    env, obs, questions = asked(
        False,
        f"""<form role=dialog><h2>Sure?</h2><input autocomplete=cc-number aria-label=Number><input type=hidden name={name}>
        <button>Continue</button></form>""",
    )
    for action in (
        {"action": "click", "id": by_name(obs, "Continue")["id"]},
        {"action": "press", "key": "Enter", "id": 1},
    ):
        obs, *_, info = env.step(action)
        assert info["risk"]["kind"] == "purchase", obs["last_error"]
    assert [kind for *_, kind, _ in questions] == ["purchase", "purchase"]


def test_fields_and_buttons_outside_of_their_form_are_its_own(asked, by_name):
    env, obs, questions = asked(
        False,
        """<form id=card onsubmit="return false"><input aria-label=Name></form><input form=card autocomplete=cc-number>
        <button form=card>Continue</button><form id=gone onsubmit="return false"><input aria-label=Why></form>
        <button form=gone>Delete account</button>""",
    )
    for action in (
        {"action": "click", "id": by_name(obs, "Continue")["id"]},
        {"action": "press", "key": "Enter", "id": by_name(obs, "Name")["id"]},
        {"action": "press", "key": "Enter", "id": by_name(obs, "Why")["id"]},
    ):
        obs, *_ = env.step(action)
        assert "did not allow" in obs["last_error"], action
    assert [kind for *_, kind, _ in questions] == ["purchase", "purchase", "delete"]


def test_a_picture_named_like_a_property_of_the_document_switches_nothing_off(asked):
    env, _, questions = asked(
        True, '<img name=activeElement><form onsubmit="return false"><input autocomplete=cc-number id=n>'
    )
    value(env, "n.focus()")  # which the last observation doesn't show
    env.step({"action": "press", "key": "Enter"})
    assert [kind for *_, kind, _ in questions] == ["purchase"]


def test_where_the_surroundings_can_not_be_read_it_is_asked(asked, by_name, monkeypatch):
    monkeypatch.setattr(confirm, "read_script", lambda _: "function () { throw new Error('odd') }")
    env, obs, questions = asked(False)
    for name in ("Continue", "Delete account"):
        obs, *_ = env.step({"action": "click", "id": by_name(obs, name)["id"]})
        assert "did not allow" in obs["last_error"]
    assert [kind for *_, kind, _ in questions] == ["unknown", "delete"]


def test_frames_of_another_origin_are_looked_into(open_page, by_name):
    refuse = Safety(confirm=lambda action, element, risk: False)
    env, obs = open_page(
        "<iframe src='http://other.test/inner.html'></iframe>",
        options={"safety": refuse},
        inner="<input aria-label=i autocomplete=cc-csc>",
    )
    obs, *_ = env.step({"action": "fill", "id": by_name(obs, "i")["id"], "text": "123"})
    assert "(payment)" in obs["last_error"]
    assert by_name(obs, "i")["value"] == ""


@pytest.mark.parametrize("address", ["inner.html", "http://other.test/inner.html"])
def test_a_card_filled_in_in_a_frame_makes_the_pages_continue_a_purchase(asked, by_name, address):
    page = f"<iframe src='{address}'></iframe><form onsubmit='document.title = 1; return false'><button>Continue</button></form>"
    env, obs, questions = asked(lambda: questions[-1][2] == "payment", page, inner="<input aria-label='Card number'>")
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Continue")["id"]})
    assert (obs["title"], questions) == ("1", []), "without a card it is no purchase"
    obs, *_ = env.step({"action": "fill", "id": by_name(obs, "Card number")["id"], "text": "4242 4242 4242 4242"})
    assert obs["last_error"] == ""
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Continue")["id"]})
    assert "did not allow this action (purchase)" in obs["last_error"]


DIALOG = """<button onclick="if (confirm('Pay $50 now?')) document.title = 'paid'">Go on</button>
    <button onclick="if (confirm('Leave the tour?')) document.title = 'left'">Tour</button>
    <button onclick="if (confirm('Delete it? This cannot be undone.')) document.title = 'deleted'">Delete account</button>"""


def test_a_dialog_of_a_script_is_asked_about_by_its_text(asked, by_name):
    env, obs, questions = asked(False, DIALOG)
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Go on")["id"]})
    assert "did not allow this action (purchase)" in obs["last_error"]
    assert "Pay $50 now?" in info["risk"]["why"]
    assert [one[:3] for one in questions] == [("click", "Go on", "purchase")]
    assert obs["title"] == "index"
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Tour")["id"]})
    assert (obs["title"], len(questions)) == ("left", 1)


def test_an_agreed_dialog_is_accepted_and_is_not_asked_about_twice(asked, by_name):
    env, obs, questions = asked(True, DIALOG)
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Go on")["id"]})
    assert (obs["title"], info["risk"]["confirmed"], len(questions)) == ("paid", "by the user", 1)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Delete account")["id"]})
    assert (obs["title"], len(questions)) == ("deleted", 2)
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Go on")["id"]})
    assert len(questions) == 3  # agreement is for one action


def test_a_risky_dialog_is_accepted_where_nobody_is_to_be_asked(open_page, by_name):
    env, obs = open_page(DIALOG)
    obs, *_, info = env.step({"action": "click", "id": by_name(obs, "Go on")["id"]})
    assert (obs["title"], info["risk"]["kind"], info["risk"]["confirmed"]) == ("paid", "purchase", "automatically")


CARD = """<label>Card number <input id=n></label><label>Expiry <input></label>"""


@pytest.mark.parametrize(
    ("html", "button", "filled", "count"),
    [
        (f"<form onsubmit='return false'>{CARD}<button>Submit</button></form>", "Submit", "4111", 1),
        (f"{CARD}<button>Continue</button>", "Continue", "4111", 1),
        (f"<form>{CARD}<button type=button>Continue</button></form>", "Continue", "4111", 1),
        (f"{CARD}<button>Continue</button>", "Continue", "", 0),
        ("<label>Library card <input id=n></label><button>Continue</button>", "Continue", "4111", 0),
        (f"{CARD}<div role=dialog aria-label=Cookies>We use cookies <button>OK</button></div>", "OK", "4111", 0),
        ("<button title='Buy now'>&rarr;</button><i id=n>", "→", "", 1),
        ("<button aria-describedby=n>&rarr;</button><i id=n>Buy now</i>", "→", "", 1),
        ("<button title='Next'>&rarr;</button><i id=n>", "→", "", 0),
    ],
)
def test_filled_cards_and_titles_tell_what_a_button_does(asked, by_name, html, button, filled, count):
    env, obs, questions = asked(False, html)
    value(env, f"n.value = '{filled}'")
    env.step({"action": "click", "id": by_name(obs, button)["id"]})
    assert [kind for *_, kind, _ in questions] == ["purchase"] * count
