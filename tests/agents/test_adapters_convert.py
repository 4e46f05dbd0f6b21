"""Adapters between PEFT's and MLX's formats, by files: exact both ways, or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from selfsurf.agents.adapters.convert import mlx_to_peft, peft_to_mlx
from selfsurf.agents.adapters.identity import AdapterError, WrongBase, identity, read_about, write_about
from selfsurf.agents.adapters.mlx import MLX_WEIGHTS
from selfsurf.agents.adapters.prompt import AdapterPrompt, read_prompt
from selfsurf.agents.adapters.servable import check_servable
from tests.models.adapters import ALL_LINEAR, save_random_adapter
from tests.models.parity import save_idefics3, save_llama, save_qwen2_5_vl

PEFT_WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of the test's models are kept with the test."""
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def tiny(saved: Any) -> Path:
    folder: Path = saved(save_llama)
    return folder


@pytest.fixture
def adapter(tiny: Path, tmp_path: Path) -> Path:
    return save_random_adapter(tiny, tmp_path / "adapter")


def change_config(folder: Path, **values: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def config_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "adapter_config.json").read_text()))


@pytest.mark.parametrize(
    "lora",
    [
        {},
        {"dtype": "bfloat16"},
        {"use_rslora": True, "r": 5},
        {"target_modules": ["q_proj", "down_proj"], "layers_to_transform": [0]},
        {"rank_pattern": {"q_proj": 4}, "alpha_pattern": {".*down_proj": 6}},
    ],
    ids=["plain", "bfloat16", "rslora", "one-layer", "patterns-that-agree"],
)
def test_there_and_back_not_a_bit_is_changed(lora: dict[str, Any], tiny: Path, tmp_path: Path) -> None:
    adapter = save_random_adapter(tiny, tmp_path / "adapter", **lora)
    write_about(adapter, {**identity("tiny", tiny), "prompt": {"actions": ["press"]}, "settings": {"a": 1}})
    there = peft_to_mlx(adapter, tmp_path / "mlx", base=tiny)
    back = mlx_to_peft(there, tmp_path / "back", base=tiny)
    assert (back / PEFT_WEIGHTS).read_bytes() == (adapter / PEFT_WEIGHTS).read_bytes()
    assert config_of(back) == config_of(adapter)
    assert read_about(back) == read_about(there) == read_about(adapter)
    assert read_prompt(there) == read_prompt(adapter) == AdapterPrompt(actions=("press",))


def test_mlx_gets_the_transposed_matrices_and_the_scale(tiny: Path, adapter: Path, tmp_path: Path) -> None:
    mlx = peft_to_mlx(adapter, tmp_path / "mlx", base=tiny)
    before, after = load_file(adapter / PEFT_WEIGHTS), load_file(mlx / MLX_WEIGHTS)
    assert len(before) == len(after) == 2 * 2 * len(ALL_LINEAR)
    for side in "AB":
        matrix = before[f"base_model.model.model.layers.1.mlp.up_proj.lora_{side}.weight"]
        assert torch.equal(after[f"model.layers.1.mlp.up_proj.lora_{side.lower()}"], matrix.T)
    config = config_of(mlx)
    assert config["fine_tune_type"] == "lora"
    assert config["num_layers"] == 2
    assert {key: config["lora_parameters"][key] for key in ("rank", "scale", "dropout")} == {
        "rank": 4, "scale": 1.5, "dropout": 0.1,
    }  # fmt: skip
    assert sorted(config["lora_parameters"]["keys"]) == sorted({key.rsplit(".", 1)[0] for key in after})
    stabilised = save_random_adapter(tiny, tmp_path / "stabilised", use_rslora=True)
    scaled = config_of(peft_to_mlx(stabilised, tmp_path / "scaled", base=tiny))
    assert scaled["lora_parameters"]["scale"] == 3.0  # alpha 6 by the root of rank 4


@pytest.mark.parametrize(
    ("save", "expected"),
    [
        (save_idefics3, {"language_model.layers.1.mlp.up_proj", "vision_model.encoder.layers.0.self_attn.q_proj"}),
        (save_qwen2_5_vl, {"language_model.model.layers.1.mlp.up_proj", "vision_tower.blocks.0.mlp.up_proj"}),
    ],
)
def test_the_names_of_a_vision_model_there_and_back(save: Any, expected: set[str], saved: Any, tmp_path: Path) -> None:
    base = saved(save)
    adapter = save_random_adapter(base, tmp_path / "adapter", vision=True)
    mlx = peft_to_mlx(adapter, tmp_path / "mlx", base=base)
    assert expected <= set(config_of(mlx)["lora_parameters"]["keys"])
    back = mlx_to_peft(mlx, tmp_path / "back", base=base)
    assert (back / PEFT_WEIGHTS).read_bytes() == (adapter / PEFT_WEIGHTS).read_bytes()


