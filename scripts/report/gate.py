"""Gate on attempt figures, which fails if a provider got worse than a baseline or a new type of error appeared.

A drop counts if it exceeds the threshold and its 95% interval excludes zero; a large drop that may be chance is "can't
tell". Attempts are assumed independent, although those of one run resemble each other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from selfsurf.scripts.report.formats import between, count, percent, points
from selfsurf.sdft.measure.statistics import newcombe_interval

Verdict = Literal["passed", "failed", "can't tell"]


class Thresholds(BaseModel):
    """Thresholds above which the gate fails."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_drop: float = Field(gt=0, le=1)
    """Maximum drop of a provider's success, as a fraction of the baseline's."""
    max_new_error_share: float = Field(ge=0, le=1)
    """Maximum share of a provider's attempts with an error type that the baseline lacks."""
    min_attempts: int = Field(ge=1)
    """Minimum number of a provider's attempts, in the baseline and now."""


class Finding(BaseModel):
    """The gate's verdict on one provider."""

    provider: str
    verdict: Verdict
    why: str


def read_thresholds(path: Path | None = None) -> Thresholds:
    """Read thresholds from a TOML file, by default from the one in the package.

    Raises:
        ValueError: The file can't be read; the message gives the reason.
    """
    try:
        text = path.read_text("utf8") if path else (resources.files(__package__) / "gate.toml").read_text("utf8")
        return Thresholds(**tomllib.loads(text))
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


def judge(now: Mapping[str, Any], before: Mapping[str, Any], limits: Thresholds) -> list[Finding]:
    """Compare figures (`attempts.figures`) with those of a baseline.

    Args:
        now: Figures to judge.
        before: Figures of the baseline.
        limits: Thresholds of the gate.
    """
    found = []
    for provider in sorted({*now["providers"], *before["providers"]}):
        here, there = now["providers"].get(provider), before["providers"].get(provider)
        enough = [one is not None and _made(one) >= limits.min_attempts for one in (here, there)]
        if not all(enough):
            few = [f"{_made(one) if one else 0} {when}" for one, when in ((here, "now"), (there, "in the baseline"))]
            why = f"too few attempts: {' and '.join(few)}; {limits.min_attempts} are needed on each side"
            found.append(Finding(provider=provider, verdict="can't tell", why=why))
            continue
        assert here is not None
        assert there is not None
        found += [_success(provider, here, there, limits), *_new_errors(provider, here, there, limits)]
    return found


def _made(one: Mapping[str, Any]) -> int:
    """Return the number of attempts made, including those that never ended."""
    return int(one["attempts"] + one["unfinished"])


def _success(provider: str, here: Mapping[str, Any], there: Mapping[str, Any], limits: Thresholds) -> Finding:
    now, before = here["successes"] / _made(here), there["successes"] / _made(there)
    interval = newcombe_interval(now, _made(here), before, _made(there))
    drop = (before - now) / before if before else 0.0
    lost = f" ({here['unfinished']} unfinished)" if here["unfinished"] else ""
    why = (
        f"success {percent(now)} of {count(_made(here), 'attempt')}{lost}, {percent(before)} "
        f"in the baseline: {points(now - before)} points (95% {between(interval, points)})"
    )
    if drop <= limits.max_drop:
        return Finding(provider=provider, verdict="passed", why=why)
    if interval.high >= 0:
        return Finding(provider=provider, verdict="can't tell", why=f"{why}; too few attempts to rule out chance")
    return Finding(
        provider=provider, verdict="failed", why=f"{why}; the largest allowed drop is {percent(limits.max_drop)}"
    )


def _new_errors(provider: str, here: Mapping[str, Any], there: Mapping[str, Any], limits: Thresholds) -> list[Finding]:
    found = []
    for kind, number in here["errors"].items():
        share = number / _made(here)
        if kind not in there["errors"] and share > limits.max_new_error_share:
            why = (
                f"new error {kind}: {number} of {count(_made(here), 'attempt')}, {percent(share)}; at most "
                f"{percent(limits.max_new_error_share)} is allowed"
            )
            found.append(Finding(provider=provider, verdict="failed", why=why))
    return found
