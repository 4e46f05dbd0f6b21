"""Gymnasium spaces of the actions that the environment takes and the observations that it returns."""

from __future__ import annotations

import string
from typing import Any, get_args, get_type_hints, is_typeddict

import numpy as np
from gymnasium import spaces

from selfsurf.browser_env.actions import parse_action
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.task import Viewport

_LETTERS = np.array(list(string.ascii_lowercase + " "))


class _Unbounded(spaces.Space[Any]):
    """A space without a fixed size."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Whether values can be flattened to arrays; False, since their size varies."""
        return False

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))


class Value(_Unbounded):
    """A space of all values of one plain Python type: `str`, `int`, `float` or `bool`."""

    def __init__(self, kind: type, seed: int | np.random.Generator | None = None) -> None:
        self.kind = kind
        super().__init__(seed)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> Any:
        """Return a random value: a short text, a small number, or a truth value."""
        if self.kind is str:
            return "".join(self.np_random.choice(_LETTERS, size=self.np_random.integers(0, 20)))
        if self.kind is bool:
            return bool(self.np_random.integers(2))
        return self.kind(self.np_random.integers(1000))

    def contains(self, x: Any) -> bool:
        """Whether `x` is of the space's type. A bool doesn't count as a number."""
        return isinstance(x, self.kind) and (self.kind is bool or not isinstance(x, bool))

    def __repr__(self) -> str:
        return f"Value({self.kind.__name__})"


class ActionSpace(_Unbounded):
    """The space of actions in every accepted form: typed, dict, compact dict, JSON, call string. Samples are dicts."""

    def __init__(self, viewport: Viewport = (1280, 720), seed: int | np.random.Generator | None = None) -> None:
        self.viewport = viewport
        super().__init__(seed)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        """Return a random action that doesn't depend on the page: a point, key, text or scroll."""
        rng = self.np_random
        x, y = (float(rng.integers(side)) for side in self.viewport)
        choices: list[dict[str, Any]] = [
            {"action": "click", "x": x, "y": y},
            {"action": "hover", "x": x, "y": y},
            {"action": "press", "key": str(rng.choice(["Tab", "Enter", "Escape", "ArrowDown", "a"]))},
            {"action": "type", "text": "".join(rng.choice(_LETTERS, size=5))},
            {"action": "scroll", "dy": float(rng.integers(-300, 300))},
        ]
        return choices[int(rng.integers(len(choices)))]

    def contains(self, x: Any) -> bool:
        """Whether `x` is a well-formed action."""
        try:
            parse_action(x)
        except ActionError:
            return False
        return True

    def __repr__(self) -> str:
        return f"ActionSpace(viewport={self.viewport})"


def observation_space(viewport: Viewport, screenshot: bool) -> spaces.Dict:
    """Return the space of observations (`browser_env.observation.Observation`)."""
    parts = {name: _space_of(kind) for name, kind in get_type_hints(Observation).items() if name != "screenshot"}
    if screenshot:
        parts["screenshot"] = spaces.Box(0, 255, (viewport[1], viewport[0], 3), np.uint8)
    return spaces.Dict(parts)


def _space_of(kind: Any) -> spaces.Space[Any]:
    """Return the space of a type: a TypedDict, a tuple, or a plain type."""
    if is_typeddict(kind):
        return spaces.Dict({name: _space_of(part) for name, part in get_type_hints(kind).items()})
    items = get_args(kind)
    if not items:
        return Value(kind)
    return TupleOf(_space_of(items[0])) if items[-1] is ... else spaces.Tuple([_space_of(item) for item in items])


class TupleOf(_Unbounded):
    """A space of tuples of any length whose items are all in `item`."""

    def __init__(self, item: spaces.Space[Any], seed: int | np.random.Generator | None = None) -> None:
        self.item = item
        super().__init__(seed)

    def seed(self, seed: Any = None) -> Any:
        """Seed this space and its items."""
        self.item.seed(seed)
        return super().seed(seed)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> tuple[Any, ...]:
        """Return a tuple of up to three random items."""
        return tuple(self.item.sample() for _ in range(int(self.np_random.integers(4))))

    def contains(self, x: Any) -> bool:
        """Whether `x` is a tuple whose items are all in `item`."""
        return isinstance(x, tuple) and all(item in self.item for item in x)

    def __repr__(self) -> str:
        return f"TupleOf({self.item!r})"
