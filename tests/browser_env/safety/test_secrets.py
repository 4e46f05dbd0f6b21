import json

import gymnasium
import numpy as np
import pytest

from selfsurf import browser_env
from selfsurf.browser_env import Safety, Secret
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.observe import masking
from selfsurf.browser_env.observe.masking import MASK_COLOUR
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.safety.secrets import Vault, redact_known
from tests.in_page import value

VALUE = "hunter2/ä&x y"


def everything(obs, info=None):
    """Return all that the agent and its user can read of a step, as one text."""
    return repr({key: value for key, value in obs.items() if key != "screenshot"}) + repr(info)


@pytest.mark.parametrize(
    "text",
    [
        VALUE, f"a{VALUE}b", "hunter2%2F%C3%A4%26x%20y", "hunter2%2f%c3%a4%26x%20y", "hunter2%2F%C3%A4%26x+y", "hunter2/ä&amp;x y",
        "HUNTER2/Ä&X Y", "h u n t e r 2 / ä & x y", "hunter2/ä\n  &x y", "aHVudGVyMi/DpCZ4IHk=", "hunter2/\\u00e4&x y", "hunt…", "the hunter2/…",
    ],
)  # fmt: skip
def test_a_value_is_hidden_in_every_form(text):
    seen = Vault({"pw": VALUE}).redact(text)
    assert "<secret:pw>" in seen
    assert "unter" not in seen.lower()


@pytest.mark.parametrize("text", ["hunter", "", "<secret:pw>", "hun ter", "h…"])
def test_what_is_no_value_is_left_alone(text):
    assert Vault({"pw": VALUE}).redact(text) == text


def test_short_values_are_hidden_as_whole_words_only():
    vault = Vault({"cvv": "123"})
    assert vault.redact("code 123, not 51234 or 1 23") == "code <secret:cvv>, not 51234 or 1 23"
    with pytest.raises(ValueError, match="at least 3 characters"):
        Vault({"x": "12"})
    with pytest.raises(ValueError, match="secret's name must consist of letters"):
        Vault({"my pass": "long enough"})


def test_a_name_that_is_a_value_is_no_trouble():
    vault = Vault({"password": "password", "long": "password123"})
    assert vault.redact("password password123") == "<secret:password> <secret:long>"
    assert vault.redact(vault.redact("password")) == "<secret:password>"


def test_values_may_come_from_elsewhere_and_change(monkeypatch):
    codes = iter(["first-code", "second-code"])
    vault = Vault({"code": Secret(lambda: next(codes))})
    assert vault.fill("<secret:code>", "") == "second-code"
    assert vault.redact("first-code second-code") == "<secret:code> <secret:code>"
    monkeypatch.setenv("BANK", "from-the-env")
    assert Vault({"bank": Secret.from_env("BANK")}).fill("<secret:bank>", "") == "from-the-env"
    monkeypatch.delenv("BANK")
    with pytest.raises(ValueError, match="BANK, which should hold a secret, is not set"):
        Vault({"bank": Secret.from_env("BANK")})


def test_a_later_value_is_hidden_whoever_had_the_first_one_too():
    codes = iter(["123456", "123456", "987654"])
    vaults = [Vault({"code": Secret(lambda: next(codes))}) for _ in range(2)]
    assert vaults[1].fill("<secret:code>", "") == "987654"
    assert redact_known("987654") == "<secret:code>"


@pytest.mark.parametrize("first", ["hunt", "hunter"])
def test_what_was_only_the_beginning_of_a_value_is_forgotten_in_any_order(first):
    vault = Vault({})
    for typed in ("hunt", "hunter", "hunter22"):
        assert vault.learn("password", typed)
    for beginning in (first, *{"hunt", "hunter"} - {first}):
        vault.forget("password", beginning)
    assert vault.redact("hunt hunter hunter22") == "hunt hunter <secret:password>"


def test_values_are_in_no_repr():
    safety = Safety(secrets={"a": VALUE, "b": Secret(VALUE)})
    assert "hunter" not in repr(safety) + repr(Secret(VALUE)) + repr(Vault(safety.secrets))


@pytest.fixture
def private(open_page):
    def open_it(html, **secrets):
        secrets = secrets or {"password": VALUE}
        return open_page(html, options={"safety": Safety(secrets=secrets), "screenshot": True})

    return open_it


