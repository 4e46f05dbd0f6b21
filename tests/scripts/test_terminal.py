"""What the command does on a terminal, whatever the subcommand: its log, its readers, Ctrl-C, and who else runs."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.scripts.terminal.arguments import settings_of, wrong_settings
from selfsurf.scripts.terminal.console import logged, quiet_libraries
from selfsurf.scripts.terminal.interrupts import Interrupts, restore_interrupts
from selfsurf.sdft.settings import TrainSettings, fields
from tests.processes import until

TASK = "MiniWoB/click-test-v0"
COMMAND = Path(sys.executable).with_name("selfsurf")
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


@pytest.mark.slow
def test_the_log_is_shown_with_verbose_before_or_after_the_command(tmp_path: Path) -> None:
    words = ["run", "--task", TASK, "--agent", "oracle", "--out"]
    for number, arguments in enumerate((["--verbose", *words], words, words)):
        last = ["--verbose"] if number == 1 else []
        shown = CliRunner().invoke(app, [*arguments, str(tmp_path / str(number)), *last]).stderr
        told = f"selfsurf.agents.play.player: {TASK} seed 0: solved after 1 steps" in shown
        assert told == (number < 2), shown
    assert logging.getLogger("selfsurf").handlers == []


def test_warnings_are_shown_without_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    with logged(verbose=False):
        logging.getLogger("selfsurf.agents.any").warning("Trying again.")
        logging.getLogger("selfsurf.agents.any").info("Nothing to see.")
        logging.getLogger("selfsurf.agents.model_files").info("hub: downloading it")
    assert capsys.readouterr().err == "Trying again.\nhub: downloading it\n"


@pytest.mark.parametrize(
    "words", [["envs"], *(pytest.param(one, marks=pytest.mark.slow) for one in (["envs", "--json"], ["--help"]))]
)
def test_a_reader_may_leave(words: list[str]) -> None:
    command = subprocess.Popen([COMMAND, *words], **PIPES)
    assert command.stdout
    assert command.stderr
    command.stdout.close()  # as `head` does once it has enough
    assert re.fullmatch(r"(\d+ environments)?", command.stderr.read().strip())
    assert command.wait(30) == 0


def test_ctrl_c_at_the_very_beginning(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "gymnasium.py").write_text(f"import time\nopen({str(marker)!r}, 'w')\ntime.sleep(60)\n")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = subprocess.Popen([COMMAND, "envs"], **PIPES, env={**os.environ, "PYTHONPATH": path})
    assert until(marker.exists, 30)
    command.send_signal(signal.SIGINT)
    _, complained = command.communicate(timeout=30)
    assert (command.returncode, complained) == (-signal.SIGINT, "")


def test_an_interrupt_lets_an_import_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    press = "signal.raise_signal(signal.SIGINT)\ntime.sleep(0.05)\n"
    for name, times in (("pressed_once", 1), ("pressed_twice", 2)):
        (tmp_path / f"{name}.py").write_text(f"import signal, time\n{press * times}loaded = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    def load(name: str) -> None:
        importlib.import_module(name)
        time.sleep(5)

    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            load("pressed_twice")
        assert sys.modules["pressed_twice"].loaded
        assert interrupts.exit_code == 130
        time.sleep(0.1)  # nothing comes after it
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # as while the command itself is loaded
    try:
        restore_interrupts()
        with pytest.raises(KeyboardInterrupt):
            load("pressed_once")
        assert sys.modules["pressed_once"].loaded
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_two_runs_into_one_folder_at_once(tmp_path: Path) -> None:
    words = [COMMAND, "run", "--task", TASK, "--agent", "oracle", "--json", "--out", str(tmp_path / "same")]
    both = [subprocess.Popen(words, **PIPES) for _ in range(2)]
    ended = [(one.communicate(timeout=120), one.returncode) for one in both]
    assert sorted(code for _, code in ended) == [0, 2], ended
    (_, complained), _ = next(each for each in ended if each[1] == 2)
    assert "--out" in complained
    assert CliRunner().invoke(app, ["view", str(tmp_path / "same")]).exit_code == 0


def test_a_run_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "--task", TASK, "--agent", "oracle", "--name", "first"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert json.loads((tmp_path / "runs" / "first" / "episode.json").read_text())["episode_id"] == "first"
    assert CliRunner().invoke(app, words).exit_code == 2


@pytest.mark.parametrize("command", [["run"], ["bench", "run"]])
def test_settings_lists_the_options_of_the_agent_that_is_named(command: list[str]) -> None:
    listed = CliRunner().invoke(app, [*command, "--settings", "--agent", "transformers"])
    assert listed.exit_code == 0, listed.output
    lines = listed.stdout.splitlines()
    assert lines[lines.index("temperature = 0.0") + 1] == "    0 takes the most likely token."
    assert 'model = "smollm2"' in lines
    assert "model (required)" in CliRunner().invoke(app, [*command, "--settings", "--backend", "openai"]).stdout
    assert CliRunner().invoke(app, [*command, "--settings", "--agent", "nobody"]).exit_code == 2


@pytest.mark.parametrize("command", [["train"], ["bench", "learn"]])
def test_settings_lists_those_of_training(command: list[str]) -> None:
    lines = CliRunner().invoke(app, [*command, "--settings"]).stdout.splitlines()
    assert (
        lines[lines.index("rehearsal_rows = 2") + 1]
        == "    Number of rehearsal texts, of 128 tokens each, in an optimizer step."
    )
    assert "rollouts.workers = 0" in lines


def test_a_training_setting_is_read_as_an_agents_option() -> None:
    assert settings_of(TrainSettings, {"tasks": [TASK], "learning_rate": 1, "start_from": "a"}).learning_rate == 1
    for value in ("8", True, "ten"):
        with pytest.raises(ValueError, match="should be a valid integer"):
            settings_of(TrainSettings, {"tasks": [TASK], "episodes_per_step": value})


def test_a_setting_of_the_past_is_named() -> None:
    try:
        settings_of(TrainSettings, {"tasks": [TASK], "skip_right": True, "rollout_workers": 2})
    except ValueError as error:
        said = wrong_settings(error, fields())  # type: ignore[arg-type]
    assert "skip_right was removed" in said
    assert "rollout_workers is rollouts.workers now" in said


@pytest.mark.slow
def test_bench_run_keeps_tracebacks_of_agents_and_of_tasks(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from selfsurf.browser_env import Task\n"
        "class Odd(Task):\n"
        "    goal, start_url = 'Look.', 'data:text/html,<p>Shop'\n"
        "    async def score(self, page, episode):\n        return 1 / 0\n"
        "class Agent:\n"
        "    def act(self, obs):\n        return {'action': 'wait', 'ms': 1} if obs['title'] else {}['colour']\n"
    )
    (tmp_path / "odd.toml").write_text('name = "odd"\ntasks = [{ id = "own.py:Odd" }]\n')
    for suite, agent, outcome, source in (
        (tmp_path / "odd.toml", "random", "env_error", "return 1 / 0"),
        (tmp_path / "odd.toml", f"{tmp_path}/own.py:Agent", "failed", "{}['colour']"),
    ):
        out = tmp_path / outcome
        words = ["bench", "run", suite, "--agent", agent, "--seeds", "1", "--retries", "0", "--out", out]
        subprocess.run([COMMAND, *words], check=False, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
        [path] = out.glob("episodes/*/episode.json")
        meta = json.loads(path.read_text())
        assert (meta["outcome"], meta["trainable"]) == (outcome, False)
        assert source in meta["traceback"]


def test_libraries_that_are_not_there_are_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    quiet_libraries()
