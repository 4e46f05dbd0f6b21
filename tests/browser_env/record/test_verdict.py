import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from selfsurf.browser_env.record.episode import Episode, EpisodeError, EpisodeWriter
from selfsurf.browser_env.record.verdict import Mark, mark_episode, marks_of, verdict_of


def written(folder: Path, outcome: str = "stopped", **meta) -> Path:
    writer = EpisodeWriter(folder, {"goal": "Go", **meta})
    totals = {} if "recorded" not in meta else {"judged": False}
    writer.finish(outcome, trainable=False, **totals)
    return folder


def test_a_finished_open_goal_is_solved_once_a_person_says_so(tmp_path):
    folder = written(tmp_path / "e")
    assert verdict_of(folder) is None
    mark_episode(folder, Mark("solved", "person", why="The order is there."))
    verdict = verdict_of(folder)
    assert (verdict.says, verdict.by, verdict.why, verdict.solved) == ("solved", "person", "The order is there.", True)
    assert Episode(folder).damage() == []
    assert Episode(folder).meta["outcome"] == "stopped"


def test_a_person_comes_before_the_task_and_the_task_before_a_judge(tmp_path):
    folder = written(tmp_path / "e", "failed")
    assert (verdict_of(folder).by, verdict_of(folder).says) == ("task", "failed")
    mark_episode(folder, Mark("solved", "judge"))
    assert verdict_of(folder).by == "task"
    mark_episode(folder, Mark("solved", "person"))
    mark_episode(folder, Mark("failed", "judge"))
    assert (verdict_of(folder).by, verdict_of(folder).solved) == ("person", True)
    assert [(mark.by, mark.says) for mark in marks_of(Episode(folder))] == [
        ("judge", "solved"), ("person", "solved"), ("judge", "failed"),
    ]  # fmt: skip
    assert (Episode(folder).meta["outcome"], Episode(folder).damage()) == ("failed", [])


def test_a_judge_who_cannot_tell_takes_back_what_judges_said(tmp_path):
    folder = written(tmp_path / "e")
    mark_episode(folder, Mark("solved", "judge"))
    assert verdict_of(folder).by == "judge"
    assert mark_episode(folder, Mark("unknown", "judge")) is None


def test_what_ended_without_a_task_s_verdict_has_none(tmp_path):
    assert verdict_of(written(tmp_path / "lost", "env_error")) is None
    assert verdict_of(written(tmp_path / "late", "timeout")).says == "failed"
    recorded = verdict_of(written(tmp_path / "recorded", "solved", recorded=True))
    assert (recorded.says, recorded.by) == ("solved", "person")
    assert verdict_of(written(tmp_path / "stopped", "stopped", recorded=True)) is None


def test_a_time_limit_of_an_open_goal_is_nobody_s_verdict(open_page, tmp_path):
    env, obs = open_page("<button>Go</button>")
    writer = EpisodeWriter(tmp_path / "e", {})
    after, reward, _, _, info = env.step({"action": "click", "id": 1})
    writer.step(obs, {"action": "click", "id": 1}, reward=reward, info=info, after=after)
    writer.finish("timeout", trainable=True, after=after)
    assert Episode(tmp_path / "e").meta["totals"]["judged"] is False
    assert verdict_of(tmp_path / "e") is None


def test_a_mark_does_not_cover_up_a_change(tmp_path):
    folder = written(tmp_path / "e")
    (folder / "steps.jsonl").write_text('{"step": 0}\n')
    before = (folder / "episode.json").read_text(), (folder / "manifest.json").read_text()
    with pytest.raises(EpisodeError, match=r"steps\.jsonl is damaged"):
        mark_episode(folder, Mark("solved", "person"))
    assert before == ((folder / "episode.json").read_text(), (folder / "manifest.json").read_text())


def test_an_episode_that_has_not_ended_is_not_marked(tmp_path):
    EpisodeWriter(tmp_path / "e", {})
    with pytest.raises(EpisodeError, match="has not ended"):
        mark_episode(tmp_path / "e", Mark("solved", "person"))


@pytest.mark.parametrize(
    "verdict",
    [{}, [], "solved", {"marks": "x"}, {"marks": [1]}, {"marks": [{"says": "great", "by": "person"}]},
     {"marks": [{"says": "solved", "by": "task"}]}, {"marks": [{"says": [], "by": {}}]}],
)  # fmt: skip
def test_what_is_no_verdict_is_said_and_stays(tmp_path, verdict):
    folder = written(tmp_path / "e", verdict=verdict)
    for use in (verdict_of, lambda folder: mark_episode(folder, Mark("solved", "person"))):
        with pytest.raises(EpisodeError, match="damaged"):
            use(folder)
    assert json.loads((folder / "episode.json").read_text())["verdict"] == verdict


def test_fields_of_another_type_are_damage(tmp_path):
    with pytest.raises(EpisodeError, match="its totals"):
        Episode(written_raw(tmp_path / "a", {"format": 2, "totals": "x"}))
    with pytest.raises(EpisodeError, match="damaged"):
        Episode(written_raw(tmp_path / "b", "[" * 100_000))
    folder = written_raw(tmp_path / "c", {"format": 2})
    for line in ("[]", '{"observation": []}', '{"actions": {}}', '"text"'):
        (folder / "steps.jsonl").write_text(line + "\n")
        with pytest.raises(EpisodeError, match="line 1 is damaged"):
            list(Episode(folder).steps())


def written_raw(folder: Path, meta) -> Path:
    folder.mkdir()
    (folder / "episode.json").write_text(meta if isinstance(meta, str) else json.dumps(meta))
    return folder


KILLED = """
import os, signal, sys
from selfsurf.browser_env.record import episode
from selfsurf.browser_env.record.verdict import Mark, mark_episode

whole, left = episode.write_atomically, int(sys.argv[2])

def write(path, text):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    whole(path, text)

episode.write_atomically = write
mark_episode(sys.argv[1], Mark("solved", "person"))
"""


@pytest.mark.parametrize("written_before", [0, 1, 2])
def test_a_kill_while_marking_leaves_an_episode_that_can_be_marked(tmp_path, written_before):
    folder = written(tmp_path / "e")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(written_before)], env=os.environ)
    assert ended.returncode == -signal.SIGKILL
    assert Episode(folder).damage() == []
    assert (verdict_of(folder) is not None) is (written_before == 2)
    assert mark_episode(folder, Mark("failed", "person")).says == "failed"
    assert Episode(folder).damage() == []
