"""What is learned directly of recordings: every recorded state, each time with other ids and words; and what came of it."""

import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from selfsurf.agents.scripted import OracleAgent
from selfsurf.browser_env.actions import Click
from selfsurf.browser_env.observe.delta import CHANGED
from selfsurf.browser_env.outline import parse_outline
from selfsurf.browser_env.record.episode import EpisodeError
from selfsurf.scripts import cli
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.measure.agreement import OTHER_SEEDS, agreement
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.jobs import as_recorded, learned_from, texts_of
from selfsurf.sdft.rows.recorded import RecordedRows
from selfsurf.sdft.rows.variation import shared_texts, varied
from selfsurf.sdft.run.batches import Batches
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.recording import RecordedStep, load_recordings
from selfsurf.tasks.scenarios import names as scenarios
from tests.sdft.unjudged import UNJUDGED

REGISTER = "Scenario/register-v0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recorded flow of six actions."""
    made = tmp_path_factory.mktemp("recorded")
    with Rollouts(1) as rollouts:
        (result,) = rollouts.run(OracleAgent(), [Job(REGISTER, 0)], folder=made)
    assert result.solved
    return made


@pytest.fixture(scope="module")
def recording(folder):
    (found,) = load_recordings([folder])
    return found


@pytest.fixture
def shown(folder):
    """Settings of a short run on it."""
    short = {"steps": 1, "episodes_per_step": 1, "max_rows": 2, "recorded_rows": 4, "lora_rank": 4}
    return TrainSettings(**{**learned_from([folder]), **short})


