"""The local policy against transformers' own `generate`, against itself one by one, and against recomputed scores."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from selfsurf.agents.kinds import KINDS
from selfsurf.agents.policies.local.reply import BrokenModel
from selfsurf.agents.policies.transformers import loading
from selfsurf.agents.policies.transformers.policy import TransformersPolicy, make_lm_head_contiguous
from selfsurf.agents.policy import Completion, Message, PolicyError
from selfsurf.agents.reply.constraint import grammar, token_masks
from selfsurf.agents.reply.parse import parse
from selfsurf.browser_env.observation import Observation
from tests.models.small import small_llama

RAGGED = [
    [Message("user", "What is the capital of France?")],
    [Message("system", "Be brief."), Message("user", "Name three colours, please, and say which of them is warm.")],
    [Message("user", "Hi")],
    [Message("user", "Count from one to ten in words. " * 4)],
]


def scores(model: Any, completion: Completion, tokenizer: Any, temperature: float) -> list[float]:
    """Log-probabilities of the sampled tokens from one unbatched forward pass, under the same mask."""
    ids = torch.tensor([completion.prompt_token_ids + completion.token_ids])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0].float()
    first = len(completion.prompt_token_ids) - 1
    rows = logits[first : first + len(completion.token_ids)] / temperature
    if completion.grammar is not None:
        masks = token_masks(
            tokenizer,
            completion.grammar,
            completion.token_ids,
            completion.prefill_token_ids,
            vocabulary=rows.shape[1],
        )
        rows = rows.masked_fill(~torch.from_numpy(masks), float("-inf"))
    return [float(row[token]) for row, token in zip(torch.log_softmax(rows, -1), completion.token_ids, strict=True)]


def test_a_ragged_batch_equals_one_by_one_and_generate(policy: TransformersPolicy) -> None:
    together = policy.complete(RAGGED, max_new_tokens=4)
    for conversation, completion in zip(RAGGED, together, strict=True):
        (alone,) = policy.complete([conversation], max_new_tokens=4)
        assert completion.token_ids == alone.token_ids
        ids = torch.tensor([completion.prompt_token_ids])
        expected = policy.model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=4, pad_token_id=2
        )[0, ids.shape[1] :].tolist()
        assert completion.token_ids == expected
        assert np.allclose(completion.logprobs, scores(policy.model, completion, policy.tokenizer, 1.0), atol=1e-3)


def test_a_model_that_can_not_be_run_is_no_agents_failure(policy: TransformersPolicy, monkeypatch: Any) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTry less.")

    with monkeypatch.context() as patched:
        patched.setattr(type(policy.model), "forward", fail)
        with pytest.raises(PolicyError, match=r"torch could not run .*: CUDA out of memory\.$"):
            policy.complete([RAGGED[2]], max_new_tokens=2)
    assert policy.complete([RAGGED[2]], max_new_tokens=2)[0].token_ids


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_weights_that_are_not_numbers_are_no_failure_of_the_infrastructure(
    policy: TransformersPolicy, temperature: float
) -> None:
    """Nor is the first token that the grammar allows taken for the model's choice."""
    weight = policy.model.get_input_embeddings().weight
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.fill_(float("nan"))
        with pytest.raises(BrokenModel, match=r"not numbers.*Use another adapter") as raised:
            policy.complete([RAGGED[2]], max_new_tokens=2, temperature=temperature, grammars=['start: "yes" | "no"'])
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_the_end_of_the_turn_is_kept_and_not_shown(policy: TransformersPolicy) -> None:
    (completion,) = policy.complete([RAGGED[0]], max_new_tokens=40)
    assert completion.text == "The capital of France is Paris."
    assert completion.finish_reason == "eos"
    assert completion.token_ids[-1] in policy.eos_token_ids
    assert len(completion.logprobs) == len(completion.token_ids)
    (short,) = policy.complete([RAGGED[0]], max_new_tokens=3)
    assert short.finish_reason == "length"
    assert short.token_ids == completion.token_ids[:3]


