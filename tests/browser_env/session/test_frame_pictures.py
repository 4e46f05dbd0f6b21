"""Pictures that are drawn on demand, where a page's time is held, are those that Playwright takes elsewhere."""

import gymnasium
import numpy as np
import pytest
from PIL import Image

from selfsurf.browser_env import SessionOptions
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.observe.screenshot import decode_png
from selfsurf.scripts.observation.pages.serve import Pages
from selfsurf.scripts.observation.pages.table import choose
from tests.browser_env.conftest import Site

LOOKS = """<style>
  body { font: 15px sans-serif; background: linear-gradient(45deg, #fff, #8cf 30%, #f8c) }
  .card { border-radius: 12px; box-shadow: 4px 6px 9px #0008; padding: 8px; margin: 9px; background: #fffc }
  .blurred { filter: blur(1.5px); transform: rotate(3deg); opacity: .7 }
</style>
<div class=card>Some text, <b>bold</b>, <i>italic</i>, أهلا, 漢字 <button>Button</button> <input value=field>
  <input type=checkbox checked> <input type=range> <progress value=.4></progress> <select><option>one</select></div>
<div class="card blurred">blurred and turned</div>
<svg width=120 height=60><circle cx=30 cy=30 r=25 fill=tomato /><path d="M60 5 L110 55" stroke=navy stroke-width=3 /></svg>
<button onclick="open('small.html', '', 'width=400,height=300')">In a window</button>
<canvas id=drawn width=120 height=60></canvas>
<div style="overflow: auto; height: 60px; width: 200px"><p style="height: 300px">a box that scrolls</p></div>
<img src=LARGE width=500 height=300>
<script>
  const pen = drawn.getContext('2d');
  pen.fillStyle = 'seagreen';
  pen.fillRect(5.5, 5.5, 90, 40);
</script>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A page with all kinds of looks, and one whose pictures are large."""
    folder = tmp_path_factory.mktemp("looks")
    rng = np.random.default_rng(0)
    for name, size in (("small", (90, 150)), ("large", (3000, 4000))):
        noise = rng.integers(0, 255, (size[0] // 10, size[1] // 10, 3), np.uint8).repeat(10, 0).repeat(10, 1)
        Image.fromarray(noise).save(folder / f"{name}.png")
        (folder / f"{name}.html").write_text(
            f"<!doctype html><title>{name}</title>{LOOKS}".replace("LARGE", f"{name}.png")
        )
    return folder


def seen_and_taken(page, actions=(), **options):
    """Return the observation's picture, and Playwright's own of the same page."""
    env = gymnasium.make("Browser-v0", **page, **options)
    try:
        seen = env.reset(seed=0)[0]["screenshot"]
        for action in actions:
            seen = env.step(action)[0]["screenshot"]
        taken = runtime().run(env.unwrapped.core.session.active.page.screenshot(scale="css"), timeout=30)
    finally:
        env.close()
    return seen, decode_png(taken, (seen.shape[1], seen.shape[0]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"viewport": (501, 377)},
        {"session": SessionOptions(device_scale_factor=2)},
        {"session": SessionOptions(device="iPhone 15")},
        {"actions": [{"action": "click", "selector": "text=In a window"}]},
    ],
    ids=["plain", "an odd size", "scale factor 2", "a mobile device", "a popup"],
)
@pytest.mark.parametrize("page", ["small.html", pytest.param("large.html", marks=pytest.mark.slow)])
def test_a_page_looks_the_same(folder, page, options):
    held, held_taken = seen_and_taken({"task": Site(folder, page)}, clock="virtual", **options)
    _, taken = seen_and_taken({"task": Site(folder, page)}, clock="real", **options)
    assert held.shape == taken.shape
    assert np.array_equal(held, held_taken)
    assert np.array_equal(held, taken)


@pytest.mark.slow
@pytest.mark.parametrize("page", choose([], "hard"), ids=lambda page: page.name)
def test_a_page_of_the_fidelity_table_looks_the_same(page):
    with Pages() as pages:
        url = pages.base(page.source) + page.path
        held, held_taken = seen_and_taken({"start_url": url}, clock="virtual")
        _, taken = seen_and_taken({"start_url": url}, clock="real")
    differ = (held_taken != taken).any(axis=2)
    if page.name == "hard-listeners":  # the controls of a video move as it is drawn
        differ[680:, :210] = False
    assert not differ.any()
    assert (held != held_taken).any(axis=2).sum() < 40  # the caret, which Playwright hides
