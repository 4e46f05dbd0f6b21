"""A text is found in the branches of a page that may have it, with the same result as in the whole page."""

import contextlib
import random

import gymnasium
import pytest

from selfsurf.browser_env import Safety
from selfsurf.browser_env.environment import page_queries
from tests.few import few

WORDS = ["Mug", "blue", "Pan", "order", "4711", "Straße", "käse", "Σίσυφος", "12", "19", "teapot", "mugs", "Lid"]
STYLES = [
    "", "", "", "display:flex", "display:none", "visibility:hidden", "display:contents", "display:inline-block",
    "float:left;width:16px;height:16px;background:#123456", "overflow:auto;height:60px", "content-visibility:hidden",
    "text-transform:uppercase", "position:absolute;top:0;left:0", "cursor:pointer", "height:0;overflow:hidden",
]  # fmt: skip

STYLE = "<style>.told::before { content: 'Mug ' }</style>"  # in each tree: within one pass a class has it, or hasn't


class Page:
    """A page of random parts, the more so the deeper."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ids = 0

    def text(self):
        chosen = " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, 3)))
        if self.random.random() < 0.2:  # a word in two parts, with something hidden between them perhaps
            at = self.random.randint(1, len(chosen))
            between = self.random.choice(["", "<i hidden>Lid</i>", "<br>", "<script>1</script>", "&shy;"])
            chosen = f"<b>{chosen[:at]}</b>{between}{chosen[at:]}"
        return chosen

    def plain(self):
        return " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, 2)))

    def id(self):
        self.ids += 1
        return f"e{self.ids}"

    def some(self, depth, least=1, most=4):
        return "".join(self.part(depth - 1) for _ in range(self.random.randint(least, most)))

    def part(self, depth):
        one, two = self.id(), self.id()
        style = self.random.choice(STYLES)
        leaves = [
            lambda: f"<p style='{style}'>{self.text()}</p>",
            lambda: self.text() + " ",
            lambda: f"<div style='{style}'></div>",
            lambda: (
                f"<label for={one} style='{style}'>{self.text()}</label><div>-</div><input id={one} value='{self.plain()}'>"
            ),
            lambda: f"<label>{self.text()}<input type=checkbox></label>",
            lambda: f"<input id={one} type=checkbox hidden><label for={one}>{self.text()}</label>",
            lambda: (
                f"<span id={one}>{self.text()}</span><div><p>x</p><button aria-labelledby={one}>{self.text()}</button></div>"
            ),
            lambda: f"<input placeholder='{self.plain()}' aria-describedby={one}><p id={one} hidden>{self.text()}</p>",
            lambda: f"<select><option>{self.plain()}<optgroup label='{self.plain()}'><option>{self.plain()}</select>",
            lambda: f"<input list={one}><datalist id={one}><option>{self.plain()}</datalist>",
            lambda: f"<a href=# title='{self.plain()}'>{self.text()}</a> <button>{self.text()}</button>",
            lambda: f"<img alt='{self.plain()}' width=9 height=9>",
            lambda: (
                f"<img usemap=#{two} width=50 height=50 alt=x><map name={two}><area href=# coords=0,0,9,9 alt='{self.plain()}'></map>"
            ),
            lambda: f"<h{self.random.randint(1, 6)}>{self.text()}</h1>",
            lambda: f"<textarea>{self.plain()}\n{self.plain()}</textarea><progress value=0.19></progress>",
            lambda: (
                f"<svg width=60 height=60><text y=20 onclick=''>{self.plain()}</text><rect width=19 height=12 onclick=''/></svg>"
            ),
            lambda: f"<p class=told>{self.text()}</p>",
            lambda: f"<div contenteditable>{self.text()}</div>",
        ]
        if depth <= 0 or self.random.random() < 0.3:
            return self.random.choice(leaves)()
        boxes = [
            lambda: f"<div style='{style}'>{self.some(depth)}</div>",
            lambda: f"<div style='{style}'>{self.some(depth)}</div>",
            lambda: f"<ul>{''.join(f'<li>{self.some(depth, most=2)}</li>' for _ in range(self.random.randint(1, 5)))}</ul>",
            lambda: "<table>" + "".join(
                f"<tr><td>{self.text()}<td><a href=#>{self.text()}</a><td>{self.some(depth, most=2)}" for _ in range(6)
            ) + "</table>",
            lambda: f"<a href=#><div>{self.some(depth)}</div></a>",
            lambda: f"<fieldset><legend>{self.text()}</legend>{self.some(depth)}</fieldset>",
            lambda: f"<form><input name=firstElementChild><input name=localName>{self.some(depth)}</form>",
            lambda: f"<details {self.random.choice(['', 'open'])}><summary>{self.text()}</summary>{self.some(depth)}</details>",
            lambda: f"<section aria-label='{self.plain()}'>{self.some(depth)}</section>",
            lambda: f"<div><template shadowrootmode={self.random.choice(['open', 'closed'])}>{STYLE}<p>{self.text()}</p><slot></slot>"
            f"<p>{self.text()}</p></template>{self.some(depth)}</div>",
            lambda: f"<iframe height=200 srcdoc=\"{STYLE}{self.some(depth).replace(chr(34), '&quot;')}\"></iframe>",
            lambda: f"<div onclick='1' style='{style}'>{self.some(depth)}</div>",
        ]  # fmt: skip
        return self.random.choice(boxes)()

    def html(self):
        parts = "".join(self.part(4) for _ in range(14))
        return (
            f"<!doctype html><meta charset=utf-8><title>Page</title>{STYLE}<div style='height:1500px'>top</div>{parts}"
        )

    def query(self):
        text = " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, 2)))
        start = self.random.randint(0, 1)
        return self.random.choice([text, text.upper(), text[start:], text[: max(2, len(text) - start)], f'"{text}'])


@pytest.fixture(scope="module")
def env():
    env = gymnasium.make("Browser-v0", start_url="about:blank", screenshot=False)
    env.reset(seed=0)
    yield env
    env.close()


@pytest.mark.parametrize("seed", few(3, range(40)))
def test_the_branches_have_what_the_whole_page_has(env, loopback, monkeypatch, seed):
    page = Page(seed)
    html = page.html().encode()
    env.reset(options={"start_url": loopback(lambda request: html).url})
    found = 0
    for number in range(20):
        text, around, most = page.query(), page.random.choice([0, 1, 1, 4]), page.random.choice([1, 3, 20, 20])
        with monkeypatch.context() as patched:
            patched.setattr(page_queries, "SCALES", (None,))
            whole = env.unwrapped.find(text, around=around, most=most)
        assert env.unwrapped.find(text, around=around, most=most) == whole, (seed, number, text, around, most)
        found += len(whole)
    assert found > 20


def test_a_secret_that_fields_hold_jointly_is_masked_in_the_branches(loopback):
    rows = "".join(f"<p>Row {i} <button>Buy</button></p>" for i in range(300))
    page = f"{rows}<input aria-label=First value=12345>{rows}<input aria-label=Second value=6789>{rows}".encode()
    safety = Safety(allowed=("127.0.0.1",), secrets={"pin": "123456789"})
    with contextlib.closing(gymnasium.make("Browser-v0", screenshot=False, safety=safety)) as env:
        env.reset(seed=0, options={"start_url": loopback(lambda request: page).url})
        for name in ("First", "Second"):
            (found,) = env.unwrapped.find(name)
            assert 'value="<secret:pin>"' in found.line


ROWS = """<label for=first>First</label><input id=first><table id=rows></table><script>
document.getElementById('rows').innerHTML = Array.from({length: 2000}, (_, i) => `<tr><td>Row ${i}<td>Ada ${i} Row
<td>R<b>e</b>f <i>${i}</i>/<u>${i % 7}</u><td><a href=x aria-label='Open the file ${i}'>+</a>
<td><span id=n${i}>Sell</span> <button id=b${i} aria-labelledby='b${i} n${i}' aria-label='Row ${i}'>-</button>
<td><input type=checkbox aria-label=Choice ${i % 500 ? '' : 'checked'}>`).join('')
</script>"""

QUERIES = [
    "Row 150", "Row 1999", "row", "150", "ada", "Ada 19", "a", "Ref 1234/", "ef 77", "Open the file 19", "file 1999",
    "1200 Sell", "checked", "table", "checkbox", "cell", "Search", 'link "Open', "15 0", "/", '"', "nowhere",
]  # fmt: skip


@pytest.mark.parametrize("queries", few(1, [QUERIES[::4], QUERIES]), ids=["some", "all"])
def test_one_pass_over_branches_suffices_for_rows_of_cells(env, loopback, monkeypatch, queries):
    env.reset(options={"start_url": loopback(lambda request: ROWS.encode()).url})
    for text in queries:
        results = []
        for scales in ((None,), page_queries.SCALES[:1]):
            monkeypatch.setattr(page_queries, "SCALES", scales)
            results.append(env.unwrapped.find(text))
            monkeypatch.undo()
        assert results[0] == results[1], text
        assert bool(results[0]) == (text not in ("Search", "15 0", "nowhere")), text


FAR = "<div style='height:5000px'>" + "".join(f"<p>Line {i}</p>" for i in range(100)) + "</div>"
SPILLED = {
    "absolute": "<div><button style='position:absolute;left:20px;top:20px'>Pay</button></div>",
    "moved": "<div style='height:20px'><button style='position:relative;top:-4980px'>Pay</button></div>",
    "without a box": "<div><div style='position:absolute;left:20px;top:20px'><div onclick='1' style='display:contents'>Pay</div></div></div>",
}  # fmt: skip
COVER = "<a href=# style='position:absolute;inset:0 auto auto 0;width:300px;height:120px'>Consent</a>"


@pytest.mark.parametrize("where", ["page", "frame", "shadow root"])
@pytest.mark.parametrize("how", SPILLED)
def test_what_is_covered_far_from_the_blocks_around_it_says_by_what(env, loopback, how, where):
    page = FAR + SPILLED[how] + FAR + COVER
    if where == "frame":
        page = f'<iframe height=200 srcdoc="{page}"></iframe>'
    if where == "shadow root":
        page = f"<div><template shadowrootmode=open>{page}</template></div>"
    env.reset(options={"start_url": loopback(lambda request: page.encode()).url})
    pay, consent = env.unwrapped.find("Consent")
    assert pay.line.endswith('covered by link "Consent"')
    assert consent.line.endswith('link "Consent"')


STATES = """<div style='width:90px;height:40px;overflow:hidden'><button style='margin-left:200px'>Next</button></div>
<div inert><button>Send</button></div><input id=field aria-label=Name><script>field.focus({preventScroll: true})</script>
<div style='height:60px;overflow:auto'><p style='height:300px'>Terms</p></div>
<p>Sum <i style='display:inline-block;width:9px;height:9px;background:red'></i>"""


@pytest.mark.parametrize("words", ["clipped", "inert", "focused", "scrolls", "red box"])
def test_words_of_the_outline_itself_are_found_anywhere(env, loopback, words):
    env.reset(options={"start_url": loopback(lambda request: (FAR + STATES + FAR).encode()).url})
    assert words in env.unwrapped.find(words)[0].line
