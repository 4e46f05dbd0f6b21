import asyncio
import itertools

import numpy as np
import pytest

from selfsurf import browser_env

LONG = "<style>body{margin:0} h2{margin:0} section{height:300px}</style>" + "".join(
    f"<section><h2>Part {i}</h2><a href='#{i}'>Link {i}</a></section>" for i in range(12)
)


def scan(env, *args, **options):
    return env.unwrapped.paged_scan(*args, **options)


def names(found):
    return [element["name"] for element in found.elements]


def page_of(env):
    return env.unwrapped.core.session.active.page


def evaluate(env, script):
    from selfsurf.browser_env.browser.runtime import runtime

    return runtime().run(page_of(env).evaluate(script))


def test_a_long_page_is_seen_whole_and_left_as_it_was(open_page):
    env, _ = open_page(LONG, options={"reach": None})
    obs, *_ = env.step({"action": "scroll", "dy": 700})
    found = scan(env)
    assert (found.stopped, found.complete) == ("end", True)
    assert names(found) == [f"Link {i}" for i in range(12)]
    assert found.dom.split("\n") == obs["dom"].split("\n")
    assert found.page_text == obs["page_text"]
    offsets = [screen.offset for screen in found.screens]
    assert offsets[0] == 0
    assert offsets[-1] == 12 * 300 - 600
    assert all(0 < b - a <= 600 for a, b in itertools.pairwise(offsets))
    tops = [element["bbox"][1] for element in found.elements]
    assert np.allclose(np.diff(tops), 300)
    assert evaluate(env, "scrollY") == 700
    assert env.unwrapped.core.observation is obs
    assert env.unwrapped.core.episode.steps == 1
    again, *_ = env.step({"action": "wait", "ms": 1})
    assert again["dom"] == obs["dom"]


def test_what_loads_when_it_comes_into_view_is_seen_and_can_be_clicked(open_page):
    env, obs = open_page(
        """<style>div{height:500px}</style><body><script>
        const seen = new IntersectionObserver((entries) => entries.filter((e) => e.isIntersecting).forEach(async (e) => {
          seen.unobserve(e.target);
          const text = await (await fetch('part.html')).text();
          e.target.innerHTML = `<button onclick="document.title = 'clicked ${e.target.id}'">${e.target.id}</button>`;
        }));
        for (let i = 0; i < 8; i++) {
          const div = document.body.appendChild(document.createElement('div'));
          div.id = 'Lazy ' + i;
          seen.observe(div);
        }</script>""",
        part="x",
    )
    assert len(obs["elements"]) < 8
    found = scan(env)
    assert names(found) == [f"Lazy {i}" for i in range(8)]
    last = found.elements[-1]
    assert not last["in_viewport"]
    assert last["bbox"][1] >= 3500
    obs, *_ = env.step({"action": "click", "id": last["id"]})
    assert obs["last_error"] == ""
    assert obs["title"] == "clicked Lazy 7"
    assert evaluate(env, "scrollY") > 2000


VIRTUAL = """<style>body{margin:0} #list{height:600px;overflow-y:auto;position:relative} .row{position:absolute;height:40px}</style>
<div id=list><div id=all style="height:8000px"></div></div><script>
const pool = Array.from({length: 22}, () => list.appendChild(Object.assign(document.createElement('div'),
  {className: 'row', innerHTML: '<span></span> <button>Buy</button> <button>Drop</button>'})));
function fill() {
  const first = Math.max(0, Math.floor(list.scrollTop / 40) - 3);
  ORDER
}
list.onscroll = fill; fill();
</script>"""
IN_ORDER = """pool.forEach((row, i) => { row.style.top = (first + i) * 40 + 'px'; row.hidden = first + i >= 200;
  row.firstChild.textContent = 'Row ' + (first + i); });"""
CYCLIC = """for (let n = first; n < first + 22; n++) { const row = pool[n % 22]; row.style.top = n * 40 + 'px';
  row.hidden = n >= 200; row.firstChild.textContent = 'Row ' + n; list.append(row); }"""


@pytest.mark.parametrize("order", [IN_ORDER, CYCLIC], ids=["rows keep their order", "rows are taken round"])
def test_the_rows_of_a_virtualised_list_are_all_seen(open_page, order):
    env, _ = open_page(VIRTUAL.replace("ORDER", order))
    found = scan(env)
    assert found.complete
    rows = [line.strip() for line in found.dom.split("\n")]
    assert [line for line in rows if line.startswith("Row")] == [f"Row {i}" for i in range(200)]
    assert names(found) == ["Buy", "Drop"] * 200
    buy = [element for element in found.elements if element["name"] == "Buy"]
    assert np.allclose(np.diff([element["bbox"][1] for element in buy]), 40)
    assert ["gone" in element["states"] for element in buy] == [False] * 22 + [True] * 178
    obs, *_ = env.step({"action": "click", "id": buy[3]["id"]})
    assert obs["last_error"] == ""


def test_an_infinite_feed_is_left_in_time(open_page):
    env, _ = open_page(
        """<div id=feed></div><script>let n = 0;
        const more = () => { for (let i = 0; i < 10; i++) feed.insertAdjacentHTML('beforeend', `<p style="height:100px"><a href=#x>Post ${n++}</a>`); };
        more(); onscroll = () => { if (scrollY + innerHeight >= document.body.scrollHeight - 200) setTimeout(more, 30); };</script>"""
    )
    found = scan(env)
    assert (found.stopped, found.complete) == ("endless", False)
    assert names(found)[:60] == [f"Post {i}" for i in range(60)]
    found = scan(env, 3)
    assert (found.stopped, found.complete, len(found.screens)) == ("max_screens", False, 3)