ECHO = """<form><input aria-label=secret oninput="
    window.typed = value; document.title = 'now ' + value; shown.textContent = 'You typed ' + value; other.value = value;
    a.value = value.slice(0, 5); b.value = value.slice(5); parts.innerHTML = '<b>' + value.slice(0, 4) + '</b><i></i>';
    parts.lastChild.textContent = value.slice(4); history.replaceState(0, 0, '?q=' + encodeURIComponent(value)); labelled.setAttribute('aria-label', 'For ' + value);
    setTimeout(() => { throw new Error('bad ' + value) }); alert('typed ' + value)">
    <input id=other aria-label=other><input id=a aria-label=a><input id=b aria-label=b><button type=button id=labelled>x</button></form>
    <p id=shown style='margin:0'></p><p id=parts></p><p>Bystander</p>"""


@pytest.mark.parametrize("way", ["fill", "type"])
def test_it_is_typed_but_never_seen(private, by_name, way):
    env, obs = private(ECHO)
    before = obs["screenshot"]
    obs, *_, info = env.step({"action": way, "id": by_name(obs, "secret")["id"], "text": "<secret:password>"})
    assert obs["last_error"] == ""
    assert env.unwrapped.core.episode.last_action.text == "<secret:password>"
    for _ in range(2):
        assert "unter" not in everything(obs, info)
        obs, *_, info = env.step({"action": "wait", "ms": 50})
    assert "unter" not in everything(obs, info)
    assert obs["title"] == "now <secret:password>"
    assert by_name(obs, "secret")["value"] == by_name(obs, "other")["value"] == "<secret:password>"
    assert by_name(obs, "a")["value"] == by_name(obs, "b")["value"] == "<secret:password>"
    assert by_name(obs, "For <secret:password>")
    assert "Bystander" in obs["page_text"]
    assert obs["url"].endswith("?q=<secret:password>")
    typed = browser_env.browser.runtime.runtime().run(env.unwrapped.core.session.active.page.evaluate("window.typed"))
    assert typed == VALUE
    # Painted: every field and text that shows it; not painted: the text that does not.
    painted = np.all(obs["screenshot"] == MASK_COLOUR, axis=2)
    for name in ("secret", "other", "a", "b"):
        x, y, width, height = (round(v) for v in by_name(obs, name)["bbox"])
        assert painted[y + 1 : y + height - 1, x + 1 : x + width - 1].all(), name
    assert obs["screenshot"].shape == before.shape
    rows = painted.any(axis=1)
    assert rows.sum() < 120
    assert not painted[200:].any()


def test_text_is_painted_in_frames_too(open_page):
    inner = f"<meta charset=utf-8><body style='margin:0'><p style='margin:0;font:20px monospace'>{VALUE.replace('&', '&amp;')}</p>"
    _, obs = open_page(
        "<body style='margin:0'><iframe src='inner.html' style='position:absolute;left:50px;top:100px;border:0'></iframe>"
        "<iframe src='http://other.test/inner.html' style='position:absolute;left:50px;top:300px;border:0'></iframe>",
        options={"safety": Safety(secrets={"password": VALUE}), "screenshot": True},
        inner=inner,
    )
    assert "unter" not in everything(obs)
    painted = np.all(obs["screenshot"] == MASK_COLOUR, axis=2)
    assert painted[105:118, 55:150].all()
    assert painted[305:318, 55:150].all()
    assert not painted[:95].any()
    assert painted.sum() < 2 * 30 * 250


@pytest.mark.parametrize("name", ["childNodes", "nodeType"])
def test_text_is_painted_in_a_form_with_a_field_named_like_its_property(private, name):
    text = VALUE.replace("&", "&amp;")
    _, obs = private(
        f"<meta charset=utf-8><body style='margin:0;font:20px monospace'><form><input type=hidden name={name}>{text}</form>"
    )
    assert np.all(obs["screenshot"] == MASK_COLOUR, axis=2)[5:18, 5:150].all()


def test_a_page_can_not_pretend_to_be_of_another_domain(open_page):
    env, _ = open_page(
        """<input id=i><iframe name=ownerDocument srcdoc="<a id=defaultView href=http://other.test/>x</a>"></iframe>""",
        options={"safety": Safety(secrets={"pw": Secret("correct horse", domains=("other.test",))})},
    )
    value(env, "i.focus()")  # which the last observation doesn't show
    obs, *_ = env.step({"action": "type", "text": "<secret:pw>"})
    assert (value(env, "i.value"), obs["last_error"] != "") == ("", True)


