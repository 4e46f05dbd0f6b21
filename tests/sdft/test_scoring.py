"""Packed rows, leaner LoRA layers and choices against the plain way: the same logits, gradients and losses."""

import copy

import pytest
import torch
from peft import LoraConfig, get_peft_model

from selfsurf.sdft.loss.logits import make_packable, pack, packed_logits, plain_logits
from selfsurf.sdft.loss.lora import make_lean

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

ROWS = [
    [5, 6, 7, 8, 9, 10, 11],
    [5, 6, 7, 8, 20, 21],
    [5, 6, 7, 8, 20, 21, 22, 23, 24],  # goes on where the one before ends
    [5, 6, 30, 31],
    [5, 6, 7, 8, 20, 21],  # the same once more
    [40, 41, 42, 43, 44],  # shares nothing
    [5, 6, 7, 8, 20, 25, 26, 27],
]


def padded(rows, width):
    """Rows with some tokens after them, as a trainer's batch: prompts padded on the left, completions on the right."""
    ends = [3 if index % 2 else 1 for index in range(len(rows))]
    longest = max(len(row) - end for row, end in zip(rows, ends, strict=True))
    ids = torch.full((len(rows), longest + width), 2)
    mask = torch.zeros_like(ids)
    for index, (row, end) in enumerate(zip(rows, ends, strict=True)):
        ids[index, longest - len(row) + end : longest + end] = torch.tensor(row)
        mask[index, longest - len(row) + end : longest + end] = 1
    at = torch.arange(longest - 1, longest + width - 1).expand(len(rows), width)
    return ids, mask, at, mask[:, longest:].bool()


def adapted(model, dtype=torch.float32):
    """A copy of a model with a LoRA adapter that does something."""
    torch.manual_seed(1)
    model = get_peft_model(copy.deepcopy(model).to(dtype), LoraConfig(r=4, target_modules=TARGETS))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:  # both, so that no weight is one that bfloat16 can hold
                parameter.normal_(std=0.25 / model.config.hidden_size**0.5)
    return model


def gradients(model, logits, kept):
    """Gradients of something that hangs on all logits that count, by parameter."""
    model.zero_grad()
    weights = torch.linspace(-1, 1, logits.shape[-1])
    ((torch.log_softmax(logits.float(), -1) * weights).sum(-1) * kept).sum().backward()
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


def test_what_rows_share_is_laid_once_and_every_row_is_whole():
    packed = pack(ROWS)
    assert [[packed.ids[place] for place in places] for places in packed.places] == ROWS
    assert [[packed.positions[place] for place in places] for places in packed.places] == [
        list(range(len(row))) for row in ROWS
    ]
    assert len(packed.ids) == len({tuple(row[: end + 1]) for row in ROWS for end in range(len(row))})
    assert sum(packed.spans) == sum(row.own for row in packed.rows) == len(packed.ids)
    assert len(packed.rows) == len(ROWS) - 1
    for row in packed.rows:
        length = sum(packed.spans[span] for span in row.spans)
        assert row.mask is None or row.mask[0, 0].tolist() == [
            [column <= length - row.own + own for column in range(length)] for own in range(row.own)
        ]


@pytest.mark.parametrize("lean", [False, True])
def test_packed_rows_give_the_logits_and_gradients_of_the_padded_batch(tiny_policy, lean):
    ids, mask, at, kept = padded(ROWS, 3)
    model = adapted(tiny_policy.model)
    model.get_input_embeddings().weight.requires_grad_(True)  # its gradient tells what reaches every single token
    expected = plain_logits(model, ids, mask, at)
    wanted = gradients(model, expected, kept)
    if lean:
        make_lean(model)
    assert make_packable(model)
    assert torch.allclose(plain_logits(model, ids, mask, at), expected, atol=1e-5)
    found = packed_logits(model, ids, mask, at)
    assert found.shape == expected.shape == (len(ROWS), 3, model.config.vocab_size)
    assert torch.allclose(found[kept], expected[kept], atol=1e-5)
    got = gradients(model, found, kept)
    assert got.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert torch.allclose(got[name], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max())), name
    assert all(wanted["base_model.model.model.embed_tokens.weight"][token].any() for row in ROWS for token in row[:-1])


def test_packed_rows_can_be_read_again_for_the_gradient(tiny_policy):
    ids, mask, at, kept = padded(ROWS, 3)
    model = adapted(tiny_policy.model).train()
    assert make_packable(model)
    wanted = gradients(model, packed_logits(model, ids, mask, at), kept)
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    got = gradients(model, packed_logits(model, ids, mask, at), kept)
    assert model.get_base_model().is_gradient_checkpointing
    assert all(torch.allclose(got[name], gradient, atol=1e-6) for name, gradient in wanted.items())