def test_the_prompt_is_the_chat_template(policy: TransformersPolicy) -> None:
    text = policy.tokenizer.decode(policy.encode([Message("user", "Hi")], '{"'))
    assert text.endswith('<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n{"')
    assert policy.count_prompt_tokens([Message("user", "Hi")], '{"') == len(policy.encode([Message("user", "Hi")])) + 1


def test_sampled_actions_are_valid_and_scored_exactly(policy: TransformersPolicy, form: Observation) -> None:
    ids = {element["id"] for element in form["elements"]}
    text = grammar(form["elements"], KINDS, max_text=6)
    asked = [[Message("user", f"{form['dom']}\nAct, please. {'Now. ' * extra}")] for extra in range(3)]
    grammars = [text, grammar(form["elements"], ("click",)), None]
    options: dict[str, Any] = {"grammars": grammars, "prefill": '{"', "temperature": 1.3, "max_new_tokens": 24}
    completions = policy.complete(asked, **options, seed=5)
    for completion, expected in zip(completions, grammars, strict=True):
        assert completion.grammar == expected
        assert completion.prompt_token_ids[-1:] == completion.prefill_token_ids
        assert completion.text == '{"' + policy.tokenizer.decode(completion.token_ids, skip_special_tokens=True)
        if expected is not None:
            assert completion.finish_reason == "grammar"
            assert parse(completion.text, ids).action is not None
        again = scores(policy.model, completion, policy.tokenizer, 1.3)
        assert np.allclose(completion.logprobs, again, atol=1e-3)
    first = {**options, "grammars": grammars[:1]}
    assert policy.complete(asked[:1], **first, seed=5)[0].token_ids == completions[0].token_ids
    assert policy.complete(asked[:1], **first, seed=6)[0].token_ids != completions[0].token_ids


@pytest.mark.slow
def test_a_row_does_not_depend_on_its_neighbours(policy: TransformersPolicy) -> None:
    together = policy.complete(RAGGED, temperature=1.0, max_new_tokens=10, seed=11)
    first = policy.complete(RAGGED[:1], temperature=1.0, max_new_tokens=10, seed=11)
    assert together[0].token_ids == first[0].token_ids


@pytest.mark.slow
def test_a_seed_for_each_row_goes_with_its_row(policy: TransformersPolicy) -> None:
    forth = policy.complete(RAGGED, temperature=1.0, max_new_tokens=10, seed=[21 + row for row in range(len(RAGGED))])
    assert [c.token_ids for c in forth] == [
        c.token_ids for c in policy.complete(RAGGED, temperature=1.0, max_new_tokens=10, seed=21)
    ]
    back = policy.complete(
        RAGGED[::-1], temperature=1.0, max_new_tokens=10, seed=[21 + row for row in range(len(RAGGED))][::-1]
    )
    assert [c.token_ids for c in back[::-1]] == [c.token_ids for c in forth]
    with pytest.raises(ValueError, match="1 seeds were given"):
        policy.complete(RAGGED, seed=[1])


@pytest.mark.slow
def test_calls_without_seed_differ_and_repeat_with_the_policy(policy: TransformersPolicy) -> None:
    def twice() -> list[list[int]]:
        own = TransformersPolicy(policy.model, policy.tokenizer, seed=3)
        return [own.complete(RAGGED[:1], temperature=1.5, max_new_tokens=8)[0].token_ids for _ in range(2)]

    first, second = twice()
    assert first != second
    assert twice() == [first, second]


@pytest.mark.slow
def test_sampling_follows_the_distribution(policy: TransformersPolicy, form: Observation) -> None:
    text = grammar(form["elements"], ("press",))
    asked = [[Message("user", "Press a key.")]] * 32
    drawn = policy.complete(asked, grammars=[text] * 32, prefill='{"', temperature=1.0, max_new_tokens=16, seed=1)
    counts: dict[tuple[int, ...], list[float]] = {}
    for completion in drawn:
        counts.setdefault(tuple(completion.token_ids), []).append(float(np.exp(sum(completion.logprobs))))
    for reply, probabilities in counts.items():
        expected = probabilities[0]
        assert np.allclose(probabilities, expected, rtol=1e-2), reply
        deviation = np.sqrt(32 * expected * (1 - expected)) + 1
        assert abs(len(probabilities) - 32 * expected) < 5 * deviation, reply


