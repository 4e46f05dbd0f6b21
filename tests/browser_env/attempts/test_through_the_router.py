"""A real page full of private things, by the real router: what is on the disk afterwards."""

import asyncio
import base64
import json

import pytest

from selfsurf.browser_env import Safety
from selfsurf.browser_env.attempts.log import FileLog, read_lines
from selfsurf.browser_env.attempts.settings import LogSettings
from selfsurf.browser_env.router.providers.playwright import PlaywrightProvider
from selfsurf.browser_env.router.router import CallFailed, Router

SECRET, TYPED = "hunter2/secret", "Zwiebelstadt 17"
PAGE = f"""<!doctype html><title>For ada@example.org</title><!-- {SECRET} -->
<nav id=about data-user=ada@example.org data-a=hunter data-b=2/secret aria-label="Hello ada@example.org">
<a href="/next?session={SECRET}&amp;x=1">next</a><i title="{base64.b64encode(SECRET.encode()).decode()}">4539 1488 0343 6467</i>
<b>{SECRET[:6]}</b><u>{SECRET[6:]}</u><img alt="{SECRET.encode().hex()}"><span>{"".join(f"%{byte:02x}" for byte in SECRET.encode())}</span></nav>
<input aria-label=City oninput="said.textContent = 'You live in ' + value; history.replaceState(0, 0, '?city=' + encodeURIComponent(value))">
<p id=said></p><button disabled>Pay</button><iframe srcdoc="<p>{SECRET} in a frame, ada@example.org</p>"></iframe>"""


def test_nothing_private_of_a_page_is_on_the_disk(tmp_path, loopback):
    url = loopback(lambda request: PAGE.encode()).url

    async def run(log):
        safety = Safety(secrets={"password": SECRET}, allow_private=True)
        router = Router([PlaywrightProvider(safety=safety)], log=log, trace_id=log.trace_id)
        try:
            await router.navigate(f"{url}/?token=abcdef")
            seen = await router.observe()
            ids = {element["name"]: element["id"] for element in seen.elements}
            await router.act({"action": "fill", "id": ids["City"], "text": TYPED})
            with pytest.raises(CallFailed):
                await router.act({"action": "click", "id": ids["Pay"]})
            with pytest.raises(CallFailed):
                await router.act({"action": "type", "id": 999, "text": TYPED})
            router.end("stopped")
        finally:
            await router.close()

    log = FileLog("t-1", LogSettings(tmp_path))
    asyncio.run(run(log))
    assert log.flush(30)
    lines = list(read_lines(log.folder / "attempt.jsonl"))
    assert [line["outcome"] for line in lines] == ["start", "success"] * 3 + ["start", "failure"] * 2
    assert {"png", "json"} == {name.rsplit(".", 1)[1] for line in lines for name in line.get("artifacts", ())}
    texts = {file.name: file.read_text() for file in log.folder.rglob("*.json*")}
    snapshots = {name: text for name, text in texts.items() if name.endswith((".tree.json", ".dom.json"))}
    assert len(snapshots) == 4
    assert any("You live in <value>" in text for text in snapshots.values())
    for name, text in texts.items():
        for private in (
            "hunter",
            "/secret",
            "ada@",
            "abcdef",
            "4539",
            "Zwiebel",
            base64.b64encode(SECRET.encode()).decode()[:8],
            SECRET.encode().hex(),
            "%68%75",
        ):
            assert private not in text, (name, private)
    assert json.loads(texts["summary.json"])["providers"]["playwright"]["failures"] == 2
