"""Value ranges of agent options, as annotated types for the signatures of policies and of `LLMAgent`.

Options are validated before anything is loaded (`browser_env.arguments`).
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

Count: TypeAlias = Annotated[int, Field(ge=1)]
"""An integer of at least 1."""

Natural: TypeAlias = Annotated[int, Field(ge=0)]
"""An integer of at least 0."""

Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number of at least 0."""

Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A finite number above 0."""