def test_unknown_placeholders_and_other_actions(private, by_name):
    env, obs = private("<input aria-label=i>")
    obs, *_ = env.step({"action": "fill", "id": 1, "text": "<secret:pin>"})
    assert obs["last_error"] == "There is no secret 'pin'; the available secrets: password."
    assert by_name(obs, "i")["value"] == ""
    obs, *_ = env.step({"action": "navigate", "url": "http://site.test/?<secret:password>"})
    assert obs["last_error"] == "Secrets can only be typed, with fill or type."


def test_secrets_stay_on_their_domains(open_page, by_name):
    safety = Safety(secrets={"pw": Secret("correct horse", domains=("other.test",))})
    env, obs = open_page(
        "<input aria-label=own><iframe src='http://other.test/inner.html'></iframe>",
        options={"safety": safety},
        inner="<input aria-label=theirs>",
    )
    refused = "The secret 'pw' must not be typed on site.test; it is for other.test."
    own, theirs = by_name(obs, "own")["id"], by_name(obs, "theirs")["id"]
    obs, *_ = env.step({"action": "fill", "id": own, "text": "<secret:pw>"})
    assert obs["last_error"] == refused
    obs, *_ = env.step({"action": "click", "id": own})
    obs, *_ = env.step({"action": "type", "text": "<secret:pw>"})  # wherever the focus is
    assert obs["last_error"] == refused
    obs, *_ = env.step({"action": "fill", "id": theirs, "text": "<secret:pw>"})
    assert obs["last_error"] == ""
    assert by_name(obs, "theirs")["value"] == "<secret:pw>"
    obs, *_ = env.step({"action": "navigate", "url": "http://other.test/inner.html"})
    obs, *_ = env.step({"action": "fill", "id": by_name(obs, "theirs")["id"], "text": "<secret:pw>"})
    assert obs["last_error"] == ""


CLOSED = """<div id=host></div><script>const root = host.attachShadow({mode: 'closed'});
    root.innerHTML = "PART"; window.part = root.firstChild</script>"""
TAKES_FOCUS = (
    "<script>onmessage = () => { (window.i || document.body).focus(); parent.postMessage('taken', '*') }</script>"
)


@pytest.mark.parametrize("place", ["in the page", "in a closed root"])
@pytest.mark.parametrize("inner", ["<input id=i>", "<input id=i style='position:fixed;left:-9999px'>", "<script>document.designMode = 'on'</script>"])  # fmt: skip
def test_the_focus_may_move_into_a_frame_after_the_page_was_seen(open_page, place, inner):
    frame = "<iframe src='http://other.test/inner.html' width=0 height=0></iframe>"
    env, _ = open_page(
        "<input id=own autofocus>" + (frame if place == "in the page" else CLOSED.replace("PART", frame)),
        options={"safety": Safety(secrets={"pw": Secret("correct horse", domains=("site.test",))})},
        inner=inner + TAKES_FOCUS,
    )
    obs, *_ = env.step({"action": "type", "text": "<secret:pw>"})
    assert (value(env, "own.value"), obs["last_error"]) == ("correct horse", "")
    taken = "new Promise((done) => { onmessage = done; frames[0].postMessage(0, '*') }).then(() => 0)"
    value(env, taken.replace("frames[0]", "(window.part || document.querySelector('iframe')).contentWindow"))
    obs, *_ = env.step({"action": "type", "text": "<secret:pw>"})
    assert obs["last_error"] == "The secret 'pw' must not be typed on other.test; it is for site.test."


def test_a_secret_may_be_typed_wherever_the_focus_is_on_its_own_domain(open_page, by_name):
    safety = Safety(
        secrets={"own": Secret("horse one", ("site.test",)), "theirs": Secret("horse two", ("other.test",))}
    )
    env, obs = open_page(
        CLOSED.replace("PART", "<input>") + "<iframe src='http://other.test/inner.html'></iframe>",
        options={"safety": safety},
        inner="<input aria-label=theirs>",
    )
    value(env, "part.focus()")
    obs, *_ = env.step({"action": "type", "text": "<secret:own>"})
    assert (value(env, "part.value"), obs["last_error"]) == ("horse one", "")
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "theirs")["id"]})
    obs, *_ = env.step({"action": "type", "text": "<secret:theirs>"})
    assert (by_name(obs, "theirs")["value"], obs["last_error"]) == ("<secret:theirs>", "")


