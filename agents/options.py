"""Options of an agent: their ranges, written as types in the signatures of the policies and of `LLMAgent`.

They are checked before anything is loaded (`browser_env.arguments`).
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

Count: TypeAlias = Annotated[int, Field(ge=1)]
"""A whole number above 0."""

Natural: TypeAlias = Annotated[int, Field(ge=0)]
"""A whole number, 0 included."""

Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A number that is not negative."""

Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A number above 0."""
