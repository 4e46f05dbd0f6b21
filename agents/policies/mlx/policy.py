"""Local models in MLX: mlx-lm for text, mlx-vlm for vision and language; on a Mac, and slowly on Linux.

Like `agents.policies.transformers.policy`, the policy has its own sampling loop with grammars, and records the sampled
tokens.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from selfsurf.agents import model_files
from selfsurf.agents.adapters.convert import peft_to_mlx
from selfsurf.agents.adapters.identity import PEFT_WEIGHTS, AdapterError, check_base, check_folder, read_config
from selfsurf.agents.adapters.mlx import MLX_WEIGHTS, load_mlx_adapter
from selfsurf.agents.options import Natural
from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.agents.policies.local.prefixes import PrefixCache
from selfsurf.agents.policies.local.prompts import Prompt, Prompts, eos_token_ids
from selfsurf.agents.policies.local.reply import BrokenModel, Reply
from selfsurf.agents.policies.mlx.decoding import Logits, TextDecoder, VisionDecoder
from selfsurf.agents.policies.mlx.loading import Dtype, is_vision, load_text, load_vision, model_config
from selfsurf.agents.policy import PolicyError


class _Prompts(Prompts):
    """Prompts for mlx-vlm's processors, which take the images of a prompt as a flat list."""

    def _inputs(self, text: str, images: list[Any]) -> dict[str, Any]:
        return dict(self.processor(images=images, text=[text], add_special_tokens=False))


@dataclass(eq=False)
class _Row(Reply):
    """State of one reply during sampling, with its random stream."""

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed % 2**63)

    def sample(self, logits: Logits, temperature: float, eos_token_ids: frozenset[int]) -> None:
        """Sample a token, and append it with its log-probability."""
        if not np.isfinite(logits).any() or np.isnan(logits).any():
            raise BrokenModel
        candidates = self.candidates(logits.size)
        scores = (logits if candidates is None else logits[candidates]).astype(np.float64)
        scores = scores / temperature if temperature > 0 else scores
        scores -= scores.max()
        logprobs = scores - np.log(np.exp(scores).sum())
        if temperature > 0:
            below = np.exp(logprobs).cumsum()
            choice = int(np.searchsorted(below, self._random.random() * below[-1], side="right"))
        else:
            choice = int(logprobs.argmax())
        token_id = choice if candidates is None else int(candidates[choice])
        self.add(token_id, float(logprobs[choice]), eos_token_ids)


