"""Requests to a policy, checked and split by conversation, for all backends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from selfsurf.agents.policy import Completion, Conversation, Guidance
from selfsurf.agents.reply.functions import Function


@dataclass(frozen=True)
class Request:
    """A conversation to complete."""

    messages: Conversation
    grammar: str | None
    schema: dict[str, Any] | None
    seed: Any
    """Seed of the reply, an int; None if no seed was given and the policy has no random stream."""
    functions: Sequence[Function] = ()
    """Functions that the model may call instead of replying."""


class CheckedPolicy(ABC):
    """Base of policies: `complete` checks its arguments, and `_complete` samples."""

    name: str
    guidance: Guidance
    calls: bool | Literal["kinds"] = False
    """Whether replies are tool calls, which may include the user's own functions."""
    _random: np.random.Generator | None = None
    """Random stream of the policy, used by calls without a seed."""

    def complete(
        self,
        conversations: Sequence[Conversation],
        *,
        grammars: Sequence[str | None] | None = None,
        schemas: Sequence[dict[str, Any] | None] | None = None,
        prefill: str = "",
        temperature: float = 0.0,
        max_new_tokens: int = 64,
        seed: int | Sequence[int] | None = None,
        functions: Sequence[Function] = (),
    ) -> list[Completion]:
        """Check the arguments, and sample one reply for each conversation as `Policy.complete` does.

        The model may call `functions` instead of replying, if the policy `calls` tools; the reply's text is then the
        call, `{"name": ..., "arguments": ...}`.

        Raises:
            PolicyError: the model could not answer.
            ValueError: the number of grammars, schemas or seeds doesn't match the conversations, the policy doesn't
                support the guide or functions, the sampling settings are out of range, or `_complete` refuses the
                request.
        """
        count = len(conversations)
        larks, forms = one_each("grammar", grammars, count), one_each("schema", schemas, count)
        for kind, given in (("grammar", larks), ("schema", forms)):
            if any(given) and self.guidance != kind:
                raise ValueError(f"{self.name} has guidance={self.guidance}, but a {kind} was given.")
        if functions and not self.calls:
            raise ValueError(f"{self.name} can't call functions as tools; pass tools=True.")
        if temperature < 0 or max_new_tokens < 1:
            raise ValueError("temperature must be at least 0 and max_new_tokens at least 1.")
        if not count:
            return []
        if seed is None and self._random is not None:
            seed = int(self._random.integers(2**62))
        seeds = [None] * count if seed is None else row_seeds(seed, count)
        requests = [Request(*parts, functions) for parts in zip(conversations, larks, forms, seeds, strict=True)]
        return self._complete(requests, prefill, temperature, max_new_tokens)

    @abstractmethod
    def _complete(
        self, requests: Sequence[Request], prefill: str, temperature: float, max_new_tokens: int
    ) -> list[Completion]:
        """Sample one reply for each request; there is at least one."""


def one_each(kind: str, given: Sequence[Any] | None, count: int) -> list[Any]:
    """Return one item for each conversation; all None if nothing is given.

    Raises:
        ValueError: the number of items is not `count`.
    """
    if given is None:
        return [None] * count
    if len(given) != count:
        raise ValueError(f"{len(given)} {kind}s were given for {count} conversations.")
    return list(given)


def row_seeds(seed: int | Sequence[int], count: int) -> list[int]:
    """Return a seed for each of `count` rows: the given seeds, or the given seed and its successors.

    Raises:
        ValueError: the number of seeds is not `count`.
    """
    if isinstance(seed, Sequence):
        return one_each("seed", seed, count)
    return [seed + row for row in range(count)]


def check_length(prompt: int, new: int, limit: int | None) -> None:
    """Raise ValueError if prompt and reply together exceed the context."""
    if limit is not None and prompt + new > limit:
        raise ValueError(f"{prompt} prompt tokens and {new} new tokens exceed the context length of {limit}.")


def pil_image(image: Any) -> Any:
    """Return an image as a PIL image.

    Raises:
        ValueError: the image is not a uint8 array (height, width, 3), or is empty.
    """
    from PIL import Image

    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise ValueError(f"An image must be a uint8 array (height, width, 3), not {array.dtype} {array.shape}.")
    return Image.fromarray(array)
