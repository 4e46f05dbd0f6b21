"""The MLX policy against transformers' `generate`, against the torch policy, and against itself. On MLX's CPU backend."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from selfsurf import agents
from selfsurf.agents.adapters.convert import peft_to_mlx
from selfsurf.agents.model_files import ModelError
from selfsurf.agents.policies.local.reply import BrokenModel
from selfsurf.agents.policy import Completion, Conversation, Message, PolicyError
from selfsurf.agents.reply.constraint import grammar, token_masks
from selfsurf.agents.reply.parse import parse
from selfsurf.browser_env.observation import Observation
from tests.agents.parity import PlainTorch, compare, logits_of, short_prompts
from tests.models.adapters import save_random_adapter
from tests.models.parity import save_gemma3, save_idefics3, save_llama, save_qwen2_5_vl

pytestmark = pytest.mark.skipif(find_spec("mlx_vlm") is None or find_spec("mlx_lm") is None, reason="needs MLX")

RAGGED: list[Conversation] = [
    [Message("user", "What is the capital of France?")],
    [Message("system", "Be brief."), Message("user", "Name three colours, please, and say which of them is warm.")],
    [Message("user", "Hi")],
    [Message("user", "Count from one to ten in words. " * 4)],
]


@pytest.fixture(scope="module")
def folder(saved: Any) -> Path:
    made: Path = saved(save_llama)
    return made


@pytest.fixture(scope="module")
def mlx(folder: Path) -> Any:
    from selfsurf.agents.policies.mlx.policy import MLXPolicy

    return MLXPolicy(folder)


@pytest.fixture(scope="module")
def reference(folder: Path, tokenizer: Any) -> PlainTorch:
    from transformers import LlamaForCausalLM

    return PlainTorch(LlamaForCausalLM.from_pretrained(folder).eval(), tokenizer)


@pytest.fixture(scope="module", params=[save_idefics3, save_qwen2_5_vl], ids=["idefics3", "qwen2_5_vl"])
def vision(request: pytest.FixtureRequest, saved: Any) -> tuple[Any, Any]:
    """A vision policy and the torch model."""
    from transformers import AutoModelForImageTextToText

    from selfsurf.agents.policies.mlx.policy import MLXPolicy

    where = saved(request.param)
    return MLXPolicy(where), AutoModelForImageTextToText.from_pretrained(where).eval()


def image(seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, (56, 56, 3), dtype=np.uint8)


def assert_same(one: Completion, other: Completion) -> None:
    assert one.prompt_token_ids == other.prompt_token_ids
    assert (one.token_ids, one.text, one.finish_reason) == (other.token_ids, other.text, other.finish_reason)
    assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_greedy_replies_and_logits_are_torchs(mlx: Any, reference: PlainTorch) -> None:
    parity = compare(reference, mlx, short_prompts(6), max_new_tokens=8)
    assert (parity.equal, parity.total) == (6, 6)
    assert parity.largest_difference < 1e-4


@pytest.mark.slow
def test_layers_with_a_window_see_what_they_see_in_torch(tokenizer: Any, saved: Any) -> None:
    from transformers import Gemma3ForCausalLM

    from selfsurf.agents.policies.mlx.policy import MLXPolicy

    folder = saved(save_gemma3)
    policy = MLXPolicy(folder)
    parity = compare(PlainTorch(Gemma3ForCausalLM.from_pretrained(folder), tokenizer), policy, RAGGED, max_new_tokens=8)
    assert (parity.equal, parity.total) == (4, 4)
    assert parity.largest_difference < 1e-4
    again = policy.complete(RAGGED, max_new_tokens=1)
    assert [completion.usage.cached_tokens for completion in again if completion.usage] == [0] * 4


@pytest.mark.slow
def test_under_a_grammar_it_writes_what_the_torch_policy_writes(mlx: Any, folder: Path, form: Observation) -> None:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    rules = [grammar(form["elements"], kinds, max_text=8) for kinds in (("click",), ("fill",), ("select",), ("press",))]
    wanted = TransformersPolicy(folder, dtype="float32", device="cpu").complete(
        RAGGED, grammars=rules, prefill='{"', max_new_tokens=30
    )
    found = mlx.complete(RAGGED, grammars=rules, prefill='{"', max_new_tokens=30)
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)
    ids = {element["id"] for element in form["elements"]}
    ended = [completion for completion in found if completion.finish_reason == "grammar"]
    assert len(ended) >= 3
    for completion in ended:
        assert parse(completion.text, ids).action is not None
        assert completion.logprobs[-1] == 0.0  # the brace is forced


def test_the_policys_numbers_are_those_of_its_settings(mlx: Any, folder: Path) -> None:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    other = TransformersPolicy(folder, device="cpu")
    assert mlx.parameter_count == other.parameter_count
    assert mlx.context_length == other.context_length == 512
    assert mlx.eos_token_ids == other.eos_token_ids
    assert (
        mlx.count_prompt_tokens(RAGGED[1], '{"')
        == len(mlx.encode(RAGGED[1], '{"'))
        == len(other.encode(RAGGED[1], '{"'))
    )
    assert mlx.count_tokens("a page") == other.count_tokens("a page")
    assert not mlx.sees_images


@pytest.mark.parametrize("ruled", [False, True])
def test_logprobs_are_those_of_the_distribution_drawn_from(mlx: Any, form: Observation, ruled: bool) -> None:
    rule = grammar(form["elements"], max_text=8) if ruled else None
    (found,) = mlx.complete(RAGGED[:1], grammars=[rule], prefill='{"', temperature=1.7, max_new_tokens=12, seed=5)
    logits = logits_of(mlx, found.prompt_token_ids + found.token_ids)[len(found.prompt_token_ids) - 1 : -1]
    scores = torch.from_numpy(logits)
    if rule is not None:
        allowed = token_masks(
            mlx.tokenizer, rule, found.token_ids, found.prefill_token_ids, vocabulary=logits.shape[1],
            eos_token_ids=mlx.eos_token_ids,
        )  # fmt: skip
        scores = scores.masked_fill(~torch.from_numpy(allowed), -torch.inf)
    logprobs = torch.log_softmax(scores / 1.7, dim=-1)
    chosen = logprobs[range(len(found.token_ids)), found.token_ids]
    assert found.logprobs == pytest.approx(chosen.tolist(), abs=1e-4)


@pytest.mark.slow
def test_tokens_are_drawn_as_often_as_they_are_likely(mlx: Any, form: Observation) -> None:
    rule = grammar(form["elements"], ("click",))
    draws = mlx.complete(
        [RAGGED[0]] * 200, grammars=[rule] * 200, prefill='{"click":', temperature=20.0, max_new_tokens=1, seed=0
    )
    likely = {draw.token_ids[0]: np.exp(draw.logprobs[0]) for draw in draws}
    assert len(likely) >= 3
    for token, probability in likely.items():
        share = sum(draw.token_ids[0] == token for draw in draws) / len(draws)
        assert share == pytest.approx(probability, abs=4 * np.sqrt(probability * (1 - probability) / len(draws)))


def test_a_batch_replies_as_its_rows_do_alone(mlx: Any, form: Observation) -> None:
    rules = [None, grammar(form["elements"], ("click",)), None, grammar(form["elements"], max_text=8)]
    settings: dict[str, Any] = {"temperature": 0.8, "max_new_tokens": 10}
    together = mlx.complete(RAGGED, grammars=rules, seed=3, **settings)
    assert len({len(completion.token_ids) for completion in together}) > 1  # rows leave the batch
    for index, found in enumerate(together):
        (alone,) = mlx.complete(RAGGED[index : index + 1], grammars=[rules[index]], seed=3 + index, **settings)
        assert_same(found, alone)


def test_what_a_prompt_shares_with_an_earlier_one_is_not_computed_again(mlx: Any, folder: Path) -> None:
    from selfsurf.agents.policies.mlx.policy import MLXPolicy

    fresh = MLXPolicy(folder, reuse=0)
    system = Message("system", "Answer in one word. " * 90)
    first, second = ([system, Message("user", text)] for text in ("What is water?", "Where is the moon?"))
    mlx.complete([first], max_new_tokens=4)
    (found,) = mlx.complete([second], max_new_tokens=6)
    (again,) = mlx.complete([second], max_new_tokens=6)
    (wanted,) = fresh.complete([second], max_new_tokens=6)
    assert wanted.usage.cached_tokens == 0
    assert 400 < found.usage.cached_tokens < found.usage.prompt_tokens
    assert again.usage.cached_tokens == again.usage.prompt_tokens - 1
    assert_same(found, wanted)
    assert_same(again, wanted)


def test_a_seed_makes_a_call_reproducible_and_none_goes_on(mlx: Any) -> None:
    def sample(seed: int | None) -> list[list[int]]:
        done = mlx.complete(RAGGED[:2], temperature=1.0, max_new_tokens=6, seed=seed)
        return [completion.token_ids for completion in done]

    assert sample(7) == sample(7) != sample(8)
    assert sample(None) != sample(None)


def test_a_reply_ends_with_the_models_own_end(mlx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (free,) = mlx.complete(RAGGED[:1], max_new_tokens=3)
    monkeypatch.setattr(mlx, "eos_token_ids", frozenset({free.token_ids[1]}))
    (ended,) = mlx.complete(RAGGED[:1], max_new_tokens=3)
    assert (ended.finish_reason, ended.token_ids) == ("eos", free.token_ids[:2])


def test_requests_that_can_not_be_answered_say_why(mlx: Any) -> None:
    assert mlx.complete([]) == []
    with pytest.raises(ValueError, match="reads text only"):
        mlx.complete([[Message("user", "Look.", (image(0),))]])
    with pytest.raises(ValueError, match="exceed the context length of 512"):
        mlx.complete(RAGGED, max_new_tokens=512)
    with pytest.raises(ValueError, match="1 grammars were given for 4"):
        mlx.complete(RAGGED, grammars=[None])
    with pytest.raises(ValueError, match="does not begin with the prefill"):
        mlx.complete(RAGGED[:1], grammars=['start: "yes"'], prefill="no")


def test_a_failure_of_mlx_is_no_failure_of_the_agent(mlx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("[metal::malloc] Unable to allocate 8 bytes.")

    with monkeypatch.context() as patched:
        patched.setattr(mlx, "_generate", fail)
        with pytest.raises(PolicyError, match=r"MLX could not run .*: \[metal::malloc\]"):
            mlx.complete(RAGGED[:1])


def test_weights_that_are_not_numbers_are_no_failure_of_mlx(mlx: Any) -> None:
    import mlx.core as core

    norm = mlx.model.model.norm
    weight = norm.weight
    try:
        norm.weight = core.ones(weight.shape) * float("nan")
        with pytest.raises(BrokenModel, match="not numbers"):
            mlx.complete(RAGGED[:1])
    finally:
        norm.weight = weight
        mlx.set_adapter(None)


def test_an_agent_acts_on_it(folder: Path, form: Observation) -> None:
    agent = agents.make("mlx", model=folder, seed=1)
    agent.reset("Enter Ada.")
    action = agent.act(form)
    assert not isinstance(action, str)


def test_a_vision_model_replies_to_an_image_as_torch_does(vision: tuple[Any, Any]) -> None:
    policy, model = vision
    assert policy.sees_images
    conversation = [Message("system", "Be brief."), Message("user", "What is it?", (image(1), image(2)))]
    prompt = policy.prompt(conversation)
    inputs = {key: torch.tensor(np.array(value)) for key, value in prompt.extras.items()}
    ids = torch.tensor([prompt.ids])
    if "image_grid_thw" in inputs:
        inputs["mm_token_type_ids"] = (ids == model.config.image_token_id).long()
    wanted = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8, **inputs
    )
    text_only = [Message("user", "What is it?")]
    found, plain, again = policy.complete([conversation, text_only, conversation], max_new_tokens=8)
    assert found.prompt_token_ids + found.token_ids == wanted[0].tolist()
    assert again == replace_usage(found, again)
    assert policy.count_prompt_tokens(conversation, '{"') == len(policy.encode(conversation, '{"'))
    ids = torch.tensor([plain.prompt_token_ids])
    wanted = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8)
    assert plain.prompt_token_ids + plain.token_ids == wanted[0].tolist()
    other = policy.complete(
        [[*conversation[:1], Message("user", "What is it?", (image(3), image(4)))]], max_new_tokens=8
    )
    assert other[0].logprobs != pytest.approx(found.logprobs, abs=1e-2)  # it looks


def replace_usage(completion: Completion, other: Completion) -> Completion:
    from dataclasses import replace

    return replace(completion, usage=other.usage)


def test_a_vision_models_logits_for_text_are_torchs(vision: tuple[Any, Any]) -> None:
    policy, model = vision
    for count in (3, 6):  # nothing is remembered of the prompt before
        ids = policy.encode(RAGGED[0])[:count]
        with torch.no_grad():
            expected = model(input_ids=torch.tensor([ids])).logits[0].numpy()
        assert np.abs(logits_of(policy, ids) - expected).max() < 1e-4


def test_a_vision_model_keeps_to_a_grammar(vision: tuple[Any, Any], form: Observation) -> None:
    policy, _ = vision
    rule = grammar(form["elements"], ("click",))
    (found,) = policy.complete(
        [[Message("user", "Press Submit.", (image(0),))]], grammars=[rule], prefill='{"', max_new_tokens=12
    )
    assert parse(found.text, {element["id"] for element in form["elements"]}).action is not None


def test_text_can_not_pass_for_an_image(vision: tuple[Any, Any]) -> None:
    policy, model = vision
    token = policy._prompts.processor.image_token
    for images in ((), (image(0),)):
        ids = policy.encode([Message("user", f"Look: {token}{token}", images)])
        assert ids.count(model.config.image_token_id) == 4 * len(images)


def test_an_image_that_is_none_is_refused(vision: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match=r"not float64 \(3, 3\)"):
        vision[0].complete([[Message("user", "Look.", (np.zeros((3, 3)),))]])


@pytest.fixture(scope="module")
def adapter(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In PEFT's format."""
    return save_random_adapter(folder, tmp_path_factory.mktemp("adapter"))


