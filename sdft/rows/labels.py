"""What else the elements of a flow might be called, so that a label is not learned letter by letter.

Another page says "Your email" or "Email address" for "Email", or "Secret word" for "Password". The words that may be
added are as many as there are languages, so they are drawn: what remains of the label has to be enough, and where
nothing remains, what is left over is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

LONGER, SHORTER, OTHER = 0.3, 0.2, 0.5
"""How often a label has one more word, and one fewer if it has several; and how often one label of the flow is
another wholly."""

Label = tuple[str, str]
"""Role and name."""


def other_labels(
    touched: Sequence[Mapping[str, Any]], kept: Collection[str], word: Callable[[], str], rng: np.random.Generator
) -> dict[Label, str]:
    """Return other names for elements, by role and name.

    Args:
        touched: elements that the recorded actions are about.
        kept: names that stay: the goal speaks of them.
        word: gives a word that means nothing.
        rng: what is drawn from.
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
