"""The option `--since`: a date, a time, or a duration before now, so that a command can run on a schedule."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(rf"(\d{{1,5}})([{''.join(_UNITS)}])")


def moment(text: str) -> datetime:
    """Parse a date, a time or a duration before now. Without a time zone, UTC is used, as in the attempt log.

    Raises:
        ValueError: The text is none of the three.
    """
    if match := _DURATION.fullmatch(text):
        return datetime.now(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"write a day as 2026-11-25, a time as 2026-11-25T04:00, or a duration as 30m, 36h, 7d or 4w, not {text!r}."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _checked(text: str | None) -> str | None:
    if text is not None:
        moment(text)
    return text


Since: TypeAlias = Annotated[str | None, AfterValidator(_checked)]
"""Value of the option `--since`; None if not given."""
