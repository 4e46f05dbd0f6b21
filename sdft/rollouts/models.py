"""What a policy worker speaks for: a model in its own process, or an engine behind an OpenAI-compatible server."""

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
class About:
    """What an agent needs to know of a policy that is elsewhere."""

    name: str
    guidance: Guidance
    sees_images: bool
    prompt_budget: int
    parameter_count: int | None
    context_length: int | None
    tokenizer: Any
    processor: Any = None
    """Of a vision-language model."""


_COPIED = ("guidance", "sees_images", "prompt_budget", "parameter_count", "context_length")
"""What `About` has of the policy's own."""


@dataclass(frozen=True)
class Asked:
    """A call of `Policy.complete`."""

    conversations: list[Conversation]
    options: dict[str, Any]
    """Its keyword arguments with one value for all conversations."""
    rows: dict[str, list[Any]]
    """Those with one for each."""


class Model(Protocol):
    """A policy whose adapter can be changed."""

    def about(self) -> About:
        """Describe it."""

    def use(self, version: int, weights: bytes) -> None:
        """Put an adapter in force: the tensors as safetensors."""

    def complete(self, asked: Asked) -> list[Completion]:
        """As `Policy.complete`."""


class ModelMaker(Protocol):
    """Makes a model, in the process in which it is to live. It travels there."""

    def make(self) -> Model:
        """Make it."""


REUSE = 256
"""Megabytes: the prompts of a batch of episodes with a small model. The steps of an episode begin alike."""


def reuse(most: int | None) -> int:
    """How many megabytes of keys and values of prompts are kept for those that begin alike.

    None where at most one action is sampled at a time: there samples are promised to be the same to the last bit, and
    what is computed from a known beginning is off by last bits from what is computed at once.
    """
    return 0 if most == 1 else REUSE


@dataclass(frozen=True)
class LocalModel:
    """A model of transformers with a LoRA adapter of the trainer's making, in the policy worker's process."""

    model: str
    """Short name, hub id or folder, known on every node."""
    lora: Any
    """The `LoraConfig` of the trainer."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further options of `TransformersPolicy`, such as `dtype`."""
    reuse: int = 0
    """Megabytes of keys and values of earlier prompts that are kept (see `reuse`)."""

    def make(self) -> InProcess:
        """Load the model and give it the adapter, which is nothing until its weights come."""
        from selfsurf.agents.policies.transformers.policy import TransformersPolicy

        return adapted(TransformersPolicy(self.model, **self.options), self.lora, self.reuse)


def adapted(base: TransformersPolicy, lora: Any, reuse: int = 0) -> InProcess:
    """Give a model a new adapter, or take the one that it has, and make it compute as one that is trained.

    Args:
        base: the model. It is wrapped by PEFT in place.
        lora: the `LoraConfig`; None: the model is wrapped already.
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
    """A model of transformers in this process, wrapped by PEFT."""

    def __init__(self, name: str, policy: TransformersPolicy) -> None:
        self._name = name
        self.policy = policy

    def about(self) -> About:
        """As `Model.about`."""
        return about(self.policy, self._name, self.policy.tokenizer, self.policy.processor)

    def use(self, version: int, weights: bytes) -> None:
        """As `Model.use`."""
        from safetensors.torch import load

        self.put(load(weights))

    def put(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Put an adapter in force, by PEFT's names.

        Raises:
            ValueError: the adapter is another model's.
        """
        from peft import set_peft_model_state_dict

        found = set_peft_model_state_dict(self.policy.model, dict(weights))
        lacking = [name for name in found.missing_keys if "lora_" in name]
        if found.unexpected_keys or lacking:
            raise ValueError(
                f"The adapter does not fit the model: {[*found.unexpected_keys, *lacking][:3]}; do all nodes have the "
                "same model?"
            )
        self.policy.forget()

    def complete(self, asked: Asked) -> list[Completion]:
        """As `Model.complete`."""
        rows: dict[str, Any] = asked.rows
        return self.policy.complete(asked.conversations, **rows, **asked.options)


@dataclass(frozen=True)
class Engine:
    """A vLLM server, in which adapters are loaded by name.

    The server must allow that (`VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`, `--enable-lora`), read the adapters from
    `folder`, and tell tokens with their log-probabilities as they were drawn (`--logprobs-mode processed_logprobs`).
    A key is taken from `VLLM_API_KEY`.
    """

    model: str
    """The model's name at the server."""
    base_url: str
    """Of the server, up to and including `/v1`."""
    folder: str
    """Where adapters are written; the server sees it under the same path."""
    lora: Any
    """The `LoraConfig` of the trainer."""
    tokenizer: str
    """Of the model: short name, hub id or folder."""

    def make(self) -> Model:
        """Make a client."""
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
        """The version in force, and its weights."""

    def about(self) -> About:
        return about(self.policy, self.policy.name, self._tokenizer, None)

    def use(self, version: int, weights: bytes) -> None:
        # The server may hold the same version of another run.
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

    def complete(self, asked: Asked) -> list[Completion]:
        try:
            completions = self._ask(asked)
        except PolicyError as error:
            if "answered 404" not in str(error) or self.policy.adapter not in self._loaded:
                raise
            self._loaded.remove(self.policy.adapter)  # the server was started again, or another worker unloaded it
            self.use(*self._used)
            completions = self._ask(asked)
        for completion in completions:
            if not completion.token_ids or len(completion.logprobs) != len(completion.token_ids):
                raise ValueError(
                    f"The server at {self._engine.base_url} does not tell the tokens that it sampled with their "
                    "log-probabilities, which training needs."
                )
        return completions

    def _ask(self, asked: Asked) -> list[Completion]:
        rows: dict[str, Any] = asked.rows
        return self.policy.complete(asked.conversations, **rows, **asked.options)

    def _folder(self, name: str) -> Path:
        return Path(self._engine.folder) / name

    def _write(self, folder: Path, weights: bytes) -> None:
        """Write an adapter. Its folder is whole or not there: other policy workers write it and the server reads it."""
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
            if not folder.exists():  # else another policy worker was sooner
                raise

    def _tell(self, what: str, body: dict[str, str], *, done: str) -> None:
        """Call one of vLLM's own endpoints for adapters.

        Args:
            what: which one.
            body: what it is told.
            done: in its refusal of what another worker has done.

        Raises:
            ConnectionError: the server can't be reached or fails; that may pass.
            PolicyError: it refuses.
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


def about(policy: Policy, name: str, tokenizer: Any, processor: Any) -> About:
    """Describe a policy."""
    copied: dict[str, Any] = {name: getattr(policy, name) for name in _COPIED}
    return About(name, tokenizer=tokenizer, processor=processor, **copied)


def merged(several: Sequence[Asked]) -> Asked:
    """Put calls with the same options into one."""
    rows = {name: [row for asked in several for row in asked.rows[name]] for name in several[0].rows}
    return Asked([one for asked in several for one in asked.conversations], several[0].options, rows)
