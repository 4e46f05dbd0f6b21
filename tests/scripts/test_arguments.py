"""The arguments that commands share, and commands whose arguments are a settings model."""

import json
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import Field, model_validator
from typer.testing import CliRunner

from selfsurf.scripts import bench, cli
from selfsurf.scripts.terminal.arguments import Adapter, Agent, Model, Set, read_counts, read_seeds, read_set
from selfsurf.scripts.terminal.command import Arguments, command

ALIASES = {"--model": "--model-id", "--adapter": "--adapter-path"}
COMMANDS = [("demo",), ("run",), ("train",), ("record",), *(("bench", name) for name in bench.COMMANDS)]


class Settings(Arguments):
    """Arguments of every kind."""

    suite: Annotated[str, typer.Argument()]
    agent: Agent = "oracle"
    model: Model = ""
    adapter: Adapter = ""
    set_: Set = Field(default_factory=list)
    task: tuple[str, ...] = ()
    """Only this
    task."""
    region: Literal["page", "viewport"] = "page"
    rounds: int = Field(default=3, ge=1, le=9)
    peers: Annotated[bool, typer.Option("--peers")] = False
    share: float = Field(default=0.0, lt=1)

    @model_validator(mode="after")
    def _fitting(self) -> "Settings":
        if self.rounds == 7:
            raise ValueError("seven is too many")
        return self


@command
def main(settings: Settings) -> None:
    """Print the settings."""
    print(settings.model_dump_json())


def run(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(main)
    return CliRunner().invoke(app, list(arguments))


def test_fields_are_options_and_their_docstrings_help():
    found = json.loads(run("s", "--task", "a", "--task", "b", "--peers", "--region", "viewport", "--json").stdout)
    assert found == {
        "suite": "s", "agent": "oracle", "model": "", "adapter": "", "set_": [], "task": ["a", "b"],
        "region": "viewport", "rounds": 3, "peers": True, "share": 0.0, "as_json": True,
    }  # fmt: skip
    shown = " ".join(run("--help").stdout.replace("│", " ").split())
    assert "Only this task." in shown
    assert "Print the settings." in shown
    assert "Folder of a LoRA adapter" in shown


def test_the_first_names_of_the_options_are_accepted():
    found = json.loads(run("s", "--backend", "mlx", "--model-id", "m", "--adapter-path", "a", "--set", "x=1").stdout)
    assert (found["agent"], found["model"], found["adapter"], found["set_"]) == ("mlx", "m", "a", ["x=1"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing argument"),
        (["s", "--rounds", "0"], "--rounds"),
        (["s", "--rounds", "10"], "--rounds"),
        (["s", "--rounds", "7"], "seven is too many"),
        (["s", "--region", "frame"], "viewport"),
        (["s", "--share", "1"], "--share: Input should be less than 1"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, says):
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_every_command_that_has_an_option_accepts_its_alias(names):
    result = CliRunner().invoke(cli.app, [*names, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    options = set(result.output.replace(",", " ").split())
    for name, alias in ALIASES.items():
        assert name not in options or alias in options
    assert "--agent" not in options or "--backend" in options


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "--task", "MiniWoB/click-test-v0", "--backend", "nobody"), "Unknown agent 'nobody'"),
        (("run", "--task", "MiniWoB/click-test-v0", "--model-id", "/no/model"), "no model folder at /no/model"),
        (("run", "--task", "MiniWoB/click-test-v0", "--adapter-path", "/no/adapter"), "no LoRA adapter at /no/adapter"),
        (("bench", "run", "miniwob", "--backend", "nobody"), "Unknown agent 'nobody'"),
        (("train", "MiniWoB/click-test-v0", "--model-id", "/no/model", "--out", "{folder}"), "/no/model"),
    ],
)
def test_an_alias_is_the_option_itself(arguments, says, tmp_path):
    result = CliRunner().invoke(cli.app, [one.format(folder=tmp_path) for one in arguments])
    assert result.exit_code in (1, 2), result.output
    assert says in " ".join(result.output.replace("│", " ").split())


def test_seeds_are_a_number_or_a_list():
    assert read_seeds("3") == [0, 1, 2]
    assert read_seeds("0-2,7") == [0, 1, 2, 7]
    assert read_seeds("5,") == [5]
    for wrong in ("", "0", "a", "1,1", "-3"):
        with pytest.raises(typer.BadParameter):
            read_seeds(wrong)


def test_counts_are_numbers_in_order():
    assert read_counts("8,1,2,2", "--envs") == [1, 2, 8]
    with pytest.raises(typer.BadParameter):
        read_counts("0,1", "--envs")


def test_set_takes_json_text_and_groups():
    assert read_set(["a=1", "b=x y", 'c=["d"]', "e.f=2", "e.g=h=i"]) == {
        "a": 1, "b": "x y", "c": ["d"], "e": {"f": 2, "g": "h=i"},
    }  # fmt: skip
    for wrong in (["a"], ["=1"], ["a=1", "a.b=2"]):
        with pytest.raises(typer.BadParameter):
            read_set(wrong)


@pytest.mark.parametrize(
    ("words", "new"),
    [
        (["run", "--goal", "Look.", "--env", "locale=de-DE"], "--env is now --env-option."),
        (["run", "--goal", "Look.", "--logs=logs"], "--logs is now --attempt-log."),
        (["bench", "run", "miniwob", "--logs", "none"], "--logs is now --keep-episodes."),
    ],
)
def test_an_option_of_old_names_the_new_one(words: list[str], new: str) -> None:
    result = CliRunner().invoke(cli.app, words)
    assert (result.exit_code, new in " ".join(result.output.split())) == (2, True), result.output
