"""`import selfsurf` registers the ids and stays light; what is named by strings is there."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import gymnasium
import pytest

from tests.package.conftest import PARTS, ROOT

HEAVY = {
    "torch", "ray", "transformers", "peft", "trl", "mlx", "langgraph", "openai", "typer", "rich", "playwright.sync_api",
}  # fmt: skip
IMPORT = """
import json, sys, time
import selfsurf, gymnasium
print(json.dumps({"modules": [*sys.modules], "ids": [*gymnasium.registry], "seconds": time.process_time()}))
"""
NAME = re.compile(rf"selfsurf\.(?:{'|'.join(PARTS)})(?:\.[a-z_][a-z0-9_]*)*(?::\w+)?")
BARE = re.compile(rf"(?:{'|'.join(PARTS)})(?:\.[a-z_][a-z0-9_]*)*:\w+")

Run = Callable[..., CompletedProcess[str]]


def test_importing_registers_the_ids_and_loads_no_model_library(in_checkout: Run) -> None:
    seen = [json.loads(in_checkout("-c", IMPORT).stdout) for _ in range(2)]
    assert {"Browser-v0", "MiniWoB/click-test-v0", "MiniWoB/flight.Alaska-v0"} <= set(seen[0]["ids"])
    assert not HEAVY & set(seen[0]["modules"])
    assert (
        min(run["seconds"] for run in seen) < 1
    )  # of the processor, start of Python included: others may keep it busy


def test_one_line_makes_an_environment_in_a_fresh_process(in_checkout: Run) -> None:
    in_checkout(
        "-c",
        """
import gymnasium
env = gymnasium.make("selfsurf:Browser-v0", start_url="data:text/html,<button>Press</button>", goal="Press.")
obs, _ = env.reset(seed=0)
assert [element["name"] for element in obs["elements"]] == ["Press"]
env.close()
""",
    )


def sources(parts: list[Path]) -> Iterator[tuple[Path, ast.Module]]:
    for file in parts:
        if file.suffix == ".py":
            yield file, ast.parse((ROOT / file).read_text(encoding="utf8"))


def test_strings_that_name_modules_are_right(parts: list[Path]) -> None:
    found = 0
    for file, tree in sources(parts):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            assert not BARE.fullmatch(node.value), f"{file}:{node.lineno} lacks the package's name"
            if NAME.fullmatch(node.value):
                module, _, attribute = node.value.partition(":")
                assert not attribute or hasattr(importlib.import_module(module), attribute), f"{file}:{node.lineno}"
                importlib.import_module(module)
                found += 1
    assert found > 20


def test_commands_backends_and_errors_are_where_they_are_said_to_be() -> None:
    from selfsurf import agents
    from selfsurf.scripts import cli

    for where in (*(where for where, _ in cli.COMMANDS.values()), *(one.where for one in agents.BACKENDS.values())):
        module, _, attribute = where.partition(":")
        assert module.startswith("selfsurf.")
        assert hasattr(importlib.import_module(module), attribute)
    for module in ("agents.model_files", "browser_env.record.episode", "scripts.report.reading"):
        importlib.import_module(f"selfsurf.{module}")
    imported = cli._user_errors()
    assert {"ModelError", "EnvError", "EpisodeError", "ResultsError"} <= {kind.__name__ for kind in imported}


def test_entry_points_of_the_ids_can_be_loaded() -> None:
    import selfsurf  # noqa: F401  (registers the ids)

    ours = [spec for spec in gymnasium.registry.values() if str(spec.entry_point).startswith("selfsurf")]
    assert len(ours) > 100
    for where in {str(where) for spec in ours for where in (spec.entry_point, spec.vector_entry_point) if where}:
        assert callable(gymnasium.envs.registration.load_env_creator(where))


def test_resources_that_are_read_are_there(parts: list[Path]) -> None:
    found = 0
    for file, tree in sources(parts):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith(".joinpath"):
                continue
            called = re.fullmatch(r"(?:resources\.)?files\('(.+)'\)\.joinpath", ast.unparse(node.func))
            if not called:
                continue
            names = [part.value for part in node.args if isinstance(part, ast.Constant)]
            package = importlib.import_module(called[1])
            assert Path(str(package.__file__)).parent.joinpath(*map(str, names)).exists(), f"{file}:{node.lineno}"
            found += 1
    assert found >= 4


@pytest.mark.parametrize("part", PARTS)
def test_every_package_of_the_tree_is_one_of_pythons(part: str, parts: list[Path]) -> None:
    folders = {file.parent for file in parts if file.suffix == ".py" and file.parts[0] == part}
    assert not [folder for folder in folders if not (ROOT / folder / "__init__.py").is_file()]
