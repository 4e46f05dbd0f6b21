"""Of tests with many cases a quick run takes some."""

from collections.abc import Iterable
from typing import Any

import pytest


def few(quick: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases of `parametrize`; all but the first `quick` are slow. A tuple has a value for each argument."""
    params = [
        case
        if isinstance(case, type(pytest.param()))
        else pytest.param(*(case if isinstance(case, tuple) else (case,)))
        for case in cases
    ]
    return [*params[:quick], *(case._replace(marks=(*case.marks, pytest.mark.slow)) for case in params[quick:])]
