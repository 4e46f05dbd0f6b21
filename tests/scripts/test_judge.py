import json
import os
import shutil

import pytest
from typer.testing import CliRunner

from selfsurf.agents.judging.interpret import GoalInterpreter
from selfsurf.agents.judging.judge import read_rubric
from selfsurf.agents.policy import Completion
from selfsurf.browser_env.goal.spec import SpecError, read_spec
from selfsurf.browser_env.record.episode import Episode, EpisodeError, EpisodeWriter, change_meta, write_manifest
from selfsurf.browser_env.record.verdict import marks_of, verdict_of
from selfsurf.scripts.cli import app
from selfsurf.sdft.measure.statistics import Confusion
from selfsurf.sdft.teacher.recording import load_recordings
from selfsurf.tasks.miniwob.goals import goal_specs

SPEC = """
goal = "Press Go."
start = "data:text/html,<button onclick=document.body.append('Well_done')>Go</button>"
criteria = [{ text = "Well_done" }]
"""

AGENT = """
class Presser:
    def reset(self, goal="", slot=0):
        pass

    def act(self, obs):
        return {"action": "click", "id": 1}
"""

FAILING = """
from selfsurf.agents.policy import Completion, PolicyError

class Failing:
    name, guidance, sees_images, prompt_budget = "failing", "none", False, 4096
    parameter_count = context_length = None
    calls = 0

    def complete(self, conversations, **options):
        self.calls += 1
        if self.calls == 1:
            raise PolicyError("The server is overloaded.")
        text = '{"outcome": "yes", "process": "good", "fault": "none", "why": "It is so."}'
        return [Completion(text, [], [], [], None, "eos")]

    def count_tokens(self, text):
        return len(text)

    def count_prompt_tokens(self, messages, prefill=""):
        return 0
"""


