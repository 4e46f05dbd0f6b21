"""Models behind a policy worker: one in its own process, or an engine with an OpenAI-compatible server."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from selfsurf.agents.policy import Completion, Conversation, Guidance, Policy, PolicyError

if TYPE_CHECKING:
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy


@dataclass(frozen=True)
class PolicyProperties:
    """Properties of a remote policy that an agent needs."""

    name: str
    guidance: Guidance
    sees_images: bool
    prompt_budget: int
    parameter_count: int | None
    context_length: int | None
    tokenizer: Any
    processor: Any = None
    """Processor of a vision-language model; None for a text model."""


_COPIED = ("guidance", "sees_images", "prompt_budget", "parameter_count", "context_length")
"""Names of the attributes that `PolicyProperties` copies from the policy."""


@dataclass(frozen=True)
class CompletionArguments:
    """Arguments of a `Policy.complete` call."""

    conversations: list[Conversation]
    options: dict[str, Any]
    """Keyword arguments with one value for all conversations."""
    rows: dict[str, list[Any]]
    """Keyword arguments with one value per conversation."""


class Model(Protocol):
    """Interface of a policy whose adapter can be replaced."""

    def about(self) -> PolicyProperties:
        """Describe the model."""

    def use(self, version: int, weights: bytes) -> None:
        """Use an adapter, given its version and its tensors as safetensors bytes."""

    def complete(self, asked: CompletionArguments) -> list[Completion]:
        """Sample replies (`Policy.complete`)."""


class ModelMaker(Protocol):
    """Picklable factory that makes a model in the process in which it is used."""

    def make(self) -> Model:
        """Make the model."""


REUSE = 256
"""Size of the prompt cache in megabytes, enough for a batch of episodes with a small model. The steps of an episode
share a prefix."""


def reuse(most: int | None) -> int:
    """Return the size in megabytes of the key/value cache for prompts with a common prefix.

    The cache is off if at most one action is sampled at a time: samples are then guaranteed to be bit-identical, and
    results from a cached prefix differ in their last bits.
    """
    return 0 if most == 1 else REUSE


@dataclass(frozen=True)
class LocalModel:
    """A transformers model with a LoRA adapter of the trainer's configuration, in the policy worker's process."""

    model: str
    """Short name, hub id or folder of the model, valid on every node."""
    lora: Any
    """`LoraConfig` of the trainer."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further options of `TransformersPolicy`, such as `dtype`."""
    reuse: int = 0
    """Size in megabytes of the key/value cache for earlier prompts (see `reuse`)."""

    def make(self) -> InProcess:
        """Load the model and add the adapter, which has no effect before its weights arrive."""
        from selfsurf.agents.policies.transformers.policy import TransformersPolicy

        return adapted(TransformersPolicy(self.model, **self.options), self.lora, self.reuse)


def adapted(base: TransformersPolicy, lora: Any, reuse: int = 0) -> InProcess:
    """Add a new adapter to a model, or use its existing one, and make it compute like a model in training.

    Args:
        base: policy of the model. The model is wrapped by PEFT in place.
        lora: `LoraConfig` of the new adapter; None if the model is wrapped already.
        reuse: as `LocalModel.reuse`.
    """
    from peft import get_peft_model

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.loss.logits import make_ready

    owner = base.tokenizer if base.processor is None else base.processor
    wrapped: Any = base.model if lora is None else get_peft_model(base.model, lora).eval()
    make_ready(wrapped)
    return InProcess(base.name, TransformersPolicy(wrapped, owner, reuse=reuse))


