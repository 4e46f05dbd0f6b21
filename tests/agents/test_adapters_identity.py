"""An adapter is loaded on its own base model and on no other, wherever that lies and however it is kept."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from selfsurf.agents.adapters import base
from selfsurf.agents.adapters.identity import AdapterError, WrongBase, check_base, identity, read_about, write_about
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from tests.models.adapters import save_random_adapter
from tests.models.parity import save_llama


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path / "home"))


@pytest.fixture
def tiny(saved: Any, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved(save_llama), tmp_path / "tiny"))


@pytest.fixture
def other(tiny: Path, tmp_path: Path) -> Path:
    """The same architecture with one weight changed in its last bit."""
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(tiny, tmp_path / "other"))
    weights = load_file(folder / "model.safetensors")
    value = weights["model.layers.1.mlp.up_proj.weight"]
    value.view(torch.int32)[3, 5] ^= 1
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture
def adapter(tiny: Path, tmp_path: Path) -> Path:
    """A random adapter of `tiny`, with its identity."""
    folder = save_random_adapter(tiny, tmp_path / "adapter")
    write_about(folder, identity("tiny", tiny))
    return folder


def test_a_moved_resharded_copy_of_the_base_is_the_base(tiny: Path, adapter: Path, tmp_path: Path) -> None:
    check_base(adapter, tiny)
    moved = Path(shutil.copytree(tiny, tmp_path / "elsewhere"))
    check_base(adapter, moved)
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(tiny).save_pretrained(tmp_path / "shards", max_shard_size="9MB")
    assert len(base.weight_files(tmp_path / "shards")) > 1
    check_base(adapter, tmp_path / "shards")


def test_another_base_is_refused_and_both_are_named(tiny: Path, other: Path, adapter: Path, saved: Any) -> None:
    with pytest.raises(WrongBase, match=r"belongs to the base model tiny \(weights \w{12}\).*can't be used on .*other"):
        check_base(adapter, other)
    policy = TransformersPolicy(other, device="cpu")
    before = policy.model
    with pytest.raises(WrongBase, match="can't be used on"):
        policy.set_adapter(adapter)
    assert policy.model is before
    assert policy.adapter is None
    TransformersPolicy(tiny, device="cpu", adapter=adapter)
    narrow = saved(save_llama, intermediate_size=96)
    with pytest.raises(WrongBase):
        check_base(adapter, narrow)


def test_a_model_in_memory_is_told_by_its_weights(tiny: Path, other: Path, adapter: Path) -> None:
    from transformers import AutoModelForCausalLM

    def load(folder: Path) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder)

    model = load(tiny)
    assert base.memory_hash(model) == base.folder_hash(tiny)
    check_base(adapter, model=model)
    check_base(adapter, model=TransformersPolicy(tiny, device="cpu", adapter=adapter).model)
    with pytest.raises(WrongBase, match="can't be used on"):
        check_base(adapter, model=load(other))
    # An adapter of a model in memory carries that one's hash.
    write_about(adapter, identity("mine", model=model.to(torch.bfloat16)))
    assert read_about(adapter)["base_model_dtype"] == "bfloat16"
    check_base(adapter, model=model.to(torch.float32))  # the same values, held in more bits
    with pytest.raises(WrongBase):
        check_base(adapter, tiny)  # other values: tiny was never rounded


def test_tied_weights_count_once_in_a_file_and_in_memory(saved: Any) -> None:
    from transformers import AutoModelForCausalLM

    folder = saved(save_llama, tie_word_embeddings=True)
    assert "lm_head.weight" not in base.shapes(folder)
    assert base.memory_hash(AutoModelForCausalLM.from_pretrained(folder)) == base.folder_hash(folder)


def test_the_hash_is_kept_until_a_file_changes(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tiny / "model.safetensors"
    os.utime(file, (1_800_000_000, 1_800_000_000))
    first = base.folder_hash(tiny)
    with monkeypatch.context() as patch:
        patch.setattr(base, "_hash", lambda files: 1 / 0)
        assert base.folder_hash(tiny) == first
    changed = bytearray(file.read_bytes())
    changed[-1] ^= 1
    file.write_bytes(changed)  # the same size, and even the same time of modification
    os.utime(file, (1_800_000_000, 1_800_000_000))
    assert base.folder_hash(tiny) not in (first, None)


def test_a_base_in_four_bits_is_told_by_the_folder_it_came_from(tiny: Path, other: Path, adapter: Path) -> None:
    pytest.importorskip("bitsandbytes")
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    def load(folder: Path) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, quantization_config=BitsAndBytesConfig(load_in_4bit=True))

    check_base(adapter, model=load(tiny))
    check_base(adapter, tiny, model=load(tiny))
    with pytest.raises(WrongBase, match="can't be used on"):
        check_base(adapter, model=load(other))


def test_an_adapter_from_elsewhere_is_taken_if_it_fits(
    tiny: Path, other: Path, saved: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save_random_adapter(tiny, tmp_path / "foreign")
    with caplog.at_level(logging.WARNING):
        check_base(folder, other)
    assert "has no hash" in caplog.text
    assert str(tiny) in caplog.text
    assert "may be a different model" in caplog.text
    caplog.clear()
    moved = Path(shutil.copytree(tiny, tmp_path / "moved" / "tiny"))
    check_base(folder, moved)
    assert "has no hash" in caplog.text
    assert "may be a different model" not in caplog.text
    narrow = Path(shutil.copytree(saved(save_llama, intermediate_size=96), tmp_path / "narrow"))
    with pytest.raises(WrongBase, match=r"does not fit .*narrow.*mlp\.\w+_proj has shape \(\d+, \d+\), but"):
        check_base(folder, narrow)
    from transformers import GPT2Config, GPT2LMHeadModel

    GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=50)).save_pretrained(tmp_path / "gpt2")
    with pytest.raises(WrongBase, match="which lacks model"):
        check_base(folder, tmp_path / "gpt2")


def test_weights_that_can_not_be_told_are_refused(tiny: Path, adapter: Path) -> None:
    (tiny / "model.safetensors").rename(tiny / "pytorch_model.bin")
    with pytest.raises(WrongBase, match="no safetensors files"):
        check_base(adapter, tiny)
    with pytest.raises(WrongBase, match="no safetensors files"):
        check_base(adapter, "nobody/not-on-this-machine")
    with pytest.raises(FileNotFoundError, match="no LoRA adapter"):
        check_base(tiny, tiny)


def test_an_older_adapter_still_knows_its_base(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`base_model_sha256` alone, of SmolLM2 in memory, as it was written before the dtype was."""
    monkeypatch.delenv("SELFSURF_HOME")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    known = "cbd303597ad988c0a1745c8da33ebe233d7a0a188728a0bad8a9c3a2afcbfa4f"
    write_about(tmp_path, {"base_model": "smollm2", "base_model_sha256": known})
    check_base(tmp_path, model_folder)
    write_about(tmp_path, {"base_model": "smollm2", "base_model_sha256": known[::-1]})
    with pytest.raises(WrongBase):
        check_base(tmp_path, model_folder)


@pytest.mark.parametrize("text", ["no json", "[]"])
def test_a_damaged_file_beside_an_adapter_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "selfsurf.json").write_text(text)
    with pytest.raises(AdapterError, match=r"selfsurf\.json is damaged"):
        read_about(tmp_path)
