"""Loading of a transformers model with its tokenizer and processor: device, precision, 4-bit weights."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from selfsurf import threads
from selfsurf.agents import model_files
from selfsurf.agents.policies.local.policy import WIDENED
from selfsurf.extras import how_to_install

if TYPE_CHECKING:
    import torch

Quantization: TypeAlias = Literal["nf4"]
"""Method of quantization. `nf4`: 4-bit normal floats by bitsandbytes with quantised scales, which saves memory, not
time."""

_SHORT_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode on its device, with its tokenizer and processor."""

    model: Any
    tokenizer: Any
    processor: Any | None
    """Processor of a vision-language model; None for a text model."""


def load(
    name_or_path: str | Path,
    *,
    dtype: str | torch.dtype = "auto",
    device: str | torch.device = "auto",
    quantization: Quantization | None = None,
) -> Loaded:
    """Load a text or vision-language model.

    Args:
        name_or_path: a short name known to `agents.model_files`, a folder or a hub id.
        dtype: `"auto"`, or a torch dtype or its name; also `bf16`, `fp16` and `fp32`. `"auto"` is the checkpoint's
            dtype, or float32 if it is faster (`natively`) and the model is small (`WIDENED`). Under quantization it is
            the precision of computation and of weights that are not quantised.
        device: `"auto"`, or `cpu`, `cuda`, `cuda:1`, `mps` and so on.
        quantization: `"nf4"`, or None.

    Raises:
        agents.model_files.ModelError: the model can't be found or fetched.
        ImportError: quantization without bitsandbytes.
        ValueError: an unknown dtype, device or quantization, or a vision-language model without image processor.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

    threads.share_cores()
    source = model_files.resolve(name_or_path)
    model_files.check(source)  # else transformers retries an unreachable hub for half a minute
    where, precision = choose_device(device), choose_dtype(dtype)
    with model_files.no_progress_bars(), model_files.fetching(source):
        config = AutoConfig.from_pretrained(source)
        sees = _sees_images(config)
        options: dict[str, Any] = {"dtype": precision}
        if quantization is not None:
            computed = config.dtype if precision == "auto" else precision
            options |= {"quantization_config": _four_bits(quantization, computed), "device_map": {"": where}}
        processor = load_processor(source, config) if sees else None
        kind: Any = AutoModelForImageTextToText if sees else AutoModelForCausalLM
        model: Any = kind.from_pretrained(source, **options)
        tokenizer = AutoTokenizer.from_pretrained(source) if processor is None else processor.tokenizer
    if quantization is None:
        model = model.to(where)
        if precision == "auto" and not natively(where, model.dtype) and model.num_parameters() <= WIDENED:
            model = model.float()
            model.config.dtype = model.dtype
    keep_trainable(model)
    return Loaded(model.eval(), tokenizer, processor)


def load_processor(source: str | Path, config: Any) -> Any:
    """Return the processor of a vision-language model.

    Some families' processors also read videos and need torchvision only for that; without torchvision they are loaded
    without the video part.

    Raises:
        ValueError: the model comes without an image processor.
    """
    from transformers import AutoProcessor
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    try:
        if find_spec("torchvision") is not None or type(config) not in PROCESSOR_MAPPING:
            processor = AutoProcessor.from_pretrained(source)
        else:
            processor = _without_videos(PROCESSOR_MAPPING[type(config)]).from_pretrained(source)
    except (OSError, ValueError) as error:
        raise ValueError(f"{source} is a vision-language model, but its processor can't be loaded: {error}") from error
    if getattr(processor, "image_processor", None) is None:
        raise ValueError(f"{source} is a vision-language model, but has no image processor.")
    return processor


def choose_device(device: str | torch.device) -> torch.device:
    """Return the torch device; `"auto"` selects cuda, else mps, else cpu.

    Raises:
        ValueError: this machine has no such device.
    """
    import torch

    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        where = torch.device(device)
    except RuntimeError:
        raise ValueError(f"Unknown device {device!r}: use auto, cpu, cuda, cuda:1 or mps.") from None
    if where.type == "cuda" and not (where.index or 0) < torch.cuda.device_count():
        raise ValueError(f"This machine has no {device}: torch finds {torch.cuda.device_count()} CUDA devices.")
    if where.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("This machine has no mps device; use auto or cpu.")
    return where


def choose_dtype(dtype: str | torch.dtype) -> torch.dtype | Literal["auto"]:
    """Return the torch dtype, or `"auto"`.

    Raises:
        ValueError: the dtype is unknown or not a floating-point type.
    """
    import torch

    if dtype == "auto":
        return "auto"
    found = getattr(torch, _SHORT_DTYPES.get(dtype, dtype), None) if isinstance(dtype, str) else dtype
    if found not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"Unknown dtype {dtype!r}: use auto, bf16, fp16 or fp32.")
    return found


def natively(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a device multiplies matrices in this precision about as fast as in float32.

    True for all devices except CPUs. A CPU without AVX-512 (or, on ARM, the bf16 extension) widens 16-bit numbers one
    by one: SmolLM2-135M reads a prompt five times as slowly in bfloat16 as in float32 on an AVX2 processor. Intel CPUs
    with AVX-512 but without AMX have bfloat16 arithmetic at half the speed of float32.
    """
    import torch

    if device.type != "cpu" or dtype not in (torch.bfloat16, torch.float16):
        return True
    kind = "bf16" if dtype == torch.bfloat16 else "fp16"
    asked = getattr(torch.ops.mkldnn, f"_is_mkldnn_{kind}_supported", None)
    return asked is not None and bool(asked()) and not (kind == "bf16" and _is_intel_without_amx())


def _is_intel_without_amx() -> bool:
    import torch

    if not torch.cpu._is_avx512_supported() or torch.cpu._is_amx_tile_supported():
        return False
    about = Path("/proc/cpuinfo")  # missing on a Mac, which has no AVX-512 either
    return about.exists() and "GenuineIntel" in about.read_text(encoding="utf8", errors="replace")


def keep_trainable(model: Any) -> None:
    """Keep 4-bit weights in the format that gradients can flow through. Does nothing for other models.

    On processors with AVX512-BF16, the first evaluation on the CPU would repack the weights for speed, and every later
    training step would get zero gradients below them, with no more than a warning. The format costs that speed. Weights
    already repacked are not restored, so this must be called before a model is used.
    """
    if not getattr(model, "is_loaded_in_4bit", False):
        return
    from bitsandbytes.nn import Linear4bit

    for module in model.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False


def _sees_images(config: Any) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    return config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES


def _four_bits(quantization: str, computed: torch.dtype | None) -> Any:
    import torch

    if quantization != "nf4":
        raise ValueError(f"Unknown quantization {quantization!r}: the only supported value is 'nf4'.")
    if find_spec("bitsandbytes") is None:
        raise ImportError(f"quantization='nf4' needs bitsandbytes: {how_to_install('train')}.")
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=computed or torch.bfloat16,
    )


def _without_videos(kind: Any) -> Any:
    """Return a subclass of the processor without its part for videos."""
    kept = [name for name in kind.get_attributes() if name != "video_processor"]
    return type(kind.__name__, (kind,), {"get_attributes": classmethod(lambda cls: kept)})
