"""Running MLX models token by token: prompts into key-value caches, caches kept for the next prompt, batched steps."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

CHUNK = 512
"""Tokens of a prompt that are computed at a time; more need more memory and are hardly faster."""

Logits: TypeAlias = NDArray[np.float32]
"""Scores of the next token."""


@dataclass(frozen=True)
class Prompt:
    """One prompt as a model takes it."""

    ids: list[int]
    """Tokens, those that stand for images included."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What an mlx-vlm processor makes of images (`pixel_values` and others); empty without."""


class TextDecoder:
    """Decodes with an mlx-lm model: rows in one batch, and what a prompt shares with an earlier one computed once.

    Args:
        model: the mlx-lm model.
        reuse: keep the key-value caches of the last call's prompts. Each new prompt takes up the one that it has the
            longest beginning in common with. The result is the same but for rounding.
    """

    def __init__(self, model: Any, reuse: bool = True) -> None:
        self._model = model
        self._reuse = reuse
        self._kept: list[tuple[list[int], list[Any]]] = []
        self._rows: list[list[Any]] = []
        self._batch: list[Any] = []

    def forget(self) -> None:
        """Drop the caches kept: the model's weights have changed."""
        self._kept = []

    def start(self, prompts: Sequence[Prompt]) -> tuple[list[Logits], list[int]]:
        """Take up a batch of prompts.

        Returns:
            For each prompt the logits (V,) after its last token, and how many of its tokens were not computed anew.
        """
        kept, self._kept, self._rows, self._batch = self._kept, [], [], []
        logits, cached = [], []
        for prompt in prompts:
            cache, known = self._best(kept, prompt.ids)
            logits.append(self._prefill(cache, prompt.ids, known))
            cached.append(known)
            self._rows.append(cache)
            kept.append((prompt.ids, cache))
        if self._reuse:
            self._kept = kept[-len(prompts) :]
        return logits, cached

    def choose(self, rows: Sequence[int]) -> None:
        """Go on with these rows of the batch only; the first call comes right after `start`."""
        import mlx.core as mx

        if self._batch:
            for layer in self._batch:
                layer.filter(mx.array(list(rows)))
            return
        chosen = [self._rows[row] for row in rows]
        self._rows = []
        if len(chosen) == 1:
            self._batch = copy.deepcopy(chosen[0])
        else:
            self._batch = [type(layers[0]).merge(layers) for layers in zip(*chosen, strict=True)]

    def step(self, token_ids: Sequence[int]) -> list[Logits]:
        """Add a token to each row and return the logits after it."""
        import mlx.core as mx

        output = self._model(mx.array([[token] for token in token_ids]), cache=self._batch)
        return list(_numpy(output[:, -1]))

    def logits(self, ids: Sequence[int]) -> Logits:
        """Return the logits (T, V) after each of T tokens."""
        import mlx.core as mx

        return _numpy(self._model(mx.array([list(ids)])))[0]

    def _best(self, kept: Sequence[tuple[list[int], list[Any]]], ids: list[int]) -> tuple[list[Any], int]:
        """Return a cache that begins like `ids`, and how many of them it holds."""
        from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache

        known, before, cache = max(
            ((_common(ids[:-1], before), before, cache) for before, cache in kept if self._reuse),
            key=lambda found: found[0],
            default=(0, [], None),
        )
        if cache is None or known == 0 or not can_trim_prompt_cache(cache):
            return make_prompt_cache(self._model), 0
        cache = copy.deepcopy(cache)
        trim_prompt_cache(cache, len(before) - known)
        return cache, known

    def _prefill(self, cache: list[Any], ids: list[int], known: int) -> Logits:
        """Compute the cache of a prompt. Its logits are asked for at the last token alone."""
        import mlx.core as mx

        for start in range(known, len(ids) - 1, CHUNK):
            self._model(mx.array([ids[start : min(start + CHUNK, len(ids) - 1)]]), cache=cache)
            mx.eval([layer.state for layer in cache])
        return _numpy(self._model(mx.array([ids[-1:]]), cache=cache)[0, -1])


class VisionDecoder:
    """Decodes with an mlx-vlm model: one row at a time, each prompt from its beginning.

    (Some of its models keep the positions of the prompt in themselves, so that rows can't be taken in turns.)
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._language = model.language_model
        self._cache: list[Any] = []
        parts = (model, self._language)
        self._whole = any(
            getattr(part, "no_chunked_prefill", False) or hasattr(part, "chunked_prefill_policy") for part in parts
        )

    def forget(self) -> None:
        """Nothing is kept between prompts."""

    def start(self, prompts: Sequence[Prompt]) -> tuple[list[Logits], list[int]]:
        """Take up one prompt; see `TextDecoder.start`."""
        import mlx.core as mx
        from mlx_vlm.models.cache import make_prompt_cache

        (prompt,) = prompts
        self._cache = make_prompt_cache(self._language)
        ids, embeddings, rest = self._embed(prompt)
        start, end = 0, ids.shape[1]
        while start < end - 1 and not self._whole:
            count = min(CHUNK, end - 1 - start)
            part = slice(start, start + count)
            self._language(
                ids[:, part], inputs_embeds=embeddings[:, part], cache=self._cache, n_to_process=count, **rest
            )
            mx.eval([layer.state for layer in self._cache])
            start += count
        output = self._language(ids[:, start:], inputs_embeds=embeddings[:, start:], cache=self._cache, **rest)
        return [_numpy(output.logits[0, -1])], [0]

    def choose(self, rows: Sequence[int]) -> None:
        """There is one row."""

    def step(self, token_ids: Sequence[int]) -> list[Logits]:
        """Add a token and return the logits after it."""
        import mlx.core as mx

        return [_numpy(self._language(mx.array([list(token_ids)]), cache=self._cache).logits[0, -1])]

    def logits(self, ids: Sequence[int]) -> Logits:
        """Return the logits (T, V) after each of T tokens of text."""
        tokens, embeddings, rest = self._embed(Prompt(list(ids)))
        return _numpy(self._language(tokens, inputs_embeds=embeddings, **rest).logits[0])

    def _embed(self, prompt: Prompt) -> tuple[Any, Any, dict[str, Any]]:
        """Return token ids (1, T), embeddings with the images in them (1, T, D), and what else the model needs."""
        import mlx.core as mx

        for name in ("_position_ids", "_rope_deltas"):  # of the prompt before, which some models remember
            if hasattr(self._language, name):
                setattr(self._language, name, None)
        ids = mx.array([prompt.ids])
        inputs = {key: value for key, value in prompt.inputs.items() if key != "pixel_values"}
        found = self._model.get_input_embeddings(ids, prompt.inputs.get("pixel_values"), **inputs)
        rest = {key: value for key, value in found.to_dict().items() if value is not None and key != "inputs_embeds"}
        return ids, found.inputs_embeds, rest


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens both begin with."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))


def _numpy(array: Any) -> Logits:
    import mlx.core as mx

    return np.array(array.astype(mx.float32))
