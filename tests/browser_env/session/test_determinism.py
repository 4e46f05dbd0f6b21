"""`deterministic=True`: the same seed and actions give the same observations, screenshots included."""

import itertools
import time

import gymnasium
import numpy as np
import pytest

import selfsurf  # noqa: F401  (registers the ids)

CLOCK = """<style>@keyframes go { to { transform: translateX(300px) rotate(90deg) } }
#box { width: 50px; height: 50px; background: red; animation: go 3s infinite alternate }
#fade { transition: opacity 1s; background: blue; width: 50px; height: 50px }</style>
<button onclick="fade.style.opacity = 0; more()">Go</button> <input aria-label=field> <p id=clock></p><p id=random></p><p id=chain></p>
<p id=frame></p><div id=box></div><div id=fade></div><iframe srcdoc="<p id=p></p><script>setInterval(() =>
  p.textContent = Math.random() + ' ' + Date.now(), 7)</script>"></iframe><iframe src="http://other.test/inner.html"></iframe>
<script>
setInterval(() => clock.textContent = new Date().toString() + ' ' + performance.now(), 13);
const bytes = crypto.getRandomValues(new Uint32Array(2));
random.textContent = [Math.random(), bytes, crypto.randomUUID?.(), new Date().toLocaleString()].join(' ');
function more(n = 0) { chain.textContent += ' ' + n; setTimeout(() => more(n + 1), Math.random() * 30); }
addEventListener('transitionend', (e) => document.title = 'faded at ' + e.timeStamp);
let drawn = 0;
requestAnimationFrame(function draw(at) { frame.textContent = ++drawn + ' frames ' + at; requestAnimationFrame(draw); });
</script>"""
INNER = (
    "<p id=p></p><script>setInterval(() => p.textContent = 'inner ' + Math.random() + ' ' + Date.now(), 11)</script>"
)
ACTIONS = (
    {"action": "click", "id": 1},
    {"action": "wait", "ms": 700},
    {"action": "click", "id": 2},
    {"action": "type", "text": "abc"},
    {"action": "wait", "ms": 500},
)


def episode(env, seed, pause=0.0, actions=ACTIONS):
    seen = [env.reset(seed=seed)[0]]
    for action in actions:
        time.sleep(pause)
        obs, _, terminated, truncated, info = env.step(action)
        assert info["outcome"] != "env_error", info
        seen.append(obs)
        if terminated or truncated:
            break
    return seen


def assert_same(first, second):
    assert len(first) == len(second)
    for step, (a, b) in enumerate(zip(first, second, strict=True)):
        for key in a:
            if key == "screenshot":
                assert np.array_equal(a[key], b[key]), (step, np.abs(a[key].astype(int) - b[key]).sum())
            else:
                assert a[key] == b[key], (step, key)


def test_clocks_random_numbers_and_animations_repeat(open_page):
    env, _ = open_page(CLOCK, inner=INNER, options={"deterministic": True})
    first, second = episode(env, 5), episode(env, 5, pause=0.15)
    assert_same(first, second)
    texts = [obs["page_text"] for obs in first]
    assert len(set(texts)) == len(texts)  # the page moved all the same
    assert "inner" in texts[-1]
    assert "2026" in texts[0]
    assert first[-1]["title"].startswith("faded at")
    assert episode(env, 6)[0]["page_text"] != texts[0]


EVENTS = """<style>@keyframes go { to { opacity: 0.5 } } #box { animation: go .2s 3 }</style>
<button onclick="fade.style.opacity = 0; tell({type: 'click'})">Go</button>
<div id=fade style="transition: opacity .5s">Fading</div><div id=box>Blinking</div><p id=told></p><script>
const tell = (e) => told.textContent += ` ${e.type}:${Math.round(performance.now())}`;
for (const name of ['transitionend', 'animationiteration', 'animationend']) addEventListener(name, tell);
</script>"""


