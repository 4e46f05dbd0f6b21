import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.scripts.report import failures as failure_cards
from selfsurf.scripts.report.reading import ResultsError, read
from selfsurf.scripts.report.report import write_report
from selfsurf.scripts.report.summary import summarise
from selfsurf.scripts.report.trackers import track
from selfsurf.sdft.measure.statistics import wilson_interval
from tests.scripts.results_folders import line, picture, run, write

TASKS = {"one": ("train", ["forms"]), "two": ("train", []), "three": ("test", ["forms"])}
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture
def folder(tmp_path):
    """Three tasks on two seeds: 3 strict of 5 counted, 4 lenient, an env_error."""
    lines = [
        line("one", 0, seconds=1.0, steps=1, claimed=True),
        line("two", 0, "failed", claimed=True, raw_reward=0.5, reward=0.5, time_reward=0.4, seconds=3.0, steps=4),
        line("one", 1, seconds=2.0, steps=6, claimed=False),
        line(
            "three", 0, "env_error", raw_reward=None, time_reward=None, outcome_detail="The browser died.", attempts=3
        ),
        line("three", 1, "timeout", raw_reward=-1, seconds=5.0, steps=10, reason="Not in time."),
        line("two", 1, seconds=4.0, steps=3),
    ]
    return write(tmp_path / "run", run(TASKS, [0, 1]), lines)


def test_env_error_is_beside_the_score_and_never_in_it(folder):
    row = summarise(read(folder)).overall
    assert (row.asked, row.episodes, row.env_errors, row.missing) == (6, 5, 1, 0)
    assert (row.solved, row.strict.mean, row.lenient.mean) == (3, 0.6, 0.8)
    assert row.time_reward.mean == pytest.approx((3 * 0.8 + 0.4 - 1) / 5)
    assert (row.false_claims.mean, row.false_claims.episodes) == (1 / 3, 3), "older lines do not tell"
    assert row.outcomes == {"solved": 3, "failed": 1, "timeout": 1, "env_error": 1}
    assert (row.steps.median, row.seconds.median, row.seconds.p90) == (4, 3, pytest.approx(4.6))


def test_splits_groups_and_tasks_have_their_own_figures(folder):
    summary = summarise(read(folder))
    assert {row.name: (row.solved, row.episodes, row.env_errors) for row in summary.splits} == {
        "train": (3, 4, 0), "test": (0, 1, 1),
    }  # fmt: skip
    (forms,) = summary.groups
    assert (forms.name, forms.tasks, forms.solved, forms.episodes) == ("forms", 2, 2, 3)
    one = summary.tasks[0]
    assert (one.strict.interval.kind, one.strict.interval.low) == ("wilson", wilson_interval(1, 2).low)


def test_raw_reward_decides_and_reward_where_there_is_none(tmp_path):
    lines = [
        line("one", 0, raw_reward=1.0, reward=0.3),
        line("two", 0, raw_reward=None, reward=1.0, time_reward=None),
        line("three", 0, "failed", raw_reward=-0.5, reward=0.2),
    ]
    row = summarise(read(write(tmp_path, run(TASKS, [0]), lines))).overall
    assert (row.solved, round(3 * row.lenient.mean)) == (2, 2)
    assert row.time_reward.episodes == 2


def test_a_run_without_episodes_or_with_env_errors_only_has_no_score(tmp_path):
    head = run({"one": ("", [])}, [0])
    assert summarise(read(write(tmp_path / "none", head, []))).overall.strict is None
    broken = write(tmp_path / "broken", head, [line("one", 0, "env_error", raw_reward=None, time_reward=None)])
    summary, written = write_report(broken)
    assert summary.complete
    assert summary.overall.strict is None
    assert all(path.stat().st_size for path in written)


def test_curves_say_what_was_solved_within_so_many_steps_and_so_much_time(folder):
    summary = summarise(read(folder))
    by_steps = {point.steps: point.strict for point in summary.step_curve}
    assert (by_steps[1], by_steps[2], by_steps[3], by_steps[6], by_steps[10]) == (0.2, 0.2, 0.4, 0.6, 0.6)
    assert [(point.seconds, point.episodes) for point in summary.time_curve] == [
        (1, 1),
        (4, 2),
        (6, 3),
        (11, 4),
        (15, 5),
    ]
    assert [point.strict for point in summary.time_curve] == pytest.approx([1, 1 / 2, 2 / 3, 1 / 2, 3 / 5])


