import json

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.scripts.report.comparison import compare, folder_names
from selfsurf.scripts.report.leaderboard import boards, write_leaderboard
from selfsurf.scripts.report.reading import ResultsError, read
from selfsurf.scripts.report.report import write_comparison
from selfsurf.scripts.report.summary import summarise
from selfsurf.sdft.measure.statistics import Mcnemar
from tests.scripts.results_folders import line, run, write

TASKS = {f"task-{at}": ("train", []) for at in range(6)}


def made(folder, name, solved, *, seeds=(0, 1), drop=(), errors=(), tasks=TASKS, **changes):
    """A run in which these tasks are solved on all seeds."""
    lines = []
    for task in tasks:
        for seed in seeds:
            if (task, seed) in errors:
                lines.append(line(task, seed, "env_error", raw_reward=None, time_reward=None))
            elif (task, seed) not in drop:
                lines.append(line(task, seed, "solved" if task in solved else "failed"))
    head = run(tasks, list(seeds), **changes)
    head["agent"]["name"] = name
    return write(folder / name, head, lines)


def compared(*folders):
    return compare([summarise(read(folder)) for folder in folders])


def test_a_difference_is_over_common_pairs_and_tested_by_task(tmp_path):
    first = made(tmp_path, "base", {"task-0"})
    other = made(tmp_path, "tuned", set(TASKS))
    (against,) = compared(first, other).against
    assert (against.pairs, against.tasks, against.left_out) == (12, 6, 0)
    assert against.strict.mean == pytest.approx(10 / 12)
    assert against.strict.p == pytest.approx(2 / 2**5)  # five tasks changed, all the same way
    assert against.strict.interval.low < 10 / 12 <= against.strict.interval.high == 1
    assert against.counts == Mcnemar(both=2, only_first=0, only_other=10, neither=0)
    assert [change.difference for change in against.changes] == [1] * 5 + [0]
    assert against.time_reward.mean == pytest.approx(1.8 * 10 / 12)


def test_few_tasks_are_compared_by_seed(tmp_path):
    one = {"task-0": ("train", [])}
    first = made(tmp_path, "base", {"task-0"}, seeds=range(20), tasks=one)
    head, lines = run(one, list(range(20))), [line("task-0", at, "solved" if at < 9 else "failed") for at in range(20)]
    head["agent"]["name"] = "worse"
    (against,) = compared(first, write(tmp_path / "worse", head, lines)).against
    assert (against.unit, against.pairs, against.tasks) == ("seed", 20, 1)
    assert against.strict.p == pytest.approx(2 / 2**11)  # eleven pairs changed hands, all the same way
    assert against.strict.interval.low < -11 / 20 < against.strict.interval.high < 0
    six = compared(made(tmp_path, "none", set()), made(tmp_path, "all", set(TASKS))).against[0]
    assert (six.unit, six.strict.p) == ("task", pytest.approx(2 / 2**6))


def test_a_pair_with_an_env_error_on_either_side_is_left_out(tmp_path):
    first = made(tmp_path, "base", {"task-0"}, errors={("task-0", 0)})
    other = made(tmp_path, "tuned", {"task-1"}, errors={("task-0", 1), ("task-2", 1)})
    (against,) = compared(first, other).against
    assert (against.pairs, against.tasks, against.left_out) == (9, 5, 3)
    assert (against.first_rate, against.other_rate) == (0, pytest.approx(2 / 9))


def test_runs_without_common_pairs_are_not_compared(tmp_path):
    first = made(tmp_path, "base", set(), seeds=(0, 1))
    other = made(tmp_path, "tuned", set(), seeds=(5, 6))
    with pytest.raises(ResultsError, match="no judged task and seed in common"):
        compared(first, other)
    result = CliRunner().invoke(app, ["bench", "report", str(first), str(other)])
    assert result.exit_code == 1
    assert "no judged task and seed in common" in result.output
    assert not list(tmp_path.rglob("comparison*"))


def test_what_makes_runs_unlike_is_said(tmp_path):
    first = made(tmp_path, "base", set())
    other = made(tmp_path, "tuned", set(), seeds=(0, 1, 2), max_steps=None, suite="other")
    warnings = compared(first, other).warnings
    assert warnings == (
        "The suite differs: base has miniwob, tuned has other.",
        "The step limit differs: base has 10, tuned has none.",
        "The list of seeds differs: base has 0, 1, tuned has 0-2.",
    )
    harder = made(tmp_path, "harder", set())
    head = json.loads((harder / "run.json").read_text())
    head["tasks"][2]["options"] = {"data_mode": "test"}
    (harder / "run.json").write_text(json.dumps(head))
    assert compared(first, harder).warnings == ("The options of 1 tasks differ between base and harder.",)
    slower = made(tmp_path, "slower", set())
    head = json.loads((slower / "run.json").read_text())
    (slower / "run.json").write_text(json.dumps({**head, "environment": {"proxy": "http://127.0.0.1:1"}}))
    assert compared(first, slower).warnings == ("The environment's settings differ between base and slower.",)
    assert compared(first, made(tmp_path, "same", set())).warnings == ()


