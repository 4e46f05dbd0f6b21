"""What oracles work out: dates, scales, what is marked."""

from datetime import datetime

import gymnasium
import pytest

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf.tasks.miniwob.oracles.base import elements, last_done, line_near
from selfsurf.tasks.miniwob.oracles.dates import months_between
from selfsurf.tasks.miniwob.oracles.forms import to_delete
from selfsurf.tasks.miniwob.oracles.selection import marked_text
from selfsurf.tasks.miniwob.oracles.sliders import scale_of
from selfsurf.tasks.miniwob.oracles.texts import ordinal


@pytest.mark.parametrize(
    ("end", "months"), [("2016-03-31", -9), ("2016-12-01", 0), ("2017-01-01", 1), ("2015-12-31", -12)]
)
def test_months_between(end, months):
    assert months_between(datetime(2016, 12, 24), datetime.fromisoformat(end)) == months


def test_scale_of_a_slider():
    assert scale_of({5: (10, 50)}) is None
    assert scale_of({5: (10, 50), 15: (60, 50)}) == (5, 0)
    assert scale_of({0: (15, 110), 100: (15, 60), 50: (15, 85)}) == (0, -0.5)


def test_ordinal():
    assert [ordinal(goal) for goal in ("the 12th word", "in the 3rd paragraph", "the paragraph")] == [12, 3, 1]


def test_the_file_to_delete():
    files = ["T-1000", "python.py", "shark.sh", "hack.sh", "code.tar.gz"]
    assert [to_delete(files, extension) for extension in ("", "sh", "tar.gz", "png")] == [
        "T-1000",
        "hack.sh",
        "code.tar.gz",
        "",
    ]


def test_what_the_outline_says():
    field = {"id": 1}
    obs = {"dom": 'Color:\n  [1] textbox\n  [12] button\nmarked text: "a \\"b\\""', "last_action": "", "last_error": ""}
    assert (line_near(obs, field, -1), line_near(obs, field, 1), line_near(obs, field, -2)) == (
        "Color:",
        "[12] button",
        "",
    )
    assert marked_text(obs) == 'a "b"'
    assert last_done(obs) == {}
    done = {"last_action": '{"action": "wait"}'}
    assert last_done({**obs, **done}) == {"action": "wait"}
    assert last_done({**obs, **done, "last_error": "No."}) == {}


def test_what_was_typed_in_an_episode_does_not_reach_into_the_next():
    used, fresh = (gymnasium.make("MiniWoB/scroll-text-v0", screenshot=False) for _ in range(2))
    obs, _ = used.reset(seed=1)
    for element in elements(obs, "textbox"):
        used.step({"action": "fill", "id": element["id"], "text": "7"})
    again, _ = used.reset(seed=2)
    first, _ = fresh.reset(seed=2)
    used.close()
    fresh.close()
    assert again["dom"] == first["dom"]
