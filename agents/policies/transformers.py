"""Local models through Hugging Face transformers: batched sampling under grammars, with LoRA adapters.

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

from agents import models
from agents.constraint import Matcher, ll_tokenizer
from agents.policies.prefixes import PrefixCache
from agents.policies.sampling import Row, Sampler
from agents.policy import Completion, Conversation, Guidance, Usage

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_MARK = "_selfsurf_contiguous"


def make_lm_head_contiguous(model: Any) -> None:
    """Make the output layer see contiguous input, whatever slicing came before. Idempotent.

    A slice of the hidden states along the sequence is not contiguous, and on CPU torch then copies the whole weight
    of the output layer once a row of the batch, forward and backward.
    """
    head = model.get_output_embeddings()
    if head is None or getattr(head, _MARK, False):
        return
    head.register_forward_pre_hook(lambda module, inputs: tuple(item.contiguous() for item in inputs))
    setattr(head, _MARK, True)


class TransformersPolicy:
    """A causal language model in this process.

    Args:
        model: a short name known to `agents.models`, a folder, a hub id, or a model in memory. One in memory belongs
            to its owner: it is never moved or cast, and its train/eval modes are put back after each call.
        tokenizer: needed with a model in memory; else loaded with the model.
        adapter: folder of a PEFT LoRA adapter.
        dtype: `"auto"` (that of the checkpoint), or a torch dtype or its name.
        device: `"auto"` (cuda, mps or cpu), or a torch device.
        seed: of the policy's own random stream, used by calls without a seed.
        reuse: megabytes of keys and values of earlier prompts that are kept, so that a prompt's known beginning is not
            read again; 0 for none. By default 1024, but 0 for a model in memory, whose owner may change its weights
            unnoticed: `forget` after a change.

    Raises:
        agents.models.ModelError: the model can't be found or fetched.
        FileNotFoundError: the adapter folder does not exist or holds no adapter.
        ValueError: a model in memory without tokenizer, or a tokenizer without chat template.
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
        seed: int = 0,
        reuse: int | None = None,
    ) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.in_memory = not isinstance(model, (str, Path))
        self._model: Any
        if self.in_memory:
            if tokenizer is None:
                raise ValueError("A model in memory needs its tokenizer: pass tokenizer=.")
            self._model = model
            self.name = str(getattr(getattr(model, "config", None), "_name_or_path", "") or type(model).__name__)
        else:
            source = models.resolve(cast("str | Path", model))
            if tokenizer is None:
                tokenizer = AutoTokenizer.from_pretrained(source)
            where = _best_device() if device == "auto" else torch.device(device)
            with models.no_progress_bars():
                loaded: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
            self._model = loaded.to(where).eval()
            self.name = str(model)
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError(f"The tokenizer of {self.name} has no chat template; choose an instruction-tuned model.")
        self.tokenizer = tokenizer
        self.sees_images = False
        self.adapter: Path | None = None
        self._adapter_count = 0
        megabytes = (0 if self.in_memory else 1024) if reuse is None else reuse
        self._prefixes = PrefixCache(megabytes * 2**20) if megabytes > 0 else None
        self._random = np.random.default_rng(seed)
        base = self._model.get_base_model() if hasattr(self._model, "get_base_model") else self._model
        self._dtype = base.get_input_embeddings().weight.dtype
        self._last_only = "logits_to_keep" in inspect.signature(base.forward).parameters
        self._parameter_count = sum(parameter.numel() for parameter in base.parameters())
        self.eos_token_ids = _eos_token_ids(base, tokenizer)
        make_lm_head_contiguous(self._model)
        if adapter is not None:
            self.set_adapter(adapter)

    @property
    def model(self) -> Any:
        """The model itself, wrapped by PEFT once an adapter was loaded."""
        return self._model

    @property
    def parameter_count(self) -> int:
        """Number of weights, adapters not counted when they were loaded here."""
        return self._parameter_count

    @property
    def context_length(self) -> int | None:
        """Most tokens of prompt and reply together."""
        config = self._model.config
        length = getattr(config.get_text_config(), "max_position_embeddings", None)
        return int(length) if length else None

    def set_adapter(self, path: str | Path | None) -> None:
        """Put another LoRA adapter in force; None goes back to the base model. The weights are read at every call.

        They take the base model's precision: against float32 over bfloat16 that changes log-probabilities by less than
        bfloat16 itself does, and takes half the time. (Merging would be as fast, but loses small changes.)

        Raises:
            FileNotFoundError: the folder does not exist or holds no adapter.
            ValueError: the model is a PEFT model in memory, whose adapters are its owner's.
        """
        from peft import PeftModel

        owned = isinstance(self._model, PeftModel) and self._adapter_count == 0
        if owned:
            raise ValueError("The adapters of a PEFT model in memory belong to its owner; use its own set_adapter.")
        if path is None:
            self.adapter = None
            return
        folder = Path(path).expanduser()
        if not (folder / "adapter_config.json").is_file():
            raise FileNotFoundError(f"There is no LoRA adapter at {folder} (no adapter_config.json).")
        previous, name = f"adapter_{self._adapter_count}", f"adapter_{self._adapter_count + 1}"
        if self._adapter_count == 0:
            self._model = PeftModel.from_pretrained(self._model, str(folder), adapter_name=name)
        else:
            self._model.load_adapter(str(folder), adapter_name=name)
            self._model.set_adapter(name, inference_mode=True)
            self._model.delete_adapter(previous)
        self._adapter_count += 1
        for key, parameter in self._model.named_parameters():
            if f".{name}." in key:  # PEFT keeps adapters in float32; over a bfloat16 model that takes twice the time
                parameter.data = parameter.data.to(self._dtype)
        self._model.eval()
        self.adapter = folder

    def encode(self, messages: Conversation, prefill: str = "") -> list[int]:
        """Return the prompt's token ids: chat template, the assistant's turn opened, and the prefill.

        Raises:
            ValueError: a message carries images, which this policy can't see.
        """
        if any(message.images for message in messages):
            raise ValueError(f"{self.name} reads text only, but a message carries images.")
        text = self.tokenizer.apply_chat_template(
            [{"role": message.role, "content": message.text} for message in messages],
            add_generation_prompt=True,
            tokenize=False,
            enable_thinking=False,  # templates that don't know it ignore it
        )
        return self._encode(text) + self._encode(prefill)

    def count_tokens(self, text: str) -> int:
        """Number of tokens of `text` alone, without special tokens."""
        return len(self._encode(text))

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """Number of tokens of the whole prompt, chat template and prefill included."""
        return len(self.encode(messages, prefill))

    def complete(
        self,
        conversations: Sequence[Conversation],
        *,
        grammars: Sequence[str | None] | None = None,
        schemas: Sequence[dict[str, Any] | None] | None = None,
        prefill: str = "",
        temperature: float = 0.0,
        max_new_tokens: int = 64,
        seed: int | None = None,
    ) -> list[Completion]:
        """Sample one reply for each conversation, all in one batch. See `Policy.complete`.

        Each row draws from its own random stream, so a row's sample does not depend on how long the others run.

        Raises:
            ValueError: a grammar is malformed or does not begin with the prefill, or a prompt leaves no room.
        """
        return self.complete_ids(
            [self.encode(messages) for messages in conversations],
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
        grammars: Sequence[str | None] | None = None,
        prefill: str = "",
        temperature: float = 0.0,
        max_new_tokens: int = 64,
        seed: int | None = None,
    ) -> list[Completion]:
        """As `complete`, for prompts that are token ids already (without the prefill's)."""
        if not prompts:
            return []
        start = time.perf_counter()
        grammars = [None] * len(prompts) if grammars is None else list(grammars)
        if len(grammars) != len(prompts):
            raise ValueError(f"{len(grammars)} grammars were given for {len(prompts)} conversations.")
        if temperature < 0 or max_new_tokens < 1:
            raise ValueError("temperature must be at least 0 and max_new_tokens at least 1.")
        prefill_ids = self._encode(prefill)
        given = [[*prompt, *prefill_ids] for prompt in prompts]
        longest, limit = max(map(len, given)), self.context_length
        if limit is not None and longest + max_new_tokens > limit:
            raise ValueError(f"{longest} prompt tokens and {max_new_tokens} new ones exceed the context of {limit}.")
        if seed is None:
            seed = int(self._random.integers(2**62))
        wrapped = ll_tokenizer(self.tokenizer, self.eos_token_ids) if any(grammars) else None
        rows = []
        for index, (prompt, grammar) in enumerate(zip(given, grammars, strict=True)):
            matcher = None if grammar is None or wrapped is None else Matcher(wrapped, grammar, prefill_ids)
            rows.append(Row(prompt, matcher, seed + index))
        unfinished = [row for row in rows if not row.finished(max_new_tokens)]
        if unfinished:
            with self.reading():
                if self._prefixes is not None:
                    self._prefixes.for_weights(self._weights())
                pad = self.tokenizer.pad_token_id
                sampler = Sampler(
                    self._model,
                    self.eos_token_ids,
                    min(self.eos_token_ids) if pad is None else pad,
                    last_only=self._last_only,
                    prefixes=self._prefixes,
                )
                sampler.run(unfinished, temperature, max_new_tokens)
        return [
            Completion(
                text=prefill + self.tokenizer.decode(row.token_ids, skip_special_tokens=True),
                prompt_token_ids=row.prompt,
                token_ids=row.token_ids,
                logprobs=row.logprobs,
                grammar=grammar,
                finish_reason=row.finish_reason or "length",
                prefill_token_ids=prefill_ids,
                usage=Usage(len(row.prompt), len(row.token_ids), row.reused, seconds=time.perf_counter() - start),
            )
            for row, grammar in zip(rows, grammars, strict=True)
        ]

    def forget(self) -> None:
        """Forget the keys and values of earlier prompts: needed when weights were changed behind autograd's back."""
        if self._prefixes is not None:
            self._prefixes.clear()

    def _weights(self) -> Hashable:
        """A name for the weights in force: another adapter or a change in place makes it another."""
        parts = [(tensor.data_ptr(), tensor._version) for tensor in self._model.parameters()]
        return hash((tuple(parts), self.adapter, str(getattr(self._model, "active_adapter", ""))))

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Evaluation mode, no gradients and the right adapter, and everything put back afterwards."""
        import torch

        training = [module for module in self._model.modules() if module.training]
        disabled = self._adapter_count > 0 and self.adapter is None
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            if disabled:
                stack.enter_context(self._model.disable_adapter())
            for module in training:
                module.training = False
            try:
                yield
            finally:
                for module in training:
                    module.training = True

    def _encode(self, text: str) -> list[int]:
        return [int(token) for token in self.tokenizer.encode(text, add_special_tokens=False)] if text else []


def _best_device() -> torch.device:
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps") if torch.backends.mps.is_available() else torch.device("cpu")


def _eos_token_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends the assistant's turn, from the tokenizer and the model's generation settings."""
    found = [tokenizer.eos_token_id, getattr(getattr(model, "generation_config", None), "eos_token_id", None)]
    flat = [item for entry in found for item in (entry if isinstance(entry, list) else [entry])]
    ids = frozenset(int(item) for item in flat if item is not None)
    if not ids:
        raise ValueError("Neither the tokenizer nor the model says which token ends a reply.")
    return ids
