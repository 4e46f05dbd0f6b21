"""Pages to act on, and the real small model, loaded once in float32 so that equalities are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from selfsurf.browser_env.observation import Element, Observation


def _element(number: int, role: str = "button", name: str = "", **rest: Any) -> Element:
    tags = {"button": "button", "link": "a", "textbox": "input", "combobox": "select", "checkbox": "input"}
    defaults: dict[str, Any] = {
        "tag": tags.get(role, "div"), "value": "", "states": (), "bbox": (0.0, 0.0, 10.0, 10.0),
        "in_viewport": True, "frame": "", "options": (),
    }  # fmt: skip
    return Element(**{"id": number, "role": role, "name": name or f"{role} {number}", **defaults, **rest})  # type: ignore[typeddict-item]


def _observation(goal: str, elements: list[Element], **rest: Any) -> Observation:
    from selfsurf.browser_env.outline import element_line

    defaults: dict[str, Any] = {
        "url": "http://page/", "title": "", "tabs": (), "page_text": "", "events": (), "messages": (),
        "last_action": "", "last_error": "", "dom": "\n".join(element_line(element) for element in elements),
    }  # fmt: skip
    return Observation(**{"goal": goal, "elements": tuple(elements), **defaults, **rest})  # type: ignore[typeddict-item]


@pytest.fixture(scope="session")
def element() -> Callable[..., Element]:
    """Makes an element: `element(4, "link", "Eget")`."""
    return _element


@pytest.fixture(scope="session")
def observation() -> Callable[..., Observation]:
    """Makes an observation whose outline lists the elements."""
    return _observation


@pytest.fixture(scope="session")
def form() -> Observation:
    """A page with a field, a list, two buttons and a link."""
    return _observation(
        'Enter "Ada" into the text field and press Submit.',
        [
            _element(3, "textbox", "Name"),
            _element(5, "combobox", "Colour", options=("Red", 'Blue "dark"', "Grün")),
            _element(7, "button", "Submit"),
            _element(12, "button", "Cancel"),
            _element(71, "link", "Help"),
        ],
    )


@pytest.fixture(scope="package")
def policy(model_folder: Path) -> Iterator[Any]:
    """The policy, on one thread: where other work shares the cores, more threads wait for each other."""
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield TransformersPolicy(model_folder, dtype="float32", device="cpu")
    torch.set_num_threads(threads)
