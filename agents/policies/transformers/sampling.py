"""Sampling with a transformers model: many replies at once, each under its grammar and from its own random stream.

It has its own loop because training needs more than `generate` returns: the exact tokens, and their log-probabilities
under the distribution that they were sampled from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.policies.local.prefixes import CachedPrompt, Layers, PrefixCache
from selfsurf.agents.policies.local.reply import BrokenModel, Reply
from selfsurf.agents.policies.transformers import images

if TYPE_CHECKING:
    import torch

CPU_PREFILL = 256
GPU_PREFILL = 16_384
"""Maximum number of tokens, padding included, of rows joined in one forward pass: more only add padding on a CPU, and
fewer leave an accelerator idle."""

MAX_DRAFT = 4
"""Maximum number of tokens of a reply that are guessed ahead."""


@dataclass(eq=False)
class Row(Reply):
    """State of one reply during sampling, with its random stream and the inputs of its next token."""

    ahead: int = 0
    """Offset of the next token's position from the number of tokens before it; nonzero if images take fewer positions
    than tokens."""

    def __post_init__(self) -> None:
        import torch

        self._known = np.asarray(self.prompt, dtype=np.int64)
        self.random = torch.Generator().manual_seed(self.seed % 2**63)

    def draft(self, longest: int) -> list[int]:
        """Guess the next tokens from the grammar, or from a repetition of the last two tokens in the prompt."""
        longest = min(longest, MAX_DRAFT)
        guess = self.matcher.likely() if self.matcher is not None else []
        if not guess and len(self.token_ids) > 1:
            guess = _continued(self._known, self.token_ids[-2:], longest)
        return guess[:longest]


@dataclass(eq=False)
class Sampler:
    """Sampler of replies from a model."""

    model: Any
    """A causal language model of transformers."""
    eos_token_ids: frozenset[int]
    """Tokens that end a reply."""
    pad_id: int
    """Id of the padding token, which can be any token."""
    last_only: bool
    """Whether the model's `forward` accepts `logits_to_keep`."""
    prefixes: PrefixCache | None
    """Cache of earlier prompts; None for no reuse."""

    def __post_init__(self) -> None:
        self._device = self.model.get_input_embeddings().weight.device
        self._group = CPU_PREFILL if self._device.type == "cpu" else GPU_PREFILL

    def run(self, rows: list[Row], temperature: float, max_new_tokens: int) -> None:
        """Sample until all rows are finished; none may be finished at the start.

        Tokens that are easy to guess are computed together with the last token, but each is still sampled from its own
        distribution, and the rest of a guess is dropped at the first miss. So the samples are the same as without
        guessing, in fewer passes.
        """
        import torch

        cache, attention, logits = self._read(rows)
        guessing = _is_plain(cache)
        active = rows
        drafts: list[list[int]] = [[] for _ in rows]
        while True:
            for index, (row, draft) in enumerate(zip(active, drafts, strict=True)):
                wrong = self._take(row, logits[index, -1 - len(draft) :], draft, temperature, max_new_tokens)
                if wrong:
                    attention[index, -wrong:] = 0
            unfinished = [index for index, row in enumerate(active) if not row.finished(max_new_tokens)]
            if not unfinished:
                return
            if len(unfinished) < len(active):
                keep = torch.tensor(unfinished, device=self._device)
                cache.batch_select_indices(keep)
                attention = attention[keep]
                active = [active[index] for index in unfinished]
            drafts = [
                row.draft(max_new_tokens - len(row.token_ids) - 1) if guessing and not row.ahead else []
                for row in active
            ]
            fed = [[row.token_ids[-1], *draft] for row, draft in zip(active, drafts, strict=True)]
            ids = _padded(fed, self.pad_id).to(self._device)
            new = _mask(list(map(len, fed)), self._device)
            ahead = torch.tensor([[row.ahead] for row in active], device=self._device)
            positions = (attention.sum(-1, keepdim=True) + new.cumsum(-1) - 1 + ahead).clamp(min=0)
            attention = torch.cat([attention, new], dim=1)
            logits = self._forward(ids, attention, positions, cache, keep=ids.shape[1])

    def _take(
        self, row: Row, logits: torch.Tensor, draft: Sequence[int], temperature: float, max_new_tokens: int
    ) -> int:
        """Sample the token after the last one, and after each token of the draft for as long as the draft is right.

        Returns:
            Number of wasted tokens of the draft.
        """
        for number, row_logits in enumerate(logits):
            self._sample(row, row_logits, temperature)
            if number == len(draft):
                return 0
            if row.finished(max_new_tokens) or row.token_ids[-1] != draft[number]:
                return len(draft) - number
        raise AssertionError("unreachable")

    def _read(self, rows: list[Row]) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """Process the prompts, and return cache, attention mask (B, L) and logits of the next tokens (B, 1, V)."""
        import torch
        from transformers import DynamicCache

        if not _is_plain(DynamicCache(config=self.model.config)):
            # Caches with sliding windows or states can't be cut and joined, so all rows are processed in one padded
            # batch.
            return self._read_padded(rows, [(None, 0)] * len(rows))
        known = [self._known(row) for row in rows]
        logits: list[torch.Tensor] = [torch.empty(0)] * len(rows)
        layers: list[Layers] = [[]] * len(rows)

        def read(group: list[int]) -> None:
            found = [known[index] for index in group]
            if any(rows[index].extras for index in group):
                found = [(None, 0)] * len(group)  # masks made from extras cover whole prompts
            cache, attention, scores = self._read_padded([rows[index] for index in group], found)
            for place, index in enumerate(group):
                logits[index], layers[index] = scores[place], _row_of(cache, place, attention[place])
                rows[index].reused = found[place][1]

        rest = [len(row.prompt) - shared for row, (_, shared) in zip(rows, known, strict=True)]
        _side_by_side(read, list(self._groups(rest)), self._device)
        if self.prefixes is not None:
            for row, parts in zip(rows, layers, strict=True):
                if not row.extras:  # prompts with different images have the same tokens
                    self.prefixes.add(row.prompt, parts)
        lengths = [len(row.prompt) for row in rows]
        return _joined(self.model.config, layers), _mask(lengths, self._device), torch.stack(logits)

    def _known(self, row: Row) -> tuple[CachedPrompt | None, int]:
        return (None, 0) if self.prefixes is None or row.extras else self.prefixes.longest(row.prompt)

    def _groups(self, lengths: list[int]) -> Iterator[list[int]]:
        """Yield groups of rows to process together: of similar length, and limited in total size."""
        group: list[int] = []
        for index in sorted(range(len(lengths)), key=lambda each: lengths[each]):
            if group and (len(group) + 1) * lengths[index] > self._group:
                yield group
                group = []
            group.append(index)
        yield group

    def _read_padded(
        self, rows: Sequence[Row], found: Sequence[tuple[CachedPrompt | None, int]]
    ) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """Process rows in one forward pass: the cached part and the rest, each padded on the left."""
        import torch
        from transformers import DynamicCache

        rest = [row.prompt[shared:] for row, (_, shared) in zip(rows, found, strict=True)]
        width = max(map(len, rest))
        ids = _padded(rest, self.pad_id).to(self._device)
        attention = _mask([len(tokens) for tokens in rest], self._device)
        extras = images.merge([row.extras for row in rows], list(map(len, rest)), width, self.model.config.model_type)
        extras = {key: tensor.to(self._device) for key, tensor in extras.items()}
        positions = images.positions(self.model, ids, attention, extras)
        cache = DynamicCache(config=self.model.config)
        shared = [length for _, length in found]
        if any(shared):
            cache = _joined(self.model.config, [_cut(known, length) for known, length in found])
            positions = positions + torch.tensor(shared, device=self._device)[:, None]
            attention = torch.cat([_mask(shared, self._device), attention], dim=1)
        last = positions[..., -1].reshape(-1, len(rows)).amax(0).tolist()
        for row, position in zip(rows, last, strict=True):
            row.ahead = position + 1 - len(row.prompt)
        return cache, attention, self._forward(ids, attention, positions, cache, **extras)

    def _forward(
        self, ids: torch.Tensor, attention: torch.Tensor, places: torch.Tensor, cache: Any, keep: int = 1, **extras: Any
    ) -> torch.Tensor:
        """Return the logits (B, keep, V) of the last tokens."""
        output = self.model(
            input_ids=ids,
            attention_mask=attention,
            position_ids=places,
            past_key_values=cache,
            use_cache=True,
            **({"logits_to_keep": keep} if self.last_only else {}),
            **extras,
        )
        return output.logits[:, -keep:].float().cpu()  # type: ignore[no-any-return]

    def _sample(self, row: Row, logits: torch.Tensor, temperature: float) -> None:
        """Sample one token, and append it with its log-probability.

        Raises:
            BrokenModel: the scores are not numbers.
        """
        import torch

        allowed = row.candidates(logits.shape[0])
        candidates = None if allowed is None else torch.from_numpy(allowed)
        scores = logits if candidates is None else logits[candidates]
        logprobs = torch.log_softmax(scores / temperature if temperature > 0 else scores, dim=-1)
        if bool(logprobs.isnan().any()):
            raise BrokenModel
        if temperature > 0:
            choice = int(torch.multinomial(logprobs.exp(), 1, generator=row.random))
        else:
            choice = int(logprobs.argmax())
        token_id = choice if candidates is None else int(candidates[choice])
        row.add(token_id, float(logprobs[choice]), self.eos_token_ids)


