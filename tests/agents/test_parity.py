"""The comparison itself: it finds the transformers policy equal to plain `generate`, and notices what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policy import Message
from tests.agents.parity import PlainTorch, compare, short_prompts
from tests.models.adapters import save_random_adapter
from tests.models.parity import save_llama


@pytest.fixture(scope="module")
def folder(saved: Any) -> Path:
    made: Path = saved(save_llama)
    return made


@pytest.fixture(scope="module")
def reference(folder: Path, tokenizer: Any) -> PlainTorch:
    from transformers import LlamaForCausalLM

    return PlainTorch(LlamaForCausalLM.from_pretrained(folder).eval(), tokenizer)


def test_the_transformers_policy_is_equal_to_generate(folder: Path, reference: PlainTorch) -> None:
    policy = TransformersPolicy(folder, dtype="float32", device="cpu")
    parity = compare(reference, policy, short_prompts(8), prefill="It", max_new_tokens=8)
    assert (parity.equal, parity.total) == (8, 8)
    assert parity.largest_difference < 1e-4


def test_another_model_is_found_to_be_another(folder: Path, reference: PlainTorch, tmp_path: Path) -> None:
    policy = TransformersPolicy(folder, dtype="float32", device="cpu")
    policy.set_adapter(save_random_adapter(folder, tmp_path))
    parity = compare(reference, policy, short_prompts(4), max_new_tokens=8)
    assert parity.equal < parity.total == 4
    assert parity.largest_difference > 0.1


def test_only_like_is_compared_with_like(folder: Path, reference: PlainTorch, tokenizer: Any) -> None:
    import copy

    other = copy.deepcopy(tokenizer)
    other.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    policy = TransformersPolicy(folder, tokenizer=other, dtype="float32", device="cpu")
    with pytest.raises(ValueError, match="do not write the same prompt"):
        compare(reference, policy, short_prompts(1))
    with pytest.raises(ValueError, match="no prompt"):
        compare(reference, policy, [])


def test_the_short_prompts_are_fifty_different_ones() -> None:
    texts = {prompt[0].text for prompt in short_prompts()}
    assert len(texts) == 50
    assert short_prompts(1) == [(Message("user", "What is water?"),)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smollm2_sampled_in_batches_replies_as_generate_does(
    model_folder: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the logits that were sampled from, with known beginnings, batches and guesses, are those of one plain pass."""
    import torch

    from selfsurf.agents.policies.transformers.sampling import Sampler

    policy = TransformersPolicy(model_folder, dtype="float32", device="cpu")
    reference = PlainTorch(policy.model, tokenizer)
    seen: dict[int, tuple[Any, list[torch.Tensor]]] = {}
    sample = Sampler._sample

    def watched(self: Sampler, row: Any, logits: torch.Tensor, temperature: float) -> None:
        seen.setdefault(id(row), (row, []))[1].append(logits)
        sample(self, row, logits, temperature)

    equal, worst = 0, 0.0
    for start in range(0, 50, 10):
        asked = short_prompts()[start : start + 10]
        seen.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Sampler, "_sample", watched)
            found = policy.complete(asked, max_new_tokens=12)
        assert len(seen) == 10
        for right, given, (row, logits) in zip(
            reference.complete(asked, max_new_tokens=12), found, seen.values(), strict=True
        ):
            equal += right.token_ids == given.token_ids
            plain = reference.logits(row.prompt + row.token_ids)[len(row.prompt) - 1 : -1]
            worst = max(worst, float((torch.stack(logits) - torch.from_numpy(plain)).abs().max()))
    print(f"{equal} of 50 equal, largest logit difference {worst:.1e}")
    assert equal == 50
    assert worst < 1e-3
