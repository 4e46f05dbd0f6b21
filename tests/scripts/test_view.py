import json

import gymnasium
import pytest
from typer.testing import CliRunner

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.scripts.cli import app


@pytest.fixture
def episode(tmp_path):
    env = gymnasium.make("MiniWoB/click-test-v0")
    obs, _ = env.reset(seed=0)
    writer = EpisodeWriter(tmp_path / "e", {"episode_id": "e", "env_id": "MiniWoB/click-test-v0", "goal": obs["goal"]})
    told = env.unwrapped.privileged()
    after, reward, _, _, info = env.step(told["action"])
    writer.step(obs, told["action"], reward=reward, info=info, after=after, privileged=told)
    writer.finish(info["outcome"], trainable=True, after=after)
    env.close()
    return tmp_path / "e"


def test_view_shows_what_was_seen_done_and_won(episode):
    result = CliRunner().invoke(app, ["view", str(episode)])
    assert result.exit_code == 0
    for text in ("Click the button.", '[1] button "Click Me!"', '{"action": "click", "id": 1}', "solved", "reward 1"):
        assert text in result.output
    data = json.loads(CliRunner().invoke(app, ["view", str(episode), "--json"]).output)
    assert data["episode"]["outcome"] == "solved"
    assert len(data["steps"]) == 1


def test_view_names_damaged_files(episode):
    assert "damage" not in CliRunner().invoke(app, ["view", str(episode)]).output
    (episode / "artifacts" / "0000.png").write_bytes(b"")
    assert "damage   artifacts/0000.png is damaged." in CliRunner().invoke(app, ["view", str(episode)]).output


def test_view_of_something_else_says_what_is_there(episode):
    result = CliRunner().invoke(app, ["view", str(episode.parent)])
    assert result.exit_code == 1
    assert str(episode) in result.stderr


def test_view_of_a_cut_off_episode(episode):
    meta = json.loads((episode / "episode.json").read_text())
    (episode / "episode.json").write_text(json.dumps({**meta, "outcome": "running"}))
    result = CliRunner().invoke(app, ["view", str(episode)])
    assert "cut off" in result.output


def test_view_shows_what_ended_an_episode(episode):
    meta = json.loads((episode / "episode.json").read_text())
    meta |= {"outcome": "env_error", "outcome_detail": "The server at [http://model.test] is overloaded."}
    (episode / "episode.json").write_text(json.dumps(meta))
    result = CliRunner().invoke(app, ["view", str(episode)])
    assert meta["outcome_detail"] in result.output


def test_what_others_wrote_moves_no_cursor(episode):
    steps = episode / "steps.jsonl"
    step, sly = json.loads(steps.read_text()), "\x1b[2J\u202e\nnext"
    step["observation"]["dom"] += f"\n{sly}"
    completion = {"text": sly, "error": sly, "token_ids": [1], "logprobs": [-1.0]}
    step |= {"completions": [completion], "questions": [{"question": sly, "answer": sly}], "error": sly}
    steps.write_text(json.dumps(step) + "\n")
    meta = json.loads((episode / "episode.json").read_text())
    meta |= {"goal": sly, "outcome_detail": sly, "traceback": sly}
    (episode / "episode.json").write_text(json.dumps(meta))
    shown = CliRunner().invoke(app, ["view", str(episode)]).output
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert shown.count("\\u001b[2J\\u202e") == 9
    assert "next" in shown.split()


def test_view_of_a_damaged_episode_fails(episode):
    lines = episode / "steps.jsonl"
    lines.write_bytes(b"\xff" + lines.read_bytes())
    result = CliRunner().invoke(app, ["view", str(episode)])
    assert "below it" not in result.stderr, "it would name itself"
    assert result.exit_code == 1