def test_any_columns_can_be_asked_for_in_any_order(tiny_policy):
    ids, mask, at, kept = padded(ROWS, 3)
    assert make_packable(tiny_policy.model)
    with torch.no_grad():
        expected = plain_logits(tiny_policy.model, ids, mask, at)
        found = packed_logits(tiny_policy.model, ids, mask, at[:, [2, 0]])
        again = plain_logits(tiny_policy.model, ids, mask, at[:, [2, 0]])
    assert torch.equal(again, expected[:, [2, 0]])
    assert torch.allclose(found[kept[:, [2, 0]]], again[kept[:, [2, 0]]], atol=1e-5)


def test_a_packable_model_generates_as_before(tiny_policy):
    ids = torch.tensor([[2, 2, 5, 6, 7], [5, 6, 7, 8, 9]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    options = {"attention_mask": mask, "max_new_tokens": 8, "do_sample": False}
    before = tiny_policy.model.generate(ids, **options)
    assert make_packable(tiny_policy.model)
    assert make_packable(tiny_policy.model)
    assert torch.equal(tiny_policy.model.generate(ids, **options), before)


def test_models_that_do_not_attend_to_all_earlier_tokens_are_left_as_they_are(tiny_policy):
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, sliding_window=4,
    )  # fmt: skip
    sliding = MistralForCausalLM(config)
    assert not make_packable(sliding)
    assert sliding.config._attn_implementation == "sdpa"
    config.sliding_window = None
    assert make_packable(MistralForCausalLM(config))
    eager = tiny_policy.model
    eager.set_attn_implementation("eager")
    assert not make_packable(eager)


def test_lean_layers_keep_peft_s_ways(tiny_policy):
    ids = torch.tensor([[5, 6, 7, 8]])
    model = adapted(tiny_policy.model)
    model.add_adapter("teacher", model.peft_config["default"])
    with torch.no_grad():
        plain = [model(input_ids=ids).logits]
        with model.disable_adapter():
            plain.append(model(input_ids=ids).logits)
        model.set_adapter("teacher")
        plain.append(model(input_ids=ids).logits)
        model.base_model.set_adapter(["default", "teacher"])
        plain.append(model(input_ids=ids).logits)
        make_lean(model)
        lean = [model(input_ids=ids).logits]
        model.set_adapter("teacher")
        lean.insert(0, model(input_ids=ids).logits)
        with model.disable_adapter():
            lean.insert(0, model(input_ids=ids).logits)
        model.set_adapter("default")
        lean.insert(0, model(input_ids=ids).logits)
        merged = model.merge_and_unload()(input_ids=ids).logits
    for one, other in zip(plain, lean, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    assert torch.allclose(merged, plain[0], atol=1e-5)
    assert not torch.allclose(plain[0], plain[1], atol=1e-3)


def error(found, wanted):
    """Distance relative to the size, over all of them."""
    squares = [(float((found[name].float() - one).square().sum()), float(one.square().sum()))
               for name, one in wanted.items()]  # fmt: skip
    return (sum(first for first, _ in squares) / sum(second for _, second in squares)) ** 0.5


def check_rounding(model, ids, mask, at, kept):
    """In bfloat16, packed and lean must hardly be further from float32 than the plain way is."""
    exact = adapted(model)
    wanted = plain_logits(exact, ids, mask, at)
    true = gradients(exact, wanted, kept)
    errors = {}
    for way in ("plain", "lean"):
        rounded = adapted(model, torch.bfloat16)
        if way == "lean":
            make_lean(rounded)
            assert make_packable(rounded)
        logits = (packed_logits if way == "lean" else plain_logits)(rounded, ids, mask, at)
        off = float((logits.float() - wanted)[kept].detach().square().mean().sqrt())
        errors[way] = (off, error(gradients(rounded, logits, kept), true))
        assert all(one.dtype == torch.float32 for name, one in rounded.named_parameters() if "lora_" in name)
    assert errors["lean"][0] < 1.25 * errors["plain"][0]
    assert errors["lean"][1] < 1.5 * errors["plain"][1]
    assert errors["plain"][1] < 0.2


def test_rounding_is_hardly_worse_than_it_was(tiny_policy):
    check_rounding(tiny_policy.model, *padded(ROWS, 3))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rounding_is_hardly_worse_than_it_was_on_the_real_model(tokenizer):
    from transformers import AutoModelForCausalLM

    from selfsurf.agents import model_files
    from selfsurf.sdft.measure.retention import general_text

    text = tokenizer.encode(general_text())
    rows = [text[:40] + text[100 * row : 100 * row + 20 + 20 * row] for row in range(1, 5)]
    rows += [rows[0][:60] + text[-40:], text[300:360]]
    model = AutoModelForCausalLM.from_pretrained(model_files.pull("smollm2"), dtype=torch.float32)
    ids, mask, *_ = padded(rows, 3)
    at = torch.arange(ids.shape[1] - 28, ids.shape[1] - 3).expand(len(rows), -1)  # enough of them to compare
    check_rounding(model, ids, mask, at, torch.ones_like(at).bool())
