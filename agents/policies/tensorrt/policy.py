"""Local models in TensorRT-LLM, in this process.

The policy was never run with a real installation, since PyPI's `tensorrt-llm` can't be installed without CUDA. It
follows the signatures in TensorRT-LLM's sources and documentation, and is tested with objects that have exactly those
signatures (`tests/agents/test_tensorrt.py`). `selfsurf doctor` checks that a real installation has everything that is
used here.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from selfsurf.agents import model_files
from selfsurf.agents.adapters.identity import check_base, check_peft, read_config
from selfsurf.agents.adapters.identity import rank as rank_of
from selfsurf.agents.options import Count, Natural
from selfsurf.agents.policies.local.prompts import Prompts, eos_token_ids
from selfsurf.agents.policies.request import CheckedPolicy, Request, check_length
from selfsurf.agents.policy import Completion, Conversation, FinishReason, Guidance, Message, PolicyError, Usage

GuideBackend: TypeAlias = Literal["llguidance", "xgrammar"]
"""Library that constrains TensorRT-LLM's decoding. In its `_torch/pyexecutor/grammar_matcher.py`,
`GuidedDecodingParams.grammar` goes to `LLMatcher.grammar_from_lark` under llguidance and to xgrammar's own EBNF
compiler under xgrammar; a JSON schema goes to both. Our grammars are Lark, so llguidance gets the grammar and xgrammar
the schema."""

_GUIDANCE: dict[GuideBackend | None, Guidance] = {"llguidance": "grammar", "xgrammar": "schema", None: "none"}

LORA_CONFIG_MODULES = ("tensorrt_llm.lora_helper", "tensorrt_llm.lora_manager", "tensorrt_llm._torch.peft.lora.config")
"""Modules that contain `LoraConfig` in the various releases."""

LORA_MODULES = ("attn_q", "attn_k", "attn_v", "attn_dense", "mlp_h_to_4h", "mlp_4h_to_h", "mlp_gate")
"""TensorRT-LLM's names of the seven linear layers that our adapters train, required if no adapter is given."""


