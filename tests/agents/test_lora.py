"""Adapters active alone, together and not at all, against the same changes added to the weights themselves."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policy import Message
from tests.models.small import small_llama

ASKED = [[Message("user", "Hi")], [Message("user", "Name three colours, please.")]]
IDS = torch.tensor([[5, 9, 200, 31, 7]])
NAMES = ("one", "two", "three")


@pytest.fixture(scope="module")
def base(tokenizer: Any) -> Any:
    torch.set_num_threads(1)
    return small_llama(tokenizer, num_attention_heads=4, num_key_value_heads=4, initializer_range=0.1).eval()


@pytest.fixture(scope="module")
def folders(base: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three adapters of different ranks, targets and scalings."""
    found = {}
    shapes: list[dict[str, Any]] = [
        {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"},
        {"r": 2, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]},
        {"r": 3, "lora_alpha": 4, "target_modules": ["v_proj", "up_proj"], "use_rslora": True},
    ]
    for seed, (name, shape) in enumerate(zip(NAMES, shapes, strict=True)):
        found[name] = save(base, tmp_path_factory.mktemp("adapters") / name, seed, **shape)
    return found


def save(base: Any, folder: Path, seed: int, **shape: Any) -> Path:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    model = get_peft_model(copy.deepcopy(base), LoraConfig(init_lora_weights=False, task_type="CAUSAL_LM", **shape))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_" in key:
                parameter.normal_(0.0, 0.1)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def policy(base: Any, tokenizer: Any, folders: dict[str, Path]) -> TransformersPolicy:
    made = TransformersPolicy(copy.deepcopy(base), tokenizer)
    for name, folder in folders.items():
        made.load_adapter(name, folder)
    return made


def logits(policy: TransformersPolicy) -> torch.Tensor:
    with policy.reading():
        return policy.model(input_ids=IDS).logits.clone()


def added(base: Any, parts: dict[Path, float]) -> torch.Tensor:
    """The logits of the base model with `weight * scale * B @ A` of each adapter added to its weights by hand."""
    model = copy.deepcopy(base)
    with torch.no_grad():
        for folder, weight in parts.items():
            config = json.loads((folder / "adapter_config.json").read_text())
            scale = config["lora_alpha"] / (config["r"] ** 0.5 if config["use_rslora"] else config["r"])
            tensors = load_file(folder / "adapter_model.safetensors")
            for key, down in tensors.items():
                if ".lora_A." in key:
                    where = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
                    up = tensors[key.replace(".lora_A.", ".lora_B.")]
                    model.get_submodule(where).weight += weight * scale * (up @ down)
        return model(input_ids=IDS).logits


def test_stacked_adapters_are_the_sum_of_their_changes(
    policy: TransformersPolicy, base: Any, folders: dict[str, Path]
) -> None:
    untouched = copy.deepcopy(base.state_dict())
    start = logits(policy)
    assert torch.equal(start, added(base, {}))

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.dictionaries(st.sampled_from(NAMES), st.floats(-2, 2), max_size=3))
    def holds(weights: dict[str, float]) -> None:
        policy.use_adapters(list(weights), list(weights.values()))
        assert policy.adapter_weights == weights
        expected = added(base, {folders[name]: weight for name, weight in weights.items()})
        assert torch.allclose(logits(policy), expected, atol=1e-5)

    holds()
    policy.use_adapters([])
    assert torch.equal(logits(policy), start)
    inside = policy.model.get_base_model().state_dict()
    for name, tensor in untouched.items():
        module, _, kind = name.rpartition(".")
        assert torch.equal(inside.get(name, inside.get(f"{module}.base_layer.{kind}")), tensor)


def test_swapping_back_gives_the_very_same_logits(policy: TransformersPolicy) -> None:
    steps: list[tuple[list[str], list[float] | None]] = [
        ([], None), (["one"], None), (["two"], None), (["one", "three"], None), (["one"], [0.3]), (list(NAMES), [1, -1, 0.5]),
    ]  # fmt: skip
    first = []
    for names, weights in steps:
        policy.use_adapters(names, weights)
        first.append(logits(policy))
    assert all(not torch.allclose(a, b, atol=1e-3) for i, a in enumerate(first) for b in first[:i])
    for index in (3, 1, 5, 0, 4, 2, 1, 0):
        policy.use_adapters(*steps[index])
        assert torch.equal(logits(policy), first[index])


def test_samples_follow_what_is_in_force(policy: TransformersPolicy) -> None:
    seen = []
    for names in ([], ["one"], ["one", "two"]):
        policy.use_adapters(names)
        (completion, _) = policy.complete(ASKED, max_new_tokens=4, temperature=1.0, seed=1)
        whole = torch.tensor([completion.prompt_token_ids + completion.token_ids])
        with policy.reading():
            rows = policy.model(input_ids=whole).logits[0, len(completion.prompt_token_ids) - 1 : -1]
        again = torch.log_softmax(rows, -1).gather(1, torch.tensor([completion.token_ids]).T)[:, 0].tolist()
        assert completion.logprobs == pytest.approx(again, abs=1e-4)
        seen.append(tuple(completion.logprobs))
    assert len(set(seen)) == 3


