"""A text is found in a long page with work that grows as the page does, and without the work that the whole page takes."""

import gymnasium
import pytest

from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.environment import page_queries

ROWS = {
    "buttons": "<p>Row ${i} <button>Buy ${i}</button></p>",
    "labels": "<p><label for=f${i}>Row ${i}</label> <input id=f${i} value=${i}><button>Buy ${i}</button></p>",
    "table": "<tr><td>Row ${i}<td>Ada ${i}<td><a href=x>Open ${i}</a><td><button>Buy ${i}</button></tr>",
}
PAGE = """<title>Rows</title><label for=first>First</label><input id=first><script>
document.body.insertAdjacentHTML('beforeend', '<table>'.slice(START) + Array.from({length: COUNT}, (_, i) => `ROWS`).join(''))
</script>"""


@pytest.fixture
def env():
    env = gymnasium.make("Browser-v0", start_url="about:blank", screenshot=False)
    env.reset(seed=0)
    yield env
    env.close()


def script_seconds(env, kind, rows):
    """Return the processor time that the page's thread takes for scripts while a text is found for the first time."""
    html = (
        PAGE.replace("ROWS", ROWS[kind]).replace("COUNT", str(rows)).replace("START", "0" if kind == "table" else "7")
    )
    env.reset(options={"start_url": "data:text/html," + html})
    tab = env.unwrapped.core.session.active

    async def metrics():
        told = await tab.protocol.send("Performance.getMetrics")
        return {one["name"]: one["value"] for one in told["metrics"]}["TaskDuration"]

    runtime().run(tab.protocol.send("Performance.enable", {"timeDomain": "threadTicks"}))
    before = runtime().run(metrics())
    (found,) = env.unwrapped.find(f"Buy {rows - 1}")
    assert found.line.endswith(f'button "Buy {rows - 1}"')
    return runtime().run(metrics()) - before


@pytest.mark.parametrize("kind", ["buttons", "labels"])
def test_four_times_the_rows_take_about_four_times_the_work(env, monkeypatch, kind):
    monkeypatch.setattr(page_queries, "SCALES", (None,))  # the whole page
    script_seconds(env, kind, 500)  # all is compiled then
    few, many = script_seconds(env, kind, 2000), script_seconds(env, kind, 8000)
    assert many < 4 * few * 1.8


def test_what_does_not_have_the_text_takes_little_work(env, monkeypatch):
    script_seconds(env, "table", 500)
    branches = script_seconds(env, "table", 6000)
    monkeypatch.setattr(page_queries, "SCALES", (None,))
    assert branches < script_seconds(env, "table", 6000) / 3