def test_a_reply_without_choice_needs_no_model(policy: TransformersPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy.model, "forward", lambda **inputs: 1 / 0)
    (completion,) = policy.complete(RAGGED[:1], grammars=[grammar([], ("back",))], prefill='{"')
    assert completion.text == '{"back":true}'
    assert completion.logprobs == [0.0] * len(completion.token_ids)
    assert completion.finish_reason == "grammar"


def test_wrong_arguments(policy: TransformersPolicy) -> None:
    with pytest.raises(ValueError, match="does not begin with the prefill"):
        policy.complete(RAGGED[:1], grammars=[grammar([], ("back",))], prefill="Well")
    with pytest.raises(ValueError, match="exceed the context"):
        policy.complete([[Message("user", "word " * 9000)]])
    with pytest.raises(ValueError, match="2 grammars"):
        policy.complete(RAGGED[:1], grammars=[None, None])
    with pytest.raises(ValueError, match="images"):
        policy.complete([[Message("user", "Look.", images=(np.zeros((2, 2, 3), np.uint8),))]])
    with pytest.raises(ValueError, match="needs its tokenizer"):
        TransformersPolicy(policy.model)
    assert policy.complete([]) == []


@pytest.mark.slow
def test_the_output_layer_gets_contiguous_input(policy: TransformersPolicy) -> None:
    head = policy.model.get_output_embeddings()
    hooks = len(head._forward_pre_hooks)
    make_lm_head_contiguous(policy.model)
    assert len(head._forward_pre_hooks) == hooks
    seen = []
    watch = head.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].is_contiguous()))
    try:
        policy.complete(RAGGED, max_new_tokens=2)
        with torch.no_grad():
            policy.model(input_ids=torch.ones(2, 5, dtype=torch.long), logits_to_keep=2)
    finally:
        watch.remove()
    assert len(seen) == 3
    assert all(seen)


def test_the_output_layers_frozen_weight_is_not_copied_for_a_single_row(small: Any, tokenizer: Any) -> None:
    policy = TransformersPolicy(small.requires_grad_(False), tokenizer=tokenizer)

    def batched_products() -> int:
        """How many there are; the output layer's is one of them when its weight is copied for every row."""
        with torch.no_grad(), torch.profiler.profile() as profile:
            policy.model(input_ids=torch.ones(1, 7, dtype=torch.long), logits_to_keep=1)
        return sum(event.count for event in profile.key_averages() if event.key == "aten::bmm")

    without_copy = batched_products()
    policy.model.get_output_embeddings()._forward_pre_hooks.clear()
    assert batched_products() == without_copy + 1, "this torch needs no make_lm_head_contiguous for it any more"


@pytest.fixture
def small(tokenizer: Any) -> Any:
    """A model of random weights, cheap enough to be made anew for each test."""
    return small_llama(tokenizer, vocab_size=len(tokenizer) + 64, num_attention_heads=4, attention_dropout=0.5)


