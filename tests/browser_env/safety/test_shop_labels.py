"""Precision and recall on labels from real shops' translation files (`shop_labels.tsv`)."""

from pathlib import Path

import pytest

from selfsurf.browser_env.safety.risk import of_label

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt")


def labels(half):
    """Return kind, language and label of a half's lines; the kind is None where the label is harmless."""
    lines = (Path(__file__).parent / "shop_labels.tsv").read_text(encoding="utf8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(None if row[0] == "-" else row[0], row[1], row[4]) for row in rows if row[2] == half]


def figures(rows):
    """Return precision, recall, and recall of purchases as purchases."""
    judged = [(kind, of_label(label)) for kind, _, label in rows]
    hits = sum(1 for kind, found in judged if kind and found)
    purchases = [found for kind, found in judged if kind == "purchase"]
    return (
        hits / max(1, sum(1 for _, found in judged if found)),
        hits / sum(1 for kind, _ in judged if kind),
        purchases.count("purchase") / len(purchases),
    )


def test_there_are_enough_labels_in_each_half_and_language():
    for half in ("seen", "held"):
        rows = labels(half)
        assert sum(1 for kind, *_ in rows if kind) >= 190
        assert sum(1 for kind, *_ in rows if kind is None) >= 480
        for language in LANGUAGES:
            assert sum(1 for kind, found, _ in rows if kind == "purchase" and found == language) >= 7


@pytest.mark.parametrize("half", ["seen", "held"])
def test_labels_of_shops_are_told_apart(half):
    rows = labels(half)
    precision, recall, purchases = figures(rows)
    print(f"{half}: {len(rows)} labels, precision {precision:.3f}, recall {recall:.3f}, of purchases {purchases:.3f}")
    assert precision >= 0.95
    assert min(recall, purchases) >= 0.9


@pytest.mark.parametrize("language", LANGUAGES)
def test_purchases_are_recognized_in_each_language(language):
    _, _, purchases = figures([row for row in labels("held") if row[1] == language])
    print(f"{language}: recall of purchases {purchases:.3f}")
    assert purchases >= 0.7
