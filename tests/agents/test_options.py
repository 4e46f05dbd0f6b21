"""Options are checked by the signatures that take them, before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import AfterValidator

from selfsurf import agents
from selfsurf.agents.options import Amount, Count
from selfsurf.agents.policies.openai.endpoints import Endpoint
from selfsurf.agents.policies.openai.usage import Prices
from selfsurf.browser_env.arguments import OptionError, checked

if TYPE_CHECKING:
    from decimal import Decimal


def lowered(words: Sequence[str]) -> list[str]:
    if not words:
        raise ValueError("give some words.")
    return [word.lower() for word in words]


class Shop:
    def __init__(
        self,
        name: str,
        price: Amount | Decimal = 0.0,
        number: Count | None = None,
        words: Annotated[Sequence[str], AfterValidator(lowered)] = ("a",),
        kind: Literal["big", "small"] = "big",
        anything=None,  # type: ignore[no-untyped-def]
    ) -> None: ...


def test_good_values_come_back_in_their_types() -> None:
    given = {"name": "x", "price": 3, "number": None, "words": ["A"], "kind": "small", "anything": {"x": 1}}
    assert checked("The agent shop", (Shop,), given) == {**given, "words": ["a"]}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "The agent shop needs the option name."),
        ({"name": "x", "colour": 1}, "has no option colour; it has name, price,"),
        ({"name": 5}, "name=5: should be a valid string"),
        ({"name": "x", "price": "1"}, 'price="1": should be a valid number'),
        ({"name": "x", "price": -1}, "price=-1: should be greater than or equal to 0"),
        ({"name": "x", "price": float("nan")}, "finite"),
        ({"name": "x", "number": True}, "should be a valid integer, or null"),
        ({"name": "x", "words": []}, r"words=\[\]: give some words\.$"),
        ({"name": "x", "kind": "huge"}, "should be 'big' or 'small'"),
    ],
)
def test_bad_values_are_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        checked("The agent shop", (Shop,), given)


def test_a_policy_takes_its_own_and_the_agents_options() -> None:
    found = agents.check_options(
        "openai",
        {"model": "m", "endpoint": {"base_url": "http://x/v1"}, "prices": {"input": 1, "output": 2}, "vision": "none"},
    )
    assert found["endpoint"] == Endpoint("http://x/v1")
    assert found["prices"] == Prices(1, 2)
    assert agents.check_options("transformers", {"device": "cpu", "temperature": 1})["temperature"] == 1


def test_an_adapter_that_is_not_there_is_named_before_the_model_is_loaded() -> None:
    for backend in ("transformers", "mlx"):
        with pytest.raises(FileNotFoundError, match="no LoRA adapter at /no/adapter"):
            agents.make(backend, model="/no/model", adapter="/no/adapter")