def test_switching_reads_nothing(
    policy: TransformersPolicy, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import safetensors

    def no_reading(*inputs: Any, **options: Any) -> Any:
        raise AssertionError("a file was read")

    monkeypatch.setattr(safetensors, "safe_open", no_reading)
    monkeypatch.setattr("peft.peft_model.load_peft_weights", no_reading)
    for names in (["one"], ["two", "one"], [], ["three"]):
        policy.use_adapters(names)
        logits(policy)
    with pytest.raises(AssertionError, match="a file was read"):
        policy.load_adapter("again", folders["one"])


def test_adapters_come_and_go(policy: TransformersPolicy, folders: dict[str, Path]) -> None:
    start = logits(policy)
    policy.use_adapters(["two"])
    only_two = logits(policy)
    with pytest.raises(ValueError, match="is active"):
        policy.unload_adapter("two")
    policy.unload_adapter("one")
    assert torch.equal(logits(policy), only_two)
    assert policy.adapters == {"two": folders["two"], "three": folders["three"]}
    policy.set_adapter(folders["three"])  # as an unnamed one, beside the named
    assert policy.adapter == folders["three"]
    assert set(policy.adapters) == {"two", "three"}
    with_three = logits(policy)
    policy.use_adapters(["three"])
    assert policy.adapter == folders["three"]
    assert torch.equal(logits(policy), with_three)
    policy.use_adapters([])
    for name in ("two", "three"):
        policy.unload_adapter(name)
        assert torch.equal(logits(policy), start)
    policy.use_adapters([])
    policy.load_adapter("two", folders["two"])
    policy.use_adapters(["two"])
    assert torch.equal(logits(policy), only_two)


def test_the_last_adapter_leaves_the_plain_model(base: Any, tokenizer: Any, folders: dict[str, Path]) -> None:
    policy = TransformersPolicy(copy.deepcopy(base), tokenizer)
    start = logits(policy)
    for _ in range(2):
        policy.load_adapter("one", folders["one"])
        assert torch.equal(logits(policy), start)  # loaded, but not active
        policy.use_adapters(["one"])
        assert not torch.allclose(logits(policy), start, atol=1e-3)
        policy.use_adapters([])
        policy.unload_adapter("one")
        assert type(policy.model) is type(base)
        assert [key for key, _ in policy.model.named_parameters()] == [key for key, _ in base.named_parameters()]
        assert torch.equal(logits(policy), start)


def wrong(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_wrong_requests(policy: TransformersPolicy, base: Any, folders: dict[str, Path], tmp_path: Path) -> None:
    policy.use_adapters(["one"])
    before = logits(policy)
    wrong(lambda: policy.use_adapters(["four"]), "loaded adapters: one, two, three")
    wrong(lambda: policy.use_adapters(["one", "one"]), "listed twice")
    wrong(lambda: policy.use_adapters(["one", "two"], [1.0]), "finite weight each")
    wrong(lambda: policy.use_adapters(["one"], [float("nan")]), "finite weight each")
    wrong(lambda: policy.unload_adapter("four"), "No adapter 'four'")
    wrong(lambda: policy.load_adapter("one", folders["two"]), "unload it first")
    wrong(lambda: policy.load_adapter("a.b", folders["two"]), "letters, digits and underscores")
    wrong(lambda: policy.load_adapter("adapter_1", folders["two"]), "must not begin with")
    with pytest.raises(FileNotFoundError, match="no LoRA adapter at"):
        policy.load_adapter("gone", tmp_path / "gone")
    assert torch.equal(logits(policy), before)

    policy.load_adapter("dora", save(base, tmp_path / "dora", 7, r=2, target_modules=["q_proj"], use_dora=True))
    policy.use_adapters(["dora"])
    wrong(lambda: policy.use_adapters(["one", "dora"]), "can't be summed")
    wrong(lambda: policy.use_adapters(["dora"], [0.5]), "can't be summed")

    from peft import IA3Config, get_peft_model

    other = IA3Config(target_modules=["q_proj"], feedforward_modules=[])
    get_peft_model(copy.deepcopy(base), other).save_pretrained(tmp_path / "ia3")
    wrong(lambda: policy.load_adapter("ia3", tmp_path / "ia3"), "only LoRA")


def test_what_was_read_under_other_weights_is_not_reused(base: Any, tokenizer: Any, folders: dict[str, Path]) -> None:
    policy = TransformersPolicy(copy.deepcopy(base), tokenizer, reuse=64)
    policy.load_adapter("one", folders["one"])
    replies = []
    for names, weights in (([], None), (["one"], None), (["one"], [0.5])):
        policy.use_adapters(names, weights)
        policy.complete(ASKED, max_new_tokens=4)
        (known, _) = policy.complete(ASKED, max_new_tokens=4)
        assert known.usage is not None
        assert known.usage.cached_tokens > 0
        policy.forget()
        (fresh, _) = policy.complete(ASKED, max_new_tokens=4)
        assert known.logprobs == pytest.approx(fresh.logprobs, abs=1e-5)
        replies.append(known.logprobs)
    policy.use_adapters(["one"])
    policy.complete(ASKED, max_new_tokens=4)
    policy.use_adapters(["one"], [0.5])
    assert policy.complete(ASKED, max_new_tokens=4)[0].logprobs == pytest.approx(replies[2], abs=1e-5)
    policy.use_adapters([])
    policy.unload_adapter("one")
    policy.load_adapter("one", folders["two"])
    policy.use_adapters(["one"])
    (other, _) = policy.complete(ASKED, max_new_tokens=4)
    policy.forget()
    assert other.logprobs == pytest.approx(policy.complete(ASKED, max_new_tokens=4)[0].logprobs, abs=1e-5)
