"""What is private is planted everywhere a page or a caller can put it, and looked for in every byte that is written."""

import base64
import html
import json
import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from selfsurf.browser_env.attempts.attempt import Attempt, Evidence, Failure
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.attempts.settings import LogSettings
from selfsurf.browser_env.safety import secrets
from selfsurf.browser_env.safety.numbers import luhn
from selfsurf.browser_env.safety.private_text import mask_private
from selfsurf.browser_env.safety.redaction import Redactor
from selfsurf.browser_env.safety.secrets import Vault

ENCODINGS = {
    "plain": lambda text: text,
    "upper case": str.upper,
    "percent": lambda text: quote(text, safe=""),
    "every byte percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "double percent": lambda text: quote(quote("".join(f"%{byte:02x}" for byte in text.encode()), safe=""), safe=""),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 within": lambda text: base64.b64encode(f"u:{text};".encode()).decode(),
    "base64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "base64, then percent": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal, set apart": lambda text: text.encode().hex(":"),
    "HTML": html.escape,
    "HTML, decimal": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "HTML, hexadecimal": lambda text: "".join(f"&#x{ord(char):x};" for char in text),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON within JSON": lambda text: json.dumps(json.dumps("".join(f"\\u{ord(char):04x}" for char in text)))[3:-3],
    "unicode escapes": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "JavaScript escapes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode("latin1", "replace")),
    "%u": lambda text: "".join(f"%u{ord(char):04x}" for char in text),
    "quoted-printable": lambda text: "".join(f"={byte:02X}" for byte in text.encode()),
}

WRAPS = {
    "text": lambda said: {"role": "StaticText", "name": f"You typed {said} here"},
    "label": lambda said: {"role": "button", "name": said, "description": f"for {said}"},
    "key": lambda said: {"attributes": {f"data-{said}": "x"}},
    "attributes": lambda said: {"tag": "p", "attributes": ["id", "x", "data-user", said, "title", f"({said})"]},
    "query": lambda said: f"http://a.test/p?u={said}&x=1",
    "relative query": lambda said: f'<a href="/p?x=1&amp;u={said}">to</a>',
    "path": lambda said: f"http://a.test/users/{said}/edit",
    "fragment": lambda said: f"http://a.test/#state={said}",
    "user": lambda said: f"http://{quote(said, safe='%')}:pw@a.test/",
    "comment": lambda said: f"<!-- for {said} --><p>hello</p>",
    "markup": lambda said: f"<div data-a='{said}'><b>{said}</b></div>",
    "script": lambda said: f'<script>window.user = "{said}";</script>',
    "cookie": lambda said: f"Set-Cookie: user={said}; Path=/",
    "deep": lambda said: {"children": [{"children": [{"role": "img", "name": said}]}]},
}

KINDS = {
    "secret": lambda body: "Kq7" + body + "!x",
    "value": lambda body: "Vw3" + body + "?y",
    "email": lambda body: f"ada.{re.sub('[^a-z]', 'k', body.lower())}@mail.example.org",
    "card": lambda body: "4539 1488 0343 6467",
}


def everything_said(data):
    """Return bytes as a reader might read them: as they are, and with every encoding undone as far as it goes."""
    text = data.decode()
    said = [text]
    for _ in range(3):
        now = said[-1]
        now = html.unescape(unquote(re.sub(r"%u([0-9a-f]{4})", lambda f: chr(int(f[1], 16)), now)))
        now = re.sub(
            r"\\+u([0-9a-fA-F]{4})|\\+x([0-9a-fA-F]{2})|=([0-9A-F]{2})",
            lambda f: chr(int(f[1] or f[2] or f[3], 16)),
            now,
        )
        said.append(now)
    for word in {word for one in said for word in re.findall(r"[A-Za-z0-9+/_:=-]{8,}", one)}:
        for _ in range(2):
            try:
                if re.fullmatch(r"(?:[0-9a-f]{2}:?)+", word):
                    word = bytes.fromhex(word.replace(":", "")).decode()
                else:
                    word = base64.urlsafe_b64decode(
                        word.translate(str.maketrans("+/", "-_")).rstrip("=") + "=="
                    ).decode()
            except ValueError:
                break
            said.append(word)
    return "\n".join(said).lower()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_private_is_written_wherever_it_is_planted(tmp_path_factory, kind):
    root = tmp_path_factory.mktemp("log")

    @settings(
        max_examples=int(__import__("os").environ.get("EX", "12")),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        body=st.text("abcdefghjkmnpqrstuvwxyzABC23456789äß&/ ", min_size=5, max_size=12).filter(
            lambda text: text == text.strip()
        ),
        encodings=st.lists(st.sampled_from(sorted(ENCODINGS)), min_size=4, max_size=4),
        wraps=st.lists(st.sampled_from(sorted(WRAPS)), min_size=4, max_size=4),
        number=st.uuids(),
    )
    def planted(body, encodings, wraps, number):
        private = KINDS[kind](body)
        secrets._known.clear()
        if kind == "secret":
            Vault({"password": private})
        said = [ENCODINGS[encoding](private) for encoding in encodings]
        pages = [WRAPS[wrap](one) for wrap, one in zip(wraps, said, strict=True)]
        dom = [{"tag": "input", "value": private}, *pages[:2]] if kind == "value" else pages[:2]
        log = FileLog(number.hex, LogSettings(root))
        one = Attempt(
            number.hex,
            "s",
            "a",
            "act",
            "p",
            {"instruction": f"look at {said[0]}", "url": f"http://a.test/?x={said[1]}", "deep": pages},
        )
        log.failed(
            one,
            1.0,
            Failure("unknown", f"It failed on {said[2]}.", False),
            Evidence(f"http://a.test/{said[3]}", None, pages, dom),
        )
        log.fell_back(one, "webview", f"since {said[1]}")
        log.disabled(one, json.dumps(pages))
        log.close(f"failed with {said[0]}")
        assert log.flush(60)
        written = everything_said(b"\n".join(file.read_bytes() for file in log.folder.rglob("*") if file.is_file()))
        for part in (private, private.replace(" ", ""), html.escape(private)):
            assert part.lower() not in written, (encodings, wraps)

    planted()