def test_a_sticky_header_is_there_once(open_page):
    env, _ = open_page(
        "<p style='margin:0;height:50px'>Banner</p><nav style='position:sticky;top:0;height:80px;background:#f00'><a href=#h>Home</a></nav>"
        "<footer style='position:fixed;bottom:0;height:60px;width:100%;background:#00f'><a href=#c>Cookies</a></footer>"
        + LONG
    )
    found = scan(env, screenshots=True)
    assert sorted(names(found)) == sorted(["Home", "Cookies", *(f"Link {i}" for i in range(12))])
    assert found.dom.count("Home") == found.dom.count("Cookies") == 1
    picture = found.stitched()
    assert picture.shape == (50 + 80 + 12 * 300, 800, 3)
    red = (picture[:, 700] == [255, 0, 0]).all(axis=1)
    assert red.sum() == 80
    assert red[50:130].all()
    blue = (picture[:, 700] == [0, 0, 255]).all(axis=1)
    assert blue.sum() == 60
    assert found.screens[1].top == 80
    assert found.screens[1].bottom == 60


def test_the_stitched_picture_is_the_page_and_boxes_fit_it(open_page):
    stripes = "".join(f"<p style='margin:0;height:10px;background:rgb({i},0,{255 - i})'></p>" for i in range(250))
    env, _ = open_page("<style>body{margin:0}</style>" + stripes)
    picture = scan(env, screenshots=True).stitched()
    expected = np.repeat([[i, 0, 255 - i] for i in range(250)], 10, axis=0)
    assert (picture == expected[:, None]).all()
    with pytest.raises(ValueError, match="screenshots"):
        scan(env).stitched()


def test_a_scroll_container_is_walked_when_the_document_does_not_scroll(open_page):
    env, _ = open_page(
        "<style>body{margin:0;display:flex;height:100vh;overflow:hidden} main{flex:1;overflow:auto;border-top:20px solid #0f0}"
        " ul{width:200px;overflow:auto;margin:0;padding:0}</style><ul><li><a href=#s>Side</a></ul><main>"
        + LONG
        + "</main>"
    )
    evaluate(env, "document.querySelector('main').scrollTop = 333")
    found = scan(env, screenshots=True)
    assert found.complete
    assert names(found) == ["Side", *(f"Link {i}" for i in range(12))]
    assert found.area == (200, 20, 600, 580)
    assert np.allclose(np.diff([element["bbox"][1] for element in found.elements[1:]]), 300)
    assert found.stitched().shape == (3600 + 20, 800, 3)
    assert evaluate(env, "document.querySelector('main').scrollTop") == 333


def test_a_page_in_a_frame_is_walked(open_page):
    env, _ = open_page(
        "<body style='margin:0'><iframe src=inner.html style='width:800px;height:590px;border:0'>", inner=LONG
    )
    found = scan(env)
    assert (found.complete, len(found.screens) > 5) == (True, True)
    assert names(found) == [f"Link {i}" for i in range(12)]


def test_layout_that_shifts_does_not_repeat_elements(open_page):
    env, _ = open_page(
        LONG.replace("<section>", "<div id=late></div><section>", 1)
        + "<script>onscroll = () => { if (scrollY > 200 && scrollY < 1500) late.style.height = '250px'; }</script>"
    )
    assert names(scan(env)) == [f"Link {i}" for i in range(12)]


def test_a_picture_named_like_a_property_of_the_document_is_no_trouble(open_page):
    env, _ = open_page(f"<img name=elementFromPoint>{LONG}")
    found = scan(env)
    assert (found.complete, names(found)) == (True, [f"Link {i}" for i in range(12)])


def test_a_short_page_is_one_screen(open_page):
    env, obs = open_page("<button>One</button>")
    found = scan(env)
    assert (len(found.screens), found.complete, names(found)) == (1, True, ["One"])
    assert found.dom == obs["dom"]


def test_what_can_not_be_scanned_says_so(open_page):
    env, _ = open_page(LONG + "<script>onscroll = () => { location = 'other.html'; }</script>", other="x")
    with pytest.raises(ValueError, match="max_screens"):
        scan(env, 0)
    with pytest.raises(browser_env.EnvError, match="could not be scanned"):
        scan(env)
    obs, *_, info = env.step({"action": "wait", "ms": 1})
    assert (obs["title"], info["outcome"]) == ("other", "running")
    with pytest.raises(browser_env.EnvError, match="reset"):
        browser_env.BrowserEnv(start_url="about:blank").paged_scan()


@pytest.mark.slow
def test_a_page_that_hangs_ends_the_scan_in_time(open_page):
    hang = "<script>onscroll = () => { if (scrollY > 600) for (;;); }</script>"
    env, _ = open_page(LONG + hang, options={"step_timeout": 1.0})
    with pytest.raises(browser_env.EnvError, match="in time"):
        scan(env)
    *_, info = env.step({"action": "wait", "ms": 1})
    assert info["outcome"] == "env_error"
    env.reset()


def test_it_is_awaited_too():
    async def run():
        env = browser_env.AsyncBrowserEnv(start_url="data:text/html," + LONG.replace("#", "%23"), viewport=(800, 600))
        await env.reset(seed=0)
        try:
            return await env.paged_scan(), await env.marked()
        finally:
            await env.close()

    found, marked = asyncio.run(run())
    assert names(found) == [f"Link {i}" for i in range(12)]
    assert marked.shape == (600, 800, 3)