def test_a_last_line_that_a_kill_cut_is_left_out_and_said(folder):
    path = folder / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    results = read(folder)
    assert results.cut
    assert results.missing == (("two", 1),)
    write_report(folder)
    assert "cut off" in (folder / "report.html").read_text()
    assert "cut off" in (folder / "report.md").read_text()


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (b'{"task": "one", "see', "line 2 is invalid"),
        (b"\xff\xfe", "line 2 is not UTF-8"),
        (b"", "line 2 is invalid"),
        (json.dumps(line("one", 0)).encode(), "line 2: task 'one', seed 0 is already in line 1"),
        (json.dumps(line("four", 0)).encode(), "line 2: run.json does not ask for task 'four'"),
        (json.dumps(line("one", 9)).encode(), "does not ask for task 'one', seed 9"),
        (json.dumps(line("two", 0, reward=1.5)).encode(), "line 2 is invalid: reward: "),
        (json.dumps(line("two", 0, seconds=float("nan"))).encode(), "line 2 is invalid: seconds: "),
        (json.dumps(line("two", 0, outcome="won")).encode(), "line 2 is invalid: outcome: "),
    ],
)
def test_any_other_broken_line_is_an_error_with_its_number(tmp_path, broken, said):
    folder = write(tmp_path, run(TASKS, [0]), [line("one", 0)])
    with (folder / "results.jsonl").open("ab") as file:
        file.write(broken + b"\n" + json.dumps(line("three", 0)).encode() + b"\n")
    with pytest.raises(ResultsError, match=re.escape(said)):
        read(folder)


def test_a_folder_that_is_no_run_or_of_another_format_says_so(tmp_path):
    with pytest.raises(ResultsError, match=r"no run\.json"):
        read(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match="format 2; this version reads format 1"):
        read(write(tmp_path / "new", run(TASKS, [0], format=2), []))
    with pytest.raises(ResultsError, match="lists seed 3 twice"):
        read(write(tmp_path / "twice", run(TASKS, [3, 3]), []))
    with pytest.raises(ResultsError, match=r"run\.json is invalid: agent.name: Field required"):
        read(write(tmp_path / "nameless", run(TASKS, [0], agent={}), []))


def test_the_report_is_the_same_every_time_and_holds_every_figure(folder, tmp_path):
    first, _ = write_report(folder, tmp_path / "a")
    write_report(folder, tmp_path / "b")
    text = (tmp_path / "a" / "report.json").read_text()
    assert text == (tmp_path / "b" / "report.json").read_text()
    report = json.loads(text)
    assert report["overall"]["strict"]["mean"] == 0.6
    assert report["overall"]["strict"]["interval"]["low"] == first.overall.strict.interval.low < 0.6
    assert [failed["task"] for failed in report["failures"]] == ["three", "two"]
    assert [(error["task"], error["seed"]) for error in report["env_errors"]] == [("three", 0)]
    assert report["run"]["git"]["revision"] == "0123456789abcdef"
    assert len(report["curves"]["steps"]) == 10


def test_an_incomplete_run_is_reported_loudly_with_exit_code_1(folder):
    path = folder / "results.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    result = CliRunner().invoke(app, ["bench", "report", str(folder)])
    assert result.exit_code == 1
    assert "INCOMPLETE: 1 of 6 episodes missing. two #1" in result.stdout
    assert "1 of 6 episodes missing" in (folder / "report.md").read_text().split("##")[0]
    page = (folder / "report.html").read_text()
    assert page.index("1 of 6 episodes missing") < page.index("Strict success")


def test_the_command_writes_three_files_and_says_the_score(folder):
    result = CliRunner().invoke(app, ["bench", "report", str(folder)])
    assert result.exit_code == 0, result.output
    assert "\n60.0% strict (" in result.stdout
    assert "5 episodes, 1 env_error not counted" in result.stdout
    assert {path.name for path in folder.glob("report.*")} == {"report.json", "report.md", "report.html"}
    as_json = CliRunner().invoke(app, ["bench", "report", str(folder), "--json"])
    assert json.loads(as_json.stdout) == json.loads((folder / "report.json").read_text())
    nowhere = CliRunner().invoke(app, ["bench", "report", str(folder / "nowhere")])
    assert nowhere.exit_code == 1
    assert "not a results folder" in nowhere.output