def test_an_adapter_of_peft_computes_what_it_does_in_torch_and_comes_off_again(
    mlx: Any, folder: Path, adapter: Path, reference: PlainTorch, tmp_path: Path
) -> None:
    from peft import PeftModel
    from transformers import LlamaForCausalLM

    adapted = PlainTorch(PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(folder), adapter), mlx.tokenizer)
    mlx.complete(RAGGED[:1], max_new_tokens=1)
    mlx.set_adapter(adapter)
    (first,) = mlx.complete(RAGGED[:1], max_new_tokens=1)
    assert first.usage.cached_tokens == 0  # what the base read is of no use
    parity = compare(adapted, mlx, short_prompts(4), max_new_tokens=6)
    assert (parity.equal, parity.total) == (4, 4)
    assert parity.largest_difference < 1e-4
    assert compare(reference, mlx, short_prompts(2), max_new_tokens=2).largest_difference > 0.1
    mlx.set_adapter(peft_to_mlx(adapter, tmp_path / "mlx", base=folder))
    assert compare(adapted, mlx, short_prompts(2), max_new_tokens=2).largest_difference < 1e-4
    mlx.set_adapter(None)
    assert mlx.adapter is None
    assert compare(reference, mlx, short_prompts(2), max_new_tokens=2).largest_difference < 1e-4


