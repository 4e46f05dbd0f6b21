"""A context of a plain Playwright page: Markdown with ids, marks, XPaths that lead back, and a page left as it was."""

import asyncio

import numpy as np
import pytest
from playwright.async_api import async_playwright

from selfsurf import browser_env
from selfsurf.browser_env import ContextConfig, build_context
from selfsurf.browser_env.browser.browsers import find_browser

PAGE = """<!doctype html><title>Shop</title><h1>Shop</h1><form aria-label=Login><label>Name <input></label>
<button>Log in</button></form><nav><a href=#a>First</a> <a href=#b>Second</a></nav><div id=host></div>
<iframe srcdoc="<button>Framed</button>"></iframe>
<script>host.attachShadow({mode: 'open'}).innerHTML = '<button>Inner</button>'</script>"""


def test_of_a_page_of_ones_own():
    async def main():
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=find_browser())
            page = await browser.new_page(viewport={"width": 500, "height": 400})
            await page.set_content(PAGE)
            before = await page.content()
            whole = await build_context(page, ContextConfig(xpaths=True))
            again = await build_context(page, ContextConfig(xpaths=True))
            buttons = await build_context(page, ContextConfig(roles=frozenset({"button"}), xpaths=True))
            assert await page.content() == before
            found = {id: await page.locator(f"xpath={path}").count() for id, path in whole.xpaths.items()}
            second = next(id for id, element in whole.elements.items() if element["name"] == "Second")
            assert await page.locator(f"xpath={whole.xpaths[second]}").inner_text() == "Second"
            await browser.close()
        return whole, again, buttons, found

    whole, again, buttons, found = asyncio.run(main())
    lines = whole.text.split("\n")
    assert lines[:4] == [
        '- heading "Shop" level=1',
        '- form "Login"',
        '  - [1] textbox "Name"',
        '  - [2] button "Log in"',
    ]
    assert '  - [4] link "Second"' in lines
    names = {id: element["name"] for id, element in whole.elements.items()}
    assert [found[id] for id, name in names.items() if name in ("Name", "Log in", "First", "Second")] == [1] * 4
    assert whole.screenshot.shape == (400, 500, 3)
    assert (again.text, again.xpaths) == (whole.text, whole.xpaths)
    assert np.array_equal(again.screenshot, whole.screenshot)
    assert [names[id] for id in buttons.elements] == ["Log in", "Inner", "Framed"]
    assert buttons.xpaths == {id: whole.xpaths[id] for id in buttons.elements}, "filtering changes no id and no path"
    assert '- form "Login"\n  - [2] button "Log in"' in buttons.text
    assert "Second" not in buttons.text
    assert not np.array_equal(buttons.screenshot, whole.screenshot)


def test_of_an_observation_and_what_is_refused():
    env = browser_env.BrowserEnv(f"data:text/html,{PAGE}", screenshot=True, viewport=(300, 200))
    obs, _ = env.reset(seed=0)
    env.close()
    context = asyncio.run(build_context(obs))
    assert '  - [2] button "Log in"' in context.text
    assert np.array_equal(context.screenshot, browser_env.observe.marks.draw(obs["screenshot"], obs["elements"]))
    assert asyncio.run(build_context(obs, ContextConfig(screenshot=False))).screenshot is None
    with pytest.raises(ValueError, match="give the page itself"):
        asyncio.run(build_context(obs, ContextConfig(xpaths=True)))
    with pytest.raises(TypeError, match=r"page of playwright\.async_api"):
        asyncio.run(build_context(7))
