"""4-bit weights on CPU: what is loaded, that sampling is scored exactly, and that rollouts don't spoil training."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from selfsurf.agents.policies.transformers import loading
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policy import Message
from selfsurf.extras import how_to_install
from tests.models.small import save_small
from tests.models.vision import qwen2_5_vl

bitsandbytes = pytest.importorskip("bitsandbytes")

RAGGED = [
    [Message("user", "Hi")],
    [Message("user", "Count from one to ten in words.")],
    [Message("user", "Well, " * 9)],
]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(saved: Any) -> Path:
    wide = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4}
    made: Path = saved(save_small, **wide, num_hidden_layers=3, initializer_range=0.2)
    return made


def four_bit_layers(model: Any) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, bitsandbytes.nn.Linear4bit)]


def packed(model: Any) -> list[bool]:
    return [getattr(layer.weight.quant_state, "packing_format_for_cpu", False) for layer in four_bit_layers(model)]


def gradients(model: Any) -> dict[str, float]:
    """How large the gradients of a new adapter's `lora_B` are after one training step."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    wrapped = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear")).train()
    ids = torch.arange(3, 12)[None]
    wrapped(input_ids=ids, labels=ids).loss.backward()
    named = wrapped.named_parameters()
    return {name: float(item.grad.abs().sum()) for name, item in named if "lora_B" in name}


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_the_linear_layers_have_four_bits(folder: Path, dtype: str) -> None:
    whole = TransformersPolicy(folder, device="cpu", dtype=dtype)
    small = TransformersPolicy(folder, device="cpu", dtype=dtype, quantization="nf4")
    layers = four_bit_layers(small.model)
    assert len(layers) == 3 * 7
    wide = torch.bfloat16 if dtype == "bf16" else torch.float32
    assert {layer.compute_dtype for layer in layers} == {wide}
    assert {layer.weight.quant_state.quant_type for layer in layers} == {"nf4"}
    assert all(layer.weight.quant_state.nested for layer in layers)
    assert small.model.get_output_embeddings().weight.dtype == wide
    assert small.parameter_count == whole.parameter_count


def test_samples_are_scored_exactly_and_equal_generate(folder: Path) -> None:
    policy = TransformersPolicy(folder, device="cpu", dtype="fp32", quantization="nf4")
    for completion in policy.complete(RAGGED, max_new_tokens=6):
        ids = torch.tensor([completion.prompt_token_ids])
        made = policy.model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6, pad_token_id=2
        )
        assert completion.token_ids == made[0, ids.shape[1] :].tolist()
    for completion in policy.complete(RAGGED, max_new_tokens=6, temperature=1.2, seed=1):
        with torch.no_grad():
            whole = torch.tensor([completion.prompt_token_ids + completion.token_ids])
            logits = policy.model(input_ids=whole).logits[0, len(completion.prompt_token_ids) - 1 : -1] / 1.2
        expected = torch.log_softmax(logits, -1).gather(1, torch.tensor([completion.token_ids]).T)[:, 0]
        assert np.allclose(completion.logprobs, expected, atol=1e-4)


def test_a_rollout_leaves_the_weights_trainable(folder: Path) -> None:
    policy = TransformersPolicy(folder, device="cpu", dtype="fp32", quantization="nf4")
    assert not any(layer.support_avx512bf16_for_cpu for layer in four_bit_layers(policy.model))
    policy.complete(RAGGED, max_new_tokens=2)
    assert not any(packed(policy.model))
    found = gradients(policy.model)
    assert len(found) == 3 * 7
    assert min(found.values()) > 0


def test_a_model_in_memory_is_kept_trainable_too(folder: Path, tokenizer: Any) -> None:
    """On a processor without AVX512-BF16 the library would not switch its packing on: here it is, for either kind."""
    model = loading.load(folder, device="cpu", dtype="fp32", quantization="nf4").model
    for layer in four_bit_layers(model):
        layer.support_avx512bf16_for_cpu = True
    TransformersPolicy(model, tokenizer).complete(RAGGED, max_new_tokens=2)
    assert not any(packed(model))
    assert min(gradients(model).values()) > 0


@pytest.mark.skipif(not bitsandbytes.functional.has_avx512bf16(), reason="this processor has no AVX512-BF16")
def test_without_the_handling_gradients_vanish(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the library packs no longer or can train what it packed: then `keep_trainable` may go."""
    monkeypatch.setattr(loading, "keep_trainable", lambda model: None)
    model = loading.load(folder, device="cpu", dtype="fp32", quantization="nf4").model
    with torch.no_grad():
        model(input_ids=torch.ones(1, 4, dtype=torch.long))
    assert all(packed(model))
    assert min(gradients(model).values()) == 0.0


def test_a_vision_model_in_four_bits(saved: Any) -> None:
    policy = TransformersPolicy(saved(qwen2_5_vl), device="cpu", dtype="fp32", quantization="nf4")
    assert policy.sees_images
    assert len(four_bit_layers(policy.model)) > 14
    image = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    asked = [[Message("user", "What is it?", (image,))], *RAGGED[:2]]
    for conversation, completion in zip(asked, policy.complete(asked, max_new_tokens=6), strict=True):
        prompt = policy.prompt(conversation)
        ids = torch.tensor([prompt.ids])
        made = policy.model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), **prompt.extras, do_sample=False, max_new_tokens=6,
            pad_token_id=2, output_logits=True, return_dict_in_generate=True,
        )  # fmt: skip
        assert completion.token_ids == made.sequences[0, ids.shape[1] :].tolist()
        expected = torch.log_softmax(torch.cat(made.logits), -1).max(-1).values
        assert np.allclose(completion.logprobs, expected, atol=1e-4)


def test_an_adapter_over_four_bits(folder: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    settings = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    whole = loading.load(folder, device="cpu").model
    get_peft_model(whole, settings).save_pretrained(tmp_path / "a")
    policy = TransformersPolicy(folder, device="cpu", dtype="fp32", quantization="nf4")
    before = policy.complete(RAGGED, max_new_tokens=4)
    policy.set_adapter(tmp_path / "a")
    assert [c.logprobs for c in policy.complete(RAGGED, max_new_tokens=4)] != [c.logprobs for c in before]
    policy.set_adapter(None)
    assert [c.logprobs for c in policy.complete(RAGGED, max_new_tokens=4)] == [c.logprobs for c in before]


def test_wrong_ways_to_load(folder: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="the only supported value is 'nf4'"):
        TransformersPolicy(folder, quantization="int3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown dtype"):
        TransformersPolicy(folder, dtype="int8")
    with pytest.raises(ValueError, match="Unknown device"):
        TransformersPolicy(folder, device="gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="torch finds 0 CUDA devices"):
            TransformersPolicy(folder, device="cuda:1")
    with pytest.raises(ValueError, match="can't be quantised"):
        TransformersPolicy(loading.load(folder).model, tokenizer, quantization="nf4")
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=f"needs bitsandbytes: {re.escape(how_to_install('train'))}"):
        TransformersPolicy(folder, quantization="nf4")


@pytest.mark.parametrize(
    ("name", "kind"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("float32", torch.float32)]
)
def test_precisions(folder: Path, name: str, kind: torch.dtype) -> None:
    policy = TransformersPolicy(folder, device="cpu", dtype=name)
    assert {parameter.dtype for parameter in policy.model.parameters()} == {kind}
    (completion,) = policy.complete(RAGGED[:1], max_new_tokens=2)
    assert all(np.isfinite(completion.logprobs))
