"""Other labels for the elements of a flow, so that labels aren't memorized letter by letter.

Another page may say "Your email" or "Email address" instead of "Email", or "Secret word" instead of "Password". Every
language adds words of its own, so added words are random: the rest of the label has to suffice, and an element with an
entirely new label has to be identified by elimination.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

LONGER, SHORTER, OTHER = 0.3, 0.2, 0.5
"""Probabilities that a label gets one more word, that it loses one of several, and that one label of the flow is
replaced entirely."""

Label = tuple[str, str]
"""Role and name of an element."""


def other_labels(
    touched: Sequence[Mapping[str, Any]], kept: Collection[str], word: Callable[[], str], rng: np.random.Generator
) -> dict[Label, str]:
    """Return other names for elements, by role and name.

    Args:
        touched: elements of the recorded actions.
        kept: names that stay because the goal mentions them.
        word: function that returns a meaningless word.
        rng: random generator.
    """
    known = dict.fromkeys((one["role"], one["name"]) for one in touched if one["name"] and one["name"] not in kept)
    labels = {label: _other(label[1], word, rng) for label in known}
    if labels and rng.random() < OTHER:
        labels[[*labels][int(rng.integers(len(labels)))]] = word().capitalize()
    return {label: name for label, name in labels.items() if name != label[1]}


def _other(name: str, word: Callable[[], str], rng: np.random.Generator) -> str:
    words, drawn = name.split(), rng.random()
    if drawn < LONGER:
        if rng.random() < 0.5:
            return f"{name} {word()}"
        return " ".join([word().capitalize(), words[0].lower() if words[0].istitle() else words[0], *words[1:]])
    if drawn < LONGER + SHORTER and len(words) > 1:
        left = words[1:] if rng.random() < 0.5 else words[:-1]
        return " ".join([left[0].capitalize(), *left[1:]])
    return name
