"""Evidence of real pages: nothing is masked on a page without secrets, and planted secrets are masked everywhere."""

import io
import json
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from PIL import Image

from selfsurf.browser_env import Safety
from selfsurf.browser_env.attempts.attempt import Attempt, Evidence, Failure
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.attempts.settings import LogSettings
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.observe.masking import MASK_COLOUR, secret_boxes
from selfsurf.browser_env.router import evidence
from selfsurf.browser_env.router.evidence import Sight, collect
from selfsurf.browser_env.safety.numbers import is_ean, luhn
from selfsurf.browser_env.safety.redaction import Redactor
from selfsurf.tasks import miniwob, scenarios
from tests.few import few

ROOT = Path(__file__).parents[3]
ROWS = range(1, 121)


def each(row, numbers=ROWS):
    return "".join(row.format(n=n, day=n % 28 + 1, price=n * 37 % 9000 + 1000, id=20000000 + n * 7919) for n in numbers)


ARTICLES = [f"4006381{number:06}" for number in range(100, 400) if luhn(f"4006381{number:06}")]
"""Numbers of articles that have a card's check digit."""
BARE = [digits for number in range(4000) if luhn(digits := f"400638{number:07}") and is_ean(digits)]
ORDERS = [
    digits for start in ("31000", "500123", "4001234", "530001234")
    for number in range(400) if luhn(digits := f"{start}{number:08}") and not is_ean(digits)
]  # fmt: skip
"""Numbers of a length that the issuer doesn't give, with a card's check digit."""
GENERATED = {
    "list": "<ul>" + each("<li>Item {n} <span>2026-11-{day:02}</span> <b>{price}</b> <button>Buy</button></li>") + "</ul>",
    "price table": "<table><tr><th>Item<th>Day<th>Price<th>Stock</tr>"
    + each("<tr><td>Item {n}<td>2026-11-{day:02}<td>{price}<td>{price}</tr>") + "</table>",
    "table of numbers alone": "<table>" + each("<tr><td>{price}<td>{price}<td>{price}<td>{price}</tr>") + "</table>",
    "calendar": "<table>" + "".join("<tr>" + "".join(f"<td><a href='#{w}'>{w * 7 + d + 1}</a>" for d in range(7)) + "</tr>" for w in range(5)) + "</table>",
    "calendar of spans": "<div>" + "".join(f"<span>{day}</span>" for day in range(1, 32)) + "</div>",
    "pages": "<nav>" + " ".join(f"<a href='?p'>{page}</a>" for page in range(1, 41)) + "</nav>",
    "orders": "<ol>" + each("<li><a href='/orders/{id}'>Order {id}</a>, customer <i>{price}-{n}</i>, ref 0151-{id}</li>") + "</ol>",
    "prices in spans": "<div>" + each("<span>{price}</span><span>{n}</span><span>{price}</span>") + "</div>",
    "axis": "<div><span>4000</span> <span>3000</span> <span>2000</span> <span>1000</span></div><p>4000 3000 2000 1000",
    "options": "<label>Year <select>" + each("<option>{price}</option>") + "</select></label>",
    "times": "<p>" + each("<time>2026-11-{day:02} 12:30</time>, 17644{id} ms, <code>0.{id}{id}</code><br>"),
    "articles": "<ul>" + "".join(f"<li>{name} {digits}" for name in ("EAN", "GTIN:", "ISBN-13") for digits in ARTICLES) + "</ul>",
    "articles without a name": "<ul>" + "".join(f"<li>{digits}" for digits in BARE) + "</ul>",
    "numbers of orders": "<ul>" + "".join(f"<li>Order {digits}" for digits in ORDERS) + "</ul>",
    "lines": "<p>" + each("{price}<br>") + "</p><pre>" + each("{price}\n") + "</pre>",
}  # fmt: skip
KEPT = sorted((ROOT / "tests/browser_env/pages").glob("*.html"))
PAGES = {**GENERATED, **{path.stem: path.read_text(encoding="utf8") for path in KEPT}}


def look(env):
    core = env.unwrapped.core
    tab = core.session.active
    sight = Sight(tab.protocol, tab.screenshot, lambda: secret_boxes(tab, core.vault.patterns, private=True))
    root = runtime().run(tab.protocol.send("Runtime.evaluate", {"expression": "document.body"}))["result"]["objectId"]
    node = runtime().run(tab.protocol.send("DOM.describeNode", {"objectId": root}))["node"]["backendNodeId"]
    sight.nodes = [node]
    return runtime().run(collect(sight, url=tab.page.url, failed=True, screenshot=True)), tab


