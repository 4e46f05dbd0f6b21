"""What widgets of libraries bring a moment after the step's input is in that step's observation."""

import pytest

from tests.browser_env.act.test_libraries import do, open_with, packages  # noqa: F401
from tests.browser_env.act.test_more_libraries import one, opened  # noqa: F401

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("library", ["radix", "blueprint", "fluent"])
def test_a_submenu_opens_by_hovering(opened, library):  # noqa: F811
    env, obs = opened("<div id=ed style='width:200px'></div>", f"{library}.bundle.js")
    if library != "blueprint":
        obs = do(env, {"action": "click", "id": one(obs, "Open")})
    obs = do(env, {"action": "hover", "selector": "text=More"})
    assert one(obs, "Deep")


SUGGESTIONS = {
    "react-select": ("<div id=ed></div>", ("react-select.bundle.js",)),
    "autocomplete.js": (
        """<input id=i aria-label=City><script>new autoComplete({selector: '#i', debounce: 450,
        data: {src: (text) => fetch('/page').then(() => [text + 'lo'])}})</script>""",
        ("@tarekraafat/autocomplete.js/dist/autoComplete.min.js",),
    ),
    "typeahead": (
        """<input id=i aria-label=City><script>const source = new Bloodhound({datumTokenizer: Bloodhound.tokenizers.whitespace,
        queryTokenizer: Bloodhound.tokenizers.whitespace, remote: {url: '/page?q=%Q', wildcard: '%Q', transform: () => ['Oslo'], transport: (asked, done) => fetch(asked.url).then(() => done(['Oslo']))}});
        $(i).typeahead({}, {source, name: 'cities'})</script>""",
        ("jquery/dist/jquery.min.js", "corejs-typeahead/dist/typeahead.bundle.js"),
    ),
    "htmx": (
        """<input id=i aria-label=City name=q hx-get=/node_modules/htmx.org/LICENSE hx-trigger="input changed delay:500ms" hx-target=#o
        hx-swap="innerHTML swap:50ms"><p id=o></p>""",
        ("htmx.org/dist/htmx.min.js",),
    ),
}


@pytest.mark.parametrize("library", SUGGESTIONS)
def test_suggestions_after_a_debounce_and_a_request(opened, library):  # noqa: F811
    page, files = SUGGESTIONS[library]
    env, obs = opened(page, *files)
    field = next(el["id"] for el in obs["elements"] if el["name"] == "City" and "readonly" not in el["states"])
    obs = do(env, {"action": "type", "id": field, "text": "Os"})
    assert "Permission" in obs["page_text"] if library == "htmx" else "Oslo" in obs["dom"]


def test_a_mention_pops_up(opened):  # noqa: F811
    env, obs = opened(
        """<div id=i contenteditable aria-label=Text style="height:99px"></div><script>
        new Tribute({values: (text, done) => setTimeout(() => done([{key: 'Ada', value: 'ada'}]), 80)}).attach(i)</script>""",
        "tributejs/dist/tribute.min.js",
    )
    obs = do(env, {"action": "type", "id": one(obs, "Text"), "text": "hi @A"})
    assert "Ada" in obs["page_text"]


def test_a_feed_goes_on_after_a_scroll(opened):  # noqa: F811
    env, _ = opened(
        """<div id=f><p class=item style="height:1200px">first</p></div><script>
        new InfiniteScroll(f, {path: () => '/node_modules/infinite-scroll/package.json', responseBody: 'json', history: false, scrollThreshold: 50})
          .on('load', () => setTimeout(() => f.insertAdjacentHTML('beforeend', '<p>second</p>'), 100))</script>""",
        "infinite-scroll/dist/infinite-scroll.pkgd.min.js",
    )
    obs = do(env, {"action": "scroll", "dy": 3000})
    assert "second" in obs["page_text"]
