"""Models as they are loaded for training: precision, 4-bit weights, adapted modules, activations computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import get_peft_model
from pydantic import ValidationError

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policy import Message
from selfsurf.sdft import train
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.samples import samples_of
from selfsurf.sdft.run.model import load_policy, lora_config
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer
from tests.models.small import save_small
from tests.sdft.rows import batch_of, episodes_of

ASKED = [[Message("user", "Hi")], [Message("user", "Count from one to ten in words.")]]


@pytest.fixture
def folder(tiny_policy: Any, tmp_path: Path) -> Path:
    """The tiny model on disk."""
    tiny_policy.model.save_pretrained(tmp_path / "model")
    tiny_policy.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(("dtype", "kind"), [("auto", torch.float32), ("bf16", torch.bfloat16)])
def test_the_base_has_the_precision_that_was_asked_for(
    folder: Path, settings: TrainSettings, dtype: str, kind: torch.dtype
) -> None:
    chosen = settings.model_copy(update={"model": str(folder), "dtype": dtype})
    policy = load_policy(chosen)
    assert {parameter.dtype for parameter in policy.model.parameters()} == {kind}
    wrapped = get_peft_model(policy.model, lora_config(policy.model, chosen))
    assert {value.dtype for name, value in wrapped.named_parameters() if "lora_" in name} == {torch.float32}


def lora_b_gradients(folder: Path, settings: TrainSettings, out: Path) -> list[float]:
    """How large the gradients of each lora_B are after replies were sampled from a model in 4 bits."""
    chosen = settings.model_copy(update={"model": str(folder), "quantization": "nf4"})
    trainer = trainer_of(load_policy(chosen), out, chosen)
    trainer.state.global_step = trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = batch_of(trainer, samples_of(episodes_of(trainer.policy, ASKED), trainer.policy))
    trainer.compute_loss(trainer.model, batch).backward()
    assert trainer.model.is_loaded_in_4bit
    named = trainer.model.named_parameters()
    return [float(value.grad.abs().max()) for name, value in named if "lora_B.default" in name]


@pytest.fixture
def wide_folder(saved: Any) -> Path:
    """A tiny model whose layers are wide enough for the packing of 4-bit weights."""
    wide = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4}
    made: Path = saved(save_small, **wide, initializer_range=0.2)
    return made


def test_in_four_bits_every_module_learns_after_rollouts(
    wide_folder: Path, settings: TrainSettings, tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    sizes = lora_b_gradients(wide_folder, settings, tmp_path / "run")
    assert len(sizes) == 2 * 7
    assert min(sizes) > 0


def test_beside_weights_in_four_bits_all_but_the_adapter_has_the_precision_of_computation(
    wide_folder: Path, settings: TrainSettings, tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    chosen = settings.model_copy(update={"model": str(wide_folder), "quantization": "nf4", "dtype": "bf16"})
    trainer = trainer_of(load_policy(chosen), tmp_path / "run", chosen)
    named = [(name, one.dtype) for name, one in trainer.model.named_parameters() if one.is_floating_point()]
    assert {dtype for name, dtype in named if "lora_" in name} == {torch.float32}
    assert {dtype for name, dtype in named if "lora_" not in name} == {torch.bfloat16}


def test_without_the_handling_some_modules_in_four_bits_do_not(
    wide_folder: Path, settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, bitsandbytes packs no longer or can train what it packed: then `keep_trainable` may go."""
    bitsandbytes = pytest.importorskip("bitsandbytes")
    if not bitsandbytes.functional.has_avx512bf16():
        pytest.skip("this processor has no AVX512-BF16")
    for module in ("loading", "policy"):
        monkeypatch.setattr(f"selfsurf.agents.policies.transformers.{module}.keep_trainable", lambda model: None)
    assert min(lora_b_gradients(wide_folder, settings, tmp_path / "run")) == 0