@pytest.mark.parametrize(
    ("layers", "expected"),
    [((0, 1), ["q_proj", "v_proj"]), ((1,), ["model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"])],
)
def test_an_adapter_that_mlx_trained_is_put_into_words_for_peft(
    layers: tuple[int, ...], expected: list[str], tiny: Path, tmp_path: Path
) -> None:
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer
    from transformers import AutoModelForCausalLM

    folder = tmp_path / "mlx"
    folder.mkdir()
    made = {
        f"model.layers.{layer}.self_attn.{name}.lora_{side}": torch.randn(*shape)
        for layer in layers
        for name, width in (("q_proj", 64), ("v_proj", 32))
        for side, shape in (("a", (64, 3)), ("b", (3, width)))
    }
    save_file(made, folder / MLX_WEIGHTS)
    parameters = {"rank": 3, "scale": 20.0, "dropout": 0.0, "keys": ["self_attn.q_proj", "self_attn.v_proj"]}
    config = {"fine_tune_type": "lora", "num_layers": len(layers), "lora_parameters": parameters}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    peft = mlx_to_peft(folder, tmp_path / "peft", base=tiny)
    assert config_of(peft)["target_modules"] == expected
    assert config_of(peft)["lora_alpha"] == 60
    assert read_about(peft)["base_model_sha256"] == identity("tiny", tiny)["base_model_sha256"]
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny), str(peft))
    inside = {name: value for name, value in model.named_parameters() if "lora_" in name}
    assert len(inside) == len(made)
    for name, value in inside.items():
        short = name.removeprefix("base_model.model.").replace(".default.weight", "").replace("lora_A", "lora_a")
        assert torch.equal(value, made[short.replace("lora_B", "lora_b")].T)
    layers_changed = [module for module in model.modules() if isinstance(module, LoraLayer)]
    assert [module.scaling for module in layers_changed] == [{"default": 20.0}] * (len(made) // 2)


def test_a_scale_that_is_off_by_a_last_bit_is_the_same(tiny: Path, tmp_path: Path) -> None:
    folder = peft_to_mlx(save_random_adapter(tiny, tmp_path / "adapter", r=6), tmp_path / "mlx", base=tiny)
    parameters = {**config_of(folder)["lora_parameters"], "scale": 0.1}
    foreign = {"fine_tune_type": "lora", "num_layers": 2, "lora_parameters": parameters}
    (folder / "adapter_config.json").write_text(json.dumps(foreign))
    peft = mlx_to_peft(folder, tmp_path / "peft", base=tiny)
    assert config_of(peft)["lora_alpha"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"use_dora": True}, "use_dora=True"),
        ({"bias": "all"}, "bias='all'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"peft_type": "LOHA"}, "peft_type='LOHA'"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights='pissa'"),
        ({"a_setting_of_the_future": 1}, "a_setting_of_the_future=1"),
        ({"alpha_pattern": {"q_proj": 99}}, "different ranks or scales"),
        ({"r": 8}, "has rank 4, but the configuration says 8"),
    ],
)
def test_what_mlx_can_not_express_is_refused(
    change: dict[str, Any], reason: str, tiny: Path, adapter: Path, tmp_path: Path
) -> None:
    change_config(adapter, **change)
    with pytest.raises(AdapterError, match=reason):
        peft_to_mlx(adapter, tmp_path / "mlx", base=tiny)
    assert not (tmp_path / "mlx").exists()


@pytest.mark.parametrize(
    ("renamed", "reason"),
    [
        ("base_model.model.model.layers.1.mlp.up_proj.lora_A.default.weight", "is not a LoRA matrix"),
        ("base_model.model.model.layers.7.mlp.up_proj.lora_A.weight", "only lora_"),
        ("base_model.model.model.layers.1.mlp.up_proj.magnitude", "is not a LoRA matrix"),
        (None, "only lora_b"),
    ],
)
def test_a_key_that_is_not_used_or_is_missing_is_refused(
    renamed: str | None, reason: str, tiny: Path, adapter: Path, tmp_path: Path
) -> None:
    weights = load_file(adapter / PEFT_WEIGHTS)
    value = weights.pop("base_model.model.model.layers.1.mlp.up_proj.lora_A.weight")
    if renamed:
        weights[renamed] = value
    save_file(weights, adapter / PEFT_WEIGHTS)
    with pytest.raises(AdapterError, match=reason):
        peft_to_mlx(adapter, tmp_path / "mlx", base=tiny)


