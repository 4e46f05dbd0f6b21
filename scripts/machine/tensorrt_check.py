"""Check that TensorRT-LLM has what `agents.policies.tensorrt.policy` uses, for `selfsurf doctor`.

Importing TensorRT-LLM starts MPI and CUDA, which may end the process, so the check runs in a process of its own:

    python -m selfsurf.scripts.machine.tensorrt_check
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

SECONDS = 300
"""Seconds until the check is given up; from a cold disk, the import takes minutes."""

USED: Mapping[str, Sequence[str]] = {
    "tensorrt_llm:LLM": ("model", "tokenizer", "tensor_parallel_size", "dtype"),
    "tensorrt_llm:LLM.generate": ("inputs", "sampling_params", "use_tqdm", "lora_request"),
    "tensorrt_llm:LLM.shutdown": (),
    "tensorrt_llm.llmapi.llm_args:TorchLlmArgs": ("guided_decoding_backend", "lora_config", "max_seq_len"),
    "tensorrt_llm:SamplingParams": (
        "max_tokens", "temperature", "top_k", "top_p", "seed", "end_id", "stop_token_ids", "include_stop_str_in_output",
        "logprobs", "guided_decoding",
    ),
    "tensorrt_llm.llmapi:GuidedDecodingParams": ("json", "grammar"),
    "tensorrt_llm.executor.request:LoRARequest": ("lora_name", "lora_int_id", "lora_path"),
    "tensorrt_llm.inputs:default_multimodal_input_loader": (
        "tokenizer", "model_dir", "model_type", "modality", "prompts", "media",
    ),
}  # fmt: skip
"""Names of the parameters that the policy passes to each `module:name`."""

LORA_CONFIG = ("lora_dir", "max_lora_rank", "lora_target_modules", "max_loras", "max_cpu_loras")


@dataclass(frozen=True)
class TensorRTInstallation:
    """Properties of an installation of TensorRT-LLM."""

    version: str = ""
    device: str = ""
    """Name of the first CUDA device; empty without one."""
    missing: Sequence[str] = ()
    """Names that the policy uses and the installation lacks."""
    error: str = ""
    """Reason why the import fails; empty if it succeeds."""


def check() -> TensorRTInstallation:
    """Inspect the installation in a separate process."""
    command = [sys.executable, "-m", "selfsurf.scripts.machine.tensorrt_check"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return TensorRTInstallation(error=f"importing it took more than {SECONDS} s")
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return TensorRTInstallation(error=f"importing it ended the process with code {done.returncode}: {message}")
    return TensorRTInstallation(**json.loads(lines[-1]))


def look() -> TensorRTInstallation:
    """Inspect the installation in this process."""
    try:
        package: Any = import_module("tensorrt_llm")
    except Exception as error:  # a missing library, an old driver or a stub package may raise anything
        return TensorRTInstallation(error=(f"{type(error).__name__}: {error}".splitlines() or [""])[0])
    import torch

    from selfsurf.agents.policies.tensorrt.policy import lora_config_class

    missing = [lack for where, names in USED.items() for lack in _lacking(where, names)]
    try:
        missing += _parameters("LoraConfig", lora_config_class(), LORA_CONFIG)
    except ImportError as error:
        missing.append(str(error))
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
    return TensorRTInstallation(str(getattr(package, "__version__", "")), device, missing)


def _lacking(where: str, names: Sequence[str]) -> list[str]:
    module, _, path = where.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return [where]
    return _parameters(where, found, names)


def _parameters(where: str, found: Any, names: Sequence[str]) -> list[str]:
    there = inspect.signature(found).parameters
    return [f"{where}({name}=)" for name in names if name not in there]


if __name__ == "__main__":
    print(json.dumps(asdict(look())))
