"""Explanations by a large model: a real server, servers that fail, the cache on disk, and the limits."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError

from selfsurf.sdft.rollouts import Job, Result
from selfsurf.sdft.run.contexts import make_lessons
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.context import told_action
from selfsurf.sdft.teacher.enrich import NEMOTRON, Enricher, EnrichSettings
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import OracleContext
from tests.agents.policy_server import KEY, answer, completion, policy_app, serve, serve_raw
from tests.sdft.contexts_cases import step_of

QUICK = {"retries": 0, "timeout": 5, "patience": 5, "endpoint": None}


def episode(*ids):
    """An episode in which the oracle would click these."""
    steps = []
    for number in ids:
        element = {"id": number, "role": "button", "name": f"B{number}", "tag": "button", "states": ()}
        observation = {"goal": f"Press B{number}.", "dom": f'[{number}] button "B{number}"', "elements": [element]}
        action = {"action": "click", "id": number}
        steps.append(step_of(observation, action, privileged={"action": action, "reason": ""}))
    return Result(Job("MiniWoB/click-test-v0", 0), "failed", trainable=True, steps=steps)


@pytest.fixture
def enriching(tmp_path):
    """Makes an enricher with a cache of the test's own; they are closed at the end."""
    made = []

    def make(url, folder=None, **options):
        settings = EnrichSettings(
            **{"model": "m", "base_url": url, "cache": str(tmp_path / "cache"), **QUICK, **options}
        )
        made.append(Enricher(settings, folder))
        return made[-1]

    yield make
    for one in made:
        one.close()


def texts(enricher, *ids):
    """What the teacher is told about an episode's steps."""
    (steps,) = LessonContext([OracleContext()], enricher).of([episode(*ids)])
    return [told.text for told in steps]


def plain(number):
    return told_action({"action": "click", "id": number}).text


def saying(text, asked):
    def handle(handler, body):
        asked.append(body)
        answer(handler, body=completion(text))

    return handle