@pytest.fixture(autouse=True)
def plenty_of_time(monkeypatch):
    monkeypatch.setattr(evidence, "SECONDS", 30.0)


def without_values(node):
    """What a slider or a button holds is masked as any field's value is, and so are values in a frame's address."""
    if isinstance(node, dict):
        return {key: without_values(value) for key, value in node.items() if key not in ("value", "src")}
    return [without_values(item) for item in node] if isinstance(node, list) else node


def test_there_are_twenty_pages():
    assert len(PAGES) >= 20


@pytest.mark.parametrize("page", few(10, PAGES))
def test_a_page_without_secrets_stays_as_it_is(open_page, page):
    env, _ = open_page(PAGES[page])
    found, tab = look(env)
    assert found.cut == ()
    redactor = Redactor()
    redactor.learn_from(found.tree, found.dom)
    assert without_values(redactor.record(found.tree)) == without_values(found.tree)
    assert without_values(redactor.record(found.dom)) == without_values(found.dom)
    fields = runtime().run(tab.page.evaluate(
        "Array.from(document.querySelectorAll('input, textarea, select, [contenteditable]')).length"
    ))  # fmt: skip
    if not fields and "frame" not in page and "shadow" not in page:
        assert runtime().run(secret_boxes(tab, (), private=True)) == []


def changes(before, after):
    """Return the texts that differ, from a snapshot to the same one after redaction."""
    if isinstance(before, dict):
        return [change for key in before for change in changes(before[key], after[key])]
    if isinstance(before, list):
        return [change for pair in zip(before, after, strict=True) for change in changes(*pair)]
    return [] if before == after else [before]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_pages_of_tasks_stay_as_they_are_but_for_addresses_and_telephone_numbers():
    masked = {}
    for name in [
        *(f"MiniWoB/{one}-v0" for one in miniwob.names()),
        *(f"Scenario/{one}-v0" for one in scenarios.names()),
    ]:
        env = gymnasium.make(name)
        env.reset(seed=3)
        found, _ = look(env)
        env.close()
        redactor = Redactor()
        redactor.learn_from(found.tree, found.dom)
        for before in (without_values(found.tree), without_values(found.dom)):
            if texts := changes(before, without_values(redactor.record(before))):
                masked.setdefault(name, set()).update(texts)
    assert masked == {"MiniWoB/phone-book-v0": {"984-914-7095", "sta7017@gmail.se"}}


HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
PLANTED = {
    "card": "4539148803436467",
    "card, spaced": "4539 1488 0343 6467",
    "card, dashed": "4539-1488-0343-6467",
    "Amex": "3782 822463 10005",
    "card over spans": "<span>4539</span> <span>1488</span> <span>0343</span> <span>6467</span>",
    "card over spans without blanks": "<span>4539</span><span>1488</span><span>0343</span><span>6467</span>",
    "card with a bold part": "45<b>39</b> 1488 0343 6467",
    "card broken in the source": "4539\n    1488 0343\n6467",
    "German IBAN": "DE89 3704 0044 0532 0130 00",
    "British IBAN": "GB29NWBK60161331926819",
    "French IBAN": "FR14 2004 1010 0505 0001 3M02 606",
    "Norwegian IBAN": "NO93 8601 1117 947",
    "IBAN over spans": "<span>DE89</span> <span>3704</span> <span>0044</span> <span>0532</span> <span>0130</span> <span>00</span>",
    "IBAN after its name": "IBAN: DE89 3704 0044 0532 0130 00",
    "IBAN after its name over spans": "IBAN: <span>NL91</span> <span>ABNA</span> <span>0417</span> <span>1643</span> <span>00</span>",
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "hex in a path": f"http://a.b/reset/{HEX}",
    "bound secret": "hunter2/secret",
    "bound secret over spans": "<span>hunter</span><span>2/secret</span>",
    "password": "password=swordfish9",
    "e-mail address": "<b>ada</b>@<b>example.org</b>",
    "tel: link": "<a href='tel:+49301234567'>+49 30 1234567</a>",
    "tel: link with words": "<a href='tel:+49301234567'>Call <b>030</b> 123 45 67</a>",
    "named number": "Telefon: +49 151 2345678",
    "named number, French": "Tél. : 01 23 45 67 89",
    "named number, Russian": "Телефон: 8 912 345 67 89",
    "number of a messenger": "WhatsApp: +49 151 2345678",
    "named number without a colon": "Phone +49 30 1234567",
    "American number without a colon": "Mobile 984-914-7095",
    "named number over spans": "<span>Phone</span> <span>(030)</span> <span>1234567</span>",
}  # fmt: skip
LEFT = {"IBAN after its name": "IBAN: ", "IBAN after its name over spans": "IBAN: ", "hex in a path": "http://a.b/reset/", "password": "password=", "named number": "Telefon: ",
        "named number, French": "Tél. : ", "named number, Russian": "Телефон: ", "number of a messenger": "WhatsApp: ", "named number without a colon": "Phone ",
        "American number without a colon": "Mobile ", "named number over spans": "Phone ",
        "tel: link with words": "Call "}  # fmt: skip


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_secret_is_masked_in_line_tree_dom_and_picture(open_page, tmp_path, kind):
    page = f"<meta charset=utf-8><body style='margin:0;font:16px monospace'><p>Before</p><p><span id=it>{PLANTED[kind]}</span></p><p>After 12"
    options = {"safety": Safety(secrets={"password": "hunter2/secret"})}
    env, _ = open_page(page, options=options)
    found, tab = look(env)
    shown = runtime().run(tab.page.evaluate("document.querySelector('#it').innerText"))
    log = FileLog("run", LogSettings(tmp_path / "log"))
    attempt = Attempt("run", "s", "a", "act", "p", {"instruction": f"look at {shown}"})
    log.failed(
        attempt, 1.0, Failure("unknown", f"It failed on {shown}.", False), Evidence("", None, found.tree, found.dom)
    )
    log.close("failed")
    assert log.flush(60)
    written = "\n".join(file.read_text() for file in log.folder.rglob("*") if file.is_file())
    parts = re.findall(r"[A-Za-z0-9]{3,}", shown.removeprefix(LEFT.get(kind, "")))
    for part in parts:
        assert not re.search(rf'(?<![0-9A-Za-z]){part}(?![0-9A-Za-z])', re.sub(r'"(node|ts|durationMs|toolArgsHash)": "?[^",]*"?|<[a-z:]+>|span', "", written)), part  # fmt: skip
    assert "Before" in written
    assert "After 12" in written
    if kind in LEFT:
        assert LEFT[kind].strip() in written
    pixels = np.asarray(Image.open(io.BytesIO(found.screenshot)).convert("RGB"))
    rects = runtime().run(tab.page.evaluate(
        """(left) => {
            const texts = document.createTreeWalker(document.querySelector('#it'), NodeFilter.SHOW_TEXT), out = [];
            for (let at = 0, text; (text = texts.nextNode()); at += text.data.length) {
                if (!text.data.trim() || at + text.data.length <= left) continue;
                const range = document.createRange();
                range.selectNodeContents(text);
                if (at < left) range.setStart(text, left - at);
                const r = range.getBoundingClientRect();
                out.push([r.x, r.y, r.width, r.height].map(Math.round));
            }
            return out;
        }""", len(LEFT.get(kind, "")),
    ))  # fmt: skip
    assert rects
    for x, y, width, height in rects:
        assert (pixels[y : y + height, x : x + width] == MASK_COLOUR).all(), (x, y, width, height)
    bare = (pixels != MASK_COLOUR).any(axis=2)
    assert bare[: rects[0][1] - 2].all()
    assert bare[rects[-1][1] + rects[-1][3] + 2 :].all()


def test_a_card_in_four_fields_is_masked(open_page):
    page = "<form>Card " + "".join(f"<input size=4 value={part}>" for part in (4539, 1488, 2343, 6467)) + "</form>"
    found, tab = look(open_page(page)[0])
    markup = runtime().run(tab.page.evaluate("document.body.innerHTML"))
    redactor = Redactor()
    redactor.learn_from(markup, found.tree, found.dom)
    for part in ("4539", "1488", "2343", "6467"):
        assert part not in json.dumps(redactor.record([markup, found.tree, found.dom]))
    assert len(runtime().run(secret_boxes(tab, (), private=True))) == 4


def test_a_telephone_number_of_a_link_is_masked_in_the_names_around_it(open_page):
    page = "<table border=1><tr><th>Who<th>Phone</tr><tr><td>Ada<td><a href='tel:+49301234567'>030/123 45 67</a></tr></table>"
    found, _ = look(open_page(page)[0])
    redactor = Redactor()
    redactor.learn_from(found.tree, found.dom)
    seen = json.dumps(redactor.record([found.tree, found.dom]))
    assert "123 45" not in seen
    assert "49301234567" not in seen
    assert "Ada" in seen
    assert redactor.text("dial 030 1234567") != "dial 030 1234567"


