"""The environment's errors, one class per layer.

The layer that raises decides what becomes of a step: an `ActionError` is the agent's and becomes `last_error`; an
`EnvError` is the infrastructure's and ends the episode as `env_error`, never as a failure of the policy.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from selfsurf.browser_env.text import first_line

if TYPE_CHECKING:
    from selfsurf.browser_env.attempts.attempt import ErrorType


PAGE_CRASHED = "the page crashed"
"""What is said of a page that crashed, whoever notices it first."""


class ActionError(ValueError):
    """The action is malformed or can't be carried out on this page. The message is one sentence for the agent.

    Args:
        message: the sentence.
        kind: what kind of failure it is.
    """

    def __init__(self, message: str = "", kind: ErrorType = "invalid_arguments") -> None:
        super().__init__(message)
        self.kind = kind


class EnvError(RuntimeError):
    """The infrastructure failed (dead browser, hung page, lost session). The policy is not to blame."""

    traceback: str = ""
    """Of the error behind it, where that was not foreseen: one of the task's own code, for example."""


class ScriptError(EnvError):
    """The in-page script threw: the page is stranger than it had foreseen."""


class TaskError(EnvError):
    """The task's own code failed, on a page that was there."""


class TaskHangs(TaskError):
    """The task's own code did not return: there is no use in asking it again."""


class BrowserNotFound(EnvError):
    """No usable browser was found. The message says what to install."""


@contextmanager
def task_code(what: str) -> Iterator[None]:
    """Turn what a task's own code raises here into a `TaskError`. The browser's errors stay as they are.

    Args:
        what: the code, such as `score`.

    Raises:
        TaskError: with the traceback.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, EnvError) or _of_the_browser(error):
            raise
        failure = TaskError(f"the task's {what} raised {reason(error)}")
        failure.traceback = traceback_of(error)
        raise failure from error


def reason(error: BaseException) -> str:
    """Say in one line what went wrong; an error that nobody foresaw by its class, too."""
    if isinstance(error, (EnvError, ActionError)) or _of_the_browser(error):
        return first_line(error)
    return f"{type(error).__name__}: {first_line(error)}"


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an error that nobody foresaw; that of an `EnvError` is of what is behind it, if any."""
    return error.traceback if isinstance(error, EnvError) else "".join(traceback.format_exception(error))


def _of_the_browser(error: BaseException) -> bool:
    """Is it one of Playwright's, whose message says it all?"""
    return type(error).__module__.startswith("playwright.")
