"""Models loaded into MLX give torch's logits, whatever transformers calls their settings. On MLX's Linux CPU backend."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from selfsurf.agents.model_files import ModelError
from selfsurf.agents.policies.mlx import loading
from tests.models.parity import VISION_PROMPTS, rope, save_idefics3, save_llama, save_qwen2_5_vl

pytestmark = pytest.mark.skipif(find_spec("mlx_vlm") is None or find_spec("mlx_lm") is None, reason="needs MLX")

IDS = [1, 5, 9, 200, 3000, 42, 7, 7, 11, 12, 13, 900, 901, 5, 9, 200]


def mlx_logits(model: Any, ids: list[int]) -> NDArray[np.float32]:
    import mlx.core as mx

    output = getattr(model, "language_model", model)(mx.array([ids]))
    return np.array(getattr(output, "logits", output)[0].astype(mx.float32))


def torch_logits(model: Any, ids: list[int]) -> NDArray[np.float32]:
    with torch.no_grad():
        logits: NDArray[np.float32] = model(input_ids=torch.tensor([ids])).logits[0].float().numpy()
    return logits


@pytest.mark.parametrize(
    "settings",
    [
        rope(100000.0),
        {"rope_theta": 50000.0, "rope_type": "linear", "factor": 4.0},
        {
            "rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8,
        },
    ],
    ids=["default", "linear", "llama3"],
)  # fmt: skip
def test_the_rotary_embedding_of_a_text_model_is_the_checkpoints(
    settings: dict[str, Any], tokenizer: Any, saved: Any
) -> None:
    from transformers import LlamaForCausalLM

    folder = saved(save_llama, rope_parameters=settings)
    model, loaded = loading.load_text(folder)
    reference = torch_logits(LlamaForCausalLM.from_pretrained(folder), IDS)
    assert np.abs(mlx_logits(model, IDS) - reference).max() < 1e-4
    assert loaded.encode("a page") == tokenizer.encode("a page")


@pytest.mark.parametrize("save", [save_idefics3, save_qwen2_5_vl])
def test_a_vision_model_gives_torchs_logits_for_text_and_image(save: Any, saved: Any) -> None:
    from transformers import AutoModelForImageTextToText

    folder = saved(save)
    model, processor = loading.load_vision(folder)
    reference = AutoModelForImageTextToText.from_pretrained(folder).eval()
    assert np.abs(mlx_logits(model, IDS) - torch_logits(reference, IDS)).max() < 1e-4
    pixels = Image.fromarray(np.random.default_rng(0).integers(0, 256, (56, 56, 3), dtype=np.uint8))
    inputs = dict(processor(images=[pixels], text=[VISION_PROMPTS[save]], add_special_tokens=False))
    ids, values = inputs.pop("input_ids"), inputs.pop("pixel_values")
    prepared = model.get_input_embeddings(ids, values, **inputs)
    places = {"position_ids": prepared.position_ids, "rope_deltas": prepared.rope_deltas}
    places = {key: value for key, value in places.items() if value is not None}
    found = np.array(model.language_model(ids, inputs_embeds=prepared.inputs_embeds, **places).logits[0])
    rest = {key: torch.tensor(np.array(value)) for key, value in inputs.items() if key != "attention_mask"}
    if "image_grid_thw" in rest:
        rest["mm_token_type_ids"] = torch.tensor(np.array(ids == model.config.image_token_id)).long()
    with torch.no_grad():
        expected = reference(
            input_ids=torch.tensor(np.array(ids)).long(), pixel_values=torch.tensor(np.array(values)), **rest
        ).logits[0]
    assert np.abs(found - expected.numpy()).max() < 1e-4


def test_each_kind_of_layer_keeps_its_rotary_base() -> None:
    both = {"full_attention": rope(1e6), "sliding_attention": rope(5e3)}
    fixed = loading.fix_text_config({"rope_parameters": both})
    bases = ("rope_theta", "rope_global_base_freq", "rope_local_base_freq")
    assert [fixed[key] for key in bases] == [1e6, 1e6, 5e3]


@pytest.mark.parametrize(
    ("kinds", "pattern"),
    [("sfs", 2), ("sssfsss", 4), ("sssf", 4), ("sf", 2), ("ff", None), ("ss", None), ("sffs", None), ("fs", None)],
)
def test_layers_of_two_kinds_are_counted(kinds: str, pattern: int | None) -> None:
    names = {"s": "sliding_attention", "f": "full_attention"}
    fixed = loading.fix_text_config({"layer_types": [names[kind] for kind in kinds]})
    assert fixed.get("sliding_window_pattern") == pattern


def test_settings_of_transformers_4_are_kept() -> None:
    config = {"rope_theta": 7.0, "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": rope(9.0)}
    assert loading.fix_text_config(config) == config
    nested = {"hidden_size": 3, "text_config": {"hidden_size": 4, "vocab_size": 5, "model_type": "llama"}}
    assert loading.fix_vision_config(nested) == {**nested, "vocab_size": 5}


def test_a_model_whose_rotary_base_was_not_taken_is_refused(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlx_lm import utils

    plain = utils.load_model
    monkeypatch.setattr(utils, "load_model", lambda folder, model_config: plain(folder))
    with pytest.raises(ModelError, match=r"rope_theta=10000, but config.json says 100000"):
        loading.load_text(saved(save_llama))


def test_loading_casts_to_the_precision_asked_for(saved: Any) -> None:
    import mlx.core as mx

    model, _ = loading.load_text(saved(save_llama), dtype="bfloat16")
    assert model.model.embed_tokens.weight.dtype == mx.bfloat16


LOADED = """
import resource, sys
from transformers import AutoProcessor
from selfsurf.agents.policies.mlx.loading import load_text, load_vision
text, vision = sys.argv[1:]
before = resource.getrlimit(resource.RLIMIT_NOFILE), AutoProcessor.__dict__["from_pretrained"]
load_text(text)
for _ in range(2):
    _, processor = load_vision(vision)
    assert type(processor).__module__.startswith("mlx_vlm"), type(processor)
assert (resource.getrlimit(resource.RLIMIT_NOFILE), AutoProcessor.__dict__["from_pretrained"]) == before
"""


@pytest.mark.slow
def test_loading_leaves_the_process_as_it_was(saved: Any) -> None:
    folders = [saved(save_llama), saved(save_idefics3)]
    done = subprocess.run([sys.executable, "-c", LOADED, *map(str, folders)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_quantised_model_is_loaded_as_it_is(saved: Any, tokenizer: Any, tmp_path: Path) -> None:
    import mlx.core as mx
    from mlx_lm import convert

    folder = saved(save_llama)
    convert(str(folder), str(tmp_path / "small"), quantize=True, q_bits=8, dtype="float32")
    (full, _), (small, loaded) = (loading.load_text(where) for where in (folder, tmp_path / "small"))
    unpacked = not mx.metal.is_available()  # where MLX has no GPU
    assert small.model.layers[0].self_attn.q_proj.weight.dtype == (mx.float32 if unpacked else mx.uint32)
    assert 0 < np.abs(mlx_logits(small, IDS) - mlx_logits(full, IDS)).max() < 0.5  # of logits up to 8
    assert loaded.chat_template == tokenizer.chat_template


def test_a_folder_without_a_model_or_with_code_of_its_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        loading.load_text(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="not valid JSON"):
        loading.is_vision(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nothing", "model_file": "mine.py"}))
    for load in (loading.load_text, loading.load_vision):
        with pytest.raises(ModelError, match=r"its own code|No safetensors"):
            load(tmp_path)
