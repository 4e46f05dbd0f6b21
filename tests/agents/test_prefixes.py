"""Reuse of what was read before: the same replies, less reading, and never under other weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from selfsurf.agents.policies.local.prefixes import PrefixCache
from selfsurf.agents.policies.transformers import sampling
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policy import Completion, Message
from selfsurf.agents.reply.constraint import grammar
from selfsurf.browser_env.observation import Observation

HEAD = "Goal: click on the link that says where the nearest library is.\nYou can click an element by its id. "


def asked(step: int) -> list[list[Message]]:
    """Three episodes at a step: their prompts begin as those of the step before."""
    return [
        [Message("user", HEAD + f"Episode {number}. " + f"Done so far: step {step}. " * step)] for number in (1, 2, 3)
    ]


def play(policy: TransformersPolicy) -> list[list[Completion]]:
    return [policy.complete(asked(step), max_new_tokens=5) for step in range(3)]


@pytest.fixture
def reusing(policy: TransformersPolicy) -> TransformersPolicy:
    return TransformersPolicy(policy.model, policy.tokenizer, reuse=256)


@pytest.mark.parametrize(
    "group",
    [pytest.param(sampling.CPU_PREFILL, id="apart"), pytest.param(4096, id="together", marks=pytest.mark.slow)],
)
@pytest.mark.slow
def test_replies_are_the_same_and_less_is_read(
    policy: TransformersPolicy, reusing: TransformersPolicy, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    expected = play(TransformersPolicy(policy.model, policy.tokenizer))
    monkeypatch.setattr(sampling, "CPU_PREFILL", group)
    for plain, quick in zip(expected, play(reusing), strict=True):
        for before, after in zip(plain, quick, strict=True):
            assert after.token_ids == before.token_ids
            assert np.allclose(after.logprobs, before.logprobs, atol=1e-4)
    assert all(completion.usage and completion.usage.cached_tokens == 0 for step in expected for completion in step)
    again = reusing.complete(asked(2), max_new_tokens=5)
    for completion in again:
        assert completion.usage is not None
        assert completion.usage.cached_tokens == completion.usage.prompt_tokens - 1
    other = reusing.complete([[Message("user", HEAD + "Elsewhere.")]], max_new_tokens=1)[0].usage
    assert other is not None
    assert len(policy.tokenizer.encode(HEAD)) - 2 < other.cached_tokens < other.prompt_tokens


@pytest.mark.slow
def test_changed_weights_are_noticed(model_folder: Any) -> None:
    policy = TransformersPolicy(model_folder, dtype="float32", device="cpu")
    question = [[Message("user", "What is the capital of France?")]]
    before = policy.complete(question, max_new_tokens=3)[0]
    weight = policy.model.model.layers[0].mlp.down_proj.weight
    with torch.no_grad():
        weight.mul_(0.5)
    fresh = TransformersPolicy(policy.model, policy.tokenizer)
    changed = policy.complete(question, max_new_tokens=3)[0]
    assert changed.logprobs == pytest.approx(fresh.complete(question, max_new_tokens=3)[0].logprobs, abs=1e-5)
    assert changed.logprobs != pytest.approx(before.logprobs, abs=1e-3)
    weight.data.mul_(2)  # unseen by the count of changes
    policy.forget()
    assert policy.complete(question, max_new_tokens=3)[0].logprobs == pytest.approx(before.logprobs, abs=1e-4)


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    def layers() -> Any:
        return [(torch.zeros(1, 1, 10, 4), torch.zeros(1, 1, 10, 4))]

    cache = PrefixCache(3 * 320)
    for start in range(4):
        cache.add([start, *range(100, 109)], layers())
    assert (len(cache), cache.size) == (3, 960)
    assert cache.longest([0, 100, 101, 102]) == (None, 0)
    assert cache.longest([1, 100, 101, 7])[1] == 3
    cache.add([9, *range(100, 109)], layers())
    assert cache.longest([1, 100, 101])[1] == 2  # used since, so another one went
    assert cache.longest([2, 100, 101])[1] == 0
    assert cache.longest([3])[1] == 0  # a token is left to be read
    cache.for_weights("other")
    assert (len(cache), cache.size) == (0, 0)


def test_models_whose_cache_cant_be_cut_are_read_whole(tokenizer: Any) -> None:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, sliding_window=16, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        eos_token_id=2, pad_token_id=2, bos_token_id=1,
    )  # fmt: skip
    model = Gemma3ForCausalLM(config).eval()
    policy = TransformersPolicy(model, tokenizer, reuse=64)
    for _ in range(2):
        for conversation, completion in zip(asked(2), policy.complete(asked(2), max_new_tokens=6), strict=True):
            ids = torch.tensor([policy.encode(conversation)])
            expected = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6)
            assert completion.token_ids == expected[0, ids.shape[1] :].tolist()
            assert completion.usage is not None
            assert completion.usage.cached_tokens == 0


@pytest.mark.slow
def test_guessing_saves_passes_and_changes_nothing(
    policy: TransformersPolicy, form: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = grammar(form["elements"], ("fill", "press", "select"), max_text=12)
    asked = [[Message("user", f"{form['goal']}\n{form['dom']}\n{extra}")] for extra in ("Act.", "Now.", "Please act.")]
    passes: list[int] = []
    forward = sampling.Sampler._forward

    def counted(self: sampling.Sampler, *inputs: Any, **options: Any) -> Any:
        passes[-1] += 1
        return forward(self, *inputs, **options)

    monkeypatch.setattr(sampling.Sampler, "_forward", counted)
    for temperature in (0.0, 1.0):
        replies = []
        for longest in (0, sampling.MAX_DRAFT):
            with monkeypatch.context() as patch:
                patch.setattr(sampling, "MAX_DRAFT", longest)
                passes.append(0)
                own = TransformersPolicy(policy.model, policy.tokenizer)
                options: dict[str, Any] = {"grammars": [text] * 3, "prefill": '{"', "max_new_tokens": 20}
                replies.append(own.complete(asked, temperature=temperature, seed=4, **options))
        for plain, guessed in zip(*replies, strict=True):
            assert guessed.token_ids == plain.token_ids
            assert np.allclose(guessed.logprobs, plain.logprobs, atol=1e-4)
    assert passes[1] < passes[0]
    assert passes[3] < passes[2]
