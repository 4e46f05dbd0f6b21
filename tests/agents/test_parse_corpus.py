"""Replies as models write them, each with the action that a reader finds in it: `corpus/*.jsonl`.

A line holds `text`; `ids` or the name of a `prompt` of `prompts.json`, whose ids then count; the expected `action` or
null, decided by reading and not by the parser; `how`; and `source`: a model with temperature and seed, a mutation and
of what, or written, in which style.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from selfsurf.agents.reply.parse import parse
from selfsurf.browser_env.actions import parse_action

CORPUS = Path(__file__).parent / "corpus"
PROMPTS: dict[str, Any] = json.loads((CORPUS / "prompts.json").read_text(encoding="utf8"))


def _lines(name: str) -> list[Any]:
    with (CORPUS / f"{name}.jsonl").open(encoding="utf8") as file:
        return [pytest.param(json.loads(line), id=f"{name}-{number}") for number, line in enumerate(file, 1)]


@pytest.mark.parametrize("line", [*_lines("model"), *_lines("mutations"), *_lines("written")])
def test_a_reply_is_read_as_a_reader_would(line: dict[str, Any]) -> None:
    given = PROMPTS[line["prompt"]] if "prompt" in line else {"prompt": "", "ids": line["ids"]}
    parsed = parse(line["text"], given["ids"], given["prompt"])
    read = None if parsed.action is None else parsed.action.to_dict()
    expected = None if line["action"] is None else parse_action(line["action"]).to_dict()
    assert read == expected, (line["text"], line["source"], parsed.error)
    assert parsed.how == line["how"], line["text"]
    assert (parsed.action is None) == bool(parsed.error)
    assert "\n" not in parsed.error
    several = parse(line["text"], given["ids"], given["prompt"], most=3)
    assert several.action == parsed.action, "where more are asked for, the first is the same"


def test_the_corpus_is_large_and_of_every_kind() -> None:
    counts = {name: len(_lines(name)) for name in ("model", "mutations", "written")}
    assert counts["model"] >= 80
    assert counts["mutations"] >= 60
    assert sum(counts.values()) >= 220
    assert len({line.values[0]["source"].split()[3] for line in _lines("model")}) == 5  # temperatures
