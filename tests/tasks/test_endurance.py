"""Random actions over all MiniWoB++ tasks, well-formed and not, faults among them: nothing is raised, nothing grows."""

import asyncio
import gc
import os
import random
import string
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf import browser_env
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.tasks.miniwob import names
from tests.processes import browsers, counts, descendants, drivers, gone, memory

KEYS = ("Enter", "Tab", "Escape", "a", "Control+a", "ArrowDown", "Backspace", "Hyper+x", "", "++")
MALFORMED = (
    None, 7, "", "click", "click(", 'click("1"', "[]", "{}", '{"action": "fly"}', {"action": "click"}, [], {"id": 1},
    {"action": "click", "id": "one"}, {"action": "fill", "id": 1}, {"action": "click", "x": -5.0, "y": 1e9},
    {"action": "navigate", "url": "javascript:alert(1)"}, {"action": "navigate", "url": "file:///etc/passwd"},
    {"action": "wait", "ms": -1}, {"action": "wait", "ms": 10**12}, "\ud800", b"click", {"action": "click", "id": 2**70},
    "x" * 100_000, {"action": "press", "key": "\x00"}, {"action": "type", "text": "\x00\uffff"}, object(),
)  # fmt: skip


TROUBLES = {
    "crash": None,
    "hang": "setTimeout(() => { for (;;); }, 5)",
    "dialogs": "setTimeout(() => { alert('a'); confirm('b'); prompt('c') }, 5)",
    "windows": "setTimeout(() => { for (let i = 0; i < 5; i++) open('about:blank') }, 5)",
    "navigation": "setTimeout(() => { location = 'about:blank#' + Math.random() }, 5)",
    "busy": "setTimeout(() => { for (let i = 0; i < 1e9; i++); }, 5)",
    "layout": "document.body.append(...Array.from({length: 20000}, (_, i) => { const row = document.createElement('p');"
    " row.textContent = i; return row }))",
}
DEADLY = ("crash", "hang")


async def make_trouble(kind, session):
    """Do to the page that is shown what pages do by themselves at times."""
    tab = session.active
    made = asyncio.ensure_future(
        tab.protocol.send("Page.crash") if kind == "crash" else tab.page.evaluate(TROUBLES[kind])
    )
    made.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait([made], timeout=1)


def random_action(rng, obs):
    """Return any action: mostly on an element that is there, sometimes on none, sometimes no action at all."""
    ids = [element["id"] for element in obs["elements"]] or [1]
    one = rng.choice(ids) if rng.random() < 0.9 else rng.randrange(-2, 500)
    x, y = rng.uniform(0, 331), rng.uniform(0, 213)
    text = "".join(rng.choices(string.printable + "äß漢😀", k=rng.randrange(12)))
    return rng.choices(
        (
            {
                "action": "click",
                "id": one,
                "button": rng.choice(("left", "left", "right", "middle")),
                "count": rng.choice((1, 1, 2)),
            },
            f'click("{one}")',
            {"action": "click", "x": x, "y": y},
            {"action": "fill", "id": one, "text": text},
            {"action": "type", "text": text},
            {"action": "type", "id": one, "text": text},
            {"action": "press", "key": rng.choice(KEYS)},
            {"action": "select", "id": one, "options": [text]},
            {"action": "hover", "id": one},
            {"action": "scroll", "dx": rng.randrange(-300, 300), "dy": rng.randrange(-300, 300)},
            {"action": "scroll", "id": one, "dx": 0, "dy": 50},
            {"action": "drag", "from": one, "to": rng.choice(ids)},
            {"action": "upload", "id": one, "files": ["/nowhere"]},
            {"action": "wait", "ms": rng.randrange(5)},
            {"action": rng.choice(("new_tab", "close_tab", "back", "forward"))},
            {"action": "focus_tab", "index": rng.randrange(3)},
            {"action": "navigate", "url": "about:blank"},
            {
                "action": rng.choice(("message", "finish", "ask_user", "infeasible")),
                "text": "x",
                "question": "x?",
                "reason": "x",
                "answer": "x",
            },
            rng.choice(MALFORMED),
        ),
        weights=(20, 5, 10, 8, 4, 3, 6, 3, 3, 3, 2, 4, 1, 2, 1, 1, 0.3, 0.7, 6),
    )[0]


def wander(count, seed=0, each=20, report=None, troubles=0.0):
    """Take `count` random actions, `each` in a task before the next task's turn; return the memory as it went.

    Before each action the page gets into trouble (`TROUBLES`) with the probability `troubles`.
    """
    rng, taken, figures, outcomes = random.Random(seed), 0, [], Counter()
    while taken < count:
        for name in rng.sample(names(), len(names())):
            env = gymnasium.make(f"MiniWoB/{name}-v0", screenshot=rng.random() < 0.05, hang_timeout=3.0)
            obs, _ = env.reset(seed=rng.randrange(2**31))
            deadly = False
            for _ in range(each):
                if rng.random() < troubles:
                    trouble = rng.choice(list(TROUBLES))
                    deadly |= trouble in DEADLY
                    outcomes[trouble] += 1
                    runtime().run(make_trouble(trouble, env.unwrapped.core.session))
                obs, _, terminated, truncated, info = env.step(random_action(rng, obs))
                outcomes[info["outcome"]] += 1
                assert deadly or info["outcome"] != "env_error", (name, info, obs["last_action"])
                taken += 1
                if terminated or truncated:
                    obs, _ = env.reset(seed=rng.randrange(2**31))
                    deadly = False
            env.close()
            if report and taken // report > len(figures):
                gc.collect()
                figures.append(memory())
                print(f"{taken} actions, {figures[-1]:.0f} MB, {counts()}, {dict(outcomes)}", flush=True)
            if taken >= count:
                return figures
    return figures


def slope(figures, report):
    """Return MB per 1,000 actions, without the first quarter, in which the caches of browser and driver fill up."""
    later = figures[len(figures) // 4 :]
    return np.polyfit(range(len(later)), later, 1)[0] * 1000 / report


@pytest.mark.slow
def test_sixty_random_actions():
    wander(10, each=5)
    before = counts()
    wander(60, seed=1, each=5)
    assert counts() == before


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_random_actions_leave_memory_flat():
    wander(100, each=4)
    before, files = counts(), len(os.listdir("/proc/self/fd"))
    figures = wander(10_000, seed=1, report=500)
    assert counts() == before
    assert len(os.listdir("/proc/self/fd")) <= files + 5
    assert slope(figures, 500) < 5


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_a_soak_with_crashes_hangs_dialogs_and_windows():
    """`SELFSURF_SOAK=200000` makes it as long as the one in docs/faults.md."""
    browser_env.shutdown()
    count = int(os.environ.get("SELFSURF_SOAK", 4_000))
    report, each = count // 40, 20 if count < 50_000 else 60
    with ThreadPoolExecutor(4) as pool:
        figures, *_ = pool.map(lambda seed: wander(count // 4, seed, each, report, troubles=0.005), range(4))
    print(f"{slope(figures, report):.2f} MB per 1,000 actions of each of the four")
    assert count < 50_000 or slope(figures, report) < 5
    assert counts()["contexts"] == counts()["pages"] == 0
    started = [*browsers(), *drivers()]
    browser_env.shutdown()
    assert gone(started)
    assert not [process for process in descendants() if "chrom" in process.name()]
