"""The service's page in a real browser: by keyboard, on a phone, and looked at by axe-core."""

import asyncio
import io
import json
import shutil
import subprocess
import tarfile

import numpy as np
import pytest
from PIL import Image
from playwright.async_api import async_playwright

from selfsurf.browser_env.browser.browsers import find_browser
from selfsurf.sdft.service.archive import EPISODE_NAME, pack
from selfsurf.sdft.service.store import Store
from tests.sdft.service.conftest import Server, write_episode

AXE = "axe-core@4.14.1"


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("axe")
    if (
        not shutil.which("npm")
        or subprocess.run(["npm", "pack", AXE], cwd=folder, capture_output=True, timeout=90).returncode
    ):
        return None
    with tarfile.open(next(folder.glob("*.tgz"))) as tar:
        return tar.extractfile("package/axe.min.js").read().decode()


def looked_at(server, act, *, phone=False):
    """Open the page, do something there, and return what that found."""

    async def run():
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=find_browser())
            size = {"width": 360, "height": 740} if phone else {"width": 1100, "height": 800}
            page = await browser.new_page(viewport=size)
            failed = []
            page.on("pageerror", lambda error: failed.append(str(error)))
            page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
            await page.goto(server.url)
            found = await act(page)
            await browser.close()
            return found, failed

    return asyncio.run(run())


async def faults(page, axe):
    """What axe-core finds. The page's policy lets no other script in, so it goes in by the debugger."""
    await page.evaluate(axe)
    found = await page.evaluate("axe.run()")
    return [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]]


@pytest.mark.slow
def test_jobs_are_watched_started_and_cancelled_by_keyboard(server, http, tmp_path, axe):
    archive = pack(write_episode(tmp_path / "one", 77), EPISODE_NAME, tmp_path / "a.tar.gz").read_bytes()
    episode = http.post("/upload_trajectory", content=archive).json()["episode"]
    job = http.post("/train", json={"episodes": [episode], "adapter": "curves"}).json()["id"]
    store = Store(server.folder / "service.db")
    for step in range(1, 9):
        store.change_job(job, step=step, steps=20)
        store.add_event(job, "progress", {"step": step, "steps": 20, "loss": 1 / step, "steps/right": step / 10})
    store.add_event(job, "log", {"level": "INFO", "text": "<img src=x onerror=alert(1)>"})

    async def act(page):
        await page.get_by_role("button", name="Show curves").focus()
        await page.keyboard.press("Enter")
        await page.get_by_role("img", name="Loss: 0.125 at step 8").wait_for()
        log = await page.locator("#log").inner_text()
        await page.get_by_label("Name of the adapter").fill("by-keyboard")
        await page.get_by_label("Name of the adapter").press("Enter")
        await page.get_by_role("heading", name="Job of by-keyboard").wait_for()
        live = page.get_by_role("img", name="Loss: 0.5")
        made = next(one["id"] for one in http.get("/jobs").json()["data"] if one["adapter"] == "by-keyboard")
        store.add_event(made, "progress", {"step": 1, "steps": 40, "loss": 0.5})
        await live.wait_for()
        await page.get_by_role("button", name="Cancel by-keyboard").focus()
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Resume by-keyboard").wait_for()
        return log, made, await faults(page, axe) if axe else []

    (log, made, found), failed = looked_at(server, act)
    assert "<img src=x" in log, "what comes from elsewhere is text"
    assert http.get(f"/jobs/{made}").json()["status"] == "cancelled"
    assert http.get(f"/jobs/{made}").json()["request"]["episodes"]
    assert not failed
    assert not found, json.dumps(found, indent=1)
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(("held_out", "where"), [(0.0, "of learned episodes"), (1.0, "held out")])
def test_a_curve_has_axes_a_single_point_is_drawn_and_episodes_have_goals(server, http, tmp_path, held_out, where):
    archive = pack(write_episode(tmp_path / "one", 78), EPISODE_NAME, tmp_path / "a.tar.gz").read_bytes()
    episode = http.post("/upload_trajectory", content=archive).json()["episode"]
    job = http.post("/train", json={"episodes": [episode], "adapter": "points"}).json()
    store = Store(server.folder / "service.db")
    seen = {"evaluation/agreement": 0.25, "evaluation/held_out": held_out}
    for step, figures in ((4, {"loss": 0.5, **seen}), (8, {"loss": 0.125})):
        store.add_event(job["id"], "progress", {"step": step, "steps": 20, **figures})

    async def act(page):
        await page.get_by_role("button", name=f"Show {job['adapter']}", exact=True).click()
        single = page.get_by_role("img", name=f"Agreement with recorded steps, {where}: 0.25 at step 4", exact=True)
        await single.wait_for()
        loss = await page.locator("figure", has_text="Loss: 0.125 at step 8").inner_text()
        return await single.screenshot(), loss, await page.locator("#episodes").inner_text()

    (picture, loss, episodes), failed = looked_at(server, act)
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(int)
    drawn = (np.abs(pixels - (0x1F, 0x5A, 0x9A)).sum(axis=-1) < 30).sum()
    assert drawn > 20, "a point of 8 pixels in the accent's colour"
    assert {"0.5", "0.125", "step 4", "step 8"} <= set(loss.split("\n"))
    assert "Click the link 78: 2 steps, solved" in episodes
    assert not failed
    http.post(f"/jobs/{job['id']}/cancel")
    store.close()


@pytest.mark.slow
def test_it_fits_a_phone_and_asks_for_the_token(tmp_path, axe):
    server = Server(tmp_path / "service", token="the-token-of-the-page-test")
    try:

        async def act(page):
            await page.get_by_label("Token of the server").fill("a-wrong-token-of-the-test")
            await page.keyboard.press("Enter")
            await page.get_by_text("The server asks for its token.").wait_for()
            await page.get_by_label("Token of the server").fill(server.token)
            await page.keyboard.press("Enter")
            await page.get_by_text("None yet: upload episodes").wait_for()
            wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            stored = await page.evaluate("JSON.stringify(localStorage) + document.cookie")
            return wide, stored, await faults(page, axe) if axe else []

        (wide, stored, found), _ = looked_at(server, act, phone=True)
        assert wide <= 0
        assert server.token not in stored
        assert not found, json.dumps(found, indent=1)
    finally:
        server.end()
