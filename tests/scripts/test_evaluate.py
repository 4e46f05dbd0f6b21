"""`selfsurf.evaluate`: objects as tasks and agents, in this process, with the same records as the command's."""

import json
from dataclasses import replace

import numpy as np
import pytest

import selfsurf
from selfsurf.browser_env import Score, Task
from selfsurf.browser_env.actions import Click, Finish
from selfsurf.envs_registry.suites import Suite
from selfsurf.scripts.report.report import headline
from selfsurf.scripts.suite.agents import public_command
from selfsurf.scripts.suite.health import CRASHES
from selfsurf.scripts.suite.records import RecordsError
from selfsurf.scripts.suite.run import RunError


class Press(Task):
    """The button that is asked for."""

    def __init__(self, name="Go"):
        super().__init__(start_url=f"data:text/html,<button onclick='window.done=1'>{name}</button>")
        self.name = name

    async def setup(self, page, rng):
        await super().setup(page, rng)
        return f"Press {self.name}, {rng.integers(10)}."

    async def score(self, page, episode):
        done = await page.evaluate("window.done === 1")
        return Score(reward=float(done), done=done or episode.finished)


class First:
    """Clicks the first button, and counts."""

    def __init__(self, wrong=False):
        self.wrong, self.asked = wrong, 0

    def act(self, obs):
        self.asked += 1
        return Finish(answer="") if self.wrong else Click(id=obs["elements"][0]["id"])


def test_an_object_and_tasks_of_ones_own_are_evaluated_resumed_and_extended(tmp_path):
    agent = First()
    summary = selfsurf.evaluate([Press(), Press("Stop")], agent, seeds=2, out=tmp_path / "run")
    assert summary.complete
    assert (summary.overall.strict.mean, summary.overall.episodes, agent.asked) == (1.0, 4, 4)
    assert [row.name for row in summary.tasks] == ["Press", "Press-1"]
    summary = selfsurf.evaluate([Press(), Press("Stop")], agent, seeds=3, out=tmp_path / "run")
    assert (summary.overall.episodes, agent.asked) == (6, 6)
    with pytest.raises(RecordsError, match="other arguments: agent"):
        selfsurf.evaluate([Press(), Press("Stop")], "random", seeds=3, out=tmp_path / "run")
    assert "git" in json.loads((tmp_path / "run" / "run.json").read_text())


class Keyed(First):
    """Would ask a service."""

    def __init__(self, api_key, max_tokens):
        super().__init__()
        assert api_key == "sk-hidden"
        self.max_tokens = max_tokens


def test_a_key_given_to_an_agent_is_not_written_down(tmp_path):
    result = selfsurf.evaluate(
        Press(), Keyed, seeds=[0], out=tmp_path / "run", agent_options={"api_key": "sk-hidden", "max_tokens": 9}
    )
    assert result.overall.solved == 1
    assert json.loads((tmp_path / "run/run.json").read_text())["agent"]["options"] == {
        "api_key": "<api_key>",
        "max_tokens": 9,
    }
    assert public_command(["selfsurf", "--set", "api_key=sk-hidden", "--set", "max_tokens=9"])[2:] == [
        "api_key=<api_key>", "--set", "max_tokens=9",
    ]  # fmt: skip
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sk-hidden" not in written


def test_classes_suites_and_tensorboard(tmp_path):
    summary = selfsurf.evaluate(
        Press, First, agent_options={"wrong": True}, seeds=[7], out=tmp_path / "wrong", report_to=["tensorboard"]
    )
    assert [(line.seed, line.outcome) for line in summary.results.lines] == [(7, "failed")]
    suite = Suite("small", ("MiniWoB/click-test-v0",), 1)
    assert selfsurf.evaluate(suite, out=tmp_path / "suite").overall.solved == 1
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "wrong" / "logs" / "wrong")).Reload()
    assert [event.value for event in events.Scalars("strict/all tasks")] == [0.0]
    assert [event.step for event in events.Scalars("running/strict")] == [1]
    assert events.Tags()["images"] == ["unsolved/Press, seed 7"]
    (text,) = events.Tensors("episodes/text_summary")
    assert b"| Press | 7 | failed |" in text.tensor_proto.string_val[0]


def test_what_cannot_be_is_said(tmp_path):
    def refused(error, match, *words, **options):
        with pytest.raises(error, match=match):
            selfsurf.evaluate(*words, out=tmp_path / "run", **options)

    refused(ValueError, "run in this process only", Press, processes=1)
    refused(ValueError, "agent_options can't be given", Press, First(), agent_options={"wrong": True})
    refused(ValueError, "neither act", Press, int)
    refused(ValueError, "There is no suite", "nothing")
    refused(ValueError, "report_to takes", Press, report_to=["paper"])
    refused(RunError, "can't be made", Press, First, agent_options={"no": 1})