@pytest.mark.slow
def test_a_small_model_is_widened_where_the_processor_has_no_arithmetic_for_it(
    small: Any, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.bfloat16().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    def loaded(**options: Any) -> torch.dtype:
        model = loading.load(tmp_path, device="cpu", **options).model
        assert model.config.dtype == model.dtype
        kinds = {parameter.dtype for parameter in model.parameters()}
        assert kinds == {model.dtype}
        return model.dtype

    for native, narrow in [(True, torch.bfloat16), (False, torch.float32)]:
        monkeypatch.setattr(loading, "natively", lambda device, dtype, native=native: native)
        assert loaded() == narrow
        assert loaded(dtype="bf16") == torch.bfloat16
        assert loaded(dtype="fp32") == torch.float32
    monkeypatch.setattr(loading, "WIDENED", small.num_parameters() - 1)
    assert loaded() == torch.bfloat16


def test_what_a_device_has_arithmetic_for() -> None:
    natively = loading.natively
    assert natively(torch.device("cpu"), torch.float32)
    assert natively(torch.device("cuda"), torch.float16)
    narrow, wide = (_seconds_to_multiply(dtype) for dtype in (torch.bfloat16, torch.float32))
    assert natively(torch.device("cpu"), torch.bfloat16) or narrow > wide


def _seconds_to_multiply(dtype: torch.dtype) -> float:
    one, other = (torch.ones(512, 512, dtype=dtype) for _ in range(2))
    one @ other
    times = []
    for _ in range(7):
        start = time.perf_counter()
        one @ other
        times.append(time.perf_counter() - start)
    return min(times)


def adapter(small: Any, folder: Path, seed: int) -> Path:
    """Write a LoRA adapter that changes the model a lot."""
    import copy

    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    settings = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    get_peft_model(copy.deepcopy(small), settings).save_pretrained(folder)
    return folder


def test_adapters_are_swapped(small: Any, tokenizer: Any, tmp_path: Path) -> None:
    first, second = adapter(small, tmp_path / "a", 1), adapter(small, tmp_path / "b", 2)
    small.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")

    def sampled(policy: TransformersPolicy) -> list[float]:
        return policy.complete(RAGGED[:1], max_new_tokens=4)[0].logprobs

    policy = TransformersPolicy(tmp_path / "base", device="cpu")
    base = sampled(policy)
    seen = {"base": base}
    for path in (first, second):
        policy.set_adapter(path)
        assert policy.adapter == path
        seen[path.name] = sampled(policy)
        assert seen[path.name] == pytest.approx(sampled(TransformersPolicy(tmp_path / "base", adapter=path)), abs=1e-5)
    assert len({round(values[0], 3) for values in seen.values()}) == 3
    policy.set_adapter(None)
    assert sampled(policy) == pytest.approx(base, abs=1e-6)
    policy.set_adapter(first)
    assert sampled(policy) == pytest.approx(seen["a"], abs=1e-5)
    adapter(small, first, 3)  # the trainer wrote new weights to the same folder
    policy.set_adapter(first)
    assert sampled(policy) != pytest.approx(seen["a"], abs=1e-3)
    assert len(policy.model.peft_config) == 1
    with pytest.raises(FileNotFoundError, match="no LoRA adapter at"):
        policy.set_adapter(tmp_path / "missing")


def test_a_loaded_adapter_takes_the_models_precision(small: Any, tokenizer: Any, tmp_path: Path) -> None:
    path = adapter(small, tmp_path / "a", 1)
    policy = TransformersPolicy(small.to(torch.bfloat16), tokenizer, adapter=path)
    assert {parameter.dtype for parameter in policy.model.parameters()} == {torch.bfloat16}


def test_a_model_in_training_is_left_as_it_was(small: Any, tokenizer: Any) -> None:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(small, LoraConfig(r=4, target_modules="all-linear", lora_dropout=0.5)).train()
    model.base_model.model.model.layers[0].eval()  # one part is frozen by its trainer
    model.gradient_checkpointing_enable()
    modes = [module.training for module in model.modules()]
    dtypes = [(parameter.dtype, parameter.device, parameter.requires_grad) for parameter in model.parameters()]
    policy = TransformersPolicy(model, tokenizer)
    first, second = (policy.complete(RAGGED, max_new_tokens=3) for _ in range(2))
    assert [c.logprobs for c in first] == [c.logprobs for c in second]  # no dropout while sampling
    assert [module.training for module in model.modules()] == modes
    assert [(p.dtype, p.device, p.requires_grad) for p in model.parameters()] == dtypes
    model.train()
    model(input_ids=torch.ones(1, 4, dtype=torch.long), labels=torch.ones(1, 4, dtype=torch.long)).loss.backward()
    with pytest.raises(ValueError, match="belong to its owner"):
        policy.set_adapter(None)


def test_modes_are_restored_after_an_error(small: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small.train()
    policy = TransformersPolicy(model, tokenizer)
    monkeypatch.setattr(model.model, "forward", lambda **inputs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        policy.complete(RAGGED[:1])
    assert all(module.training for module in model.modules())
    assert torch.is_grad_enabled()


def test_a_tokenizer_without_chat_template(small: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", None)
    with pytest.raises(ValueError, match="no chat template"):
        TransformersPolicy(small, tokenizer)