def test_markdown_can_not_be_broken_by_what_a_page_said(tmp_path):
    lines = [line("one", 0, "failed", reason=f"a | b\n\n# {HOSTILE} [x](http://evil) `y`\r\n| c |")]
    write_report(write(tmp_path, run({"one": ("", [])}, [0]), lines))
    text = (tmp_path / "report.md").read_text()
    (row,) = [each for each in text.splitlines() if "evil" in each]
    assert r"\<script\>" in row
    assert r"\[x\]" in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 6
    assert not re.search(r"(?<!\\)<(?!br)", text)


def test_lone_halves_of_characters_do_not_stop_a_report(tmp_path):
    folder = write(tmp_path, run({"one": ("", [])}, [0]), [line("one", 0, "failed", reason="half \ud83d of one")])
    write_report(folder)
    assert "half � of one" in (folder / "report.html").read_text(encoding="utf-8")


def test_pictures_are_embedded_up_to_a_limit_and_linked_beyond_it(tmp_path, monkeypatch):
    monkeypatch.setattr(failure_cards, "MOST_PICTURES", 3)
    tasks = {"one": ("", []), "two": ("", [])}
    lines = [
        line(task, seed, "failed", screenshot=picture(tmp_path, f"{task}-{seed}", 20 * seed))
        for task in tasks
        for seed in range(3)
    ]
    write_report(write(tmp_path, run(tasks, [0, 1, 2]), lines))
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "3 of 6 screenshots are embedded" in page
    assert all(f'href="./episodes/{task}-{seed}/last.png"' in page for task in tasks for seed in range(3))
    cards = re.findall(r'<article class="failure" data-task="(\w+)".*?</article>', page)
    embedded = [task for task, card in zip(cards, page.split("<article")[1:], strict=True) if "data:image" in card]
    assert embedded == ["one", "one", "two"]  # of every task its first before the second of any


def test_links_lead_from_where_the_page_is_and_never_out_of_the_results(tmp_path):
    outside = tmp_path / "secret.png"
    outside.write_bytes((tmp_path / picture(tmp_path, "x", 9)).read_bytes())
    folder = tmp_path / "run"
    shot = picture(folder, "javascript:alert(1)", 50)
    lines = [
        line("one", 0, "failed", screenshot=shot, episode=str(Path(shot).parent)),
        line("one", 1, "failed", screenshot="../secret.png", episode="/etc"),
    ]
    write_report(write(folder, run({"one": ("", [])}, [0, 1]), lines), tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'href="./../run/episodes/javascript%3Aalert%281%29/last.png"' in page
    assert "secret" not in page
    assert "/etc" not in page
    assert page.count("no screenshot") == 1


@pytest.fixture
def hostile(tmp_path):
    """The page of a run in which everything that a page or an agent can write is hostile."""
    texts = dict.fromkeys(("reason", "outcome_detail", "last_error", "answer"), HOSTILE)
    lines = [
        line("a<b>", 0, "failed", screenshot=picture(tmp_path, "shot", 90), **texts),
        line("a<b>", 1, "timeout", **texts),
        line("b", 0, "env_error", raw_reward=None, time_reward=None, **texts),
        line("b", 1, steps=2),
    ]
    head = run({"a<b>": (HOSTILE, [HOSTILE]), "b": ("test", [])}, [0, 1], suite=HOSTILE, versions={HOSTILE: HOSTILE})
    head["agent"]["name"] = f"agent {HOSTILE}"
    write_report(write(tmp_path, head, lines))
    return tmp_path / "report.html"


def test_nothing_of_an_episode_becomes_markup(hostile):
    page = hostile.read_text()
    assert page.count("<script>") == 1  # its own
    assert "<img src=x" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r'(src|href)="(https?:)?//', page)


def _rows(text):
    """The names of the tasks in the order of their table."""
    return re.findall(r"^(a<b>|b)(?=\s)", text.split("By task")[1].split("Failures")[0], re.MULTILINE)