class TensorRTPolicy(CheckedPolicy):
    """A policy that runs a model in TensorRT-LLM's engine.

    Args:
        model: a short name known to `agents.model_files`, a folder, or a hub id.
        tokenizer: a Hugging Face tokenizer; by default loaded with the model.
        adapter: folder of a PEFT LoRA adapter, active from the start.
        lora_rank: highest rank of the adapters that `set_adapter` may load. None: the rank of `adapter`; without
            `adapter`, no adapter can be loaded.
        guided_decoding_backend: `"llguidance"` (constrains by grammar), `"xgrammar"` (by JSON schema), or None.
        tensor_parallel_size: number of GPUs to split the model over.
        dtype: `"auto"`, `"bfloat16"` or `"float16"`.
        engine: further arguments of `tensorrt_llm.LLM`, such as `max_seq_len` or `kv_cache_config`.
        seed: seed of the policy's own random stream, used by calls without a seed.

    Raises:
        ImportError: TensorRT-LLM is not installed.
        agents.model_files.ModelError: the model can't be found or fetched.
        FileNotFoundError: the adapter folder does not exist or contains no adapter.
        agents.adapters.identity.WrongBase: the adapter belongs to another base model.
        ValueError: an unknown guided decoding backend, or a tokenizer without chat template.
        PolicyError: the engine could not be started.
    """

    prompt_budget = 4096

    def __init__(
        self,
        model: str | Path = "smollm2",
        tokenizer: Any = None,
        adapter: str | Path | None = None,
        lora_rank: Count | None = None,
        guided_decoding_backend: GuideBackend | None = "llguidance",
        tensor_parallel_size: Count = 1,
        dtype: Literal["auto", "bfloat16", "float16"] = "auto",
        engine: Mapping[str, Any] | None = None,
        seed: Natural = 0,
    ) -> None:
        if guided_decoding_backend not in _GUIDANCE:
            raise ValueError(
                f"guided_decoding_backend must be llguidance, xgrammar or None, not {guided_decoding_backend!r}."
            )
        check_peft(adapter)
        from tensorrt_llm import LLM
        from transformers import AutoConfig, AutoTokenizer

        self._source = str(model_files.resolve(model))
        self.name = str(model)
        self.tokenizer = AutoTokenizer.from_pretrained(self._source) if tokenizer is None else tokenizer
        self._prompts = Prompts(self.name, self.tokenizer)
        self.guidance: Guidance = _GUIDANCE[guided_decoding_backend]
        self._config: Any = AutoConfig.from_pretrained(self._source)
        self.sees_images = getattr(self._config, "vision_config", None) is not None
        self.eos_token_ids = _eos_token_ids(self._source, self.tokenizer)
        self.parameter_count = _parameter_count(self._config)
        options = dict(engine or {})
        self._longest = options.get("max_seq_len")
        self._random = np.random.default_rng(seed)
        self.adapter: Path | None = None
        self._lora: Any = None
        self._lora_count = 0
        self.lora_rank = max(lora_rank or 0, 0 if adapter is None else rank_of(read_config(Path(adapter).expanduser())))
        if adapter is not None and Path(self._source).is_dir():  # the engine may have to fetch a hub id first
            check_base(adapter, self._source, name=self.name)
        if self.lora_rank:
            options["lora_config"] = _lora_config(adapter, self.lora_rank)
        if guided_decoding_backend is not None:
            options["guided_decoding_backend"] = guided_decoding_backend
        self._llm: Any
        try:
            self._llm = LLM(
                self._source,
                tokenizer=self.tokenizer,
                tensor_parallel_size=tensor_parallel_size,
                dtype=dtype,
                **options,
            )
        except Exception as error:  # no GPU, no memory, a refused option, ...
            raise PolicyError(f"TensorRT-LLM could not start {self.name}: {_said(error)}") from error
        if adapter is not None:
            self.set_adapter(adapter)

    @property
    def context_length(self) -> int | None:
        """Maximum number of tokens of prompt and reply together, limited by model and engine (`max_seq_len`)."""
        known = (getattr(self._config.get_text_config(), "max_position_embeddings", None), self._longest)
        return min((int(length) for length in known if length), default=None)

    def set_adapter(self, path: str | Path | None) -> None:
        """Switch to another LoRA adapter, or to the base model (None). The engine reads the adapter at the next call.

        Raises:
            FileNotFoundError: the folder does not exist or contains no adapter.
            agents.adapters.identity.WrongBase: the adapter belongs to another base model.
            ValueError: the engine was started without adapters, or for lower ranks.
        """
        if path is None:
            self.adapter = self._lora = None
            return
        folder = Path(path).expanduser()
        rank = rank_of(read_config(folder))
        check_base(folder, self._source, name=self.name)
        if rank > self.lora_rank:
            raise ValueError(
                f"The adapter at {folder} has rank {rank}, but the engine was started for ranks up to "
                f"{self.lora_rank}: pass lora_rank={rank} when making the policy."
            )
        from tensorrt_llm.executor.request import LoRARequest

        # The engine caches adapters by number, so changed weights in the same folder need a new number.
        self._lora_count += 1
        self._lora = LoRARequest(f"adapter_{self._lora_count}", self._lora_count, str(folder))
        self.adapter = folder

    def encode(self, messages: Conversation, prefill: str = "") -> list[int]:
        """Return the token ids of a prompt without images: chat template, opened assistant's turn, and prefill."""
        return self._prompts.encode([Message(message.role, message.text) for message in messages], prefill)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text` alone, without special tokens."""
        return len(self._prompts.encode_text(text))

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """Return the number of tokens of the whole prompt, including chat template and prefill, but not images."""
        return len(self.encode(messages, prefill))

    def _complete(
        self, requests: Sequence[Request], prefill: str, temperature: float, max_new_tokens: int
    ) -> list[Completion]:
        """Sample all replies in one call of the engine.

        A guide starts at the first generated token and never includes the prompt. So a guided reply is sampled as a
        whole: instead of giving the prefill, the guide forces it, and its tokens don't count toward `max_new_tokens`.

        Raises:
            PolicyError: the engine failed or ended a request without an answer.
            ValueError: a prompt leaves no room for a reply, or a text model is given images.
        """
        prefill_ids = self._prompts.encode_text(prefill)
        inputs: list[dict[str, Any]] = []
        sampling: list[Any] = []
        for one in requests:
            guide = {"grammar": one.grammar} if one.grammar else {"json": one.schema} if one.schema else None
            given = "" if guide else prefill
            room = max_new_tokens + (len(prefill_ids) if guide else 0)
            check_length(self.count_prompt_tokens(one.messages, given), room, self.context_length)
            inputs.append(self._input(one.messages, given))
            sampling.append(self._sampling(temperature, room, one.seed % 2**63, guide))
        began = time.perf_counter()
        lora = None if self._lora is None else [self._lora] * len(inputs)
        try:
            outputs = list(self._llm.generate(inputs, sampling_params=sampling, use_tqdm=False, lora_request=lora))
        except Exception as error:  # exceptions of the engine, CUDA and MPI
            raise PolicyError(f"TensorRT-LLM could not answer: {_said(error)}") from error
        seconds = time.perf_counter() - began
        return [
            self._completion(output, given, one, prefill, temperature, seconds)
            for output, given, one in zip(outputs, inputs, requests, strict=True)
        ]

    def close(self) -> None:
        """Shut the engine down and free the GPU's memory."""
        self._llm.shutdown()

    def _input(self, messages: Conversation, given: str) -> dict[str, Any]:
        """Return token ids, or, with images, the output of TensorRT-LLM's loader, which adds each model's placeholders.

        The loader writes a single user turn and no system turn, so all text goes into the user turn.
        """
        images = [image for message in messages for image in message.images]
        if not images:
            return {"prompt_token_ids": self.encode(messages, given)}
        if not self.sees_images:
            raise ValueError(f"{self.name} reads text only, but a message contains images.")
        from PIL import Image
        from tensorrt_llm.inputs import default_multimodal_input_loader

        (loaded,) = default_multimodal_input_loader(
            tokenizer=self.tokenizer,
            model_dir=self._source,
            model_type=self._config.model_type,
            modality="image" if len(images) == 1 else "multiple_image",
            prompts=["\n\n".join(message.text for message in messages)],
            media=[[Image.fromarray(image) for image in images]],
        )
        return {**loaded, "prompt": loaded["prompt"] + given}

    def _sampling(self, temperature: float, room: int, seed: int, guide: dict[str, Any] | None) -> Any:
        from tensorrt_llm import SamplingParams
        from tensorrt_llm.llmapi import GuidedDecodingParams

        # With neither top_k nor top_p the engine decodes greedily at any temperature; top_p=1 excludes no token.
        how: dict[str, Any] = {"temperature": temperature, "top_p": 1.0} if temperature > 0 else {"top_k": 1}
        if _reports_logprobs(temperature, guide is not None):
            how["logprobs"] = 1
            if temperature > 0 and _processed() is not None:
                how["logprobs_mode"] = _processed()
        return SamplingParams(
            **how,
            max_tokens=room,
            seed=seed,
            end_id=self.tokenizer.eos_token_id,
            stop_token_ids=sorted(self.eos_token_ids - {self.tokenizer.eos_token_id}) or None,
            include_stop_str_in_output=True,  # else a sampled stop token is removed from the ids
            guided_decoding=GuidedDecodingParams(**guide) if guide else None,
        )

    def _completion(
        self, output: Any, given: dict[str, Any], one: Request, prefill: str, temperature: float, seconds: float
    ) -> Completion:
        (reply,) = output.outputs
        if reply.finish_reason not in ("stop", "length"):
            raise PolicyError(f"TensorRT-LLM ended a request without an answer: {reply.finish_reason}.")
        guided = bool(one.grammar or one.schema)
        prefill = "" if guided else prefill
        token_ids = [int(token) for token in reply.token_ids]
        prompt_ids = [int(token) for token in given.get("prompt_token_ids") or output.prompt_token_ids]
        ended: FinishReason = "grammar" if guided else "eos"
        if token_ids and token_ids[-1] in self.eos_token_ids:
            ended = "eos"
        reported = _reports_logprobs(temperature, guided)
        return Completion(
            text=prefill + self.tokenizer.decode(token_ids, skip_special_tokens=True),
            prompt_token_ids=prompt_ids,
            token_ids=token_ids,
            logprobs=_logprobs(token_ids, reply.logprobs) if reported else [],
            grammar=one.grammar,
            finish_reason="length" if reply.finish_reason == "length" else ended,
            prefill_token_ids=self._prompts.encode_text(prefill),
            usage=Usage(len(prompt_ids), len(token_ids), seconds=seconds),
        )


def _reports_logprobs(temperature: float, guided: bool) -> bool:
    """Whether the engine can report the log-probabilities required by `Completion.logprobs`.

    By default it reports those of the raw logits, which are correct for greedy decoding and at temperature 1, without a
    guide. Newer releases can also report those of the sampled distribution (`logprobs_mode`).
    """
    if temperature > 0 and _processed() is not None:
        return True
    return temperature in (0.0, 1.0) and not guided


def _processed() -> Any:
    """Return `LogprobMode.PROCESSED`, or None in a release without `logprobs_mode`."""
    from tensorrt_llm import SamplingParams

    if "logprobs_mode" not in inspect.signature(SamplingParams).parameters:
        return None
    return import_module("tensorrt_llm.sampling_params").LogprobMode.PROCESSED


def _logprobs(token_ids: list[int], reported: Sequence[Any] | None) -> list[float]:
    """Return the sampled tokens' values from a list of numbers or of `{token id: Logprob}`; empty if any is missing."""
    values: list[float] = []
    for token, entry in zip(token_ids, reported or (), strict=False):
        value: Any = entry.get(token) if isinstance(entry, Mapping) else entry
        if value is not None:
            values.append(float(getattr(value, "logprob", value)))
    return values if len(values) == len(token_ids) else []


def _lora_config(adapter: str | Path | None, rank: int) -> Any:
    """Return a `LoraConfig` for adapters up to this rank.

    Raises:
        ImportError: no known module has the class.
    """
    # Room for two adapters: the next may be loaded while the last is still in use.
    options: dict[str, Any] = {"max_lora_rank": rank, "max_loras": 2, "max_cpu_loras": 2}
    if adapter is None:
        options["lora_target_modules"] = list(LORA_MODULES)
    else:
        options["lora_dir"] = [str(Path(adapter).expanduser())]
    return lora_config_class()(**options)


def lora_config_class() -> Any:
    """Return TensorRT-LLM's `LoraConfig` from the module of the installed release.

    Raises:
        ImportError: the class is in none of `LORA_CONFIG_MODULES`.
    """
    for module in LORA_CONFIG_MODULES:
        try:
            return import_module(module).LoraConfig
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"TensorRT-LLM has no LoraConfig in {', '.join(LORA_CONFIG_MODULES)}.")


def _eos_token_ids(source: str, tokenizer: Any) -> frozenset[int]:
    """Return all tokens that end the assistant's turn, from the tokenizer and the model's generation settings."""
    from transformers import GenerationConfig

    try:
        settings: Any = GenerationConfig.from_pretrained(source).eos_token_id
    except OSError:  # the model has no generation settings
        settings = None
    return eos_token_ids(tokenizer.eos_token_id, settings)


def _parameter_count(config: Any) -> int | None:
    """Return an architecture's number of weights without allocating them; None if transformers does not support it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    kinds: tuple[Any, ...] = (AutoModelForCausalLM, AutoModelForImageTextToText)
    for kind in kinds:
        try:
            with torch.device("meta"):
                return sum(parameter.numel() for parameter in kind.from_config(config).parameters())
        except ValueError:  # not an architecture of this kind
            continue
    return None


def _said(error: Exception) -> str:
    return (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
