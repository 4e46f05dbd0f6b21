"""Format 2 as `docs/episodes.md` specifies it, and episodes of format 1, which the code of its day wrote."""

import json
import re
import shutil
from pathlib import Path

import pytest

from selfsurf.agents.play.replay import replay
from selfsurf.browser_env.record.episode import Episode, EpisodeError, EpisodeWriter, write_manifest
from selfsurf.browser_env.record.format import COMPLETION, DECISION, EPISODE, STEP
from selfsurf.envs_registry import task_of

DOCS = Path(__file__).parents[3] / "docs" / "episodes.md"
OLD = Path(__file__).parent / "episodes"


def specified(section):
    """The fields that the table of a section of the docs names."""
    text = DOCS.read_text(encoding="utf8").split(f"{section}\n", 1)[1].split("\n#", 1)[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


@pytest.fixture
def episode(open_page, tmp_path):
    """An episode with a model's completion, a question that is answered, a risky action and a reply that is no action."""
    env, seen = open_page("<button>Buy now</button>", options={"user": lambda question: "Yes.", "screenshot": True})
    writer = EpisodeWriter(tmp_path / "e", {"goal": seen["goal"], "seed": 0})
    first = {"text": '{"click":1}', "token_ids": [5], "logprobs": [-0.5], "guard": "noticed", "guards": {"repeat": 1}}
    for action, more in (
        ({"action": "click", "id": 1}, {"policy": first, "time": 12.5, "narration": "I buy it."}),
        ({"action": "ask_user", "question": "Really?"}, {}),
        ("buy it", {"completions": [{"text": "Let me think."}, {"text": "buy it", "error": "No action."}]}),
    ):
        after, reward, _, _, info = env.step(action)
        writer.step(seen, action, reward=reward, info=info, after=after, **more)
        seen = after
    writer.finish("stopped", trainable=False, after=seen, detail="Enough.")
    return tmp_path / "e"


def test_the_docs_name_the_fields_that_are_written(episode):
    meta = json.loads((episode / "episode.json").read_text())
    steps = [json.loads(line) for line in (episode / "steps.jsonl").read_text().splitlines()]
    assert len(steps) == 3
    completions = [completion for step in steps for completion in step["completions"]]
    assert len(completions) == 3
    for section, records, empty in (
        ("## `episode.json`", [meta], EPISODE),
        ("## `steps.jsonl`", steps, STEP),
        ("### An entry of `completions`", completions, COMPLETION),
        ("### `decision`", [steps[0]["decision"]], DECISION),
        ("### An entry of `questions`", steps[1]["questions"], {"question": "", "answer": None}),
    ):
        assert specified(section) == list(dict.fromkeys(specified(section)))
        assert set(empty) == set(specified(section)), section
        for record in records:
            assert set(record) == set(specified(section)), section
    assert set(steps[0]["timing"]) == {"act", "settle", "observe", "score", "total"}
    assert set(meta["totals"]) == {"steps", "reward", "judged"}


def test_what_the_environment_knows_is_in_the_step(episode):
    clicked, asked, unreadable = Episode(episode).steps()
    assert (clicked["time"], clicked["narration"], clicked["action_path"]) == (12.5, "I buy it.", "mouse")
    assert clicked["risk"]["kind"] == "purchase"
    assert clicked["decision"] == {**DECISION, "guard": "noticed", "guards": {"repeat": 1}}
    assert clicked["completions"][0]["tokens"] is None
    assert asked["questions"] == [{"question": "Really?", "answer": "Yes."}]
    assert (asked["action_path"], asked["risk"], asked["completions"], asked["decision"]) == ("chat", None, [], None)
    meta = Episode(episode).meta
    assert meta["started"] < asked["time"] < unreadable["time"] < meta["ended"]
    assert unreadable["actions"] == [{"unreadable": "buy it"}]
    assert unreadable["error"] == unreadable["outcome_detail"] != ""
    assert [each["text"] for each in unreadable["completions"]] == ["Let me think.", "buy it"]
    assert (meta["outcome_detail"], meta["totals"]["judged"]) == ("Enough.", False)
    assert meta["versions"]["selfsurf"]


def test_a_question_that_nobody_answers(open_page, tmp_path):
    env, seen = open_page("<p>Hello")
    writer = EpisodeWriter(tmp_path / "e", {})
    action = {"action": "ask_user", "question": "Who?"}
    after, reward, _, _, info = env.step(action)
    writer.step(seen, action, reward=reward, info=info, after=after)
    writer.finish("stopped", trainable=False)
    (step,) = Episode(tmp_path / "e").steps()
    assert step["questions"] == [{"question": "Who?", "answer": None}]


def test_the_manifest_tells_which_file_is_damaged(episode):
    read = Episode(episode)
    assert read.damage() == []
    pictures = sorted((episode / "artifacts").iterdir())
    assert len(pictures) == 4
    pictures[0].unlink()
    pictures[1].write_bytes(pictures[1].read_bytes()[:-1])
    (episode / "artifacts" / "more.png").write_bytes(b"")
    with (episode / "steps.jsonl").open("a") as lines:
        lines.write("\n")
    assert read.damage() == [
        "artifacts/0000.png is missing.",
        "steps.jsonl is damaged.",
        "artifacts/0001.png is damaged.",
        "artifacts/more.png is not in the manifest.",
    ]
    write_manifest(episode)
    assert read.damage() == []
    (episode / "manifest.json").write_text("[]")
    with pytest.raises(EpisodeError, match=r"manifest\.json is damaged"):
        read.damage()


def test_unknown_fields_are_ignored_and_missing_ones_are_empty(episode):
    path = episode / "episode.json"
    meta = json.loads(path.read_text())
    del meta["tags"]
    path.write_text(json.dumps({**meta, "weather": "fine"}))
    lines = episode / "steps.jsonl"
    step = json.loads(lines.read_text().splitlines()[0])
    del step["risk"]
    lines.write_text(json.dumps({**step, "mood": "good"}) + "\n")
    read = Episode(episode)
    assert read.meta["tags"] == []
    (step,) = read.steps()
    assert step["risk"] is None


def replayed(folder, **options):
    episode = Episode(folder)
    return replay(episode, task_of(episode.meta["env_id"]), **options)


@pytest.mark.parametrize("name", ["format-1-oracle", "format-1-model"])
def test_format_1_has_the_same_shape(name):
    read = Episode(OLD / name)
    assert set(EPISODE) == set(read.meta)
    assert (read.meta["format"], read.meta["versions"]["selfsurf"]) == (1, "0.1.0")
    assert read.meta["score"]["raw_reward"] in (1, -1)
    steps = list(read.steps())
    assert len(steps) == read.meta["totals"]["steps"]
    for step in steps:
        assert set(STEP) == set(step)
        assert (OLD / name / step["screenshot"]).is_file()
        for completion in step["completions"]:
            assert set(COMPLETION) == set(completion)
    assert read.damage() == [], "it has no manifest"


def test_an_episode_that_has_not_ended_has_no_manifest_to_compare_with(episode):
    (episode / "manifest.json").unlink()
    with pytest.raises(EpisodeError, match="There is no manifest"):
        Episode(episode).damage()


def test_a_file_is_no_episode(episode):
    with pytest.raises(EpisodeError, match="There is no episode in"):
        Episode(episode / "steps.jsonl")


def test_format_1_keeps_what_it_says(tmp_path):
    read = Episode(OLD / "format-1-oracle")
    assert (read.meta["agent"], read.meta["outcome"]) == ("oracle", "solved")
    fill, click = read.steps()
    assert fill["actions"] == [{"action": "fill", "id": 1, "text": "Vanda"}]
    assert (click["actions"], click["reward"], click["outcome"]) == ([{"action": "click", "id": 2}], 1.0, "solved")
    (step,) = Episode(OLD / "format-1-model").steps()
    (completion,) = step["completions"]
    assert completion["text"] == '{"click":2}'
    assert len(completion["token_ids"]) == len(completion["logprobs"]) == 4
    assert step["decision"] == {
        "guard": "", "guards": {}, "demonstrated": False, "more": [], "place": 0, "left": "", "roles": [], "graph": {},
    }  # fmt: skip
    shutil.copytree(OLD / "format-1-model", tmp_path / "e")
    path = tmp_path / "e" / "steps.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text()), "action": "no action", "policy": None}) + "\n")
    (step,) = Episode(tmp_path / "e").steps()
    assert (step["actions"], step["completions"], step["decision"]) == ([{"unreadable": "no action"}], [], None)


@pytest.mark.parametrize(("name", "outcome"), [("format-1-oracle", "solved"), ("format-1-model", "failed")])
def test_format_1_is_replayed(name, outcome):
    shown = []
    result = replayed(OLD / name, shown=shown.append)
    assert (result.outcome, result.complete, result.difference) == (outcome, True, "")
    assert shown == result.steps
    assert {step.matched for step in result.steps} == {"id"}


def test_an_unreadable_reply_is_skipped_in_a_replay(tmp_path):
    shutil.copytree(OLD / "format-1-oracle", tmp_path / "e")
    path = tmp_path / "e" / "steps.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text(json.dumps({**json.loads(first), "action": "fill it"}) + "\n" + second + "\n")
    result = replayed(tmp_path / "e")
    assert [step.done for step in result.steps] == [False, True]
    assert result.steps[0].action == "fill it"
    assert result.steps[0].error
    assert result.difference == "The replay ended failed (0), not solved (1)."