def shown_as(env, tab, found, redactor):
    """Return the tree and the DOM after redaction, and for each element of class n whether the picture hides it all."""
    redactor.learn(found.values)
    redactor.learn_from(found.tree, found.dom)
    boxes = runtime().run(secret_boxes(tab, (), private=True))
    rects = runtime().run(tab.page.evaluate(
        """Array.from(document.querySelectorAll('.n')).map((el) => {
            const range = document.createRange();
            range.selectNodeContents(el);
            const r = range.getBoundingClientRect();
            return [r.x, r.y, r.width, r.height];
        })"""
    ))  # fmt: skip
    hidden = [
        any(a <= x + 1 and b <= y + 1 and a + c >= x + w - 1 and b + d >= y + h - 1 for a, b, c, d in boxes)
        for x, y, w, h in rects
    ]
    return json.dumps([redactor.record(found.tree), redactor.record(found.dom)]), hidden


NUMBER = "<b class=n>612 345 678</b>"
BESIDE_ITS_NAME = {
    "cell": f"<table><tr><td>Name<td>Ada<tr><td>Phone<td>{NUMBER}</table>",
    "cell without a prefix": "<table><tr><th>Tél.<td class=n>612345678</table>",
    "two in a cell": f"<table><tr><th>Mobile phone:<td>{NUMBER}<br>{NUMBER}</table>",
    "column": f"<table><thead><tr><th>Who<th>Phone<th>Age<tbody><tr><td>Ada<td>{NUMBER}<td>36<tr><td>Bob<td>{NUMBER}<td>40</table>",
    "column of cells": f"<table><tr><td>Who<td>WhatsApp<tr><td>Ada<td>{NUMBER}</table>",
    "column of roles": f"<div role=table><div role=row><div role=columnheader>Telefon</div></div><div role=row><div role=cell>{NUMBER}</div></div></div>",
    "column of a table within a table": f"<table><tr><td><table><tr><th>A<th>Phone<tr><td>x<td>{NUMBER}</table></table>",
    "description": f"<dl><dt>Phone<dd>{NUMBER}<dd>{NUMBER}</dl>",
    "spans": f"<span>Telefon</span> <span>{NUMBER}</span>",
    "block": f"<div><div>Mobile</div> <div>{NUMBER}</div></div>",
}  # fmt: skip
BESIDE_OTHERS = {
    "amounts": "<table><tr><td>Mobile<td class=n>1,234,567<td class=n>12.345.678,00</table>",
    "date": "<p>Mobile</p><p class=n>2026-11-30</p><p>Phone</p><p class=n>30.11.2026</p>",
    "address": "<dl><dt>Mobile<dd class=n>192.168.178.21</dl>",
    "next row": "<table><tr><td>A<td>Phone<tr><td class=n>7654321<td>x</table>",
    "first column": "<table><tr><td>Mobile<td>5<tr><td class=n>7654321<td>x</table>",
    "short": "<p>Phone</p><p class=n>12345</p>",
    "words": "<p>Phone</p><p class=n>7654321 items</p><p class=n>iPhone 0151234567</p>",
    "another table": "<table><tr><th>Phone</table><table><tr><th>Order<tr><td class=n>7654321</table>",
}  # fmt: skip


@pytest.mark.parametrize("where", BESIDE_ITS_NAME)
def test_a_telephone_number_beside_its_name_is_masked(open_page, where):
    env, _ = open_page(f"<meta charset=utf-8><p>Before 12</p>{BESIDE_ITS_NAME[where]}<p>After 612</p>")
    found, tab = look(env)
    seen, hidden = shown_as(env, tab, found, Redactor())
    assert not re.search(r"345.?678", seen)
    assert "Before 12" in seen
    assert "After 612" in seen
    assert hidden
    assert all(hidden)
    markup = runtime().run(tab.page.evaluate("document.body.innerHTML"))
    assert not re.search(r"345.?678", Redactor().record(markup))
    text = runtime().run(tab.page.evaluate("document.body.innerText"))
    if "column" not in where and where != "spans":
        redactor = Redactor()
        redactor.learn_from(text)
        assert not re.search(r"345.?678", redactor.record([text])[0])