def test_more_than_two_are_each_set_beside_the_first(tmp_path):
    folders = [
        made(tmp_path, "a", set()), made(tmp_path, "b", set(list(TASKS)[:3])), made(tmp_path / "more", "b", set(TASKS)),
    ]  # fmt: skip
    comparison, written = write_comparison(folders, tmp_path / "out")
    assert comparison.labels == ("a (a)", "b (b)", "b (more/b)")
    assert [round(each.strict.mean, 2) for each in comparison.against] == [0.5, 1.0]
    assert sorted(path.name for path in written) == ["comparison.html", "comparison.json", "comparison.md"]
    page = written[2].read_text()
    assert page.count("<h2>") >= 6
    assert "+50.0 points" in page
    found = json.loads(written[0].read_text())
    assert [each["strict"]["mean"] for each in found["against_first"]] == [0.5, 1.0]


def test_the_command_compares_and_an_incomplete_run_is_exit_code_1(tmp_path):
    first, other = made(tmp_path, "base", set()), made(tmp_path, "tuned", set(TASKS))
    result = CliRunner().invoke(app, ["bench", "report", str(first), str(other)])
    assert result.exit_code == 0, result.output
    assert "tuned against base: +100.0 points strict" in result.stdout
    assert "p 0.0312 by task, 12 pairs of 6 tasks" in result.stdout
    assert (tmp_path / "comparison-base-tuned" / "comparison.md").exists()
    assert "comparison-base-tuned" in result.output
    cut = made(tmp_path, "cut", set(), drop={("task-3", 1)})
    result = CliRunner().invoke(app, ["bench", "report", str(first), str(cut)])
    assert result.exit_code == 1
    assert "INCOMPLETE cut: 1 of 12 episodes missing. task-3 #1" in result.stdout
    assert "INCOMPLETE cut" in (tmp_path / "comparison-base-cut" / "comparison.html").read_text()


def test_runs_whose_folders_share_a_name_are_told_apart_and_no_report_takes_another_s_place(tmp_path):
    runs = [made(tmp_path / name, "run", {"task-0"} if name == "x" else set(TASKS)) for name in "xyz"]
    for other, name in ((1, "comparison-x-y"), (2, "comparison-x-z"), (1, "comparison-x-y-2")):
        result = CliRunner().invoke(app, ["bench", "report", str(runs[0]), str(runs[other])])
        assert result.exit_code == 0, result.output
        labels = [run["label"] for run in json.loads((tmp_path / "x" / name / "comparison.json").read_text())["runs"]]
        assert labels == ["run (x)", f"run ({'xyz'[other]})"]
    assert compared(runs[0], runs[0]).labels == ("1. run (run)", "2. run (run)")
    deep = [made(tmp_path / "x" / name / "at", "run", set()) for name in ("b", "c/d")]
    assert folder_names(deep) == ["b", "c/d"]


def test_a_hostile_name_stays_a_text_in_comparison_and_leaderboard(tmp_path):
    tasks = {"<script>1</script>": ("", [])}
    first = made(tmp_path, "base", set(), tasks=tasks)
    other = made(tmp_path, "tuned", set(tasks), tasks=tasks)
    head = json.loads((other / "run.json").read_text())
    head["agent"]["name"], head["suite"] = "<script>2</script>", "<script>3</script>"
    (other / "run.json").write_text(json.dumps(head))
    write_comparison([first, other], tmp_path)
    write_leaderboard([first, other], tmp_path)
    for name in ("comparison.html", "leaderboard.html"):
        assert (tmp_path / name).read_text().count("<script>") == 1
    for name in ("comparison.md", "leaderboard.md"):
        assert "<script>" not in (tmp_path / name).read_text().replace("\\<", "")


