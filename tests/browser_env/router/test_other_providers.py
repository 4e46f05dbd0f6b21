"""Stagehand on a full Chromium, and the page of a real QtWebEngine view; each falls back to the environment."""

import asyncio
import json
import os
import socket
import subprocess
import sys

import psutil
import pytest
from pydantic import BaseModel

from selfsurf.browser_env import BrowserNotFound, Safety
from selfsurf.browser_env.browser.browsers import find_browser
from selfsurf.browser_env.router.providers.playwright import PlaywrightProvider
from selfsurf.browser_env.router.providers.stagehand import StagehandProvider
from selfsurf.browser_env.router.providers.webview import WebviewProvider
from selfsurf.browser_env.router.router import CallFailed, Router
from tests.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SAFETY = Safety(allowed=("127.0.0.1",))

PAGE = b"""<title>Shop</title><h1>Shop</h1><label>Name <input id=n></label>
<button onclick="document.title = 'pressed by ' + n.value">Go</button>"""


class Heading(BaseModel):
    heading: str


@pytest.fixture
def url(loopback):
    return loopback(lambda request: PAGE).url


@pytest.fixture
def full():
    pytest.importorskip("stagehand")
    try:
        return find_browser(headless=False)
    except BrowserNotFound:
        pytest.skip("needs a full Chromium")


def answers(messages, schema):
    """A model that finds the button, and the heading."""
    text = "\n".join(message["text"] for message in messages)
    properties = schema["properties"] if schema else {}
    if "heading" in properties:
        return json.dumps({"heading": "Shop"})
    line = next((line for line in text.splitlines() if "button" in line and "Go" in line), "")
    number = line.strip().partition("]")[0].strip("[") or "0-0"
    one = {"elementId": number, "description": "the button Go", "method": "click", "arguments": []}
    given = {"action": one, "elements": [one], "twoStep": False, "completed": True, "progress": ""}
    return json.dumps({key: given[key] for key in properties if key in given} or one)


def numbered(outline, element):
    return int(next(line for line in outline.splitlines() if line.endswith(element)).strip().partition("]")[0][1:])


def test_stagehand_carries_out_typed_actions_without_a_model_and_is_given_up_after_a_second_failure(url, full, log):
    router = Router([StagehandProvider(safety=SAFETY), PlaywrightProvider(safety=SAFETY)], log=log)

    async def play():
        assert (await router.navigate(url)).title == "Shop"
        outline = (await router.observe()).outline
        await router.act({"action": "fill", "id": numbered(outline, "textbox: Name"), "text": "Ada"})
        assert (await router.act({"action": "click", "id": numbered(outline, "button: Go")})).title == "pressed by Ada"
        with pytest.raises(CallFailed) as first:
            await router.act({"action": "click", "id": 9999})
        assert (first.value.failure.retryable, first.value.provider) == (True, "stagehand")
        assert "playwright is asked instead" in first.value.failure.message
        with pytest.raises(CallFailed, match="observe the page first"):
            await router.act({"action": "click", "id": 9999})
        assert '[2] button "Go"' in (await router.observe()).outline
        assert (await router.act({"action": "click", "id": 2})).title == "pressed by"
        await router.close()

    asyncio.run(play())
    assert "disabled stagehand act" in log.told
    assert "fallback stagehand act" in log.told
    assert log.told[-1] == "success playwright act"
    assert not [one for one in psutil.Process().children() if "chromium" in one.name() and "headless" not in one.name()]


def test_stagehand_understands_words_by_our_model_and_a_crash_starts_it_again(url, full, log):
    stagehand = StagehandProvider(answers, safety=SAFETY)
    router = Router([stagehand, PlaywrightProvider(safety=SAFETY)], log=log)

    async def play():
        await router.navigate(url)
        assert await router.extract("the heading", Heading) == Heading(heading="Shop")
        assert (await router.act("press Go")).title == "pressed by"
        assert (await router.screenshot()).png.startswith(b"\x89PNG")
        stagehand._process.kill()
        with pytest.raises(CallFailed, match="started again") as caught:
            await router.observe()
        assert caught.value.failure.type == "crashed"
        assert "Go" in (await router.observe()).outline
        await router.close()

    asyncio.run(play())


def test_without_a_full_browser_the_environment_is_asked_at_once(url, log):
    pytest.importorskip("stagehand")
    router = Router(
        [StagehandProvider(executable="/nonexistent", safety=SAFETY), PlaywrightProvider(safety=SAFETY)], log=log
    )

    async def play():
        assert (await router.navigate(url)).title == "Shop"
        await router.close()

    asyncio.run(play())
    assert log.told == [
        "start stagehand navigate", "failure stagehand navigate", "disabled stagehand navigate",
        "fallback stagehand navigate", "start playwright navigate", "success playwright navigate",
    ]  # fmt: skip


VIEW = """
import sys
from PySide6.QtCore import QUrl
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication
app = QApplication(sys.argv[:1])
view = QWebEngineView()
view.resize(800, 600)
view.load(QUrl(sys.argv[1]))
view.show()
app.exec()
"""


@pytest.fixture
def view(url):
    """The address of the DevTools of a real QtWebEngine view; PYTHON_WITH_QT is a Python that has PySide6."""
    python = os.environ.get("PYTHON_WITH_QT", sys.executable)
    has = subprocess.run([python, "-c", "import PySide6.QtWebEngineWidgets"], capture_output=True, check=False)
    if has.returncode:
        pytest.skip("needs PySide6 (PYTHON_WITH_QT names a Python that has it)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    about = {"QTWEBENGINE_REMOTE_DEBUGGING": f"127.0.0.1:{port}", "QT_QPA_PLATFORM": "offscreen"}
    flags = {"QTWEBENGINE_CHROMIUM_FLAGS": "--no-sandbox", "QTWEBENGINE_DISABLE_SANDBOX": "1"}
    process = subprocess.Popen([python, "-c", VIEW, url], env={**os.environ, **about, **flags})

    def answers():
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    assert until(answers, 60)
    yield f"http://127.0.0.1:{port}", process
    process.kill()
    process.wait()


def test_an_applications_view_is_acted_in_and_not_retried(view, log):
    address, process = view
    router = Router([WebviewProvider(address), PlaywrightProvider(safety=SAFETY)], log=log)

    async def play():
        assert '[2] button "Go"' in (await router.observe()).outline
        await router.act({"action": "fill", "id": 1, "text": "Ada"})
        assert (await router.act({"action": "click", "id": 2})).title == "pressed by Ada"
        assert (await router.screenshot()).png.startswith(b"\x89PNG")
        process.kill()
        process.wait()
        with pytest.raises(CallFailed) as caught:
            await router.act({"action": "click", "id": 2})
        assert "observe the page first" in str(caught.value)
        assert '[2] button "Go"' in (await router.observe()).outline
        await router.close()

    asyncio.run(play())
    assert "disabled webview act" in log.told
    assert "fallback webview act" in log.told