class MLXPolicy(LocalPolicy):
    """A policy that runs a model in MLX, in this process.

    Text models process a call's conversations as one batch, and reuse the prefix shared with an earlier prompt.
    Vision-language models process conversations one after another.

    Args:
        model: a short name known to `agents.model_files`, a folder (Hugging Face's or converted for MLX, quantised or
            not), or a hub id. A model with a `vision_config` is loaded by mlx-vlm and sees images.
        adapter: folder of a LoRA adapter in MLX's format, or in PEFT's, which is converted.
        dtype: precision of the weights; `"auto"` keeps the checkpoint's on a Mac's GPU, and elsewhere uses float32,
            which is several times faster there, for models of up to a billion weights.
        seed: seed of the policy's own random stream, used by calls without a seed.
        reuse: megabytes for keys and values of earlier prompts, reused by later prompts with the same prefix. Reuse
            changes results by rounding, so that samples may depend on earlier calls; 0 for no reuse.

    Raises:
        agents.model_files.ModelError: the model can't be found, fetched or loaded, or the adapter does not fit it.
        FileNotFoundError: the adapter folder does not exist or contains no adapter.
        ValueError: the tokenizer has no chat template.
    """

    reply_type = _Row

    def __init__(
        self,
        model: str | Path = "smollm2",
        adapter: str | Path | None = None,
        dtype: Dtype | Literal["auto"] = "auto",
        seed: Natural = 0,
        reuse: Natural = 1024,
    ) -> None:
        check_folder(adapter)
        folder = folder_of(model)
        sees = is_vision(folder)
        precision: Dtype | None = None if dtype == "auto" else dtype
        processor = None
        self._decoder: TextDecoder | VisionDecoder
        if sees:
            self._model, processor = load_vision(folder, dtype=precision)
            tokenizer = processor.tokenizer
            self._decoder = VisionDecoder(self._model)
        else:
            self._model, tokenizer = load_text(folder, dtype=precision)
            self._decoder = TextDecoder(self._model, PrefixCache(reuse * 2**20) if reuse > 0 else None)
        self._config = model_config(folder)
        endings = _eos_token_ids(folder, self._config, tokenizer)
        super().__init__(_Prompts(str(model), tokenizer, processor), endings, seed)
        self.parameter_count: int | None = int(import_module("mlx_lm.utils").get_total_parameters(self._model))
        self._folder = folder
        self._plain: dict[str, Any] = dict(self._model.named_modules())
        if adapter is not None:
            self.set_adapter(adapter)

    @property
    def source(self) -> Path:
        """Folder of the model."""
        return self._folder

    @property
    def model(self) -> Any:
        """The mlx-lm or mlx-vlm model itself."""
        return self._model

    @property
    def context_length(self) -> int | None:
        """Maximum number of tokens of prompt and reply together; None if unknown."""
        text = self._config.get("text_config") or {}
        length = text.get("max_position_embeddings") or self._config.get("max_position_embeddings")
        return int(length) if length else None

    def forget(self) -> None:
        """Drop the keys and values of earlier prompts, as required after a change of weights."""
        self._decoder.forget()

    def set_adapter(self, path: str | Path | None) -> None:
        """Switch to another LoRA adapter; the base model is active for None, and after an adapter is refused.

        Raises:
            agents.adapters.identity.AdapterError: the adapter belongs to another base model, or does not fit.
            FileNotFoundError: the folder does not exist or contains no adapter.
        """
        self.forget()
        self._remove_adapter()
        self.adapter = None
        if path is None:
            return
        folder = Path(path).expanduser()
        if read_config(folder).get("fine_tune_type") == "full":
            raise AdapterError(f"{folder} replaces the model's own weights: load it as a model, not as an adapter.")
        if (folder / MLX_WEIGHTS).is_file():
            check_base(folder, self._folder)
            self._put(folder)
        elif (folder / PEFT_WEIGHTS).is_file():
            with tempfile.TemporaryDirectory(prefix="selfsurf-mlx-") as temporary:
                self._put(peft_to_mlx(folder, temporary, base=self._folder))
        else:
            raise FileNotFoundError(f"There are no adapter weights at {folder} ({MLX_WEIGHTS} or {PEFT_WEIGHTS}).")
        self.adapter = folder

    def _put(self, adapter: Path) -> None:
        try:
            load_mlx_adapter(self._model, adapter, vision=self.sees_images)
        except Exception:
            self._remove_adapter()
            raise

    def _remove_adapter(self) -> None:
        from mlx.utils import tree_unflatten

        now = dict(self._model.named_modules())
        replaced = [(name, module) for name, module in self._plain.items() if now.get(name) is not module]
        if replaced:
            self._model.update_modules(tree_unflatten(replaced))

    def _sample(self, replies: list[Any], temperature: float, max_new_tokens: int) -> None:
        try:
            for batch in [[row] for row in replies] if self.sees_images else [replies]:
                self._generate(batch, temperature, max_new_tokens)
        except RuntimeError as error:
            self._decoder.forget()
            raise PolicyError(f"MLX could not run {self.name}: {error}") from error

    def _generate(self, rows: list[_Row], temperature: float, max_new_tokens: int) -> None:
        logits, cached = self._decoder.start([Prompt(row.prompt, row.extras) for row in rows])
        for row, known in zip(rows, cached, strict=True):
            row.reused = known
        active = rows
        while True:
            for row, scores in zip(active, logits, strict=True):
                row.sample(scores, temperature, self.eos_token_ids)
            unfinished = [index for index, row in enumerate(active) if not row.finished(max_new_tokens)]
            if not unfinished:
                return
            if active is rows or len(unfinished) < len(active):
                self._decoder.choose(unfinished)
                active = [active[index] for index in unfinished]
            logits = self._decoder.step([row.token_ids[-1] for row in active])


def folder_of(model: str | Path) -> Path:
    """Return the model's folder, downloading it from the hub if necessary."""
    source = model_files.resolve(model)
    if isinstance(source, Path):
        return source
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.txt", "*.jinja", "*.model"]
    with model_files.fetching(source):
        return Path(snapshot_download(source, allow_patterns=patterns))


def _eos_token_ids(folder: Path, config: dict[str, Any], tokenizer: Any) -> frozenset[int]:
    """Return all tokens that end the assistant's turn, from the tokenizer and the model's settings."""
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text("utf8")) if file.is_file() else config
    return eos_token_ids(tokenizer.eos_token_id, settings.get("eos_token_id"))
