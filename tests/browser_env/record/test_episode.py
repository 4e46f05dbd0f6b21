import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from selfsurf.browser_env.record.episode import Episode, EpisodeError, EpisodeWriter, write_atomically
from selfsurf.browser_env.record.journal import Journal


def write(open_page, folder, **options):
    env, obs = open_page("<button>Go</button>", options={"screenshot": True})
    writer = EpisodeWriter(folder, {"episode_id": "e", "seed": 0, "goal": obs["goal"]}, **options)
    after, reward, _, _, info = env.step({"action": "click", "id": 1})
    writer.step(obs, {"action": "click", "id": 1}, reward=reward, info=info, after=after, privileged=None)
    writer.finish("failed", trainable=True, after=after)
    return obs


def test_what_is_written_is_read_back(open_page, tmp_path):
    obs = write(open_page, tmp_path / "e")
    episode = Episode(tmp_path / "e")
    assert episode.meta["outcome"] == "failed"
    assert episode.meta["totals"] == {"steps": 1, "reward": 0.0, "judged": True}
    (step,) = episode.steps()
    assert step["actions"] == [{"action": "click", "id": 1}]
    assert step["observation"]["dom"] == obs["dom"]
    assert step["timing"]["total"] > 0
    assert Image.open(tmp_path / "e" / step["screenshot"]).size == (800, 600)


def test_a_torn_last_line_is_left_out_and_a_damaged_one_reported(open_page, tmp_path):
    write(open_page, tmp_path / "e")
    lines = tmp_path / "e" / "steps.jsonl"
    whole = lines.read_text()
    lines.write_text(whole + whole[:50])
    assert len(list(Episode(tmp_path / "e").steps())) == 1
    lines.write_text(whole[:50] + "\n" + whole)
    with pytest.raises(EpisodeError, match="line 1 is damaged"):
        list(Episode(tmp_path / "e").steps())


def test_an_episode_that_goes_on_loses_its_torn_last_line_and_nothing_else(open_page, tmp_path):
    write(open_page, tmp_path / "e")
    lines = tmp_path / "e" / "steps.jsonl"
    whole = lines.read_text()
    for torn in ("", whole[:50], whole.rstrip("\n")):
        lines.write_text(whole + torn)
        writer = EpisodeWriter.reopen(tmp_path / "e", Journal(tmp_path / "journal.jsonl"))
        assert (writer.steps, lines.read_text()) == (1, whole)
        writer.journal.close()
    env, seen = open_page("<p>Gone</p>")
    after, _, _, _, info = env.step({"action": "back"})
    writer.step(seen, {"action": "back"}, reward=0.0, info=info, after=after)
    assert [one["step"] for one in Episode(tmp_path / "e").steps()] == [0, 1]


def test_a_file_can_be_replaced_by_several_at_once(tmp_path):
    path, texts = tmp_path / "report.json", [str(number) * 10_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: [write_atomically(path, text) for _ in range(50)], texts))
    assert path.read_text() in texts
    assert [*tmp_path.iterdir()] == [path]


def test_what_is_no_episode_is_said(open_page, tmp_path):
    with pytest.raises(EpisodeError, match="no episode"):
        Episode(tmp_path)
    (tmp_path / "episode.json").write_text('{"format": 99}')
    with pytest.raises(EpisodeError, match="not an episode of format"):
        Episode(tmp_path)
    (tmp_path / "episode.json").write_text("{")
    with pytest.raises(EpisodeError, match="damaged"):
        Episode(tmp_path)
    write(open_page, tmp_path / "e")
    with pytest.raises(EpisodeError, match="already holds an episode"):
        EpisodeWriter(tmp_path / "e", {})


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["episode.json", "steps.jsonl", "manifest.json"])
@pytest.mark.parametrize("what", ["pipe", "device", "huge"])
def test_a_file_that_can_not_be_read_to_its_end_is_refused(tmp_path, name, what):
    writer = EpisodeWriter(tmp_path / "one", {"goal": "Go"})
    writer.finish("stopped", trainable=False)
    path = tmp_path / "one" / name
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 20 * 2**30)
    with pytest.raises(EpisodeError, match=f"{name} is (not a file|too large)"):
        list(Episode(tmp_path / "one").steps() if name != "manifest.json" else Episode(tmp_path / "one").damage())


def test_redaction_comes_before_writing(open_page, tmp_path):
    def redact(record):
        return json.loads(json.dumps(record, default=str).replace("Go", "***"))

    write(open_page, tmp_path / "e", redact=redact)
    text = "".join(path.read_text() for path in (tmp_path / "e").glob("*.json*"))
    assert "Go" not in text
    assert "***" in text


def test_halves_of_characters_in_a_reply_are_written(tmp_path, monkeypatch):
    from selfsurf.browser_env.record.episode import Episode, EpisodeWriter, new_folder

    monkeypatch.chdir(tmp_path)
    folders = [new_folder("run") for _ in range(3)]
    assert len(set(folders)) == 3
    writer = EpisodeWriter(folders[0], {"goal": "half \ud800"})
    writer.finish("stopped", trainable=False)
    assert Episode(folders[0]).meta["goal"] == "half \ufffd"
