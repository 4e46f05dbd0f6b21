"""Local models in Hugging Face transformers: text and images, batched sampling under grammars, LoRA adapters.

The module contains no training code.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from selfsurf.agents import model_files
from selfsurf.agents.adapters.identity import check_peft
from selfsurf.agents.options import Natural
from selfsurf.agents.policies.local.prefixes import PrefixCache
from selfsurf.agents.policies.local.prompts import Prompts, eos_token_ids
from selfsurf.agents.policies.transformers.loading import Quantization, keep_trainable, load
from selfsurf.agents.policies.transformers.lora import LoraPolicy
from selfsurf.agents.policies.transformers.sampling import Row, Sampler
from selfsurf.agents.policy import PolicyError
from selfsurf.browser_env.text import first_line

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_MARK = "_selfsurf_contiguous"


def make_lm_head_contiguous(model: Any) -> None:
    """Make the input of the output layer contiguous, even after slicing. Idempotent.

    A slice of the hidden states along the sequence is not contiguous, and on the CPU torch then copies the whole weight
    of the output layer for each row of the batch, forward and backward. The last token of a single row counts as
    contiguous but keeps the strides of the whole, which torch checks with frozen weights (`should_fold` in ATen's
    LinearAlgebra.cpp), so it is copied too.
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


class TransformersPolicy(LoraPolicy):
    """A policy that runs a language or vision-language model of transformers in this process.

    A completion keeps only the expanded tokens of images; for training, `prompt` makes the same inputs from the same
    messages again.

    Args:
        model: a short name known to `agents.model_files`, a folder, a hub id, or a model in memory. A model in memory
            belongs to its owner: it is never moved or cast, and its train/eval modes are restored after each call.
            (4-bit weights are kept trainable, see `keep_trainable`.)
        tokenizer: required with a model in memory (for a vision-language model, its processor); by default loaded with
            the model.
        adapter: folder of a PEFT LoRA adapter.
        dtype: `"auto"` (see `loading.load`), `bf16`, `fp16` or `fp32` (or a torch dtype, or its name).
        device: `"auto"` (cuda, mps or cpu), or a torch device such as `cuda:1`.
        quantization: `"nf4"` loads 4-bit weights by bitsandbytes.
        seed: seed of the policy's own random stream, used by calls without a seed.
        reuse: megabytes for keys and values of earlier prompts, so that a prompt's shared prefix is not computed
            again; 0 for no reuse. By default 1024, but 0 for a model in memory, whose owner may change its weights
            unnoticed: call `forget` after a change.

    Raises:
        agents.model_files.ModelError: the model can't be found or fetched.
        FileNotFoundError: the adapter folder does not exist or contains no adapter.
        agents.adapters.identity.AdapterError: the adapter is in MLX's format, or (`WrongBase`) belongs to another base.
        ImportError: quantization without bitsandbytes.
        ValueError: a model in memory without tokenizer or with quantization, a tokenizer without chat template, or an
            unknown dtype, device or quantization.
    """

    reply_type = Row

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
        check_peft(adapter)
        self.in_memory = not isinstance(model, (str, Path))
        self.source = None if self.in_memory else model_files.resolve(cast("str | Path", model))
        held: Any
        processor: Any
        if self.in_memory:
            if tokenizer is None:
                raise ValueError("A model in memory needs its tokenizer: pass tokenizer=.")
            if quantization is not None:
                raise ValueError("A model in memory can't be quantised; give the model's name or folder.")
            held, processor = model, tokenizer if hasattr(tokenizer, "image_processor") else None
            tokenizer = tokenizer if processor is None else processor.tokenizer
            name = str(getattr(getattr(model, "config", None), "_name_or_path", "") or type(model).__name__)
            keep_trainable(held)
        else:
            loaded = load(cast("str | Path", self.source), dtype=dtype, device=device, quantization=quantization)
            held, processor = loaded.model, loaded.processor
            tokenizer = loaded.tokenizer if tokenizer is None else tokenizer
            name = str(model)
        base = held.get_base_model() if hasattr(held, "get_base_model") else held
        endings = getattr(getattr(base, "generation_config", None), "eos_token_id", None)
        super().__init__(Prompts(name, tokenizer, processor), eos_token_ids(tokenizer.eos_token_id, endings), seed)
        self.processor = processor
        """Processor of a vision-language model; None for a text model."""
        megabytes = (0 if self.in_memory else 1024) if reuse is None else reuse
        self._prefixes = PrefixCache(megabytes * 2**20) if megabytes > 0 else None
        self._last_only = "logits_to_keep" in inspect.signature(base.forward).parameters
        self.parameter_count: int | None = int(base.num_parameters())
        self._start(held)
        make_lm_head_contiguous(held)
        if adapter is not None:
            self.set_adapter(adapter)

    @property
    def context_length(self) -> int | None:
        """Maximum number of tokens of prompt and reply together; None if unknown."""
        config = self.model.config
        length = getattr(config.get_text_config(), "max_position_embeddings", None)
        return int(length) if length else None

    def _sample(self, replies: list[Any], temperature: float, max_new_tokens: int) -> None:
        with self.reading():
            if self._prefixes is not None:
                self._prefixes.for_weights(self._weights())
            pad = self.tokenizer.pad_token_id
            pad = min(self.eos_token_ids) if pad is None else pad
            sampler = Sampler(self.model, self.eos_token_ids, pad, self._last_only, self._prefixes)
            try:
                sampler.run(replies, temperature, max_new_tokens)
            except RuntimeError as error:  # such as running out of memory
                self.forget()
                raise PolicyError(f"torch could not run {self.name}: {first_line(error)}") from error

    def forget(self) -> None:
        """Drop the keys and values of earlier prompts, as required after weight changes that autograd doesn't track."""
        if self._prefixes is not None:
            self._prefixes.clear()

    def _weights(self) -> Hashable:
        """Return a key of the current weights, which differs for other adapters and after in-place changes."""
        parts = [(tensor.data_ptr(), tensor._version) for tensor in self.model.parameters()]
        active = (self._loads, tuple(self.adapter_weights.items()), str(getattr(self.model, "active_adapter", "")))
        return hash((tuple(parts), active))

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Set evaluation mode, no gradients and the right adapter within the context; all is restored afterwards."""
        import torch

        training = [module for module in self.model.modules() if module.training]
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            if self._loaded and not self.adapter_weights:
                stack.enter_context(self.model.disable_adapter())  # PEFT keeps an adapter active even if none is chosen
            for module in training:
                module.training = False
            try:
                yield
            finally:
                for module in training:
                    module.training = True