@pytest.mark.parametrize("where", BESIDE_OTHERS)
def test_other_numbers_beside_a_telephones_name_stay(open_page, where):
    env, _ = open_page(BESIDE_OTHERS[where])
    found, tab = look(env)
    redactor = Redactor()
    seen, hidden = shown_as(env, tab, found, redactor)
    assert seen == json.dumps([found.tree, found.dom])
    assert not any(hidden)
    for read in ("innerHTML", "innerText"):
        text = runtime().run(tab.page.evaluate(f"document.body.{read}"))
        assert Redactor().record(text) == text


@pytest.mark.parametrize(
    ("known", "spelled"),
    [
        ("<a href='tel:+49301234567'>Call</a>", ["030 1234567", "(030) 123-4567", "+49 (0)30 123 45 67", "0049 30 1234567"]),
        ("<a href='tel:030-1234567'>Call</a>", ["+49 30 1234567", "030/1234567"]),
        ("<a href='tel:+1-984-914-7095'>Call</a>", ["(984) 914-7095", "984.914.7095", "+1 984 914 7095"]),
        ("<p>Phone</p><p>030 1234567</p>", ["+49 30 123 45 67"]),
        ("<input type=tel value='+49 30 1234567'>", ["030 1234567"]),
        ("<input value='Grace Hopper'><input readonly value='Zwiebelstadt'>", ["Grace Hopper", "Zwiebelstadt"]),
    ],
)  # fmt: skip
def test_a_known_number_or_value_is_masked_elsewhere_on_the_page(open_page, known, spelled):
    page = (
        known + "".join(f"<p>so <b class=n>{one}</b> it is</p>" for one in spelled) + "<p>5301234567, 300 1234567</p>"
    )
    env, _ = open_page(page)
    found, tab = look(env)
    seen, hidden = shown_as(env, tab, found, Redactor())
    for one in spelled:
        assert one[-6:] not in seen.replace("5301234567, 300 1234567", "")
    assert "5301234567, 300 1234567" in seen
    assert all(hidden)


def test_what_a_field_holds_is_masked_in_a_log_wherever_the_page_repeats_it(open_page, tmp_path):
    env, _ = open_page("<input value='Grace Hopper'><select><option>Berlin</select><p>Dear Grace Hopper of Berlin")
    found, _ = look(env)
    log = FileLog("run", LogSettings(tmp_path / "log"))
    log.failed(Attempt("run", "s", "a", "act", "p", {}), 1.0, Failure("unknown", "No Grace Hopper", False), found)
    log.close("failed")
    assert log.flush(60)
    written = "\n".join(file.read_text() for file in log.folder.rglob("*.json*"))
    assert "Grace" not in written
    assert "of Berlin" in written


def test_numbers_are_no_text_in_a_snapshot_but_are_in_an_action():
    tree = [
        {
            "role": "cell",
            "node": 4539,
            "box": [1488, 343, 6467, 4539148803436467],
            "children": [{"role": "row", "node": 7}],
        }
    ]
    assert Redactor(["45391488"]).record(tree) == tree
    for given in (
        {"number": 4539148803436467},
        {"deep": [{"card": 4539148803436467.0}]},
        {"see": "no. 4539148803436467"},
    ):
        assert "4539" not in json.dumps(Redactor().arguments(given))
    assert "4539" not in json.dumps(Redactor().record({"actions": [{"action": "click", "x": 4539148803436467}]}))


@pytest.mark.parametrize(
    "host",
    ["a.b", "a.b:8443", "sub.domain-24.example.co.uk", "xn--mnchen-3ya.de", "[2001:db8::1]:8080", "10.0.0.1", "localhost:1",
     "münchen.de", "d111111abcdef8a1b2c3d4e5f6a7b8c9.cdn.test", "4539148803436467.test"],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["http", "https", "ws"])
@pytest.mark.parametrize(
    "rest", [f"/reset/{HEX}", f"/a-b/3/{HEX}?q=1", f"/?token={HEX}#access_token={HEX}", f"/x#{HEX}"]
)
def test_the_host_stays_whole(host, scheme, rest):
    for said in ("{}", "see {}.", "({}), then", '"{}"', "token: {}", "<a href='{}'>x</a>", "url={}\nmore"):
        text = Redactor(["reset", "example", "localhost"]).text(said.format(f"{scheme}://{host}{rest}"))
        assert f"{scheme}://{host}/" in text, text
        assert HEX not in text
        assert "fresh" not in Redactor().text(said.format(f"{scheme}://{host}/?ab=fresh1#cd=fresh2"))
    text = Redactor().text(f"{scheme}://ada:hunter2@{host}{rest}")
    assert text.startswith(f"{scheme}://<redacted>@{host}/")
