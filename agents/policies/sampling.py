"""Sampling with a model of transformers: many replies at once, each under its grammar, from its own random stream.

It is a loop of its own, because training needs what `generate` does not give: the exact tokens, and their
log-probabilities under the very distribution that they were drawn from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agents.constraint import Matcher
from agents.policies.prefixes import Known, Layers, PrefixCache
from agents.policy import FinishReason

if TYPE_CHECKING:
    import torch

CPU_PREFILL = 256
GPU_PREFILL = 16_384
"""Tokens, padding included, that are read in one forward pass. A processor gains nothing by more, but loses the
padding; an accelerator is not busy with less."""


class Row:
    """One reply while it grows."""

    def __init__(self, prompt: list[int], matcher: Matcher | None, seed: int) -> None:
        import torch

        self.prompt = prompt
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.finish_reason: FinishReason | None = None
        self.random = torch.Generator().manual_seed(seed % 2**63)
        self.reused = 0
        """Tokens of the prompt whose keys and values were there already."""
        self._matcher = matcher

    def candidates(self, width: int) -> NDArray[np.int64] | None:
        """The tokens that may come next, cut to the width of the logits, or None if all may."""
        return None if self._matcher is None else np.flatnonzero(self._matcher.allowed()[:width])

    def add(self, token_id: int, logprob: float, eos_token_ids: frozenset[int]) -> None:
        """Write down a sampled token."""
        self.token_ids.append(token_id)
        self.logprobs.append(logprob)
        if token_id in eos_token_ids:
            self.finish_reason = "eos"
        elif self._matcher is not None:
            self._matcher.step(token_id)

    def finished(self, max_new_tokens: int) -> bool:
        """Whether the reply is complete.

        An ending that the grammar forces is added without asking the model: each of its tokens is the only one
        allowed, so its log-probability is 0.
        """
        if self.finish_reason is None and self._matcher is not None:
            ending = self._matcher.forced_ending(max_new_tokens - len(self.token_ids))
            if ending is not None:
                self.token_ids += ending
                self.logprobs += [0.0] * len(ending)
                self.finish_reason = "grammar"
        if self.finish_reason is None and len(self.token_ids) >= max_new_tokens:
            self.finish_reason = "length"
        return self.finish_reason is not None


class Sampler:
    """Samples replies from a model.

    Args:
        model: a causal language model of transformers.
        eos_token_ids: what ends a reply.
        pad_id: any token.
        last_only: whether the model's `forward` takes `logits_to_keep`.
        prefixes: prompts read before; None if nothing is to be reused.
    """

    def __init__(
        self, model: Any, eos_token_ids: frozenset[int], pad_id: int, *, last_only: bool, prefixes: PrefixCache | None
    ) -> None:
        self._model = model
        self._eos = eos_token_ids
        self._pad = pad_id
        self._options = {"logits_to_keep": 1} if last_only else {}
        self._prefixes = prefixes
        self._device = model.get_input_embeddings().weight.device
        self._group = CPU_PREFILL if self._device.type == "cpu" else GPU_PREFILL

    def run(self, rows: list[Row], temperature: float, max_new_tokens: int) -> None:
        """Sample until all rows are finished. None of them may be finished already."""
        import torch

        cache, attention, logits = self._read(rows)
        active = rows
        while True:
            self._sample(active, logits, temperature)
            unfinished = [index for index, row in enumerate(active) if not row.finished(max_new_tokens)]
            if not unfinished:
                return
            ids = torch.tensor([[active[index].token_ids[-1]] for index in unfinished], device=self._device)
            if len(unfinished) < len(active):
                keep = torch.tensor(unfinished, device=self._device)
                cache.batch_select_indices(keep)
                attention = attention[keep]
                active = [active[index] for index in unfinished]
            attention = torch.cat([attention, attention.new_ones(len(active), 1)], dim=1)
            positions = attention.sum(-1, keepdim=True) - 1
            logits = self._forward(ids, attention, positions, cache)

    def _read(self, rows: list[Row]) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """Read the prompts; return the cache, the attention mask (B, L) and the logits of the next tokens (B, V)."""
        import torch
        from transformers.cache_utils import DynamicCache, DynamicLayer

        if not all(type(layer) is DynamicLayer for layer in DynamicCache(config=self._model.config).layers):
            # Windows, states and the like can't be cut and put together: all rows are read together, padded.
            return self._read_padded(rows, [(None, 0)] * len(rows))
        shared = [self._known(row)[1] for row in rows]
        logits: list[torch.Tensor] = [torch.empty(0)] * len(rows)
        layers: list[Layers] = [[]] * len(rows)
        for group in self._groups([len(row.prompt) - known for row, known in zip(rows, shared, strict=True)]):
            found = [self._known(rows[index]) for index in group]  # the groups before may have brought more
            cache, attention, scores = self._read_padded([rows[index] for index in group], found)
            for place, index in enumerate(group):
                logits[index], layers[index] = scores[place], _row_of(cache, place, attention[place])
                rows[index].reused = found[place][1]
                if self._prefixes is not None:
                    self._prefixes.add(rows[index].prompt, layers[index])
        lengths = [len(row.prompt) for row in rows]
        return _joined(self._model.config, layers), _mask(lengths, self._device), torch.stack(logits)

    def _known(self, row: Row) -> tuple[Known | None, int]:
        return (None, 0) if self._prefixes is None else self._prefixes.longest(row.prompt)

    def _groups(self, lengths: list[int]) -> Iterator[list[int]]:
        """Rows that are read together: alike in length, and not more than is worth it."""
        group: list[int] = []
        for index in sorted(range(len(lengths)), key=lambda each: lengths[each]):
            if group and (len(group) + 1) * lengths[index] > self._group:
                yield group
                group = []
            group.append(index)
        yield group

    def _read_padded(
        self, rows: Sequence[Row], found: Sequence[tuple[Known | None, int]]
    ) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """Read rows in one forward pass: what is known of them, then the rest, both padded on the left."""
        import torch
        from transformers import DynamicCache

        rest = [row.prompt[shared:] for row, (_, shared) in zip(rows, found, strict=True)]
        width = max(map(len, rest))
        ids = torch.full((len(rows), width), self._pad, dtype=torch.long)
        for index, tokens in enumerate(rest):
            ids[index, width - len(tokens) :] = torch.tensor(tokens)
        attention = _mask([len(tokens) for tokens in rest], self._device)
        positions = attention.cumsum(-1) - 1
        cache = DynamicCache(config=self._model.config)
        shared = [length for _, length in found]
        if any(shared):
            cache = _joined(self._model.config, [_cut(known, length) for known, length in found])
            positions = positions + torch.tensor(shared, device=self._device)[:, None]
            attention = torch.cat([_mask(shared, self._device), attention], dim=1)
        return cache, attention, self._forward(ids.to(self._device), attention, positions.clamp(min=0), cache)

    def _forward(self, ids: torch.Tensor, attention: torch.Tensor, positions: torch.Tensor, cache: Any) -> torch.Tensor:
        output = self._model(
            input_ids=ids,
            attention_mask=attention,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            **self._options,
        )
        return output.logits[:, -1].float().cpu()  # type: ignore[no-any-return]

    def _sample(self, rows: list[Row], logits: torch.Tensor, temperature: float) -> None:
        """Draw one token for each row and write it down with its log-probability."""
        import torch

        for row, row_logits in zip(rows, logits, strict=True):
            allowed = row.candidates(row_logits.shape[0])
            candidates = None if allowed is None else torch.from_numpy(allowed)
            scores = row_logits if candidates is None else row_logits[candidates]
            logprobs = torch.log_softmax(scores / temperature if temperature > 0 else scores, dim=-1)
            if temperature > 0:
                choice = int(torch.multinomial(logprobs.exp(), 1, generator=row.random))
            else:
                choice = int(logprobs.argmax())
            token_id = choice if candidates is None else int(candidates[choice])
            row.add(token_id, float(logprobs[choice]), self._eos)


def _mask(lengths: Sequence[int], device: torch.device) -> torch.Tensor:
    """Return ones (B, longest) where a row padded on the left has tokens."""
    import torch

    width = max(lengths)
    starts = width - torch.tensor(list(lengths))[:, None]
    return (torch.arange(width)[None] >= starts).long().to(device)


def _cut(known: Known | None, length: int) -> Layers:
    return [] if known is None else [(keys[:, :, :length], values[:, :, :length]) for keys, values in known.layers]


def _row_of(cache: Any, place: int, attention: torch.Tensor) -> Layers:
    """Return one row of a cache without its padding. It shares memory with the cache where there is none."""
    if bool(attention.all()):
        return [(layer.keys[place : place + 1], layer.values[place : place + 1]) for layer in cache.layers]
    columns = attention.nonzero()[:, 0]
    return [(layer.keys[place : place + 1, :, columns], layer.values[place : place + 1, :, columns])
            for layer in cache.layers]  # fmt: skip


def _joined(config: Any, rows: Sequence[Layers]) -> Any:
    """Return one cache of several rows, padded on the left; a row may be empty."""
    from transformers import DynamicCache

    if len(rows) == 1:
        cache = DynamicCache(config=config)
        for number, (keys, values) in enumerate(rows[0]):
            cache.update(keys, values, number)
        return cache
    full = next(row for row in rows if row)
    width = max(row[0][0].shape[2] for row in rows if row)
    cache = DynamicCache(config=config)
    for number, (example, _) in enumerate(full):
        _, heads, _, size = example.shape
        pair = []
        for part in (0, 1):
            joined = example.new_zeros((len(rows), heads, width, size))
            for index, row in enumerate(rows):
                if row:
                    tokens = row[number][part]
                    joined[index, :, width - tokens.shape[2] :] = tokens[0]
            pair.append(joined)
        cache.update(pair[0], pair[1], number)
    return cache