def rounds_told(env, **of_reset):
    """When the page was told of rounds of its animation, in milliseconds, after all of them; and of the transition's."""
    env.reset(seed=5, **of_reset)
    for action in ({"action": "click", "id": 1}, {"action": "wait", "ms": 1500}):
        seen, *_ = env.step(action)
    told = [(name, int(at)) for name, _, at in (word.partition(":") for word in seen["page_text"].split()) if at]
    assert dict(told)["transitionend"] - dict(told)["click"] in range(500, 535), told
    return [at for name, at in told if name.startswith("animation")]


def test_a_page_is_told_of_an_animations_end_when_it_ends(open_page):
    """Not when the browser next paints, which it does by the real clock."""
    env, _ = open_page(EVENTS, options={"deterministic": True})
    rounds = rounds_told(env)
    assert len(rounds) == 3
    assert all(later - sooner in range(183, 218) for sooner, later in itertools.pairwise(rounds)), rounds


def test_an_animation_stands_still_while_a_page_loads(open_page, loopback):
    """However long that takes by the real clock."""

    def answer(request):
        if request.path == "/late.png":
            time.sleep(1.0)
        return (EVENTS + "<img src=/late.png>").encode()

    env, _ = open_page("", options={"deterministic": True})
    rounds = rounds_told(env, options={"start_url": loopback(answer).url})
    assert len(rounds) == 3
    assert rounds[0] >= 200 - 17


@pytest.mark.slow
def test_without_it_they_do_not(open_page):
    env, _ = open_page(CLOCK, inner=INNER)
    assert episode(env, 5)[1]["page_text"] != episode(env, 5)[1]["page_text"]


def test_a_wait_takes_the_time_that_it_says(open_page):
    env, _ = open_page(
        "<p id=p>0</p><script>setInterval(() => p.textContent++, 100)</script>", options={"deterministic": True}
    )
    before = int(env.reset(seed=0)[0]["page_text"])
    obs, *_ = env.step({"action": "wait", "ms": 1000})
    assert int(obs["page_text"]) == before + 11  # the wait, and settling


def test_time_goes_on_over_a_navigation(open_page):
    page = "<p id=p></p><a href=index.html>again</a><script>p.textContent = Date.now()</script>"
    env, obs = open_page(page, options={"deterministic": True})
    times = [int(obs["page_text"].split()[0])]
    for _ in range(3):
        obs, *_ = env.step({"action": "click", "id": obs["elements"][0]["id"]})
        times.append(int(obs["page_text"].split()[0]))
    assert times == sorted(set(times))


def test_a_script_that_waits_for_the_clock_in_a_loop_ends(open_page):
    page = "<button onclick=\"const end = Date.now() + 500; while (Date.now() < end); document.title = 'done'\">Go</button>"
    env, _ = open_page(page, options={"deterministic": True})
    obs, *_ = env.step({"action": "click", "id": 1})
    assert obs["title"] == "done"


def test_setup_may_wait_for_the_page(tmp_path):
    from tests.browser_env.conftest import Site

    class Patient(Site):
        async def setup(self, page, rng):
            await super().setup(page, rng)
            return await page.evaluate("new Promise((done) => setTimeout(() => done('ready'), 300))")

    (tmp_path / "index.html").write_text("<p>x</p>")
    env = gymnasium.make("Browser-v0", task=Patient(tmp_path), deterministic=True, screenshot=False)
    obs, _ = env.reset(seed=0)
    assert obs["goal"] == "ready"
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["click-pie", "stock-market"])
def test_tasks_that_move_by_the_clock_repeat(name):
    env = gymnasium.make(f"MiniWoB/{name}-v0", deterministic=True)
    actions = [{"action": "wait", "ms": 300}, {"action": "click", "x": 80.0, "y": 125.0}, {"action": "wait", "ms": 800}]
    for seed in range(3):
        first, second = episode(env, seed, 0.0, actions), episode(env, seed, 0.1, actions)
        assert_same(first, second)
        assert any(not np.array_equal(first[0]["screenshot"], later["screenshot"]) for later in first[1:])
    env.close()