class Served(Press):
    """Its page comes from a folder."""

    def __init__(self, folder, name="Go", *, who):
        super().__init__(name)
        self.sites, self.start_url = {"http://press.test": folder}, "http://press.test/index.html"


def test_a_task_with_other_arguments_or_pages_is_another(tmp_path):
    (tmp_path / "pages").mkdir()
    page = tmp_path / "pages" / "index.html"
    page.write_text("<button onclick='window.done=1'>Go</button>")
    run = {"agent": First, "seeds": 1, "out": tmp_path / "run"}
    for task in (Served(tmp_path / "pages", who=First()), Served(folder=tmp_path / "pages", who=First())):
        assert selfsurf.evaluate(task, **run).overall.solved == 1
    with pytest.raises(RecordsError, match="other arguments: the task Served"):
        selfsurf.evaluate(Served(tmp_path / "pages", "Stop", who=First()), **run)
    page.write_text("<button>Go</button>")
    with pytest.raises(RecordsError, match="other arguments: the task Served"):
        selfsurf.evaluate(Served(tmp_path / "pages", who=First()), **run)


class Partly(Press):
    """Has its reward as soon as the button was pressed, and goes on."""

    max_steps = 4

    def __init__(self, reward=1.0):
        super().__init__()
        self.reward = reward

    async def score(self, page, episode):
        return Score(reward=self.reward * await page.evaluate("window.done || 0"), done=episode.finished)


class Finishes(First):
    """Says after its click that it is done."""

    def act(self, obs):
        return Finish(answer="") if obs["last_action"] else super().act(obs)


def test_the_reward_of_an_episode_is_that_at_its_end(tmp_path):
    summary = selfsurf.evaluate(Partly, Finishes, seeds=1, out=tmp_path / "whole")
    assert [(line.outcome, line.reward, line.strict) for line in summary.results.lines] == [("solved", 1.0, True)]
    summary = selfsurf.evaluate(Partly(0.25), First, seeds=1, out=tmp_path / "part")
    (line,) = summary.results.lines
    assert (line.outcome, line.steps, line.reward, line.strict, line.lenient) == ("timeout", 4, 0.25, False, True)


class Details(Press):
    """Means other things by `reward` and `raw_reward`."""

    def __init__(self, raw, scaled):
        super().__init__()
        self.details = {"raw_reward": raw, "reward": scaled}

    async def score(self, page, episode):
        return replace(await super().score(page, episode), details=self.details)


def test_details_of_any_kind_break_no_run(tmp_path):
    tasks = [Details(np.float32(0.5), "great"), Details(float("nan"), np.int64(-1)), Details([1], float("inf"))]
    summary = selfsurf.evaluate(tasks, First, seeds=1, out=tmp_path / "run")
    found = {line.task: (line.raw_reward, line.time_reward, line.strict) for line in summary.results.lines}
    assert found == {"Details": (0.5, None, False), "Details-1": (None, -1.0, True), "Details-2": (None, None, True)}


class Wrong(Press):
    """Its score returns none."""

    async def score(self, page, episode):
        return None


class Look(Task):
    """Nothing judges it."""

    start_url, goal, max_steps = "data:text/html,<button>Go</button>", "Look.", 1


def test_a_score_that_is_none_is_never_the_agent_s_failure(tmp_path):
    summary = selfsurf.evaluate(Wrong, First, seeds=1, retries=CRASHES, out=tmp_path / "run")
    (line,) = summary.results.env_errors
    assert (summary.overall.episodes, summary.overall.strict) == (0, None)
    assert (line.crashes, line.env_errors) == (0, CRASHES + 1)
    assert line.outcome_detail == f"score must return a Score, not None: Wrong in {__file__}"
    (told, *_) = headline(summary)
    assert told == "NO VERDICT: 1 of 1 episode ended as env_error. Wrong #0"


@pytest.mark.parametrize(("wrong", "outcome"), [(True, "stopped"), (False, "timeout")])
def test_what_nothing_judges_has_no_verdict_and_is_not_played_again(tmp_path, wrong, outcome):
    for _ in range(2):
        agent = First(wrong)
        summary = selfsurf.evaluate([Look(), Press()], agent, seeds=1, out=tmp_path / "run")
    assert agent.asked == 0
    assert [(line.task, line.outcome) for line in summary.results.unjudged] == [("Look", outcome)]
    assert (summary.overall.episodes, summary.overall.unjudged, summary.overall.solved) == (1, 1, int(not wrong))
    alone = selfsurf.evaluate(Look, First, seeds=2, out=tmp_path / "alone")
    (told,) = headline(alone)
    assert told.startswith("NO VERDICT: 2 of 2 episodes ended unjudged: the task needs a `score`.")
    assert "NO VERDICT: 2 of 2 episodes" in (tmp_path / "alone" / "report.md").read_text()
