"""Observations that tell only what changed: the agent reads whole pages all the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.observe.delta import make_delta
from selfsurf.browser_env.observe.outlines import Outlines
from tests.agents.said import saying

Make = Callable[..., Observation]
MakeElement = Callable[..., Element]


def test_changes_are_put_together(observation: Make, element: MakeElement) -> None:
    pages = [
        observation("Go.", [element(number, name=f"B{number}") for number in range(1, size)]) for size in (4, 6, 6, 3)
    ]
    outlines = Outlines()
    seen = [outlines.whole(pages[0])]
    for before, now in pairwise(pages):
        seen.append(outlines.whole(Observation(**{**now, "dom": make_delta(before["dom"], now["dom"])})))
    assert seen == pages
    more = Observation(**{**pages[1], "dom": make_delta(pages[-1]["dom"], pages[1]["dom"])})
    assert [outlines.whole(more) for _ in range(2)] == [pages[1]] * 2  # asked again
    new = observation("Go.", [element(99)])
    assert outlines.whole(Observation(**{**new, "dom": make_delta("", new["dom"], new_page=True)})) == new


@pytest.mark.parametrize("dom", ["no change", "changed:\nline 3:\n- gone"])
def test_a_change_to_nothing_known_is_refused(form: Observation, dom: str) -> None:
    outlines = Outlines()
    with pytest.raises(ValueError, match="obs_mode"):
        outlines.whole(Observation(**{**form, "dom": dom}))


def test_a_change_that_does_not_fit_is_refused(form: Observation) -> None:
    outlines = Outlines()
    outlines.whole(Observation(**{**form, "dom": "one line"}))
    with pytest.raises(ValueError, match="every observation"):
        outlines.whole(Observation(**{**form, "dom": "changed:\nline 7:\n- gone"}))


def test_a_page_may_say_no_change(form: Observation) -> None:
    outlines = Outlines()
    outlines.whole(form)
    said = Observation(**{**form, "dom": "no change", "page_text": "no change"})
    assert outlines.whole(said) == said


def test_prompts_are_the_same_in_both_modes(policy: Any, tmp_path: Path) -> None:
    """One episode in a real browser, watched whole and by its changes."""
    from selfsurf import browser_env  # noqa: F401  (registers Browser-v0)

    rows = "".join(f"<p><label><input type=checkbox> Row {number}</label></p>" for number in range(8))
    page = tmp_path / "index.html"
    page.write_text(f"<!doctype html><title>Rows</title><h1>Rows</h1>{rows}<a href='?again'>Again</a>", encoding="utf8")
    prompts: dict[str, list[str]] = {}
    for mode in ("full", "delta"):
        env = gymnasium.make(
            "Browser-v0", start_url=page.as_uri(), goal="Tick row 1.", obs_mode=mode, screenshot=False,
            viewport=(800, 600),
        )  # fmt: skip
        agent = saying(policy, '{"click":2}', guards=False)
        obs, _ = env.reset(seed=0)
        agent.reset(obs["goal"])
        for number in (2, 2, 9):
            agent.act(obs)
            prompts.setdefault(mode, []).append(agent.decisions[0].messages[-1].text.split("Page:\n")[1])
            obs, *_ = env.step({"action": "click", "id": number})
            assert obs["dom"].startswith(("changed:", "new page:")) is (mode == "delta")
        env.close()
    assert prompts["full"] == prompts["delta"]
    assert "checked" in prompts["full"][1]
