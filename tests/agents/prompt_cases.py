"""Observations whose prompts are kept word for word in golden_prompts.json, since adapters were trained under them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from selfsurf.agents.prompt.compact import Compact
from selfsurf.agents.prompt.prompt import Budget, Prompt, Turn
from selfsurf.browser_env.observation import Element, Observation


def build(
    obs: Observation,
    *,
    goal: str = "",
    kinds: Any = None,
    spelled: bool = False,
    max_tokens: int | None = None,
    count: Any = None,
    count_text: Any = None,
    **turn: Any,
) -> Prompt:
    """The compact prompt."""
    more = turn if kinds is None else {**turn, "actions": kinds}
    budget = Budget(max_tokens, count, count_text)
    return Compact().build(obs, Turn(goal, constrained=not spelled, **more), budget)


def cases(
    observation: Callable[..., Observation], element: Callable[..., Element], form: Observation
) -> dict[str, tuple[Observation, dict[str, Any]]]:
    """By name, an observation and the options of `build`; `max_tokens` is by the small model's count."""
    links = [element(number, "link", f"word {number}") for number in range(1, 120)]
    lower = [element(number, "link", f"wörd {number} 漢字", in_viewport=50 <= number < 60) for number in range(1, 100)]
    mixed = [element(number, "button", f"Go {number}") for number in range(1, 40)]
    outline = "\n".join(
        f'heading "Part {item["id"]}"\n  some words that stand between, number {item["id"]}\n  [{item["id"]}] button "{item["name"]}"'
        for item in mixed
    )
    busy = {
        "messages": ({"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Which one?"}),
        "tabs": (
            {"url": "http://a/", "title": "A", "active": True},
            {"url": "http://b/", "title": "B", "active": False},
        ),
        "events": ("dialog: alert Done", "new tab: http://b/"),
        "last_error": "Element 9 is covered.",
    }
    done = [f'{{"click":{number}}} link "word {number}"' for number in (1, 2, 2, 3, 4)]
    return {
        "form": (form, {}),
        "form spelled": (form, {"spelled": True}),
        "form clicks": (form, {"kinds": ("click",)}),
        "no elements": (observation("Wait.", []), {}),
        "history": (form, {"history": done}),
        "history and error": (form, {"history": done[:3], "error": "The reply holds no action."}),
        "busy": (Observation(**{**form, **busy}), {"history": done, "goal": "Do it."}),
        "all fits": (observation("Find it.", links[:20]), {"max_tokens": 2048}),
        "cut": (observation("Find it.", links), {"max_tokens": 300}),
        "cut in the middle": (observation("Find it.", lower), {"max_tokens": 300}),
        "cut text": (observation("Press Go 7.", mixed, dom=outline), {"max_tokens": 512}),
        "cut busy": (Observation(**{**observation("Find it.", links), **busy}), {"history": done, "max_tokens": 512}),
        "cut to nothing": (observation("Find it.", links), {"max_tokens": 93}),
    }