def test_only_runs_of_the_same_tasks_and_seeds_share_a_table(tmp_path):
    folders = [
        made(tmp_path, "a", set()),
        made(tmp_path, "b", set(TASKS)),
        made(tmp_path, "other-seeds", set(TASKS), seeds=(0, 1, 2)),
        made(tmp_path, "other-suite", set(TASKS), suite="scenarios"),
        made(tmp_path, "part", set(TASKS), tasks={"task-0": ("", [])}),
    ]
    harder = made(tmp_path, "harder", set(TASKS))
    head = json.loads((harder / "run.json").read_text())
    for task in head["tasks"]:
        task["options"] = {"data_mode": "test"}
    (harder / "run.json").write_text(json.dumps(head))
    mobile = made(tmp_path, "mobile", set(TASKS))
    head = json.loads((mobile / "run.json").read_text())
    (mobile / "run.json").write_text(json.dumps({**head, "environment": {"device": "Pixel 7"}}))
    found = boards([summarise(read(folder)) for folder in [*folders, harder, mobile]])
    names = {board.title: [place.summary.results.run.agent.name for place in board.places] for board in found}
    assert names == {
        "miniwob, 1 task, seeds 0, 1": ["part"],
        "miniwob, 6 tasks, seeds 0, 1": ["b", "a"],
        "miniwob, 6 tasks, seeds 0-2": ["other-seeds"],
        'miniwob, 6 tasks, seeds 0, 1, environment {"device": "Pixel 7"}': ["mobile"],
        'miniwob, 6 tasks with {"data_mode": "test"}, seeds 0, 1': ["harder"],
        "scenarios, 6 tasks, seeds 0, 1": ["other-suite"],
    }


def test_ranks_are_shared_by_equals_and_an_incomplete_run_has_none(tmp_path):
    half = set(list(TASKS)[:3])
    folders = [
        made(tmp_path, "worst", set()), made(tmp_path, "half", half), made(tmp_path, "other-half", half),
        made(tmp_path, "cut", set(TASKS), drop={("task-5", 1)}), made(tmp_path, "best", set(TASKS)),
    ]  # fmt: skip
    (board,) = boards([summarise(read(folder)) for folder in folders])
    assert [(place.rank, place.summary.results.run.agent.name) for place in board.places] == [
        (1, "best"), (2, "half"), (2, "other-half"), (4, "worst"), (None, "cut"),
    ]  # fmt: skip


def test_a_run_that_failed_to_play_its_episodes_has_no_rank(tmp_path):
    errors = {(task, seed) for task in TASKS for seed in (0, 1)} - {("task-0", 0)}
    lucky, base = made(tmp_path, "lucky", {"task-0"}, errors=errors), made(tmp_path, "base", {"task-0"})
    open_ended = made(tmp_path, "open-ended", set(TASKS))
    lines = [json.loads(row) for row in (open_ended / "results.jsonl").read_text().splitlines()]
    lines[0] |= {"outcome": "stopped", "judged": False}
    write(open_ended, json.loads((open_ended / "run.json").read_text()), lines)
    (board,), _ = write_leaderboard([lucky, base, open_ended], tmp_path)
    ranks = {place.summary.results.run.agent.name: place.rank for place in board.places}
    assert ranks == {"base": 1, "lucky": None, "open-ended": None}
    text = (tmp_path / "leaderboard.md").read_text().replace("\\", "")
    assert "lucky (11 episodes ended as env_error), open-ended (1 episode unjudged)." in text


def test_runs_of_tasks_with_other_code_share_no_table(tmp_path):
    folders = [made(tmp_path, "before", set()), made(tmp_path, "after", set(TASKS))]
    head = json.loads((folders[0] / "run.json").read_text())
    head["tasks"][0]["sha256"] = "0" * 64
    (folders[0] / "run.json").write_text(json.dumps(head))
    assert len(boards([summarise(read(folder)) for folder in folders])) == 2


def test_the_leaderboard_command_writes_a_page_and_markdown(tmp_path):
    sessions = [{"started": 0, "seconds": 20.0, "episodes": 8, "workers": 2}, {"seconds": 10.0, "episodes": 4}]
    first = made(tmp_path, "base", set(), sessions=sessions)
    other = made(tmp_path, "tuned", set(TASKS), drop={("task-5", 1)})
    CliRunner().invoke(app, ["bench", "report", str(first)])
    page = tmp_path / "boards" / "leaderboard.html"
    result = CliRunner().invoke(app, ["bench", "leaderboard", str(first), str(other), "--out", str(page.parent)])
    assert result.exit_code == 0, result.output
    assert 'href="./../base/report.html"' in page.read_text()
    assert "tuned (1 episode missing)" in page.read_text()
    row = next(each for each in page.with_suffix(".md").read_text().splitlines() if each.startswith("| 1 | base"))
    assert " 24 " in row  # 12 episodes in 30 s
    (tmp_path / "file").touch()
    for out, says in (("file", "is a file"), ("boards.html", "give the folder for leaderboard.html")):
        wrong = CliRunner().invoke(app, ["bench", "leaderboard", str(first), "--out", str(tmp_path / out)])
        assert (wrong.exit_code, says in " ".join(wrong.output.replace("│", " ").split())) == (2, True), wrong.output
    assert not (tmp_path / "boards.html").exists()
    wrong = CliRunner().invoke(app, ["bench", "report", str(first), "--out", str(tmp_path / "file")])
    assert (wrong.exit_code, "is a file" in " ".join(wrong.output.replace("│", " ").split())) == (2, True), wrong.output