def test_a_real_model_explains_and_is_asked_once(tiny_policy, enriching, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    asked = []
    with serve(policy_app(tiny_policy, asked)) as address:
        enricher = enriching(f"{address}/v1", model="small", endpoint="vllm", temperature=1.0, max_new_tokens=6)
        first = texts(enricher, 4, 5, 4)
        assert enricher.take_counts() == {"enrich/asked": 2, "enrich/cached": 0, "enrich/failed": 0, "enrich/capped": 0}
        assert len(asked) == 2
        assert {body["max_tokens"] for body in asked} == {6}
        (sent,) = [body["messages"][0]["content"] for body in asked if "Press B4." in body["messages"][0]["content"]]
        assert plain(4) in sent
        assert enricher.spent["tokens"] > 2 * 6
        for text, number in zip(first, (4, 5, 4), strict=True):
            explanation, _, rest = text.partition(f"\n{plain(number)}")
            assert (bool(explanation), rest) == (True, "")
        assert first[0] == first[2]
        assert texts(enricher, 4, 5) == first[:2]
        assert enricher.take_counts()["enrich/cached"] == 2
    assert len(asked) == 2


@pytest.mark.slow
def test_another_process_finds_it_in_the_cache(enriching, tmp_path):
    asked = []
    with serve_raw(saying("It is named so.", asked)) as url:
        assert texts(enriching(url), 4) == [f"It is named so.\n{plain(4)}"]
    source = f"""if True:
        from tests.sdft.test_contexts_enrich import *
        settings = EnrichSettings(model="m", base_url={url!r}, cache={str(tmp_path / "cache")!r}, **QUICK)
        enricher = Enricher(settings)
        print(json.dumps([texts(enricher, 4), enricher.take_counts()]))
    """
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", source], cwd=root, capture_output=True, text=True, check=True)
    (text,), counts = json.loads(done.stdout)
    assert text == f"It is named so.\n{plain(4)}"
    assert (counts["enrich/cached"], counts["enrich/asked"], len(asked)) == (1, 0, 1)
    assert texts(enriching(url, max_new_tokens=7), 4) == [plain(4)], "another request: its server is gone"


def test_an_explanation_that_ends_with_the_action_takes_its_place(enriching):
    """And where it names another, the right one follows."""
    asked, told = [], 'It is a form. B4 is named in the goal. It is sent.\nCorrect action: {"click":4}'
    with serve_raw(saying(told, asked)) as url:
        enricher = enriching(url, model=NEMOTRON)
        assert texts(enricher, 4, 5) == [told, f"{told}\n{plain(5)}"]
    (system, question), _ = (body["messages"] for body in asked)
    assert system["content"] == "detailed thinking off"
    assert "expected to happen" in question["content"]


@pytest.mark.parametrize(
    "fault",
    [
        lambda handler, body: answer(handler, 500, {"error": {"message": "broken"}}),
        lambda handler, body: answer(handler, 400, {"error": {"message": "no"}}),
        lambda handler, body: answer(handler, body=b"<html>"),
        lambda handler, body: answer(handler, body=completion("")),
        lambda handler, body: answer(handler, body=completion("<think>what is")),
    ],
    ids=["500", "400", "no json", "empty", "an unfinished thought"],
)
def test_a_failure_leaves_the_text_and_is_counted(enriching, fault, tmp_path):
    with serve_raw(fault) as url:
        enricher = enriching(url)
        assert texts(enricher, 4, 5) == [plain(4), plain(5)]
    assert enricher.take_counts() == {"enrich/asked": 0, "enrich/cached": 0, "enrich/failed": 2, "enrich/capped": 0}
    assert not list((tmp_path / "cache").rglob("*.json")), "the next run asks again"


def test_a_damaged_entry_is_asked_for_again(enriching, tmp_path):
    asked = []
    with serve_raw(saying("So it is.", asked)) as url:
        texts(enriching(url), 4)
        (entry,) = (tmp_path / "cache").rglob("*.json")
        entry.write_text('{"text": "half of')
        assert texts(enriching(url), 4) == [f"So it is.\n{plain(4)}"]
    assert len(asked) == 2


@pytest.mark.parametrize(
    "limit", [{"max_tokens": 2100}, {"max_dollars": 0.0021, "prices": {"input": 1.0, "output": 1.0}}]
)
def test_a_limit_is_kept_over_restarts(enriching, tmp_path, limit):
    asked = []
    with serve_raw(saying("So it is.", asked)) as url:  # 1010 tokens a reply
        enricher = enriching(url, tmp_path, parallel=1, **limit)
        told = texts(enricher, *range(10))
        assert told == [f"So it is.\n{plain(number)}" for number in range(2)] + [plain(n) for n in range(2, 10)]
        assert enricher.take_counts()["enrich/capped"] == 8
        again = enriching(url, tmp_path, parallel=1, **limit)
        assert again.spent["tokens"] == 2020
        assert texts(again, 1, 20) == [f"So it is.\n{plain(1)}", plain(20)]
    assert len(asked) == 2
    assert json.loads((tmp_path / "enrichment.json").read_text())["tokens"] == 2020


def test_what_was_spent_is_written_down_with_each_reply(enriching, tmp_path):
    asked, ledger = [], tmp_path / "enrichment.json"
    with serve_raw(saying("So it is.", asked)) as url:
        enricher, written = enriching(url, tmp_path, parallel=1), []
        complete = enricher._policy.complete

        def noted(*arguments, **options):
            written.append(json.loads(ledger.read_text())["tokens"] if ledger.exists() else 0)
            return complete(*arguments, **options)

        enricher._policy.complete = noted
        texts(enricher, 1, 2, 3)
    assert [after - before for before, after in pairwise(written)] == [1010, 1010], "a kill loses none of the replies"


def test_what_may_still_come_counts_against_the_limit(enriching):
    asked = []
    with serve_raw(saying("So it is.", asked)) as url:
        enricher = enriching(url, parallel=8, max_tokens=700)  # a request may take some 350
        texts(enricher, *range(8))
    assert len(asked) == 1 or enricher.spent["tokens"] <= 2 * 1010
    assert len(asked) < 8


def test_only_the_contexts_that_were_named_are_explained(enriching):
    asked = []
    with serve_raw(saying("So it is.", asked)) as url:
        assert texts(enriching(url, contexts=("feedback",)), 4) == [plain(4)]
    assert asked == []


def test_settings_are_checked_before_anything_is_loaded(monkeypatch):
    with pytest.raises(ValidationError, match="max_dollars needs prices"):
        EnrichSettings(model="m", max_dollars=1.0)
    monkeypatch.delenv("NVIDIA_API_KEY", raising=False)
    settings = TrainSettings(tasks=("MiniWoB/click-test-v0",), enrich={"model": "meta/llama-3.1-70b-instruct"})
    with pytest.raises(ValueError, match="needs a key: set NVIDIA_API_KEY"):
        make_lessons(settings)
