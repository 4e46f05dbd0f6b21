"""Local models through Hugging Face transformers: text and images, batched sampling under grammars, LoRA adapters.

No training code lives here.
"""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents import models
from selfsurf.agents.adapters.identity import check_folder
from selfsurf.agents.options import Natural
from selfsurf.agents.policies.local.prefixes import PrefixCache
from selfsurf.agents.policies.local.reply import matchers_of
from selfsurf.agents.policies.local.template import eos_token_ids
from selfsurf.agents.policies.request import check_length, check_sampling, one_each, row_seeds
from selfsurf.agents.policies.transformers.images import Prompt
from selfsurf.agents.policies.transformers.loading import Quantization, keep_trainable, load
from selfsurf.agents.policies.transformers.lora import Adapters
from selfsurf.agents.policies.transformers.prompts import Prompts
from selfsurf.agents.policies.transformers.sampling import Row, Sampler
from selfsurf.agents.policy import Completion, Conversation, Guidance

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_MARK = "_selfsurf_contiguous"
_OWN = "adapter_"


def make_lm_head_contiguous(model: Any) -> None:
    """Make the output layer see contiguous input, whatever slicing came before. Idempotent.

    A slice of the hidden states along the sequence is not contiguous, and on CPU torch then copies the whole weight
    of the output layer once a row of the batch, forward and backward. The last token of a single row counts as
    contiguous and still has the strides of the whole: with frozen weights torch looks at those (`should_fold` of
    ATen's LinearAlgebra.cpp), so they are made anew.
    """
    head = model.get_output_embeddings()
    if head is None or getattr(head, _MARK, False):
        return
    head.register_forward_pre_hook(lambda module, inputs: tuple(map(_unsliced, inputs)))
    setattr(head, _MARK, True)


def _unsliced(hidden: torch.Tensor) -> torch.Tensor:
    import torch

    if hidden.stride() == torch.empty(hidden.shape, device="meta").stride():
        return hidden
    return hidden.clone(memory_format=torch.contiguous_format)


