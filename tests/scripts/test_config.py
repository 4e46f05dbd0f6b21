"""Configuration files and variables: what counts more, where each value came from, and what is refused."""

from __future__ import annotations

import json
import os
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfsurf.scripts import run
from selfsurf.scripts.cli import app
from selfsurf.scripts.terminal.arguments import read_set
from selfsurf.scripts.terminal.configuration import absolute, resolved

TASK = "MiniWoB/click-test-v0"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a project in it, `work/shop`, which is the current folder."""
    (tmp_path / "work" / "shop").mkdir(parents=True)
    (tmp_path / ".config" / "selfsurf").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "work" / "shop")
    return tmp_path


def said(result: Any) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


def shown(*tables: str) -> Any:
    result = CliRunner().invoke(app, ["config", "show", *tables, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_command_over_variable_over_file_over_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "work" / "selfsurf.toml").write_text(
        '# mine\n[environment]\nallowed = ["shop.test"]\nprofile = "me"\nsecret = { password = "env:P", pin = "file:pin" }\n'
        '\n[run]\nagent = "random"\nmax_steps = 3\nstealth = true\n[run.set]\nseed = 4\n'
    )
    (home / ".config" / "selfsurf" / "selfsurf.toml").write_text(
        '[environment]\nproxy = "http://p:1"\nconfirm = "never"\n'
    )
    monkeypatch.setenv("SELFSURF_RUN_MAX_STEPS", "5")
    monkeypatch.setenv("SELFSURF_ENVIRONMENT_CONFIRM", "auto")
    found = shown("run")
    assert found["files"] == [f"{home}/work/selfsurf.toml", f"{home}/.config/selfsurf/selfsurf.toml"]
    project, own = "../selfsurf.toml", "~/.config/selfsurf/selfsurf.toml"
    run = {key: (each["value"], each["source"]) for key, each in found["run"].items()}
    assert run["max_steps"] == (5, "SELFSURF_RUN_MAX_STEPS")
    assert run["confirm"] == ("auto", "SELFSURF_ENVIRONMENT_CONFIRM")
    assert run["allowed"] == (["shop.test"], f"{project}:3")
    assert run["profile"] == (f"{home}/work/me", f"{project}:4")
    assert run["secret"] == (["password=env:P", f"pin=file:{home}/work/pin"], f"{project}:5")
    assert run["agent"] == ("random", f"{project}:8")
    assert run["stealth"] == (True, f"{project}:10")
    assert run["set"] == (["seed=4"], f"{project}:11")
    assert run["proxy"] == ("http://p:1", f"{own}:2")
    assert run["device"] == ("", "default")
    record = shown("record")["record"]
    assert record["stealth"]["source"] == "default"
    assert record["profile"]["value"] == f"{home}/work/me"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lines = CliRunner().invoke(app, ["config", "show"]).stdout.splitlines()
    assert any(re.fullmatch(rf'agent = "random" +# {project}:8', line) for line in lines)
    assert {"[environment]", "[run]", "[bench]", "[record]", "[train]"} <= set(lines)


def test_a_file_is_what_a_command_does(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "work" / "shop" / "selfsurf.toml").write_text(
        f'[environment]\nenv_option = {{ user_agent = "Probe", viewport = [640, 480] }}\n[run]\ntask = "{TASK}"\nmax_steps = 9\n'
        'agent = "own.py:Agent"\n[bench]\nagent = "random"\nseeds = "1"\n'
    )
    (home / "work" / "shop" / "below").mkdir()
    monkeypatch.chdir(home / "work" / "shop" / "below")
    assert shown("run")["run"]["agent"] == {"value": f"{home}/work/shop/own.py:Agent", "source": "../selfsurf.toml:6"}
    assert shown("run")["run"]["task"]["value"] == TASK
    result = CliRunner().invoke(
        app, ["run", "--agent", "oracle", "--env-option", "viewport=[700,500]", "--name", "first"]
    )
    assert result.exit_code == 0, result.output
    meta = json.loads(Path("runs/first/episode.json").read_text())
    assert meta["agent"] == "oracle"
    refused = CliRunner().invoke(app, ["run", "--goal", "Look.", "--url", "nowhere"])  # instead of the file's task
    assert (refused.exit_code, "--url must be an address" in said(refused)) == (2, True), refused.output
    assert meta["environment"] == {"env_option": ["viewport=[700,500]", "user_agent=Probe"]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[runn]\nagent = 'x'", "selfsurf.toml:1: there is no table runn; did you mean run?"),
        ("stealth = true", "selfsurf.toml:1: stealth belongs under [environment]."),
        ("[run]\n\nmax-steps = 3", "selfsurf.toml:3: [run] has no option max-steps; did you mean max_steps?"),
        ("[environment]\nprofil = 'x'", "selfsurf.toml:2: [environment] has no option profil; did you mean profile?"),
        (
            "[environment]\nenv = { locale = 'de' }",
            "selfsurf.toml:2: [environment] has no option env; it is now env_option.",
        ),
        ("[run]\nmax_steps = 'many'", "selfsurf.toml:2: max_steps: it should be a valid integer"),
        ("[run]\nmax_steps = 0", "selfsurf.toml:2: max_steps: it should be greater than or equal to 1"),
        ("[environment]\nsecret = { password = 'hunter22' }", "selfsurf.toml:2: secret: password: the value itself"),
        ("[environment.secret]\npassword = 'hunter22'", "selfsurf.toml:1: secret: password: the value itself"),
        ("[environment]\nproxy = 'http://ada:hunter22@p'", "selfsurf.toml:2: proxy: a proxy's address with user and"),
        ("[environment]\nconfirm = 'maybe'", "selfsurf.toml:2: confirm: it should be 'ask', 'auto' or 'never'"),
        ("run = 3", "selfsurf.toml:1: write run as a table, [run]."),
        ("[run", "selfsurf.toml: "),
    ],
)
def test_what_a_file_can_not_say(home: Path, text: str, why: str) -> None:
    (home / "work" / "shop" / "selfsurf.toml").write_text(text)
    for words in (["config", "show"], ["run", "--task", TASK, "--agent", "oracle", "--name", "x"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2, result.output
        assert why in said(result)
        assert "hunter22" not in result.output
    assert not Path("runs").exists()


def test_settings_of_training_are_checked(home: Path) -> None:
    file = home / "work" / "shop" / "selfsurf.toml"
    file.write_text("[train.set]\nlearning_rat = 1")
    result = CliRunner().invoke(app, ["config", "show"])
    assert result.exit_code == 2
    assert "selfsurf.toml:1: set: there is no setting learning_rat; did you mean learning_rate?" in said(result)
    file.write_text("[train.set]\nlearning_rate = 'hot'")
    result = CliRunner().invoke(app, ["config", "show"])
    assert result.exit_code == 2
    assert "selfsurf.toml:1: set: learning_rate: Input should be a valid number" in said(result)
    file.write_text("[train.set]\nlearning_rate = 1\n'rollouts.workers' = 1")
    assert CliRunner().invoke(app, ["config", "show"]).exit_code == 0


def test_a_specification_stands_for_what_a_file_wants_otherwise(home: Path) -> None:
    (home / "work" / "shop" / "selfsurf.toml").write_text('[run]\nspec = "mug.toml"\nagent = "oracle"')
    result = CliRunner().invoke(app, ["run", "--task", TASK, "--name", "first"])
    assert result.exit_code == 0, result.output
    (home / "work" / "shop" / "selfsurf.toml").write_text(f'[run]\ntask = "{TASK}"\nagent = "random"')
    refused = CliRunner().invoke(app, ["run", "--spec", "mug.toml"])
    assert (refused.exit_code, "mug.toml can't be read" in said(refused)) == (2, True), refused.output


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        ((), {"workers": 2, "engine": "5"}),
        (("rollouts.workers=4",), {"workers": 4, "engine": "5"}),
        (('rollouts={"workers": 4}',), {"workers": 4}),
    ],
)
def test_a_group_of_settings_is_joined_name_by_name(home: Path, given: tuple[str, ...], joined: Any) -> None:
    file = home / "work" / "shop" / "selfsurf.toml"
    file.write_text('[train.set]\nrollouts.workers = 2\nrollouts.engine = "5"')
    found = resolved("train", {"set": given} if given else {})["set"].value
    assert read_set(found)["rollouts"] == joined
    file.write_text("[train.set.rollouts]\nworker = 2")
    refused = CliRunner().invoke(app, ["config", "show"])
    assert (refused.exit_code, "did you mean rollouts.workers?" in said(refused)) == (2, True), refused.output


def test_what_is_kept_of_options_means_the_same_in_any_folder(home: Path) -> None:
    Path("mine").mkdir()
    given = run.Settings(
        goal="Look.", agent="own.py:Agent", model="smollm2", adapter="mine", spec=Path("mug.toml"), profile=Path("me"),
        upload_from=(Path("files"), Path("/other")), download_to=Path("got"), secret=("pin=file:pin", "name=env:NAME"),
        proxy="file:proxy",
    )  # fmt: skip
    here, kept = home / "work" / "shop", run.Settings.model_validate_json(json.dumps(absolute(given)))
    assert (kept.agent, kept.model, kept.adapter) == (f"{here}/own.py:Agent", "smollm2", f"{here}/mine")
    assert (kept.spec, kept.profile, kept.download_to) == (here / "mug.toml", here / "me", here / "got")
    assert kept.upload_from == (here / "files", Path("/other"))
    assert (kept.secret, kept.proxy) == ((f"pin=file:{here}/pin", "name=env:NAME"), f"file:{here}/proxy")
    assert absolute(run.Settings(), exclude_defaults=True) == {}


def test_where_files_are_looked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "selfsurf.toml").write_text("[environment]\nstealth = true\n")
    assert shown("run")["files"] == [f"{home}/selfsurf.toml"]
    if os.getuid() == 0:  # somebody else's, in a folder above, counts for nothing
        os.chown(home / "selfsurf.toml", 12345, -1)
        assert shown("run")["files"] == []
    (home / "work" / ".git").mkdir()  # the project ends here
    assert shown("run")["files"] == []
    monkeypatch.setenv("SELFSURF_ENVIRONMENT_ALLOWED", "shop.test")
    refused = CliRunner().invoke(app, ["config", "show", "run"])
    assert (refused.exit_code, "SELFSURF_ENVIRONMENT_ALLOWED: write a list as JSON" in said(refused)) == (2, True)
    monkeypatch.delenv("SELFSURF_ENVIRONMENT_ALLOWED")
    monkeypatch.setenv("SELFSURF_RUN_MAX_STEP", "3")
    assert "did you mean SELFSURF_RUN_MAX_STEPS?" in said(CliRunner().invoke(app, ["config", "show", "run"]))
    assert CliRunner().invoke(app, ["config", "show", "nothing"]).exit_code == 2
