"""Token-by-token decoding with MLX models: key-value caches of prompts, reuse of earlier prompts, batched steps."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.policies.local.prefixes import PrefixCache
from selfsurf.agents.policies.local.prompts import Prompt

CHUNK = 512
"""Number of prompt tokens computed at a time; more tokens take more memory and are hardly faster."""

CHUNK_ON_CPU = 64
"""Number of prompt tokens computed at a time without a GPU; larger chunks would delay interrupts by many seconds."""

Logits: TypeAlias = NDArray[np.float32]
"""Scores of the next token."""


class TextDecoder:
    """Decoder of an mlx-lm model: prompts in one batch, with reuse of the keys and values of earlier prompts.

    Args:
        model: the mlx-lm model.
        prefixes: cache of earlier prompts; None for no reuse. Models with sliding windows or recurrent states never
            reuse prompts.
    """

    def __init__(self, model: Any, prefixes: PrefixCache | None = None) -> None:
        self._mx = import_module("mlx.core")
        self._chunk = CHUNK if self._mx.metal.is_available() else CHUNK_ON_CPU
        self._model = model
        self._prefixes = prefixes
        self._rows: list[list[Any]] = []
        self._batch: list[Any] = []

    def forget(self) -> None:
        """Drop earlier prompts, because the model's weights have changed."""
        if self._prefixes is not None:
            self._prefixes.clear()

    def start(self, prompts: Sequence[Prompt]) -> tuple[list[Logits], list[int]]:
        """Start a batch of prompts.

        Returns:
            For each prompt, the logits (V,) after its last token, and the number of its tokens that were reused.
        """
        self._rows, self._batch = [], []
        logits, reused = [], []
        for prompt in prompts:
            cache, known = self._known(prompt.ids)
            logits.append(self._prefill(cache, prompt.ids, known))
            reused.append(known)
            self._rows.append(cache)
            self._keep(prompt.ids, cache)
        return logits, reused

    def choose(self, rows: Sequence[int]) -> None:
        """Continue with these rows of the batch only; the first call follows right after `start`."""
        if self._batch:
            for layer in self._batch:
                layer.filter(self._mx.array(list(rows)))
            return
        chosen = [self._rows[row] for row in rows]
        self._rows = []
        if len(chosen) == 1:
            self._batch = chosen[0]
        else:
            self._batch = [type(layers[0]).merge(layers) for layers in zip(*chosen, strict=True)]

    def step(self, token_ids: Sequence[int]) -> list[Logits]:
        """Append a token to each row, and return the next logits of each row."""
        output = self._model(self._mx.array([[token] for token in token_ids]), cache=self._batch)
        return list(_numpy(output[:, -1]))

    def logits(self, prompt: Prompt) -> Logits:
        """Return the logits (T, V) after each of T tokens."""
        return _numpy(self._model(self._mx.array([prompt.ids])))[0]

    def _known(self, ids: list[int]) -> tuple[list[Any], int]:
        """Return a cache with the longest known prefix of `ids`, and its number of tokens."""
        from mlx_lm.models.cache import make_prompt_cache

        cache = make_prompt_cache(self._model)
        known, length = (None, 0) if self._prefixes is None else self._prefixes.longest(ids)
        if known is not None:
            for layer, (keys, values) in zip(cache, known.layers, strict=True):
                layer.state = keys[..., :length, :], values[..., :length, :], length
        return cache, length

    def _keep(self, ids: list[int], cache: list[Any]) -> None:
        from mlx_lm.models.cache import KVCache

        if self._prefixes is None or not all(type(layer) is KVCache for layer in cache):
            return
        layers = [layer.keys_and_values() for layer in cache]
        self._mx.eval(layers)
        self._prefixes.add(ids, layers)

    def _prefill(self, cache: list[Any], ids: list[int], known: int) -> Logits:
        """Fill the cache with a prompt, and return the logits after its last token."""
        for start in range(known, len(ids) - 1, self._chunk):
            self._model(self._mx.array([ids[start : min(start + self._chunk, len(ids) - 1)]]), cache=cache)
            self._mx.eval([layer.state for layer in cache])
        return _numpy(self._model(self._mx.array([ids[-1:]]), cache=cache)[0, -1])


class VisionDecoder:
    """Decoder of an mlx-vlm model: one row at a time, each prompt computed from its start.

    Some mlx-vlm models store the prompt's positions in the model, so rows can't alternate.
    """

    def __init__(self, model: Any) -> None:
        self._mx = import_module("mlx.core")
        self._chunk = CHUNK if self._mx.metal.is_available() else CHUNK_ON_CPU
        self._model = model
        self._language = model.language_model
        self._cache: list[Any] = []
        parts = (model, self._language)
        self._whole = any(
            getattr(part, "no_chunked_prefill", False) or hasattr(part, "chunked_prefill_policy") for part in parts
        )

    def forget(self) -> None:
        """Do nothing, since no earlier prompts are cached."""

    def start(self, prompts: Sequence[Prompt]) -> tuple[list[Logits], list[int]]:
        """Start one prompt, and return its next logits and 0 reused tokens, as one-item lists."""
        from mlx_vlm.models.cache import make_prompt_cache

        (prompt,) = prompts
        self._cache = make_prompt_cache(self._language)
        ids, embeddings, rest = self._embed(prompt)
        start, end = 0, ids.shape[1]
        while start < end - 1 and not self._whole:
            count = min(self._chunk, end - 1 - start)
            at = slice(start, start + count)
            self._language(ids[:, at], inputs_embeds=embeddings[:, at], cache=self._cache, n_to_process=count, **rest)
            self._mx.eval([layer.state for layer in self._cache])
            start += count
        output = self._language(ids[:, start:], inputs_embeds=embeddings[:, start:], cache=self._cache, **rest)
        return [_numpy(output.logits[0, -1])], [0]

    def choose(self, rows: Sequence[int]) -> None:
        """Do nothing, since there is only one row."""

    def step(self, token_ids: Sequence[int]) -> list[Logits]:
        """Append a token, and return the next logits."""
        return [_numpy(self._language(self._mx.array([list(token_ids)]), cache=self._cache).logits[0, -1])]

    def logits(self, prompt: Prompt) -> Logits:
        """Return the logits (T, V) after each of T tokens."""
        tokens, embeddings, rest = self._embed(prompt)
        return _numpy(self._language(tokens, inputs_embeds=embeddings, **rest).logits[0])

    def _embed(self, prompt: Prompt) -> tuple[Any, Any, dict[str, Any]]:
        """Return token ids (1, T), embeddings that include the images (1, T, D), and the model's further inputs."""
        ids = self._mx.array([prompt.ids])
        inputs = {key: value for key, value in prompt.extras.items() if key != "pixel_values"}
        found = self._model.get_input_embeddings(ids, prompt.extras.get("pixel_values"), **inputs)
        rest = {key: value for key, value in found.to_dict().items() if value is not None and key != "inputs_embeds"}
        return ids, found.inputs_embeds, rest


def _numpy(array: Any) -> Logits:
    import mlx.core as mx

    return np.array(array.astype(mx.float32))