def selfsurf(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """An episode of a specified goal, and one of the same goal that no task judged."""
    folder = tmp_path_factory.mktemp("judge")
    (folder / "spec.toml").write_text(SPEC)
    (folder / "agent.py").write_text(AGENT)
    agent = f"{folder / 'agent.py'}:Presser"
    judged = selfsurf("run", "--spec", folder / "spec.toml", "--agent", agent, "--out", folder / "live", "--json")
    assert (judged.exit_code, json.loads(judged.stdout)["outcome"]) == (0, "solved"), judged.output
    writer = EpisodeWriter(folder / "open", {"goal": "Press Go."})
    whole = Episode(folder / "live")
    with (folder / "open" / "steps.jsonl").open("a") as lines:
        lines.writelines(json.dumps({**step, "screenshot": None}) + "\n" for step in whole.steps())
    writer.note(final=whole.meta["final"])
    writer.finish("stopped", trainable=False)
    return folder


@pytest.fixture
def folder(played, tmp_path):
    return shutil.copytree(played, tmp_path / "copy")


def test_a_stopped_run_is_judged_later_by_the_specification(folder):
    assert verdict_of(folder / "open") is None
    result = selfsurf("judge", folder / "open", "--spec", folder / "spec.toml", "--dry-run")
    assert (result.exit_code, verdict_of(folder / "open")) == (0, None)
    result = selfsurf("judge", folder / "open", "--spec", folder / "spec.toml")
    assert result.exit_code == 0, result.output
    assert "1 solved" in result.output
    assert (verdict_of(folder / "open").says, verdict_of(folder / "open").by) == ("solved", "judge")
    (mark,) = marks_of(Episode(folder / "open"))
    assert mark.who == "spec"
    assert mark.details["criteria"][0]["found"] == "met"
    assert (Episode(folder / "open").meta["outcome"], Episode(folder / "open").damage()) == ("stopped", [])


def test_an_episode_of_another_goal_is_not_judged_by_a_specification(folder):
    (folder / "other.toml").write_text(SPEC.replace("Press Go.", "Press Stop."))
    result = selfsurf("judge", folder / "open", "--spec", folder / "other.toml", "--json")
    (row,) = json.loads(result.stdout)["episodes"]
    assert (row["says"], "for the goal 'Press Stop.', not for 'Press Go.'" in row["why"]) == ("unknown", True)


def test_why_an_episode_was_judged_so_moves_no_cursor(folder):
    change_meta(folder / "open", lambda meta: meta.update(outcome="env_error", outcome_detail="\x1b[2Jgone"))
    assert "failed: \\u001b[2Jgone" in selfsurf("judge", folder / "open").output


def test_a_run_says_which_criterion_was_missed(folder):
    (folder / "spec.toml").write_text(SPEC.replace("Well_done", "Sold out", 1).replace('"Well_done"', '"Badly done"'))
    agent = f"{folder / 'agent.py'}:Presser"
    with_steps = ("--agent", agent, "--max-steps", 1, "--out", folder / "missed")
    result = selfsurf("run", "--spec", folder / "spec.toml", *with_steps)
    assert result.exit_code == 1, result.output
    assert "missed: not so: the page says 'Badly done'" in result.output


def test_an_open_goal_teaches_once_it_is_marked_as_solved(folder):
    with pytest.raises(EpisodeError, match="selfsurf mark"):
        load_recordings([folder / "open"])
    assert selfsurf("mark", folder / "open", "solved").exit_code == 0
    (recording,) = load_recordings([folder / "open"])
    assert (recording.goal, len(recording.steps)) == ("Press Go.", 1)
    selfsurf("mark", folder / "live", "failed")
    with pytest.raises(EpisodeError):
        load_recordings([folder / "live"])


def test_a_person_s_mark_stays_in_force(folder):
    marked = selfsurf("mark", folder / "open", "failed", "--why", "The wrong button.", "--json")
    assert json.loads(marked.stdout)["verdict"] == "failed"
    result = selfsurf("judge", folder / "open", "--spec", folder / "spec.toml", "--json")
    (row,) = json.loads(result.stdout)["episodes"]
    assert (row["says"], row["in_force"]) == ("solved", "failed by person")
    assert verdict_of(folder / "open").why == "The wrong button."
    assert "verdict  failed by person: The wrong button." in selfsurf("view", folder / "open").output
    selfsurf("mark", folder / "open", "unknown")
    assert verdict_of(folder / "open").by == "judge"
    seen = selfsurf("view", folder / "open").output
    assert "verdict  solved by judge (spec): " in seen
    assert "not used for training" not in seen
    (row,) = json.loads(selfsurf("judge", folder / "open", "--dry-run", "--json").stdout)["episodes"]
    assert row["in_force"] == "solved by judge"


def test_an_episode_that_the_model_could_not_answer_for_is_left_unjudged(folder):
    for name in ("a", "b"):
        finished = shutil.copytree(folder / "open", folder / "finished" / name)
        (step,) = map(json.loads, (finished / "steps.jsonl").read_text().splitlines())
        step["actions"] = [{"action": "finish", "answer": "Done."}]
        (finished / "steps.jsonl").write_text(json.dumps(step) + "\n")
        write_manifest(finished)
    (folder / "judge.py").write_text(FAILING)
    result = selfsurf("judge", folder / "finished", "--judge", f"{folder / 'judge.py'}:Failing", "--json")
    assert result.exit_code == 1, result.output
    first, second = json.loads(result.stdout)["episodes"]
    assert (first["says"], first["why"]) == ("unjudged", "the model could not answer: The server is overloaded.")
    assert (second["says"], json.loads(result.stdout)["counts"]) == ("solved", {"unjudged": 1, "solved": 1})
    assert (marks_of(Episode(folder / "finished" / "a")), verdict_of(folder / "finished" / "b").says) == ([], "solved")


def test_an_episode_that_its_task_ended_is_judged_as_if_the_agent_had_said_so(folder):
    (folder / "judge.py").write_text(FAILING)
    result = selfsurf("judge", folder / "live", "--judge", f"{folder / 'judge.py'}:Failing", "--json", "--dry-run")
    assert json.loads(result.stdout)["episodes"][0]["says"] == "unjudged", "the model is asked"


def test_where_the_model_could_not_answer_the_others_are_compared(tmp_path):
    (tmp_path / "judge.py").write_text(FAILING)
    for seed in (0, 1):
        selfsurf(
            "run", "--task", "MiniWoB/click-test-v0", "--seed", seed, "--agent", "oracle", "--out", tmp_path / f"{seed}"
        )
    result = selfsurf(
        "bench", "judge", tmp_path / "0", tmp_path / "1", "--judge", f"{tmp_path / 'judge.py'}:Failing", "--json"
    )
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert found["left_out"] == [f"{tmp_path / '0'}: the model could not answer: The server is overloaded."]
    assert [one["hits"] for one in found["judges"].values()] == [2, 1]


def test_damaged_episodes_are_named_and_left_out(folder):
    (folder / "bad").mkdir()
    (folder / "bad" / "episode.json").write_text("[" * 100_000)
    os.truncate(folder / "live" / "steps.jsonl", 10)
    result = selfsurf("judge", folder, "--spec", folder / "spec.toml", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["counts"] == {"damaged": 2, "solved": 1}
    assert marks_of(Episode(folder / "live")) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("judge", "{}/none"), "There is no episode"),
        (("judge", "{}/open", "--spec", "{}/none.toml"), "can't be read"),
        (("judge", "{}/open", "--model", "x"), "add --judge"),
        (("judge", "{}/open", "--judge", "random"), "is not a language model"),
        (("mark", "{}/none", "solved"), "There is no episode"),
        (("mark", "{}/open", "great"), "solved"),
        (("run", "--spec", "{}/spec.toml", "--goal", "Press Stop."), "leave out the other goal"),
        (("run", "--spec", "{}/spec.toml", "--task", "MiniWoB/click-test-v0"), "Give --task, --goal or --spec"),
        (("run", "--spec", "{}/agent.py"), "TOML"),
        (("judge", "{}/open", "--spec", "{}/wrong.toml"), "criteria.0.txt: there is no such key"),
    ],
)
def test_what_can_t_be_is_refused(folder, arguments, why):
    (folder / "wrong.toml").write_text(SPEC.replace("{ text", '{ txt = "a", text'))
    result = selfsurf(*(one.format(folder) for one in arguments))
    assert result.exit_code == 2
    assert why in " ".join(result.output.replace("│", " ").split())
    assert "should have at least 1 item" not in result.output


