from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")


def pytest_configure(config: pytest.Config) -> None:
    """Let processes be interrupted: what a script starts in the background ignores SIGINT, and so do its children."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


MODELS = (
    "tests/agents",
    "tests/sdft",
    "tests/scripts/test_demo",
    "tests/scripts/test_run_and_train",
    "tests/scripts/test_bench_contexts",
)
"""Tests that run a model: two processes doing so at once are several times slower than one after the other."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(MODELS):
            item.add_marker(pytest.mark.xdist_group("models"))
    if config.getoption("--slow") or config.getoption("markexpr"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests() -> Iterator[None]:
    """Forget a test's secrets after it: a process hides those of all its environments in all that it writes."""
    from selfsurf.browser_env.safety import secrets

    before = dict(secrets._known)
    yield
    secrets._known.clear()
    secrets._known.update(before)
