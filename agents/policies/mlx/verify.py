"""Verification that an adapter computes the same in MLX as in PEFT: both are run, and their logits are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents import model_files
from selfsurf.agents.adapters.base import local_folder
from selfsurf.agents.adapters.identity import AdapterError, check_base
from selfsurf.agents.adapters.mlx import load_mlx_adapter
from selfsurf.agents.policies.local.prompts import Prompt as DecoderPrompt
from selfsurf.agents.policies.mlx import loading
from selfsurf.agents.policies.mlx.decoding import TextDecoder, VisionDecoder

TOLERANCE = 1e-3
"""Maximum difference between logits, with both models in float32. Kernels differ; a 135M model showed 1e-4."""
Prompt: TypeAlias = tuple[str, NDArray[np.uint8] | None]
"""Prompt for a verification: text with image placeholders, and for a vision model an image (height, width, 3)."""
TEXTS = ("Press the button labelled Submit.", "The capital of France is Paris; that of Italy is")
"""Default texts for a verification."""
_Inputs: TypeAlias = dict[str, NDArray[Any]]
_Logits: TypeAlias = list[NDArray[np.float32]]


@dataclass(frozen=True)
class Verification:
    """Result of a verification. Differences are maxima over all logits at all positions of the prompts."""

    modules: int
    """Number of linear layers that the adapter changes."""
    moved: float
    """Difference between logits with and without the adapter, in PEFT."""
    difference: float
    """Difference between MLX and PEFT, with the adapter."""
    base_difference: float
    """Difference between MLX and torch, without the adapter."""
    tolerance: float


def verify_mlx(
    peft: str | Path, mlx: str | Path, base: str | Path, prompts: Sequence[Prompt], *, tolerance: float = TOLERANCE
) -> Verification:
    """Run an adapter in PEFT and its conversion in MLX on the same prompts, in float32, and compare the logits.

    Args:
        peft: folder of the adapter in PEFT's format.
        mlx: folder of the same adapter in MLX's format.
        base: the base model: short name, folder, or the hub id of a cached model.
        prompts: the prompts to compute logits for.
        tolerance: the maximum difference allowed.

    Raises:
        WrongBase: an adapter belongs to another base model.
        AdapterError: a key was not used, the logits did not move, or they differ by more than `tolerance`.
    """
    folder = local_folder(base)
    if folder is None:
        raise model_files.ModelError(f"The base model {base} is not on this machine: give its folder.")
    check_base(peft, folder)
    check_base(mlx, folder)
    vision = loading.is_vision(folder)
    load = loading.load_vision if vision else loading.load_text
    model, reader = load(folder, dtype="float32")
    decoder = VisionDecoder(model) if vision else TextDecoder(model)
    inputs = [_inputs(reader, prompt, vision=vision) for prompt in prompts]
    plain = [decoder.logits(_prompt(item)) for item in inputs]
    modules = load_mlx_adapter(model, mlx, vision=vision)
    adapted = [decoder.logits(_prompt(item)) for item in inputs]
    reference, reference_adapted = _torch_logits(folder, Path(peft).expanduser(), inputs, vision=vision)
    found = Verification(
        modules=modules,
        moved=_largest(reference_adapted, reference),
        difference=_largest(adapted, reference_adapted),
        base_difference=_largest(plain, reference),
        tolerance=tolerance,
    )
    if found.base_difference > tolerance:
        raise AdapterError(f"MLX and torch differ by {found.base_difference:.2g} without any adapter: {found}")
    if found.moved <= 10 * tolerance:
        raise AdapterError(
            f"The adapter changes no logit by more than {found.moved:.2g}, so the comparison proves nothing: {found}"
        )
    if found.difference > tolerance:
        raise AdapterError(f"In MLX the adapter's logits differ from PEFT's by {found.difference:.2g}: {found}")
    return found


def _inputs(reader: Any, prompt: Prompt, *, vision: bool) -> _Inputs:
    """Return the model's inputs for a prompt, from MLX's own tokenizer or processor."""
    text, image = prompt
    if not vision:
        if image is not None:
            raise ValueError("The base model reads text only, but a prompt has an image.")
        return {"input_ids": np.array([reader.encode(text)])}
    if image is None:
        return {"input_ids": np.array([reader.tokenizer.encode(text, add_special_tokens=False)])}
    from PIL import Image

    made = reader(images=[Image.fromarray(image)], text=[text], add_special_tokens=False)
    return {key: np.array(value) for key, value in made.items() if key != "attention_mask"}


def _prompt(inputs: _Inputs) -> DecoderPrompt:
    """Return the inputs as a prompt for MLX's decoders."""
    core = import_module("mlx.core")
    extras = {key: core.array(value) for key, value in inputs.items() if key != "input_ids"}
    return DecoderPrompt(inputs["input_ids"][0].tolist(), extras)


def _torch_logits(folder: Path, adapter: Path, inputs: Sequence[_Inputs], *, vision: bool) -> tuple[_Logits, _Logits]:
    """Return the logits without and with the adapter."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    kind = AutoModelForImageTextToText if vision else AutoModelForCausalLM
    with model_files.no_progress_bars():
        model: Any = PeftModel.from_pretrained(kind.from_pretrained(folder, dtype=torch.float32), str(adapter)).eval()

    def logits(item: _Inputs) -> NDArray[np.float32]:
        given = {key: torch.from_numpy(value) for key, value in item.items()}
        given["input_ids"] = given["input_ids"].long()
        if "image_grid_thw" in given:  # torch's processor marks image tokens, MLX's does not
            given["mm_token_type_ids"] = (given["input_ids"] == model.config.image_token_id).long()
        found: NDArray[np.float32] = model(**given).logits[0].float().numpy()
        return found

    with torch.no_grad():
        adapted = [logits(item) for item in inputs]
        with model.disable_adapter():
            return [logits(item) for item in inputs], adapted


def _largest(ours: _Logits, theirs: _Logits) -> float:
    return max(float(np.abs(one - other).max()) for one, other in zip(ours, theirs, strict=True))
