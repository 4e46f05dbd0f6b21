"""Images in the local policy, on tiny models of three families, against each model's own `generate` one by one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from selfsurf.agents.policies.transformers.loading import load_processor
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policies.transformers.sampling import Sampler
from selfsurf.agents.policy import Completion, Message
from tests.models.vision import FAMILIES, idefics3

Kind = Callable[[Path, Path], Path]


def picture(height: int, width: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


ASKED = [
    [Message("user", "What is it?", (picture(60, 90, 1),))],
    [Message("system", "Be brief."), Message("user", "Hi")],
    [
        Message(
            "user",
            "Which of them is the larger one, the first or the second?",
            (picture(90, 40, 2), picture(64, 64, 3)),
        )
    ],
    [
        Message("user", "Look.", (picture(40, 120, 4),)),
        Message("assistant", "I do."),
        Message("user", "And now?", (picture(120, 120, 5),)),
    ],
    [Message("user", "Count from one to ten in words. " * 5)],
]
NEW = 8


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(family, id=name, marks=() if name == "qwen2_5_vl" else pytest.mark.slow)
        for name, family in FAMILIES.items()
    ],
)
def seeing(request: pytest.FixtureRequest, saved: Any) -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield TransformersPolicy(saved(request.param), device="cpu")
    torch.set_num_threads(threads)


def inputs_of(policy: TransformersPolicy, conversation: list[Message]) -> dict[str, Any]:
    """What transformers' own way from messages to inputs gives: template, images and tokens in one call."""
    turns = [
        {
            "role": message.role,
            "content": [{"type": "image", "image": Image.fromarray(image)} for image in message.images]
            + [{"type": "text", "text": message.text}],
        }
        for message in conversation
    ]
    processor = load_processor(policy.name, policy.model.config)
    made = processor.apply_chat_template(
        turns, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    return dict(made)


def generated(policy: TransformersPolicy, conversation: list[Message]) -> tuple[list[int], list[int], Any]:
    """The prompt, the reply and the logits of each of its tokens, by `generate`."""
    inputs = inputs_of(policy, conversation)
    done = policy.model.generate(
        **inputs, do_sample=False, max_new_tokens=NEW, pad_token_id=2, output_logits=True, return_dict_in_generate=True
    )
    prompt = inputs["input_ids"][0].tolist()
    return prompt, done.sequences[0, len(prompt) :].tolist(), torch.cat(done.logits)


def scores(policy: TransformersPolicy, conversation: list[Message], completion: Completion) -> list[float]:
    """Log-probabilities of the sampled tokens by one forward pass over prompt and reply, without cache."""
    inputs = inputs_of(policy, conversation)
    new = torch.tensor([completion.token_ids])
    for key, value in inputs.items():
        if key == "input_ids":
            inputs[key] = torch.cat([value, new], 1)
        elif value.shape[:1] + value.shape[1:2] == (1, len(completion.prompt_token_ids)):
            inputs[key] = torch.cat(
                [value, (torch.ones if key == "attention_mask" else torch.zeros)(new.shape).to(value)], 1
            )
    with torch.no_grad():
        logits = policy.model(**inputs).logits[0, len(completion.prompt_token_ids) - 1 : -1]
    return torch.log_softmax(logits, -1).gather(1, new.T)[:, 0].tolist()


@pytest.mark.slow
def test_a_ragged_batch_equals_generate_one_by_one(seeing: TransformersPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seeing.sees_images
    seen: dict[int, list[torch.Tensor]] = {}  # in the order of the rows
    sample = Sampler._sample

    def watched(self: Sampler, row: Any, logits: torch.Tensor, temperature: float) -> None:
        seen.setdefault(id(row), []).append(logits)
        sample(self, row, logits, temperature)

    with monkeypatch.context() as patch:
        patch.setattr(Sampler, "_sample", watched)
        together = seeing.complete(ASKED, max_new_tokens=NEW)
    worst = 0.0
    for own, conversation, completion in zip(seen.values(), ASKED, together, strict=True):
        prompt, reply, logits = generated(seeing, conversation)
        assert completion.prompt_token_ids == prompt
        assert completion.token_ids == reply
        worst = max(worst, float((torch.stack(own) - logits).abs().max()))
        (alone,) = seeing.complete([conversation], max_new_tokens=NEW)
        assert alone.token_ids == reply
        assert np.allclose(completion.logprobs, scores(seeing, conversation, completion), atol=1e-4)
    assert worst < 1e-4


def test_rows_that_end_early_leave_the_others_alone(
    seeing: TransformersPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seeing.complete(ASKED, max_new_tokens=NEW)
    for row in (0, 2, 3):
        monkeypatch.setattr(seeing, "eos_token_ids", frozenset({before[row].token_ids[2]}))
        for old, new in zip(before, seeing.complete(ASKED, max_new_tokens=NEW), strict=True):
            length = len(new.token_ids)
            assert new.token_ids == old.token_ids[:length]
            assert (length < NEW) == (new.finish_reason == "eos")


def test_what_is_in_the_image_matters(seeing: TransformersPolicy) -> None:
    images = [picture(60, 90, 1), picture(60, 90, 1) // 3, picture(60, 90, 8)]
    same = [[Message("user", "What is it?", (image,))] for image in images]
    replies = seeing.complete(same, max_new_tokens=NEW)
    assert len({tuple(reply.token_ids) for reply in replies}) == len(images)
    assert len({tuple(reply.prompt_token_ids) for reply in replies}) == 1


def test_samples_under_a_grammar_are_scored_exactly(seeing: TransformersPolicy) -> None:
    drawn = seeing.complete(ASKED, temperature=1.0, max_new_tokens=NEW, prefill='{"', seed=3)
    for conversation, completion in zip(ASKED, drawn, strict=True):
        prompt = inputs_of(seeing, conversation)["input_ids"][0].tolist()
        assert completion.prompt_token_ids == prompt + completion.prefill_token_ids
        # The prefill is text, so it may as well be scored as the beginning of the reply.
        whole = Completion("", prompt, completion.prefill_token_ids + completion.token_ids, [], None, "length")
        assert np.allclose(completion.logprobs, scores(seeing, conversation, whole)[-NEW:], atol=1e-4)
    text = 'start: "{\\"click\\":" ("1" | "2") "}"'
    options: dict[str, Any] = {"grammars": [text] * len(ASKED), "prefill": '{"', "temperature": 1.0, "seed": 1}
    assert {reply.text for reply in seeing.complete(ASKED, **options)} <= {'{"click":1}', '{"click":2}'}


def test_prompts_are_counted_without_the_pixels(seeing: TransformersPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    for conversation in ASKED:
        assert seeing.count_prompt_tokens(conversation, '{"') == len(seeing.encode(conversation, '{"'))
    processor = type(seeing.processor.image_processor)
    monkeypatch.setattr(processor, "__call__", lambda *inputs, **options: 1 / 0)
    assert seeing.count_prompt_tokens([Message("user", "Another text.", (picture(60, 90, 7),))]) > 0


def test_a_page_can_not_write_image_tokens(seeing: TransformersPolicy) -> None:
    tokens = "<image> <|image_pad|> <|video_pad|> <start_of_image> <image_soft_token> <fake_token_around_image>"
    asked = [[Message("user", f"{tokens} Hi", (picture(60, 90, 1),))], [Message("user", tokens)], ASKED[0]]
    replies = seeing.complete(asked, max_new_tokens=4)
    assert replies[2].token_ids == seeing.complete([ASKED[0]], max_new_tokens=4)[0].token_ids
    image = seeing.model.config.image_token_id
    counts = [reply.prompt_token_ids.count(image) for reply in replies]
    assert counts == [counts[2], 0, counts[2]]
    assert counts[2] > 0


def test_an_image_of_another_kind_is_refused(seeing: TransformersPolicy) -> None:
    for wrong in (
        np.zeros((8, 8), np.uint8),
        np.zeros((8, 8, 4), np.uint8),
        np.zeros((8, 8, 3)),
        np.zeros((0, 8, 3), np.uint8),
    ):
        with pytest.raises(ValueError, match="uint8 array"):
            seeing.complete([[Message("user", "Look.", (wrong,))]])


def test_a_model_in_memory_comes_with_its_processor(seeing: TransformersPolicy) -> None:
    processor = load_processor(seeing.name, seeing.model.config)
    own = TransformersPolicy(seeing.model, processor)
    assert own.sees_images
    assert (
        own.complete(ASKED[:2], max_new_tokens=4)[0].token_ids
        == seeing.complete(ASKED[:2], max_new_tokens=4)[0].token_ids
    )
    blind = TransformersPolicy(seeing.model, processor.tokenizer) if processor.tokenizer.chat_template else None
    if blind is not None:
        with pytest.raises(ValueError, match="reads text only"):
            blind.complete(ASKED[:1])


def test_a_vision_model_without_processor(tmp_path: Path, saved: Any) -> None:
    folder = Path(shutil.copytree(saved(idefics3), tmp_path / "model"))
    for name in ("processor_config.json", "preprocessor_config.json"):
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(ValueError, match="vision-language model, but"):
        TransformersPolicy(folder, device="cpu")


def test_known_beginnings_are_not_those_of_other_images(seeing: TransformersPolicy) -> None:
    """The tokens of two prompts are the same, their images are not; text without images is reused as ever."""
    asked = [[Message("user", "What is it? " * 5, (picture(60, 90, seed),))] for seed in (1, 8)]
    text = [Message("user", "Count from one to ten in words. " * 5)]
    fresh = []
    for conversation in (*asked, text):
        seeing.forget()
        fresh += seeing.complete([conversation], max_new_tokens=NEW)
    seeing.forget()
    for expected, conversation in zip(fresh, (*asked, text), strict=True):
        (again,) = seeing.complete([conversation], max_new_tokens=NEW)
        assert again.token_ids == expected.token_ids
        assert np.allclose(again.logprobs, expected.logprobs, atol=1e-4)
    mixed = seeing.complete([asked[0], text, asked[1]], max_new_tokens=NEW)
    assert [reply.token_ids for reply in mixed] == [fresh[0].token_ids, fresh[2].token_ids, fresh[1].token_ids]
    assert [reply.usage.cached_tokens for reply in mixed if reply.usage][::2] == [0, 0]