def test_targets_that_name_nothing_are_refused(tiny_policy: Any, settings: TrainSettings) -> None:
    wrong = settings.model_copy(update={"lora_targets": ("q_proj", "query_key_value")})
    with pytest.raises(
        ValueError,
        match=r"names query_key_value, but .* the model. Available are down_proj, gate_proj, k_proj, lm_head",
    ):
        lora_config(tiny_policy.model, wrong)
    with pytest.raises(ValidationError):
        TrainSettings(tasks=settings.tasks, lora_targets=())


def trainer_of(policy: TransformersPolicy, out: Path, settings: TrainSettings) -> Any:
    return EpisodeSDFTTrainer(
        settings,
        out,
        rollouts=Rollouts(),
        model=policy.model,
        processing_class=policy.tokenizer,
        jobs=[Job("MiniWoB/click-test-v0", 0)],
        peft_config=lora_config(policy.model, settings),
    )


def prepared(folder: Path, settings: TrainSettings, out: Path, *, again: bool) -> Any:
    """A trainer about to train, as `train` leaves it before its first step."""
    chosen = settings.model_copy(update={"gradient_checkpointing": again})
    torch.manual_seed(0)
    made = trainer_of(TransformersPolicy(folder, device="cpu"), out, chosen)
    with torch.no_grad():
        for name, parameter in made.model.named_parameters():
            if "lora_B.default" in name:
                parameter.normal_(0.0, 0.05)
    assert made.args.activation_checkpointing is again
    if again:
        made.model.activation_checkpointing_enable(
            activation_checkpointing_kwargs=made.args.activation_checkpointing_kwargs
        )
    made.model.train()
    return made


@pytest.mark.slow
def test_activations_computed_again_change_no_token_and_no_gradient(
    folder: Path, settings: TrainSettings, tmp_path: Path
) -> None:
    kept, again = (prepared(folder, settings, tmp_path / str(flag), again=flag) for flag in (False, True))
    found = []
    for trainer in (kept, again):
        passes: list[bool] = []
        layer = trainer.model.get_decoder().layers[0].mlp
        layer.register_forward_pre_hook(lambda module, inputs, passes=passes: passes.append(torch.is_grad_enabled()))
        modes = [module.training for module in trainer.model.modules()]
        ids = torch.arange(3, 30)[None]
        trainer.model(input_ids=ids, labels=ids).loss.backward()
        first = {name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None}
        trainer.model.zero_grad()
        learned = len(passes)
        replies = trainer.policy.complete(ASKED, temperature=1.0, max_new_tokens=8, seed=1)
        assert not any(passes[learned:])
        assert len(passes) > learned
        assert [module.training for module in trainer.model.modules()] == modes
        del passes[:]
        trainer.model(input_ids=ids, labels=ids).loss.backward()
        assert len(passes) == learned
        second = {name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None}
        found.append((replies, first, second, learned))
    (replies, first, second, once), (other, *others, twice) = found
    assert (once, twice) == (1, 2)
    assert [reply.token_ids for reply in replies] == [reply.token_ids for reply in other]
    assert [reply.logprobs for reply in replies] == [reply.logprobs for reply in other]
    assert first
    for gradients in (second, *others):
        assert gradients.keys() == first.keys()
        for name, gradient in gradients.items():
            assert torch.allclose(gradient, first[name], rtol=1e-5, atol=1e-8), name
    assert max(float(gradient.abs().max()) for gradient in first.values()) > 1e-4


@pytest.mark.slow
def test_a_run_with_activations_computed_again_ends_the_same(
    folder: Path, settings: TrainSettings, tmp_path: Path
) -> None:
    adapters = []
    for again in (False, True):
        chosen = settings.model_copy(
            update={"model": str(folder), "steps": 2, "gradient_checkpointing": again, "checkpoint_every": 9}
        )
        model = train(chosen, tmp_path / str(again))["model"]
        assert model.is_activation_checkpointing is again
        adapters.append({name: value for name, value in model.named_parameters() if ".default." in name})
    for name, value in adapters[0].items():
        assert torch.allclose(value, adapters[1][name], atol=1e-6), name
