"""What PEFT's LoRA can do besides low-rank changes of a few layers: computed as by PEFT itself, or refused beforehand."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from tests.agents.test_lora import IDS, logits
from tests.models.small import small_llama

FEATURES: dict[str, dict[str, Any]] = {
    "modules_to_save": {"modules_to_save": ["lm_head"]},
    "rank_pattern": {"rank_pattern": {"v_proj": 8}},
    "alpha_pattern": {"alpha_pattern": {"v_proj": 32}},
    "use_rslora": {"use_rslora": True},
    "use_dora": {"use_dora": True},
    "lora_bias": {"lora_bias": True},
    "layers_to_transform": {"layers_to_transform": [1]},
    "exclude_modules": {"exclude_modules": r".*layers\.0\..*"},
    "target_parameters": {"target_parameters": ["mlp.up_proj.weight"]},
    "embedding": {"target_modules": ["q_proj", "embed_tokens"]},
    "head": {"target_modules": ["q_proj", "lm_head"]},
    "tokens": {"trainable_token_indices": [5, 9]},
    "tokens_of_both": {"trainable_token_indices": {"embed_tokens": [5, 9], "lm_head": [31]}},
}
REFUSED: dict[str, dict[str, Any]] = {
    "bias": {"bias": "lora_only"},
    "pissa": {"init_lora_weights": "pissa"},
    "olora": {"init_lora_weights": "olora"},
    "layer_replication": {"layer_replication": [[0, 2], [1, 2]]},
    "alora": {"alora_invocation_tokens": [5, 9]},
}
ALONE = ("tokens", "tokens_of_both")
"""Not loaded beside others."""
NEVER_SUMMED = ("modules_to_save", "use_dora", *ALONE)


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def base(request: pytest.FixtureRequest, tokenizer: Any) -> Any:
    torch.set_num_threads(1)
    return small_llama(tokenizer, initializer_range=0.1, attention_bias=True, tie_word_embeddings=request.param).eval()


def save(base: Any, folder: Path, **options: Any) -> Path:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(3)
    shape = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "init_lora_weights": False, **options}
    model = get_peft_model(copy.deepcopy(base), LoraConfig(task_type="CAUSAL_LM", **shape))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.requires_grad and "magnitude" not in key:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return folder


def by_peft(base: Any, folder: Path) -> torch.Tensor:
    from peft import PeftModel

    with torch.no_grad():
        return PeftModel.from_pretrained(copy.deepcopy(base), str(folder)).eval()(input_ids=IDS).logits


def merged(base: Any, parts: dict[Path, float]) -> torch.Tensor:
    """The logits of the base model with the changes of each adapter, as PEFT merges it, added to its weights."""
    from peft import PeftModel

    start = base.state_dict()
    total = {key: value.clone() for key, value in start.items()}
    for folder, weight in parts.items():
        own = PeftModel.from_pretrained(copy.deepcopy(base), str(folder)).merge_and_unload().state_dict()
        for key in total:
            total[key] += weight * (own[key] - start[key])
    model = copy.deepcopy(base)
    model.load_state_dict(total)
    with torch.no_grad():
        return model(input_ids=IDS).logits


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_computed_as_by_peft(base: Any, tokenizer: Any, tmp_path: Path, feature: str) -> None:
    folder, plain = save(base, tmp_path / "feature", **FEATURES[feature]), save(base, tmp_path / "plain")
    policy = TransformersPolicy(copy.deepcopy(base), tokenizer)
    start = logits(policy)
    expected = by_peft(base, folder)
    assert not torch.allclose(expected, start, atol=1e-3)
    for _ in range(2):
        policy.set_adapter(folder)
        assert torch.allclose(logits(policy), expected, atol=1e-5)
        policy.set_adapter(plain)
        assert torch.allclose(logits(policy), by_peft(base, plain), atol=1e-5)
        policy.set_adapter(None)
        assert torch.equal(logits(policy), start)
    policy.load_adapter("plain", plain)
    if feature in ALONE:
        with pytest.raises(ValueError, match="trainable_token_indices"):
            policy.load_adapter("feature", folder)
        with pytest.raises(ValueError, match="trainable_token_indices"):
            policy.set_adapter(folder)
    else:
        policy.load_adapter("feature", folder)
        policy.use_adapters(["feature"])
        assert torch.allclose(logits(policy), expected, atol=1e-5)
        for weights in ([1.0, 1.0], [1.0, 0.5]):
            if feature in NEVER_SUMMED:
                with pytest.raises(ValueError, match="can't be summed"):
                    policy.use_adapters(["plain", "feature"], weights)
            else:
                policy.use_adapters(["plain", "feature"], weights)
                if feature in ("embedding", "head") and base.config.tie_word_embeddings:
                    continue  # merged, it would change the other, too
                parts = dict(zip([plain, folder], weights, strict=True))
                assert torch.allclose(logits(policy), merged(base, parts), atol=1e-5)
    policy.use_adapters(["plain"])
    assert torch.allclose(logits(policy), by_peft(base, plain), atol=1e-5)
    policy.use_adapters([])
    for name in [*policy.adapters]:
        policy.unload_adapter(name)
    policy.set_adapter(None)
    assert torch.equal(logits(policy), start)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("feature", ALONE)
def test_trained_token_rows_are_loaded_alone(base: Any, tokenizer: Any, tmp_path: Path, feature: str) -> None:
    folder, plain = save(base, tmp_path / "feature", **FEATURES[feature]), save(base, tmp_path / "plain")
    policy = TransformersPolicy(copy.deepcopy(base), tokenizer)
    start = logits(policy)
    for _ in range(2):
        policy.load_adapter("rows", folder)
        assert torch.equal(logits(policy), start)
        policy.use_adapters(["rows"])
        assert torch.allclose(logits(policy), by_peft(base, folder), atol=1e-5)
        with pytest.raises(ValueError, match="can't be summed or weighted"):
            policy.use_adapters(["rows"], [0.5])
        with pytest.raises(ValueError, match="trainable_token_indices"):
            policy.load_adapter("plain", plain)
        assert torch.allclose(logits(policy), by_peft(base, folder), atol=1e-5)
        policy.use_adapters([])
        policy.unload_adapter("rows")
        assert type(policy.model) is type(base)
        assert torch.equal(logits(policy), start)
        assert [key for key, _ in policy.model.named_parameters()] == [key for key, _ in base.named_parameters()]
        policy.load_adapter("plain", plain)
        policy.unload_adapter("plain")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("feature", REFUSED)
def test_what_would_change_the_base_model_is_refused(base: Any, tokenizer: Any, tmp_path: Path, feature: str) -> None:
    folder, plain = save(base, tmp_path / "feature", **REFUSED[feature]), save(base, tmp_path / "plain")
    policy = TransformersPolicy(copy.deepcopy(base), tokenizer)
    start = logits(policy)
    (name,) = REFUSED[feature]
    for _ in range(2):
        with pytest.raises(ValueError, match=name):
            policy.set_adapter(folder)
        assert torch.equal(logits(policy), start)
        policy.set_adapter(plain)
        assert torch.allclose(logits(policy), by_peft(base, plain), atol=1e-5)
        policy.set_adapter(None)


@pytest.mark.filterwarnings("ignore")
def test_a_load_that_fails_leaves_nothing_behind(base: Any, tokenizer: Any, tmp_path: Path) -> None:
    broken, plain = save(base, tmp_path / "broken", r=2), save(base, tmp_path / "plain")
    config = broken / "adapter_config.json"
    config.write_text(config.read_text().replace('"r": 2', '"r": 3'))
    policy = TransformersPolicy(copy.deepcopy(base), tokenizer)
    start = logits(policy)
    for adapter in (None, plain):
        policy.set_adapter(adapter)
        before = logits(policy)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="size mismatch"):
                policy.set_adapter(broken)
            assert torch.equal(logits(policy), before)
    assert policy.adapter == plain
    policy.set_adapter(None)
    assert torch.equal(logits(policy), start)