def test_a_recording_of_changes_only_is_read_whole(recording, tmp_path):
    with Rollouts(1, obs_mode="delta") as rollouts:
        rollouts.run(OracleAgent(), [Job(REGISTER, 0)], folder=tmp_path)
    (steps,) = tmp_path.rglob("steps.jsonl")
    assert CHANGED in steps.read_text()
    assert load_recordings([tmp_path]) == [recording]
    steps.write_text("".join(steps.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(EpisodeError, match="only the changes to a page that is missing"):
        load_recordings([tmp_path])


def names(one):
    return [{each["id"]: each["name"] for each in step.observation["elements"]}[step.action.id] for step in one.steps]


def test_a_variation_has_other_ids_and_is_about_the_same_elements(recording):
    other = varied(recording, np.random.default_rng(0), invented=False)
    assert sorted(names(other)) == sorted(names(recording))
    assert [step.action.id for step in other.steps] != [step.action.id for step in recording.steps]
    for step, was in zip(other.steps, recording.steps, strict=True):
        elements = {each["id"]: each for each in step.observation["elements"]}
        assert len(elements) <= len(was.observation["elements"])
        for line in parse_outline(step.observation["dom"]):
            assert line.element is None or elements[line.id]["name"] == line.element.name
    texts = [{line.text for line in parse_outline(one.steps[0].observation["dom"])} for one in (recording, other)]
    assert texts[1] <= texts[0]


def test_a_variation_has_another_order_and_leaves_out_what_the_flow_does_not_touch(recording):
    others = [varied(recording, np.random.default_rng(seed), invented=False) for seed in range(8)]
    named = [
        [each.element.name for each in parse_outline(one.steps[0].observation["dom"]) if each.element] for one in others
    ]
    assert all({"Name", "Email", "Phone", "Workshop", "Send"} <= set(one) for one in named)
    assert len({tuple(one) for one in named}) > len(named) // 2
    assert len({len(one) for one in named}) > 1
    orders = [[[name for name in names if name in ("Name", "Email", "Phone")] for names in (
        [each.element.name for each in parse_outline(step.observation["dom"]) if each.element] for step in one.steps
    )] for one in others]  # fmt: skip
    assert all(pages == [pages[0]] * 6 for pages in orders), "the same on all pages of one variation"
    assert len({tuple(pages[0]) for pages in orders}) > 1


def test_what_may_have_been_chosen_by_its_place_stays_there(recording):
    first = recording.steps[0].observation
    link = next(one["id"] for one in first["elements"] if one["role"] == "link")
    clicked = replace(recording, steps=(RecordedStep(first, Click(id=link)),))
    for seed in range(8):
        step = varied(clicked, np.random.default_rng(seed), invented=False).steps[0]
        links = [line.id for line in parse_outline(step.observation["dom"]) if line.text.startswith("link")]
        names = {one["id"]: one["name"] for one in step.observation["elements"]}
        assert [names[each] for each in links] == [
            one["name"] for one in first["elements"] if one["name"] in {names[each] for each in links}
        ]


def test_words_that_goal_and_actions_share_are_replaced_in_all_places(recording):
    assert shared_texts(recording) == ["Ada Moreau", "ada@moreau.test", "0741852", "Chess"]
    other = varied(recording, np.random.default_rng(1))
    name, email, phone, workshop = shared_texts(other)
    assert email == ".".join(["@".join(name.lower().split()), email.rpartition(".")[2]]), (
        "the same word, the same other"
    )
    assert phone.isdigit()
    assert len(phone) == 7
    last = other.steps[-1].observation
    assert {name, email, phone, workshop} <= {each["value"] for each in last["elements"]}
    assert workshop in next(each["options"] for each in last["elements"] if each["role"] == "combobox")
    everything = json.dumps([step.observation for step in other.steps]) + other.goal
    assert not any(text in everything for text in ("Moreau", "moreau", "0741852", "Chess"))


def test_words_that_are_within_others_stay(recording):
    sparse = replace(recording, goal=recording.goal.replace("Chess", "Chessboard"))
    assert "Chess" not in shared_texts(sparse)


def test_fields_change_places_and_are_still_filled_in_from_top_to_bottom(recording):
    others = [varied(recording, np.random.default_rng(seed), invented=False) for seed in range(8)]
    for one in others:
        fields = [shown for shown in one.steps if shown.action.name == "fill"]
        filled = {name: shown.action.text for name, shown in zip(names(one), fields, strict=False)}
        assert {*filled} == {"Name", "Email", "Phone"}
        assert all(text in one.goal for text in filled.values())
        last = one.steps[-1].observation
        assert {each["name"]: each["value"] for each in last["elements"] if each["name"] in filled} == filled
        lines = [line.element for line in parse_outline(last["dom"]) if line.element]
        assert [line.name for line in lines if line.name in filled] == names(one)[:3]
        assert {line.name: line.value for line in lines if line.name in filled} == filled
    assert len({tuple(names(one)[:3]) for one in others}) > 2


def test_labels_are_called_otherwise_unless_the_goal_speaks_of_them(recording):
    others = [varied(recording, np.random.default_rng(seed), relabelled=True) for seed in range(40)]
    first = [name for one in others for name in names(one)[:3]]
    assert {"Name", "Email", "Phone"} < set(first)
    parts = [name.lower().split() for name in first]
    assert any(len(words) == 2 and {"name", "email", "phone"} & set(words) for words in parts), "a word more"
    assert any(not {"name", "email", "phone"} & set(words) for words in parts), "none of what it was"
    assert all(len({each["name"] for each in one.steps[0].observation["elements"]}) > 5 for one in others)
    spoken = replace(recording, goal=f"{recording.goal} Press Send.")
    for one in (varied(spoken, np.random.default_rng(seed), relabelled=True) for seed in range(8)):
        assert names(one)[-1] in one.goal


def test_labels_that_the_recordings_share_mostly_stay(recording, tiny_policy):
    def kept(recordings):
        taught = RecordedRows(recordings, tiny_policy, TrainSettings(tasks=(REGISTER,)))
        seen = [taught._varied(place).steps[0].observation for place in range(100)]
        return sum({"Name", "Email", "Phone"} <= {each["name"] for each in obs["elements"]} for obs in seen)

    assert kept([recording]) > 70
    assert kept([recording, replace(recording, goal=f"{recording.goal} Please.")]) > 70
    assert kept([recording, varied(recording, np.random.default_rng(4), relabelled=True)]) < 70


def test_what_was_chosen_trades_places_with_what_was_not(recording):
    def workshop(one):
        (chosen,) = [step for step in one.steps if step.action.name == "select"]
        elements = {each["id"]: each for each in chosen.observation["elements"]}
        return chosen.action.options[0], set(elements[chosen.action.id]["options"])

    _, offered = workshop(recording)
    others = [varied(recording, np.random.default_rng(seed)) for seed in range(40)]
    chosen = {workshop(one)[0] for one in others if workshop(one)[1] == offered}
    assert len(chosen) > 2, "the same options, another of them"
    for one in others:
        now, there = workshop(one)
        assert now in there
        assert now in one.goal


def test_recordings_are_learned_with_the_fields_labels(folder, tmp_path, tiny_policy):
    with Rollouts(1) as rollouts:
        rollouts.run(OracleAgent(), [Job(f"{REGISTER[:-3]}-varied-v0", seed) for seed in (1, 2)], folder=tmp_path)
    one, learned = as_recorded([folder]), as_recorded([folder, tmp_path])
    assert (one["labels"], learned["labels"]) == (True, "fields")
    assert (one["recorded_rows"], one["steps"], learned["recorded_rows"], learned["steps"]) == (8, 36, 8, 56)
    recordings = load_recordings([folder, tmp_path])
    rows = RecordedRows(recordings, tiny_policy, TrainSettings(**learned)).rows(0, 18)
    for row in rows:
        written = tiny_policy.tokenizer.decode(row.completion_ids, skip_special_tokens=True)
        action = json.loads('{"' + written)
        assert row.right
        assert row.told == '{"' + written
        assert ("in" in action) is ("click" not in action)
        assert "click" in action or f'"{action["in"]}"' in tiny_policy.tokenizer.decode(row.prompt_ids)


def test_texts_that_stand_in_the_goal_are_copied_from_it(folder, recording):
    assert as_recorded([folder])["texts"] == "goal"
    assert texts_of([recording, replace(recording, goal="Register the one whom you know.")]) == "free"
    clicks = tuple(one for one in recording.steps if one.action.name == "click")
    assert texts_of([replace(recording, steps=clicks)]) == "free"
    for seed in range(20):
        assert texts_of([varied(recording, np.random.default_rng(seed))]) == "goal"


def test_states_at_which_the_goal_decides_are_learned_from_more_often(recording, shown, tiny_policy):
    rows = RecordedRows([recording], tiny_policy, shown)
    texts = [tiny_policy.tokenizer.decode(row.completion_ids) for number in range(8) for row in rows.rows(number, 4)]
    kinds = [text.partition('"')[0] for text in texts]
    assert kinds.count("select") > 2 * kinds.count("fill") / 3, "one field of a choice, three of texts"
    assert kinds.count("fill") > 2 * kinds.count("click")
    assert len(set(texts)) > 12, "the same states, in other words"
    again = [tiny_policy.tokenizer.decode(row.completion_ids) for row in rows.rows(1, 4)]
    assert again == texts[4:8], "a resumed run learns from the same"
    for row in rows.rows(0, 6):
        prompt = tiny_policy.tokenizer.decode(row.prompt_ids)
        told = tiny_policy.tokenizer.decode(row.teacher_prompt_ids)
        action = json.loads('{"' + tiny_policy.tokenizer.decode(row.completion_ids, skip_special_tokens=True))
        number = action.get("fill") or action.get("click") or action.get("select")
        assert f":{number}}}" in prompt
        assert "Correct action" in told
        assert "Correct action" not in prompt
        assert ("Done so far" in prompt) is bool(re.search('textbox "[^"]*" value', prompt)), (
            "what was done before is in it"
        )


@pytest.mark.slow
def test_a_training_says_what_it_has_learned_of_them(folder, tmp_path, tiny_folder, monkeypatch):
    steps, draw = [], Batches.draw
    monkeypatch.setattr(Batches, "draw", lambda *given: steps.append(draw(*given)) or steps[-1])
    options = ["--set", "episodes_per_step=1", "--set", "max_rows=2", "--set", "recorded_rows=3", "--steps", 1]
    options += ["--set", "rehearsal=0", "--live"]
    command = ["train", "--demonstrations", folder, "--model", tiny_folder, "--out", tmp_path / "run", *options]
    done = CliRunner().invoke(cli.app, list(map(str, command)))
    assert done.exit_code == 0, done.output
    assert "recorded actions)" in done.output
    assert "The adapter has not learned all recorded actions. It reproduces " in done.output
    (line,) = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert (line["rows"], line["rows/recorded"]) == (2, 3)
    [drawn] = steps
    assert line["tokens/learned"] == sum(len(row.completion_ids) for row in (*drawn.rows, *drawn.shown))
    about = json.loads((tmp_path / "run/adapter/selfsurf.json").read_text())
    assert about["recorded"]["of"] == 6
    assert about["recorded"]["judged"] == 1


def test_agreement_is_with_what_was_done_at_each_page(recording, shown, tiny_policy):
    with Rollouts(1, max_episode_steps=2) as rollouts:
        found = agreement(make_agent(tiny_policy, shown, sampling=False), [recording], rollouts)
    assert (found.of, found.judged, found.solved, found.enough) == (6, 1, 0, False)
    assert len(found.missed) == 6 - found.right
    assert found.missed[-1].recorded.endswith('button "Send"')
    assert "recorded episodes from beginning to end and 0 of 8 with other seeds. Action " in found.text()


@pytest.mark.parametrize(("tasks", "each"), [(1, 8), (3, 2), (10, 1)])
def test_every_recorded_task_is_played_with_other_seeds(recording, tasks, each):
    class Asked:
        def run(self, agent, jobs):
            self.elsewhere = Counter(job.env_id for job in jobs if job.seed in OTHER_SEEDS)
            return []

    names, rollouts = [f"Scenario/{name}-v0" for name in list(scenarios())[:tasks]], Asked()
    agreement(None, [replace(recording, env_id=name, steps=()) for name in names], rollouts)
    assert set(rollouts.elsewhere) == set(names)
    assert min(rollouts.elsewhere.values()) == each


def test_recorded_episodes_of_a_task_without_a_score_are_not_played(recording):
    found = agreement(None, [replace(recording, env_id=UNJUDGED, steps=())], None)
    assert found.judged == found.elsewhere == 0


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_one_recording_of_four_actions_is_learned(model_folder, tmp_path):
    with Rollouts(1) as rollouts:
        rollouts.run(OracleAgent(), [Job("Scenario/reserve-v0", 0)], folder=tmp_path / "shown")
    short = ["--steps", 20, "--set", "episodes_per_step=1", "--set", "max_rows=2", "--set", "recorded_rows=6", "--live"]
    command = ["train", "--demonstrations", tmp_path / "shown", "--out", tmp_path / "run", "--json", *short]
    done = CliRunner().invoke(cli.app, list(map(str, command)))
    assert done.exit_code == 0, done.output
    learned = json.loads(done.stdout)["recorded"]
    assert (learned["right"], learned["of"], learned["solved"]) == (4, 4, 1)
