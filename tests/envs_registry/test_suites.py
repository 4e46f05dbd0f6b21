"""Suites: the one that comes along, selections, and files that are wrong."""

import pytest

from selfsurf.envs_registry.suites import Suite, SuiteError, SuiteTask, load_suite
from selfsurf.tasks.miniwob import names


def test_miniwob_is_complete_and_split_as_browsergym_does():
    suite = load_suite("miniwob")
    assert [task.id for task in suite.tasks] == [f"MiniWoB/{name}-v0" for name in sorted(names())]
    assert [len(suite.only(splits=[split]).tasks) for split in ("train", "test")] == [62, 63]
    assert [len(suite.only(groups=[group]).tasks) for group in ("webgum", "tiny", "hidden")] == [56, 2, 18]
    assert len(suite.only(splits=["test"], groups=["webgum"]).tasks) < 56
    assert suite.only(ids=["click-test"], data_mode="test").tasks[0].make().data_mode == "test"


def test_a_python_file_is_a_suite_with_its_own_tasks(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from selfsurf.browser_env import Task\n"
        "from selfsurf.envs_registry.suites import Suite, SuiteTask\n"
        "class Open(Task):\n"
        "    def __init__(self, where):\n"
        "        super().__init__(start_url=where)\n"
        "SUITE = Suite('mine', (SuiteTask('mine.py:Open', options={'where': 'about:blank'}),), seeds=(3,))\n"
    )
    suite = load_suite(tmp_path / "mine.py")
    assert suite.tasks[0].make().start_url == "about:blank"
    with pytest.raises(ValueError, match="has no option when; it has where"):
        suite.only(when=1).tasks[0].make()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks = [", "is not valid TOML"),
        ("tasks = []", "has no tasks"),
        ("seeds = 5", "tasks is missing"),
        ('tasks = ["a", "a"]', "has a twice"),
        ('tasks = ["a"]\nseeds = [1, 1]', "has a seed twice"),
        ('tasks = ["a"]\nseeds = "five"', "seeds must be a number"),
        ('tasks = ["a"]\nseeds = 0', "has no seeds"),
        ('tasks = [{ id = "a", spilt = "x" }]', "task 1: spilt is not one of"),
        ("tasks = [3]", "task 1: expected a table"),
        ('tasks = "a"', "tasks must be a list"),
        ('tasks = ["a"]\nmax_steps = 0', "max_steps"),
    ],
)
def test_a_wrong_file_is_said_to_be(tmp_path, text, said):
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(SuiteError, match=said):
        load_suite(tmp_path / "wrong.toml")


def test_what_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(
        SuiteError, match=r"There is no suite 'shop': give miniwob, misled, scenarios, or a .toml or .py file"
    ):
        load_suite("shop")
    with pytest.raises(SuiteError, match="can't be read"):
        load_suite(tmp_path / "none.toml")
    with pytest.raises(ValueError, match="did you mean MiniWoB/click-test-v0"):
        SuiteTask("MiniWoB/click-test").make()
    with pytest.raises(SuiteError, match="No task of the suite x matches all the given splits"):
        Suite("x", (SuiteTask("a", "train", ("g",)), SuiteTask("b", "test"))).only(splits=["test"], groups=["g"])