class TransformersPolicy:
    """A language model in this process, or a vision-language model (`sees_images`).

    Nothing of images is kept in a completion but the expanded tokens: for training, `prompt` makes the same inputs of
    the same messages again.

    Args:
        model: a short name known to `agents.models`, a folder, a hub id, or a model in memory. One in memory belongs
            to its owner: it is never moved or cast, and its train/eval modes are put back after each call. (Of 4-bit
            weights the packing is fixed, see `keep_trainable`.)
        tokenizer: needed with a model in memory, of a vision-language model its processor; else loaded with the model.
        adapter: folder of a PEFT LoRA adapter.
        dtype: `"auto"` (as `transformers_loading.load` says), `bf16`, `fp16` or `fp32`, or a torch dtype.
        device: `"auto"` (cuda, mps or cpu), or a torch device such as `cuda:1`.
        quantization: `"nf4"` loads 4-bit weights by bitsandbytes.
        seed: of the policy's own random stream, used by calls without a seed.
        reuse: megabytes of keys and values of earlier prompts that are kept, so that a prompt's known beginning is not
            read again; 0 for none. By default 1024, but 0 for a model in memory, whose owner may change its weights
            unnoticed: `forget` after a change.

    Raises:
        agents.models.ModelError: the model can't be found or fetched.
        FileNotFoundError: the adapter folder does not exist or holds no adapter.
        agents.adapters.identity.WrongBase: the adapter belongs to another base model.
        ImportError: quantization without bitsandbytes.
        ValueError: a model in memory without tokenizer or with quantization, a tokenizer without chat template, or an
            unknown dtype, device or quantization.
    """

    guidance: Guidance = "grammar"
    prompt_budget = 2048

    def __init__(
        self,
        model: str | Path | PreTrainedModel = "smollm2",
        tokenizer: Any = None,
        adapter: str | Path | None = None,
        dtype: str | torch.dtype = "auto",
        device: str | torch.device = "auto",
        seed: Natural = 0,
        reuse: Natural | None = None,
        quantization: Quantization | None = None,
    ) -> None:
        check_folder(adapter)
        self.in_memory = not isinstance(model, (str, Path))
        self.source: str | Path | None = None if self.in_memory else models.resolve(cast("str | Path", model))
        held: Any
        processor: Any
        if self.in_memory:
            if tokenizer is None:
                raise ValueError("A model in memory needs its tokenizer: pass tokenizer=.")
            if quantization is not None:
                raise ValueError("A model in memory can't be quantised any more; give its name or folder.")
            held, processor = model, tokenizer if hasattr(tokenizer, "image_processor") else None
            tokenizer = tokenizer if processor is None else processor.tokenizer
            self.name = str(getattr(getattr(model, "config", None), "_name_or_path", "") or type(model).__name__)
            keep_trainable(held)
        else:
            loaded = load(cast("str | Path", self.source), dtype=dtype, device=device, quantization=quantization)
            held, processor = loaded.model, loaded.processor
            tokenizer = loaded.tokenizer if tokenizer is None else tokenizer
            self.name = str(model)
        if not getattr(tokenizer if processor is None else processor, "chat_template", None):
            raise ValueError(f"The tokenizer of {self.name} has no chat template; choose an instruction-tuned model.")
        self.tokenizer = tokenizer
        self.processor = processor
        """Of a vision-language model; None for a text model."""
        self.sees_images = processor is not None
        self.adapter: Path | None = None
        self._own: str | None = None  # the name of the adapter that set_adapter loaded
        self._own_count = 0
        self.processor = processor
        self._prompts = Prompts(self.name, tokenizer, processor)
        megabytes = (0 if self.in_memory else 1024) if reuse is None else reuse
        self._prefixes = PrefixCache(megabytes * 2**20) if megabytes > 0 else None
        self._random = np.random.default_rng(seed)
        base = held.get_base_model() if hasattr(held, "get_base_model") else held
        self._last_only = "logits_to_keep" in inspect.signature(base.forward).parameters
        self._parameter_count = int(base.num_parameters())
        self._adapters = Adapters(held, base.get_input_embeddings().weight.dtype, source=self.source, name=self.name)
        self.eos_token_ids = _eos_token_ids(base, tokenizer)
        make_lm_head_contiguous(held)
        if adapter is not None:
            self.set_adapter(adapter)

    @property
    def model(self) -> Any:
        """The model itself, wrapped by PEFT while an adapter is loaded."""
        return self._adapters.model

    @property
    def parameter_count(self) -> int:
        """Number of weights, adapters not counted when they were loaded here."""
        return self._parameter_count

    @property
    def context_length(self) -> int | None:
        """Most tokens of prompt and reply together."""
        config = self.model.config
        length = getattr(config.get_text_config(), "max_position_embeddings", None)
        return int(length) if length else None

    @property
    def adapters(self) -> dict[str, Path]:
        """The folders of the adapters loaded by `load_adapter`, by name."""
        return {name: path for name, path in self._adapters.loaded.items() if name != self._own}

    @property
    def adapter_weights(self) -> dict[str, float]:
        """The names of the adapters in force and the weight of each; empty for the base model."""
        return dict(self._adapters.weights)

    def set_adapter(self, path: str | Path | None) -> None:
        """Put another LoRA adapter in force; None goes back to the base model. The weights are read at every call.

        To switch between several without reading them again, see `load_adapter` and `use_adapters`.

        Raises:
            FileNotFoundError: the folder does not exist or holds no adapter.
            agents.adapters.identity.WrongBase: the adapter belongs to another base model.
            ValueError: the model is a PEFT model in memory, whose adapters are its owner's.
        """
        if path is None:
            self.use_adapters([])
            return
        self._own_count += 1
        name = f"{_OWN}{self._own_count}"
        self._adapters.load(name, path)
        self._adapters.use([name])
        if self._own is not None:
            self._adapters.unload(self._own)
        self._own = name
        self.adapter = self._adapters.loaded[name]

    def load_adapter(self, name: str, path: str | Path) -> None:
        """Read a LoRA adapter and keep it under a name, for `use_adapters`. See `Adapters.load` for what it raises."""
        if name.startswith(_OWN):
            raise ValueError(f"Names of adapters don't begin with {_OWN!r}.")
        self._adapters.load(name, path)

    def use_adapters(self, names: Sequence[str], weights: Sequence[float] | None = None) -> None:
        """Put loaded adapters in force, several as a weighted sum; none gives the base model. Reads nothing.

        Raises:
            ValueError: an adapter that is not loaded or named twice, weights that don't match, adapters that can't be
                summed, or the model is a PEFT model in memory, whose adapters are its owner's.
        """
        self._adapters.use(names, weights)
        alone = len(names) == 1 and self.adapter_weights[names[0]] == 1.0
        self.adapter = self._adapters.loaded[names[0]] if alone else None

    def unload_adapter(self, name: str) -> None:
        """Drop a loaded adapter, which must not be in force.

        Raises:
            ValueError: it is not loaded, or in force.
        """
        self._adapters.unload(name)

    def prompt(self, messages: Conversation) -> Prompt:
        """Return the prompt's token ids, image tokens expanded, and the model's other inputs that belong to it.

        Raises:
            ValueError: a message carries images, which this policy can't see, or something else than images.
        """
        return self._prompts.prompt(messages)

    def encode(self, messages: Conversation, prefill: str = "") -> list[int]:
        """Return the prompt's token ids: chat template, the assistant's turn opened, and the prefill.

        Raises:
            ValueError: a message carries images, which this policy can't see.
        """
        return self._prompts.encode(messages, prefill)

    def count_tokens(self, text: str) -> int:
        """Number of tokens of `text` alone, without special tokens."""
        return len(self._prompts.encode_text(text))

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """Number of tokens of the whole prompt, chat template and prefill included."""
        return self._prompts.count(messages, prefill)

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
    ) -> list[Completion]:
        """Sample one reply for each conversation, all in one batch. See `Policy.complete`.

        Each row draws from its own random stream, so a row's sample does not depend on how long the others run.

        Raises:
            ValueError: a grammar is malformed or does not begin with the prefill, or a prompt leaves no room.
        """
        prompts = [self.prompt(messages) for messages in conversations]
        return self.complete_ids(
            [prompt.ids for prompt in prompts],
            extras=[prompt.extras for prompt in prompts],
            grammars=grammars,
            prefill=prefill,
            temperature=temperature,
            max_new_tokens=max_new_tokens,
            seed=seed,
        )

    def complete_ids(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        extras: Sequence[dict[str, torch.Tensor]] | None = None,
        grammars: Sequence[str | None] | None = None,
        prefill: str = "",
        temperature: float = 0.0,
        max_new_tokens: int = 64,
        seed: int | Sequence[int] | None = None,
    ) -> list[Completion]:
        """As `complete`, for prompts that are token ids already (without the prefill's); `extras` as in `prompt`."""
        if not prompts:
            return []
        start = time.perf_counter()
        extras = [{}] * len(prompts) if extras is None else list(extras)
        grammars = one_each("grammar", grammars, len(prompts))
        check_sampling(temperature, max_new_tokens)
        prefill_ids = self._prompts.encode_text(prefill)
        given = [[*prompt, *prefill_ids] for prompt in prompts]
        check_length(max(map(len, given)), max_new_tokens, self.context_length)
        if seed is None:
            seed = int(self._random.integers(2**62))
        matchers = matchers_of(grammars, self.tokenizer, self.eos_token_ids, prefill_ids)
        rows = [
            Row(prompt, matcher, own, inputs)
            for prompt, matcher, own, inputs in zip(given, matchers, row_seeds(seed, len(given)), extras, strict=True)
        ]
        unfinished = [row for row in rows if not row.finished(max_new_tokens)]
        if unfinished:
            with self.reading():
                if self._prefixes is not None:
                    self._prefixes.for_weights(self._weights())
                pad = self.tokenizer.pad_token_id
                sampler = Sampler(
                    self.model,
                    self.eos_token_ids,
                    min(self.eos_token_ids) if pad is None else pad,
                    last_only=self._last_only,
                    prefixes=self._prefixes,
                )
                sampler.run(unfinished, temperature, max_new_tokens)
        seconds = time.perf_counter() - start
        return [
            row.completion(self.tokenizer, grammar, prefill, prefill_ids, row.prompt, known=row.reused, seconds=seconds)
            for row, grammar in zip(rows, grammars, strict=True)
        ]

    def forget(self) -> None:
        """Forget the keys and values of earlier prompts: needed when weights were changed behind autograd's back."""
        if self._prefixes is not None:
            self._prefixes.clear()

    def _weights(self) -> Hashable:
        """A name for the weights in force: other adapters or a change in place make it another."""
        parts = [(tensor.data_ptr(), tensor._version) for tensor in self.model.parameters()]
        return hash((tuple(parts), self._adapters.in_use(), str(getattr(self.model, "active_adapter", ""))))

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Evaluation mode, no gradients and the right adapter, and everything put back afterwards."""
        import torch

        training = [module for module in self.model.modules() if module.training]
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(self._adapters.in_force())
            for module in training:
                module.training = False
            try:
                yield
            finally:
                for module in training:
                    module.training = True

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the logits (T, V) after each of T tokens, from one forward pass."""
        import torch

        device = self.model.get_input_embeddings().weight.device
        with self.reading():
            output = self.model(input_ids=torch.tensor([list(ids)], device=device))
        found: NDArray[np.float32] = output.logits[0].float().cpu().numpy()
        return found


def _eos_token_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends the assistant's turn, from the tokenizer and the model's generation settings."""
    return eos_token_ids(
        tokenizer.eos_token_id, getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    )