def test_a_layer_that_the_base_does_not_have_is_refused(tiny: Path, adapter: Path, tmp_path: Path) -> None:
    weights = load_file(adapter / PEFT_WEIGHTS)
    moved = {key.replace(".layers.1.mlp.up_proj.", ".layers.7.mlp.up_proj."): value for key, value in weights.items()}
    save_file(moved, adapter / PEFT_WEIGHTS)
    with pytest.raises(WrongBase, match=r"which lacks model\.layers\.7\.mlp\.up_proj"):
        peft_to_mlx(adapter, tmp_path / "mlx", base=tiny)


def test_conversion_on_another_base_or_over_something_is_refused(tiny: Path, adapter: Path, tmp_path: Path) -> None:
    write_about(adapter, {"base_model": "another", "base_model_sha256": "0" * 64})
    with pytest.raises(WrongBase, match="belongs to the base model another"):
        peft_to_mlx(adapter, tmp_path / "mlx", base=tiny)
    with pytest.raises(AdapterError, match="is not empty"):
        peft_to_mlx(adapter, adapter, base=tiny)


def test_what_a_server_takes(adapter: Path, tiny: Path, tmp_path: Path) -> None:
    assert check_servable(adapter, "vllm") == check_servable(adapter, "tensorrt") == []
    change_config(adapter, use_dora=True, modules_to_save=["lm_head"], bias="all", alpha_pattern={"q_proj": 2})
    problems = " ".join(check_servable(adapter, "vllm"))
    for expected in ("modules_to_save", "DoRA", "biases", "alpha_pattern"):
        assert expected in problems
    wide = save_random_adapter(tiny, tmp_path / "wide", r=40, use_rslora=True)
    assert check_servable(wide, "vllm") == [
        "its rank is 40, but the server's limit is 16: start the server with --max-lora-rank 64"
    ]
    assert check_servable(wide, "vllm", max_rank=64) == check_servable(wide, "tensorrt") == []
    assert "max_lora_rank=40" in check_servable(wide, "tensorrt", max_rank=32)[0]
    head = save_random_adapter(tiny, tmp_path / "head", target_modules=["q_proj", "lm_head"])
    assert check_servable(head, "tensorrt") == ["the server does not support lm_head"]
    assert check_servable(head, "vllm") == []
    tower = save_random_adapter(tiny, tmp_path / "tower")
    weights = {
        key.replace(".model.layers.", ".model.visual.layers."): value
        for key, value in load_file(tower / PEFT_WEIGHTS).items()
    }
    save_file(weights, tower / PEFT_WEIGHTS)
    assert "--enable-tower-connector-lora" in check_servable(tower, "vllm")[0]
    assert "would be applied to" in check_servable(tower, "tensorrt")[0]
    mlx = peft_to_mlx(wide, tmp_path / "mlx", base=tiny)
    assert "not in PEFT's format" in check_servable(mlx, "vllm")[0]


@pytest.mark.parametrize("kind", ["gemma3", "mllama"])
def test_every_linear_layer_has_a_name_in_mlx_vlm_and_back(kind: str) -> None:
    """By the models of both libraries: what mlx-vlm can't load here is converted by names alone."""
    pytest.importorskip("mlx_vlm")
    from importlib import import_module

    import torch
    import transformers
    from mlx import nn

    from selfsurf.agents.adapters.naming import from_mlx, to_mlx
    from selfsurf.agents.policies.mlx.loading import fix_vision_config

    text = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 1,
            "eos_token_id": 2}  # fmt: skip
    sees = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "patch_size": 8}
    if kind == "gemma3":
        vision = {**sees, "num_attention_heads": 2, "image_size": 256, "vision_use_head": False}
        config = transformers.Gemma3Config(
            text_config={**text, "head_dim": 8}, vision_config=vision, image_token_index=5
        )
        model: Any = transformers.Gemma3ForConditionalGeneration(config)
    else:
        vision = {**sees, "num_global_layers": 1, "attention_heads": 2, "image_size": 32, "vision_output_dim": 32,
                  "intermediate_layers_indices": [0], "max_num_tiles": 1, "supported_aspect_ratios": [[1, 1]]}  # fmt: skip
        text |= {"cross_attention_layers": [1], "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
        config = transformers.MllamaConfig(vision_config=vision, text_config=text, image_token_index=5)
        model = transformers.MllamaForConditionalGeneration(config)
    names = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    told = fix_vision_config(config.to_dict())
    package = import_module(f"mlx_vlm.models.{kind}")
    made = package.ModelConfig.from_dict(told)
    made.text_config = package.TextConfig.from_dict(told["text_config"])
    made.vision_config = package.VisionConfig.from_dict(told["vision_config"])
    theirs = {name for name, module in package.Model(made).named_modules() if isinstance(module, nn.Linear)}
    assert {to_mlx(name, told) for name in names} == theirs
    assert {from_mlx(name, told) for name in theirs} == names