def _side_by_side(read: Callable[[list[int]], None], groups: list[list[int]], device: torch.device) -> None:
    """Process groups of rows; on a CPU, several at once, since one thread per group beats all threads on one group."""
    import torch

    threads = torch.get_num_threads()
    workers = min(threads, len(groups))
    if device.type != "cpu" or workers < 2:
        for group in groups:
            read(group)
        return

    def alone(group: list[int]) -> None:
        with torch.no_grad():  # grad mode is set per thread
            read(group)

    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
            list(pool.map(alone, groups[::-1]))  # longest groups first
    finally:
        torch.set_num_threads(threads)  # restored for threads created later


def _continued(known: NDArray[np.int64], last: Sequence[int], longest: int) -> list[int]:
    """Return the tokens after the last occurrence of the two tokens `last` in `known`; empty if there is none."""
    places = np.flatnonzero((known[:-1] == last[0]) & (known[1:] == last[1]))
    return known[places[-1] + 2 : places[-1] + 2 + longest].tolist() if places.size else []


def _is_plain(cache: Any) -> bool:
    """Whether the cache stores every token separately and drops none."""
    from transformers.cache_utils import DynamicLayer

    return all(type(layer) is DynamicLayer for layer in cache.layers)


def _padded(rows: Sequence[Sequence[int]], pad: int) -> torch.Tensor:
    """Return the rows (B, longest), padded on the left."""
    import torch

    width = max(map(len, rows))
    return torch.tensor([[pad] * (width - len(row)) + list(row) for row in rows])


def _mask(lengths: Sequence[int], device: torch.device) -> torch.Tensor:
    """Return a mask (B, longest) with ones for the tokens of left-padded rows."""
    import torch

    width = max(lengths)
    starts = width - torch.tensor(list(lengths))[:, None]
    return (torch.arange(width)[None] >= starts).long().to(device)


def _cut(known: CachedPrompt | None, length: int) -> Layers:
    return [] if known is None else [(keys[:, :, :length], values[:, :, :length]) for keys, values in known.layers]


def _row_of(cache: Any, place: int, attention: torch.Tensor) -> Layers:
    """Return one row of a cache without its padding. It shares memory with the cache if that has only this row."""
    if bool(attention.all()) and len(cache.layers[0].keys) == 1:
        return [(layer.keys, layer.values) for layer in cache.layers]
    columns = attention.nonzero()[:, 0]
    return [(layer.keys[place : place + 1, :, columns], layer.values[place : place + 1, :, columns])
            for layer in cache.layers]  # fmt: skip


def _joined(config: Any, rows: Sequence[Layers]) -> Any:
    """Join rows into one left-padded cache; a row may be empty."""
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
