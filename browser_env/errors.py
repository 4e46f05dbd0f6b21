"""The environment's errors, one class per layer.

The layer that raises determines the result of a step: an `ActionError` is the agent's fault and becomes `last_error`;
an `EnvError` is the infrastructure's and ends the episode as `env_error`, never as a failure of the policy.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from selfsurf.browser_env.text import first_line

ErrorType = Literal[
    "timeout", "crashed", "not_found", "blocked", "refused", "invalid_arguments", "navigation", "unavailable",
    "no_effect", "model", "cancelled", "unknown",
]  # fmt: skip
"""Kinds of failures, by which retries and regressions are counted. `cancelled` is not a provider's fault: the caller
aborted the call, or a person has to confirm it first."""

PAGE_CRASHED = "the page crashed"
"""Message for a crashed page, the same wherever the crash is noticed first."""


class ActionError(ValueError):
    """The action is malformed or can't be carried out on this page. The message is one sentence for the agent.

    Args:
        message: the sentence.
        kind: kind of failure.
    """

    def __init__(self, message: str = "", kind: ErrorType = "invalid_arguments") -> None:
        super().__init__(message)
        self.kind = kind


class EnvError(RuntimeError):
    """The infrastructure failed (dead browser, hung page, lost session). The policy is not to blame."""

    fault: Literal["", "task", "timeout"] = ""
    """What has failed, for `info["fault"]`: the task's code, or a page or browser that did not answer in time."""
    traceback: str = ""
    """Traceback of an unexpected cause, such as an error in the task's own code; empty for none."""


class ScriptError(EnvError):
    """The in-page script threw, because the page does something the script doesn't foresee."""


class TaskError(EnvError):
    """The task's own code failed although the page was intact."""

    fault = "task"


class TaskHangs(TaskError):
    """The task's own code did not return in time. A retry would hang as well."""


class BrowserNotFound(EnvError):
    """No usable browser was found. The message says what to install."""


@contextmanager
def task_code(what: str) -> Iterator[None]:
    """Convert an exception of a task's own code into a `TaskError`. Browser errors pass unchanged.

    Args:
        what: the code, such as `score`.

    Raises:
        TaskError: the code raised an exception; the traceback is attached.
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
    """Return an error's message in one line, after the class name if the error is unexpected."""
    if isinstance(error, (EnvError, ActionError)) or _of_the_browser(error):
        return first_line(error)
    return f"{type(error).__name__}: {first_line(error)}"


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an unexpected error; for an `EnvError`, the traceback of its cause, if any."""
    return error.traceback if isinstance(error, EnvError) else "".join(traceback.format_exception(error))


def _of_the_browser(error: BaseException) -> bool:
    """Whether an error is Playwright's, whose message is clear without the class name."""
    return type(error).__module__.startswith("playwright.")
