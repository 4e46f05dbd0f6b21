"""Commands whose arguments are the fields of one settings model.

    class Settings(Arguments):
        steps: int = Field(default=28, ge=1)
        \"\"\"Optimizer steps.\"\"\"

    @command
    def main(settings: Settings) -> int: ...

gives `main` the signature that Typer turns into `--steps` and `--json`. A field's docstring is its help text, its
bounds are checked by Typer, and its name is the option's, unless `typer.Option` in its type gives other names. A field
of the type `tuple[str, ...]` is a repeatable option.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from functools import wraps
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from typer.models import ParameterInfo

from selfsurf.scripts.terminal.arguments import Json
from selfsurf.scripts.terminal.lazy import GIVEN

A = TypeVar("A", bound="Arguments")
T = TypeVar("T")


class Arguments(BaseModel):
    """Base of a command's arguments, each with its help text below it. Every command can print JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    table: ClassVar[str] = ""
    """Name of the command's table in a configuration file (`scripts.terminal.configuration`); empty for none."""
    panels: ClassVar[Mapping[str, str]] = {}
    """Help panel of each option that doesn't belong to the default one, by field name."""

    as_json: Json = False

    _typed: frozenset[str] = PrivateAttr(default=frozenset())
    """Names of the fields given on the command line."""


def command(function: Callable[[A], T]) -> Callable[..., T]:
    """Return a function that Typer sees with the fields of the command's settings as its parameters.

    Args:
        function: Takes one subclass of `Arguments`; its docstring is the command's help text.

    Raises:
        typer.BadParameter: By the command, if validators of the settings refuse the values.
    """
    settings: type[A] = next(iter(get_type_hints(function).values()))

    @wraps(function)
    def run(ctx: Any = None, **values: Any) -> T:
        if settings.table and ctx is not None:
            from selfsurf.scripts.terminal.configuration import filled

            values = filled(settings.table, values, ctx.meta.get(GIVEN, ()))
        try:
            arguments = settings(**values)
        except ValidationError as error:
            raise typer.BadParameter("; ".join(map(_refusal, error.errors()))) from None
        if ctx is not None:
            arguments._typed = frozenset(ctx.meta.get(GIVEN, ()))
        return function(arguments)

    own_first = sorted(settings.model_fields.items(), key=lambda item: item[0] in Arguments.model_fields)
    parameters = [_parameter(name, field, settings.panels.get(name)) for name, field in own_first]
    if settings.table:
        parameters.append(inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    del run.__wrapped__  # type: ignore[attr-defined]  # else its signature is taken for this one's
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _refusal(error: ErrorDetails) -> str:
    option = "".join(f"--{part}: ".replace("_", "-") for part in error["loc"][:1])
    return option + error["msg"].removeprefix("Value error, ")


def _parameter(name: str, field: FieldInfo, panel: str | None) -> inspect.Parameter:
    """Return the keyword parameter, annotated for typer, that fills a field."""
    info = copy(next((each for each in field.metadata if isinstance(each, ParameterInfo)), typer.Option()))
    info.help = " ".join((field.description or info.help or "").split())
    info.rich_help_panel = panel
    for bound in field.metadata:
        if isinstance(bound, Ge):
            info.min = bound.ge  # type: ignore[assignment]
        elif isinstance(bound, Le):
            info.max = bound.le  # type: ignore[assignment]
    default: Any = inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
    kind: Any = field.annotation
    if get_origin(kind) is tuple:  # Typer reads a tuple as a fixed number of values
        kind, default = list[get_args(kind)[0]], list(default)  # type: ignore[misc]
    annotation: Any = Annotated.__class_getitem__((kind, info))  # type: ignore[attr-defined]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