def test_a_rubric_tells_the_agent_s_fault_from_the_site_s():
    reply = '{{"outcome": "{}", "process": "poor", "fault": "{}", "why": "The shop was closed."}}'
    assert read_rubric(reply.format("yes", "none")).found == "met"
    assert read_rubric(reply.format("no", "agent")).found == "missed"
    assert read_rubric(reply.format("no", "site")).found == "unknown"
    assert read_rubric("x" + reply.format("unclear", "none")).found == "unknown"
    assert read_rubric(reply.format("perhaps", "none")).found == "unknown"
    assert read_rubric("no idea").found == "unknown"


class Replies:
    """A model at the edge: its replies are given."""

    name, guidance = "given", "none"

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    def complete(self, conversations, **options):
        self.asked.append(conversations[0])
        return [Completion(self.replies.pop(0), [], [], [], None, "eos")]


def test_a_goal_is_drafted_and_a_wrong_draft_is_told_what_is_wrong():
    good = '```json\n{"goal": "other", "criteria": [{"text": "Thank you"}]}\n```'
    model = Replies('{"criteria": [{"texts": "x"}]}', good)
    spec = GoalInterpreter(model).draft("Order the mug.")
    assert (spec.goal, spec.criteria[0].text) == ("Order the mug.", "Thank you")
    assert "texts" in model.asked[1][-1].text
    with pytest.raises(SpecError, match="not a JSON object"):
        GoalInterpreter(Replies("no", "no")).draft("Order the mug.")


DRAFTER = """
from selfsurf.agents.policy import Completion

class Drafter:
    name, guidance, sees_images, prompt_budget = "drafter", "none", False, 4096
    parameter_count = context_length = None

    def complete(self, conversations, **options):
        text = '{"criteria": [{"text": "Gr\\u00fc\\u00dfe \\\\"1\\\\""}, '
        text += '{"element": {"role": "checkbox", "states": ["checked"]}}]}'
        return [Completion(text, [], [], [], None, "eos")]

    def count_tokens(self, text):
        return len(text)

    def count_prompt_tokens(self, messages, prefill=""):
        return 0
"""


def test_a_draft_is_a_specification_that_can_be_read(tmp_path):
    (tmp_path / "drafter.py").write_text(DRAFTER)
    model = f"{tmp_path / 'drafter.py'}:Drafter"
    result = selfsurf("draft", 'Order the "mug".', "--agent", model, "--out", tmp_path / "mug.toml")
    assert result.exit_code == 0, result.output
    spec = read_spec(tmp_path / "mug.toml")
    assert (spec.goal, spec.criteria[0].text) == ('Order the "mug".', 'Gr\u00fc\u00dfe "1"')
    assert spec.criteria[1].element.states == ("checked",)
    assert selfsurf("draft", "x", "--agent", model, "--out", tmp_path / "mug.toml").exit_code == 2


def test_confusion_against_figures_by_hand():
    pairs = [(True, True)] * 20 + [(False, True)] * 5 + [(True, False)] * 10 + [(False, False)] * 15 + [(True, None)]
    one = Confusion.of(pairs)
    assert (one.judged, one.unknown) == (50, 1)
    assert (one.base_rate, one.precision, one.recall) == (0.6, 0.8, pytest.approx(2 / 3))
    assert one.kappa == pytest.approx(0.4)  # the example of Cohen's kappa in textbooks: 0.7 observed, 0.5 by chance
    assert Confusion.of([(True, True)]).kappa is None


@pytest.mark.slow
def test_each_specification_tells_a_task_that_was_done_from_one_that_was_left(tmp_path):
    specs = goal_specs()
    tasks = [part for name in specs for part in ("--task", f"MiniWoB/{name}-v0")]
    finish = json.dumps([{"action": "finish"}])
    for name, more in (("oracle", ()), ("scripted", ("--set", f"actions={finish}"))):
        result = selfsurf("bench", "run", "miniwob", "--agent", name, *more, *tasks, "--seeds", 1, "--out", tmp_path / name)  # fmt: skip
        assert result.exit_code == 0, result.output
    result = selfsurf("bench", "judge", tmp_path, "--json")
    found = json.loads(result.stdout)
    judged = found["judges"]["specification"]
    assert (found["tasks"], result.exit_code) == (len(specs), 0)
    assert (judged["hits"], judged["misses"], judged["rejections"]) == (len(specs) - 1, 1, len(specs)), judged