class InProcess:
    """A transformers model in this process, wrapped by PEFT."""

    def __init__(self, name: str, policy: TransformersPolicy) -> None:
        self._name = name
        self.policy = policy

    def about(self) -> PolicyProperties:
        """Describe the policy."""
        return about(self.policy, self._name, self.policy.tokenizer, self.policy.processor)

    def use(self, version: int, weights: bytes) -> None:
        """Load an adapter from safetensors bytes."""
        from safetensors.torch import load

        self.put(load(weights))

    def put(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Load an adapter's tensors, by PEFT's names.

        Raises:
            ValueError: the adapter belongs to another model.
        """
        from peft import set_peft_model_state_dict

        found = set_peft_model_state_dict(self.policy.model, dict(weights))
        lacking = [name for name in found.missing_keys if "lora_" in name]
        if found.unexpected_keys or lacking:
            raise ValueError(
                f"The adapter does not fit the model: {[*found.unexpected_keys, *lacking][:3]}. Check that all nodes "
                "have the same model."
            )
        self.policy.forget()

    def complete(self, asked: CompletionArguments) -> list[Completion]:
        """Sample replies with the policy."""
        rows: dict[str, Any] = asked.rows
        return self.policy.complete(asked.conversations, **rows, **asked.options)


@dataclass(frozen=True)
class Engine:
    """A vLLM server that loads adapters by name.

    The server must allow that (`VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`, `--enable-lora`), read the adapters from
    `folder`, and return sampled tokens with their log-probabilities after processing (`--logprobs-mode
    processed_logprobs`). Its key is read from `VLLM_API_KEY`.
    """

    model: str
    """Name of the model on the server."""
    base_url: str
    """Base URL of the server, up to and including `/v1`."""
    folder: str
    """Folder in which adapters are written, under the same path on the server."""
    lora: Any
    """`LoraConfig` of the trainer."""
    tokenizer: str
    """Tokenizer of the model: short name, hub id or folder."""

    def make(self) -> Model:
        """Make a client of the server."""
        return _Engine(self)


class _Engine:
    def __init__(self, engine: Engine) -> None:
        from transformers import AutoTokenizer

        from selfsurf.agents import model_files
        from selfsurf.agents.policies.openai.policy import OpenAIPolicy

        self._engine = engine
        self._tokenizer = AutoTokenizer.from_pretrained(model_files.resolve(engine.tokenizer))
        self.policy = OpenAIPolicy(
            engine.model, "vllm", base_url=engine.base_url, tokenizer=self._tokenizer, processed_logprobs=True
        )
        self._loaded: list[str] = []
        self._used: tuple[int, bytes] = (0, b"")
        """Current version and its weights."""

    def about(self) -> PolicyProperties:
        return about(self.policy, self.policy.name, self._tokenizer, None)

    def use(self, version: int, weights: bytes) -> None:
        # The server may have the same version of another run.
        name = f"selfsurf_{version}_{hashlib.sha256(weights).hexdigest()[:8]}"
        if name not in self._loaded:
            self._write(self._folder(name), weights)
            self._tell("load_lora_adapter", {"lora_name": name, "lora_path": str(self._folder(name))}, done="already")
            self._loaded.append(name)
            for old in self._loaded[:-2]:
                self._tell("unload_lora_adapter", {"lora_name": old}, done="found")
                shutil.rmtree(self._folder(old), ignore_errors=True)
            self._loaded = self._loaded[-2:]
        self.policy.adapter, self._used = name, (version, weights)

    def complete(self, asked: CompletionArguments) -> list[Completion]:
        try:
            completions = self._ask(asked)
        except PolicyError as error:
            if "answered 404" not in str(error) or self.policy.adapter not in self._loaded:
                raise
            self._loaded.remove(self.policy.adapter)  # the server restarted, or another worker unloaded the adapter
            self.use(*self._used)
            completions = self._ask(asked)
        for completion in completions:
            if not completion.token_ids or len(completion.logprobs) != len(completion.token_ids):
                raise ValueError(
                    f"The server at {self._engine.base_url} does not return the sampled tokens with their "
                    "log-probabilities, which training needs."
                )
        return completions

    def _ask(self, asked: CompletionArguments) -> list[Completion]:
        rows: dict[str, Any] = asked.rows
        return self.policy.complete(asked.conversations, **rows, **asked.options)

    def _folder(self, name: str) -> Path:
        return Path(self._engine.folder) / name

    def _write(self, folder: Path, weights: bytes) -> None:
        """Write an adapter's folder atomically: other policy workers write it, and the server reads it."""
        if folder.exists():
            return
        made = folder.with_name(f"{folder.name}.{uuid4().hex}")
        made.mkdir(parents=True)
        self._engine.lora.save_pretrained(str(made))
        (made / "adapter_model.safetensors").write_bytes(weights)
        try:
            made.rename(folder)
        except OSError:
            shutil.rmtree(made)
            if not folder.exists():  # otherwise another policy worker was faster
                raise

    def _tell(self, what: str, body: dict[str, str], *, done: str) -> None:
        """Call one of vLLM's adapter endpoints.

        Args:
            what: name of the endpoint.
            body: JSON body of the request.
            done: text in the server's refusal if another worker has already done the same.

        Raises:
            ConnectionError: the server can't be reached or fails, perhaps temporarily.
            PolicyError: the server refuses the request.
        """
        import httpx

        key = os.environ.get("VLLM_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            reply = httpx.post(f"{self._engine.base_url}/{what}", json=body, headers=headers, timeout=60)
        except httpx.TransportError as error:
            raise ConnectionError(f"{what} of {body['lora_name']}: {error}") from error
        if reply.is_server_error:
            raise ConnectionError(f"{what} of {body['lora_name']}: {reply.status_code} {reply.text[:200]}")
        if reply.is_error and (reply.status_code not in (400, 404) or done not in reply.text):
            raise PolicyError(f"{what} of {body['lora_name']}: {reply.status_code} {reply.text[:200]}")


def about(policy: Policy, name: str, tokenizer: Any, processor: Any) -> PolicyProperties:
    """Describe a policy."""
    copied: dict[str, Any] = {name: getattr(policy, name) for name in _COPIED}
    return PolicyProperties(name, tokenizer=tokenizer, processor=processor, **copied)


def merged(several: Sequence[CompletionArguments]) -> CompletionArguments:
    """Merge calls with the same options into one call."""
    rows = {name: [row for asked in several for row in asked.rows[name]] for name in several[0].rows}
    return CompletionArguments([one for asked in several for one in asked.conversations], several[0].options, rows)
