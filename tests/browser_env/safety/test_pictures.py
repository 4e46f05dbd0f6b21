"""Pictures that the attempt log keeps: private places are of one colour, also when the page scrolls meanwhile."""

import io

import numpy as np
import pytest
from PIL import Image

from selfsurf.browser_env import Safety
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.observe.masking import MASK_COLOUR, secret_boxes
from selfsurf.browser_env.router import evidence
from selfsurf.browser_env.router.evidence import Sight, collect

PAGE = """<meta charset=utf-8><body style='margin:0;height:3000px;font:16px monospace'>
<p class=private style='position:absolute;top:300px'><span>ada@example.org</span></p>
<p class=private style='position:absolute;top:340px'><span>4539 <b>1488</b> 0343 6467</span></p>
<p class=private style='position:absolute;top:380px'><span>hunter2/secret</span></p>
<input class=private style='position:absolute;top:420px' value='Grace Hopper'>
<textarea class=private style='position:absolute;top:460px'>Amazing Grace</textarea>
<div class=private contenteditable style='position:absolute;top:520px;width:200px'>draft of a letter</div>
<p style='position:absolute;top:560px'>Bystander</p>
<iframe srcdoc="<body style='margin:0'><input class=private value=inside></body>" style='position:absolute;top:300px;left:400px;border:0'></iframe>"""

PLACES = """() => [document, document.querySelector('iframe').contentDocument].flatMap((d, i) => {
    const frame = i ? document.querySelector('iframe').getBoundingClientRect() : {x: 0, y: 0};
    return Array.from(d.querySelectorAll('.private'), (el) => {
        const r = (el.firstElementChild || el).getBoundingClientRect();
        return [r.x + frame.x, r.y + frame.y, r.width, r.height].map(Math.round);
    });
})"""


@pytest.fixture
def sight(open_page, monkeypatch):
    monkeypatch.setattr(evidence, "SECONDS", 30.0)  # on a machine that has other work, too
    env, _ = open_page(PAGE, options={"safety": Safety(secrets={"password": "hunter2/secret"}), "screenshot": False})
    core = env.unwrapped.core
    tab = core.session.active
    return tab, Sight(tab.protocol, tab.screenshot, lambda: secret_boxes(tab, core.vault.patterns, private=True))


def uniform(png, places):
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    for x, y, width, height in places:
        place = pixels[y : y + height, x : x + width]
        assert place.size, (x, y)
        assert (place == MASK_COLOUR).all(), (x, y)
    return pixels


def test_private_places_are_of_one_colour_and_nothing_else_is(sight):
    tab, sight = sight
    found = runtime().run(collect(sight, url="", failed=False, screenshot=True))
    places = runtime().run(tab.page.evaluate(PLACES))
    assert len(places) == 7
    pixels = uniform(found.screenshot, places)
    assert (pixels[560:590, :100] != MASK_COLOUR).any(axis=2).all()


@pytest.mark.parametrize("times", [1, 2, 99])
def test_a_page_that_scrolls_between_pass_and_picture_shows_nothing(sight, times):
    tab, sight = sight
    shoot, left = sight.shoot, [times]

    async def scrolled_first():
        if left[0]:
            left[0] -= 1
            await tab.page.evaluate("scrollBy(0, 37)")
        return await shoot()

    sight.shoot = scrolled_first
    found = runtime().run(collect(sight, url="", failed=False, screenshot=True))
    if times > 2:
        assert found.screenshot is None
        assert "moved" in found.cut[0]
    else:
        uniform(found.screenshot, runtime().run(tab.page.evaluate(PLACES)))