def test_an_adapter_that_does_not_fit_is_refused_and_leaves_the_base(
    mlx: Any, folder: Path, adapter: Path, reference: PlainTorch, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="no LoRA adapter"):
        mlx.set_adapter(tmp_path)
    broken = peft_to_mlx(adapter, tmp_path / "broken", base=folder)
    weights = load_file(broken / "adapters.safetensors")
    weights["model.layers.7.self_attn.q_proj.lora_a"] = weights.pop("model.layers.0.self_attn.q_proj.lora_a")
    save_file(weights, broken / "adapters.safetensors")
    with pytest.raises(ModelError, match=r"layers\.7"):
        mlx.set_adapter(broken)
    (broken / "adapter_config.json").write_text(json.dumps({"fine_tune_type": "full"}))
    with pytest.raises(ModelError, match="replaces the model's own weights"):
        mlx.set_adapter(broken)
    assert mlx.adapter is None
    assert compare(reference, mlx, short_prompts(2), max_new_tokens=2).largest_difference < 1e-4


def test_a_vision_model_takes_an_adapter(vision: tuple[Any, Any], tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText

    policy, model = vision
    base = Path(model.config._name_or_path)
    adapter = save_random_adapter(base, tmp_path, vision=True)
    adapted = PeftModel.from_pretrained(AutoModelForImageTextToText.from_pretrained(base), adapter).eval()
    ids = policy.encode(RAGGED[0])
    with torch.no_grad():
        before, wanted = (net(input_ids=torch.tensor([ids])).logits[0].numpy() for net in (model, adapted))
    try:
        policy.set_adapter(adapter)
        assert np.abs(logits_of(policy, ids) - wanted).max() < 1e-4
        assert np.abs(logits_of(policy, ids) - before).max() > 0.1
    finally:
        policy.set_adapter(None)
    assert np.abs(logits_of(policy, ids) - before).max() < 1e-4


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_smollm2_replies_as_torch_does(model_folder: Path, tokenizer: Any) -> None:
    from transformers import AutoModelForCausalLM

    from selfsurf.agents.policies.mlx.policy import MLXPolicy

    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype="float32").eval()
    policy = MLXPolicy(model_folder, dtype="float32")
    parity = compare(PlainTorch(model, tokenizer), policy, short_prompts(50), max_new_tokens=6)
    print(parity)
    assert (parity.equal, parity.total) == (50, 50)
    assert parity.largest_difference < 1e-3
