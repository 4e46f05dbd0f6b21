"""`selfsurf bench flows`: which recordings it makes, and what it prints."""

import json

import pytest
from typer.testing import CliRunner

from selfsurf.agents.play.job import Job, Result
from selfsurf.scripts.cli import app
from selfsurf.scripts.learning.flows import differing


def got(seed, **done):
    return Result(Job("it", seed), "solved", trainable=True, score={"done": done})


def test_recordings_choose_what_none_before_has_chosen():
    offered = [
        got(0, room="Single", meal="none"), got(1, room="Single", meal="lunch"), got(2, room="Suite", meal="none"),
        got(3, room="Double", meal="lunch"), got(4, room="Suite", meal="dinner"),
    ]  # fmt: skip
    assert [one.job.seed for one in differing(offered, 3)] == [0, 3, 4]
    assert len(differing(offered[:2], 3)) == 2


def test_what_there_is_not_is_refused_with_what_there_is():
    for words, says in (
        (["--flow", "hotel"], "--flow hotel is unknown; choose from register"),
        (["--kind", "thrice"], "choose from again, varied"),
    ):
        result = CliRunner().invoke(app, ["bench", "flows", *words], env={"COLUMNS": "300"})
        assert result.exit_code == 2
        assert says in " ".join(result.output.split())


@pytest.mark.slow
def test_a_site_is_recorded_learned_and_tried(tiny, tmp_path):
    words = [
        "--sites",
        "new",
        "--flow",
        "nursery",
        "--kind",
        "thrice",
        "--tries",
        "2",
        "--model",
        str(tiny),
        "--set",
        "steps=1",
    ]
    result = CliRunner().invoke(app, ["bench", "flows", *words, "--out", str(tmp_path), "--json"])
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["flow"], row["recordings"], row["tries"], row["solved"], row["target"]) == ("nursery", 3, 2, 0, 0.9)
    assert row["missed"].startswith("success 0.00, wanted 0.9")
    assert len(list((tmp_path / "nursery-thrice/recordings").glob("*/episode.json"))) == 3
