"""An adapter that was converted computes in MLX what it computes in PEFT, and whatever is wrong with it is noticed."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from selfsurf.agents.adapters.convert import peft_to_mlx
from selfsurf.agents.adapters.identity import AdapterError, WrongBase, identity, write_about
from selfsurf.agents.adapters.mlx import MLX_WEIGHTS, load_mlx_adapter
from selfsurf.agents.policies.mlx import loading
from selfsurf.agents.policies.mlx.verify import Prompt, verify_mlx
from tests.few import few
from tests.models.adapters import save_random_adapter
from tests.models.parity import VISION_PROMPTS, save_idefics3, save_llama, save_qwen2_5_vl

pytestmark = pytest.mark.skipif(find_spec("mlx_vlm") is None or find_spec("mlx_lm") is None, reason="needs MLX")

TEXT: list[Prompt] = [("The quick brown fox jumps over the lazy dog.", None), ("Press the button, please: 1 2 3", None)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of the test's models are kept with the test."""
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def text(saved: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The base, its adapter, and that in MLX's format."""
    root = tmp_path_factory.mktemp("text")
    base = saved(save_llama)
    adapter = save_random_adapter(base, root / "peft")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELFSURF_HOME", str(root / "home"))
        write_about(adapter, identity("tiny", base))
    return base, adapter, peft_to_mlx(adapter, root / "mlx", base=base)


@pytest.fixture(scope="module")
def vision(saved: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The same of a vision model; the adapter changes its text model and its vision tower."""
    root = tmp_path_factory.mktemp("vision")
    base = saved(save_idefics3)
    adapter = save_random_adapter(base, root / "peft", vision=True)
    return base, adapter, peft_to_mlx(adapter, root / "mlx", base=base)


def image() -> Any:
    return np.random.default_rng(0).integers(0, 256, (56, 56, 3), dtype=np.uint8)


@pytest.fixture
def damaged(tmp_path: Path) -> Any:
    """Makes a copy of a converted adapter with other weights or settings."""

    def copy(mlx: Path, change: Any) -> Path:
        folder = Path(shutil.copytree(mlx, tmp_path / "damaged"))
        config = json.loads((folder / "adapter_config.json").read_text())
        weights = load_file(folder / MLX_WEIGHTS)
        change(config, weights)
        (folder / "adapter_config.json").write_text(json.dumps(config))
        save_file(weights, folder / MLX_WEIGHTS)
        return folder

    return copy


def scale_doubled(config: dict[str, Any], weights: dict[str, Any]) -> None:
    config["lora_parameters"]["scale"] *= 2


def one_matrix_zero(config: dict[str, Any], weights: dict[str, Any]) -> None:
    next(value for key, value in weights.items() if key.endswith("lora_b"))[:] = 0.0


def one_key_wrong(config: dict[str, Any], weights: dict[str, Any]) -> None:
    key = next(iter(weights))
    weights[f"x.{key}"] = weights.pop(key)


def one_key_missing(config: dict[str, Any], weights: dict[str, Any]) -> None:
    weights.pop(next(iter(weights)))


def one_module_unknown(config: dict[str, Any], weights: dict[str, Any]) -> None:
    config["lora_parameters"]["keys"].append("model.layers.99.x")
    weights["model.layers.99.x.lora_a"] = np.zeros((2, 4), np.float32)


def test_a_text_model_gives_pefts_logits(text: tuple[Path, Path, Path]) -> None:
    base, adapter, mlx = text
    found = verify_mlx(adapter, mlx, base, TEXT, tolerance=1e-4)
    assert found.modules == 14
    assert found.moved > 1.0
    assert found.difference < 1e-4


@pytest.mark.parametrize("save", [save_idefics3, pytest.param(save_qwen2_5_vl, marks=pytest.mark.slow)])
def test_a_vision_model_gives_pefts_logits(save: Any, saved: Any, tmp_path: Path) -> None:
    base = saved(save)
    adapter = save_random_adapter(base, tmp_path / "peft", vision=True)
    mlx = peft_to_mlx(adapter, tmp_path / "mlx", base=base)
    found = verify_mlx(adapter, mlx, base, [(VISION_PROMPTS[save], image()), TEXT[0]], tolerance=1e-4)
    assert found.modules > 14  # the vision tower's too
    assert found.moved > 1.0


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    few(
        3,
        [
            ("text", scale_doubled, r"logits differ from PEFT's"),
            ("text", one_matrix_zero, r"logits differ from PEFT's"),
            ("text", one_key_wrong, r"incompatible tensors"),
            ("text", one_key_missing, r"lora_. is missing"),
            ("vision", scale_doubled, r"logits differ from PEFT's"),
            ("vision", one_key_wrong, r"lora_. is not used"),
            ("vision", one_module_unknown, r"does not fit the model"),
        ],
    ),
)
def test_what_is_wrong_is_noticed(
    kind: str, change: Any, reason: str, damaged: Any, request: pytest.FixtureRequest
) -> None:
    base, adapter, mlx = request.getfixturevalue(kind)
    with pytest.raises(AdapterError, match=reason):
        verify_mlx(adapter, damaged(mlx, change), base, TEXT[:1], tolerance=1e-4)


def test_mlx_vlm_alone_would_load_nothing_and_not_say_so(vision: tuple[Path, Path, Path], damaged: Any) -> None:
    from mlx_vlm.trainer.peft.utils import apply_lora_layers

    def all_keys_wrong(config: dict[str, Any], weights: dict[str, Any]) -> None:
        for key in list(weights):
            weights[f"x.{key}"] = weights.pop(key)

    base, _, mlx = vision
    folder = damaged(mlx, all_keys_wrong)
    apply_lora_layers(loading.load_vision(base)[0], folder)
    with pytest.raises(AdapterError, match="is not used"):
        load_mlx_adapter(loading.load_vision(base)[0], folder, vision=True)


def test_nothing_is_proved_by_an_adapter_without_effect_or_on_another_base(
    text: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base, adapter, mlx = text
    fresh = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(target_modules=["q_proj"], r=2))
    fresh.save_pretrained(str(tmp_path / "fresh"))
    converted = peft_to_mlx(tmp_path / "fresh", tmp_path / "mlx", base=base)
    with pytest.raises(AdapterError, match="proves nothing"):
        verify_mlx(tmp_path / "fresh", converted, base, TEXT[:1])
    model = AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        model.lm_head.weight[0, 0] += 1.0
    model.save_pretrained(tmp_path / "other")
    with pytest.raises(WrongBase):
        verify_mlx(adapter, mlx, tmp_path / "other", TEXT[:1])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_adapter_of_smollm2_gives_pefts_logits(model_folder: Path, tmp_path: Path) -> None:
    adapter = save_random_adapter(model_folder, tmp_path / "peft", r=16, lora_alpha=2)
    mlx = peft_to_mlx(adapter, tmp_path / "mlx", base=model_folder)
    found = verify_mlx(adapter, mlx, model_folder, TEXT[:1])
    print(found)
    assert found.modules == 210
