"""A text is found in a long page with work that grows as the page does."""

import gymnasium

from selfsurf.browser_env.session.runtime import runtime

PAGE = """<title>Rows</title><label for=first>First</label><input id=first><script>
document.body.insertAdjacentHTML('beforeend', Array.from({length: ROWS}, (_, i) => `<p>Row ${i} <button>Buy ${i}</button></p>`).join(''))
</script>"""


def script_seconds(env, rows):
    """Return the processor time that the page's thread takes for scripts while a text is found for the first time."""
    env.reset(options={"start_url": "data:text/html," + PAGE.replace("ROWS", str(rows))})
    tab = env.unwrapped.core.session.active

    async def metrics():
        told = await tab.protocol.send("Performance.getMetrics")
        return {one["name"]: one["value"] for one in told["metrics"]}["TaskDuration"]

    runtime().run(tab.protocol.send("Performance.enable", {"timeDomain": "threadTicks"}))
    before = runtime().run(metrics())
    (found,) = env.unwrapped.find(f"Buy {rows - 1}")
    assert found.line.endswith(f'button "Buy {rows - 1}"')
    return runtime().run(metrics()) - before


def test_four_times_the_rows_take_about_four_times_the_work():
    env = gymnasium.make("Browser-v0", start_url="about:blank", screenshot=False)
    env.reset(seed=0)
    script_seconds(env, 500)  # all is compiled then
    few, many = script_seconds(env, 2000), script_seconds(env, 8000)
    assert many < 4 * few * 1.8
    env.close()