def test_a_domain_may_be_one_with_its_port(make, loopback):
    server = loopback(lambda request: b"<input autofocus>")
    other = loopback(lambda request: b"<input autofocus>")
    here = server.url.rpartition("//")[2].strip("/")
    env, _ = make(server.url, safety=Safety(secrets={"pw": Secret("correct horse", (here,))}))
    for action in ({"action": "fill", "id": 1}, {"action": "type"}):
        obs, *_ = env.step({**action, "text": "<secret:pw>"})
        assert (obs["last_error"], "<secret:pw>" in obs["dom"]) == ("", True)
    env.step({"action": "navigate", "url": other.url})
    obs, *_ = env.step({"action": "type", "text": "<secret:pw>"})
    assert "must not be typed on 127.0.0.1" in obs["last_error"]


def test_it_is_in_no_exception_and_no_episode_on_disk(private, tmp_path):
    class Broken(browser_env.Task):
        async def setup(self, page, rng):
            raise RuntimeError(f"can't log in with {VALUE}")

        def oracle(self, obs):
            return browser_env.parse_action({"action": "message", "text": VALUE, "reason": f"since it is {VALUE}"})

        async def score(self, page, episode):
            return browser_env.Score(details={"said": VALUE})

    env = gymnasium.make("Browser-v0", task=Broken(), safety=Safety(secrets={"password": VALUE}))
    with pytest.raises(browser_env.EnvError) as caught:
        env.reset(seed=0)
    assert "<secret:password>" in str(caught.value)
    assert caught.value.__cause__ is None
    assert "hunter" not in repr(caught.value)
    Broken.setup = browser_env.Task.setup
    obs, _ = env.reset(seed=0)
    assert "unter" not in repr(env.unwrapped.privileged())
    after, reward, *_, info = env.step({"action": "message", "text": f"it is {VALUE}"})
    assert "unter" not in everything(after, info)
    writer = EpisodeWriter(tmp_path / "episode", {"goal": f"Log in with {VALUE}"})
    writer.step(
        obs,
        {"action": "message", "text": VALUE},
        reward=reward,
        info=info,
        after=after,
        policy={"prompt": f"say {VALUE}"},
    )
    writer.finish("stopped", trainable=False, after=after)
    for file in (tmp_path / "episode").rglob("*.json*"):
        assert "unter" not in file.read_text(), file
    assert json.loads((tmp_path / "episode" / "episode.json").read_text())["goal"].startswith("Log in with <secret:")
    env.close()


def test_a_frame_that_does_not_answer_is_painted_over(open_page, monkeypatch):
    monkeypatch.setattr(masking, "_FRAME_BOUND", 0.3)
    env, _ = open_page(
        "<iframe src='http://other.test/inner.html' style='position:absolute;left:50px;top:100px;border:0'></iframe>",
        options={"switches": ("--site-per-process",)},
        inner="<script>onmessage = () => { const end = Date.now() + 3000; while (Date.now() < end); }</script>",
    )
    value(env, "document.querySelector('iframe').contentWindow.postMessage(1, '*')")
    boxes = runtime().run(masking.secret_boxes(env.unwrapped.core.session.active, ["nothing"]))
    assert boxes == [(50, 100, 300, 150)]


def test_a_text_that_is_found_does_not_show_what_fields_hold_jointly(private):
    env, _ = private(
        f"<meta charset=utf-8><input value='{VALUE[:5]}'><input value='{VALUE[5:].replace('&', '&amp;')}'><button>Go</button>"
    )
    for seen in (env.unwrapped.find("Go", around=2), env.unwrapped.paged_scan()):
        assert "r2/" not in repr(seen)
        assert "<secret:password>" in repr(seen)


def test_a_scan_of_the_page_does_not_show_it(private):
    env, _ = private(f"<p>{VALUE.replace('&', '&amp;')}</p><button>Go</button>".replace("ä", "&auml;"))
    scan = env.unwrapped.paged_scan()
    assert "unter" not in repr(scan)
    assert "<secret:password>" in repr(scan)
    with pytest.raises(ValueError, match="A scan with secrets can't have screenshots"):
        env.unwrapped.paged_scan(screenshots=True)