@pytest.mark.parametrize(
    "record",
    [
        {"attributes": ["data-a", "hunt", "data-b", "er2/secret"]},
        {"attributes": {"data-a": "hunt", "data-b": "er2/sec", "data-c": "ret"}},
        '<p data-a="hunt" data-b="er2/secret">x</p>',
        "<p><b>hun</b><i>ter2</i><u>/secret</u></p>",
        [{"role": "StaticText", "name": "hunter"}, {"role": "StaticText", "name": "2/secret"}],
        {"name": "h u n t e r 2 / s e c r e t"},
        {"name": "hunter2\u200b/\u00adsecret"},
    ],
)
def test_a_value_is_found_though_it_is_split(record):
    for known in (["hunter2/secret"], []):
        redacted = json.dumps(Redactor(known).record(record)).replace("<secret:password>", "")
        assert "hun" not in redacted
        assert "ret" not in redacted
        Vault({"password": "hunter2/secret"})


def test_other_things_that_are_split():
    assert "4539" not in json.dumps(Redactor().record([{"name": part} for part in ("4539", "1488", "0343", "6467")]))
    assert "ada" not in json.dumps(Redactor().record("<b>ada</b>@<b>example.org</b>"))


@pytest.mark.parametrize(
    "snapshot",
    [
        {"role": "textbox", "name": "Name", "value": "Grace Hopper"},
        {"tag": "input", "attributes": {"type": "text", "value": "Grace Hopper"}, "type": "text"},
        {"nodeName": "INPUT", "attributes": ["type", "text", "value", "Grace Hopper"]},
        {"role": {"type": "role", "value": "textbox"}, "name": {"type": "computedString", "value": "Name"}, "value": {"type": "string", "value": "Grace Hopper"}},
        '<form><input name="n" value="Grace Hopper"></form>',
        "<textarea>Grace Hopper</textarea>",
        "<div contenteditable>Grace Hopper</div>",
        '[3] textbox "Name" value="Grace Hopper" focused',
        '- textbox "Name": Grace Hopper',
    ],
)  # fmt: skip
def test_what_a_field_holds_is_masked_there_and_wherever_it_turns_up_later(snapshot):
    redactor = Redactor()
    redactor.learn_from(snapshot)
    seen = json.dumps(redactor.record([snapshot, {"role": "StaticText", "name": "Hello, Grace Hopper!"}]))
    assert "Grace" not in seen
    assert "Hello, <value>!" in seen
    assert redactor.text("no field is named grace%20hopper") == "no field is named <redacted>"


def test_what_is_entered_is_masked_in_arguments_and_in_words():
    redactor = Redactor()
    arguments = {
        "instruction": "Type 'blue whale' into the search field",
        "action": {"action": "fill", "id": 3, "text": "red fox"},
    }
    assert redactor.arguments(arguments) == {
        "instruction": "Type '<value>' into the search field", "action": {"action": "fill", "id": 3, "text": "<value>"},
    }  # fmt: skip
    assert redactor.text("red fox and Blue Whale") == "<value> and <value>"


@pytest.mark.parametrize(
    "text",
    [
        "Timeout 30000ms exceeded: waiting for getByRole('button', name='Save')",
        "http://shop.test/cart/items/12#reviews",
        "The element e17 is covered by div#cookie-banner.",
        "2026-11-25T04:27:59.123Z, order 1234567890123",
        "the-quick-brown-fox-jumps-over-the-lazy-dog and InternationalizationConfigurationProvider",
        "internationalization, accountability, responsibilities, characteristics",
        "The page says: 3 of 4 passed (75%), 100% of a=b? No.",
    ],
)
def test_what_explains_a_failure_is_left(text):
    assert Redactor(["hunter2"]).record(text) == text


def test_private_by_look():
    assert mask_private("mail ada@example.org, card 4111-1111-1111-1111, not 4111-1111-1111-1112") == (
        "mail <email>, card <card>, not 4111-1111-1111-1112"
    )
    assert (
        mask_private("Authorization: Bearer abc.def.ghi password=hunter2")
        == "Authorization: Bearer <redacted> password=<redacted>"
    )
    assert (
        mask_private("https://u:p@a.test/x?q=1&empty=#access_token=z")
        == "https://<redacted>@a.test/x?q=<redacted>&empty=#<redacted>"
    )
    assert luhn("4539 1488 0343 6467")