def test_the_page_works_in_a_browser(hostile):
    env = gymnasium.make("Browser-v0", start_url=hostile.as_uri(), viewport=(400, 6000))
    try:
        observation, _ = env.reset(seed=0)
        assert observation["title"].startswith("agent </script>")  # as a text; a script that ran would have put "owned"
        assert not any("error" in event.lower() for event in observation["events"])
        shown = observation["page_text"]
        assert "2 of 2" in shown
        assert "env_error" in shown
        outcome = next(each for each in observation["elements"] if each["name"] == "Outcome")
        observation, *_ = env.step({"action": "select", "id": outcome["id"], "options": ["timeout"]})
        assert "1 of 2" in observation["page_text"]
        assert _rows(observation["page_text"]) == ["a<b>", "b"]
        solved = [each for each in observation["elements"] if each["role"] == "button" and each["name"] == "Solved"]
        observation, *_ = env.step({"action": "click", "id": solved[-1]["id"]})
        assert _rows(observation["page_text"]) == ["b", "a<b>"]
        assert observation["title"] != "owned"
    finally:
        env.close()


def test_a_suite_of_many_tasks_is_reported_quickly_and_its_file_is_small(tmp_path):
    rng = np.random.default_rng(0)
    tasks = {f"task-{at}": ("train" if at % 3 else "test", ["even"] if at % 2 else []) for at in range(125)}
    lines = [line(task, seed, "solved" if rng.random() < 0.4 else "failed") for task in tasks for seed in range(5)]
    summary, written = write_report(write(tmp_path, run(tasks, list(range(5))), lines))
    interval = summary.overall.strict.interval
    assert interval.kind == "bootstrap"
    assert interval.low < summary.overall.strict.mean < interval.high
    assert interval.high - interval.low > wilson_interval(0.4, 625).high - wilson_interval(0.4, 625).low
    assert written[2].stat().st_size < 1_000_000


def test_the_command_line_stays_light():
    code = "import sys, selfsurf.scripts.bench; print([n for n in ('torch', 'playwright', 'PIL') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_the_report_of_a_run_with_env_errors_says_so_and_is_a_report(folder):
    result = CliRunner().invoke(app, ["bench", "report", str(folder)])
    assert result.exit_code == 0
    assert "NO VERDICT: 1 of 6 episodes ended as env_error. three #0" in result.stdout
    for name in ("report.md", "report.html"):
        assert "NO VERDICT: 1 of 6 episodes ended as" in (folder / name).read_text()


def test_the_cost_is_that_of_all_attempts(tmp_path):
    lines = [
        line("one", 0, cost=1.0, lost_cost=0.25), line("one", 1, "failed", cost=0.5), line("one", 2, lost_cost=0.125),
        line("one", 3, "env_error", cost=0.5, lost_cost=2.0),
    ]  # fmt: skip
    summary, _ = write_report(write(tmp_path, run({"one": ("", [])}, [0, 1, 2, 3]), lines))
    assert summary.overall.cost == 3.875


def test_the_report_promises_no_further_run_of_what_was_run_too_often(tmp_path):
    def told(*times):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        lines = [line("one", seed, "env_error") for seed, count in enumerate(times) for _ in range(count)]
        write_report(write(folder, run({"one": ("", [])}, list(range(len(times)))), lines))
        text = (folder / "report.md").read_text()
        return "The same command runs them again." in text, "were run by 3 commands and are not run again" in text

    assert told(2, 1) == (True, False)
    assert told(3, 1) == (True, True)
    assert told(3, 3) == (False, True)


def test_tensorboard_replaces_its_own_files_and_nothing_else(folder, tmp_path, monkeypatch):
    before = (folder / "results.jsonl").read_bytes()
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path))
    for _ in range(2):
        track(["tensorboard"], summarise(read(folder)))
    assert (folder / "results.jsonl").read_bytes() == before
    assert len(list((folder / "logs").glob("events.out.tfevents*"))) == 1
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "boards"))
    (tmp_path / "boards" / "run").mkdir(parents=True)
    (tmp_path / "boards" / "run" / "notes.txt").touch()
    track(["tensorboard"], summarise(read(folder)))
    assert sorted(path.name[:6] for path in (tmp_path / "boards" / "run").iterdir()) == ["events", "notes."]
