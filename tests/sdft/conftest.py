"""A tiny Llama with the real tokenizer: its weights are random, everything else is as with a real model."""

import os

import pytest

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


@pytest.fixture(scope="session")
def tokenizer():
    from transformers import AutoTokenizer

    from selfsurf.agents import models

    return AutoTokenizer.from_pretrained(models.pull("smollm2"))


@pytest.fixture
def tiny_policy(tokenizer):
    """A policy around a new tiny model, the same every time."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, pad_token_id=2,
        tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return TransformersPolicy(model, tokenizer)


@pytest.fixture
def settings():
    """Settings of a run that takes seconds."""
    from selfsurf.sdft.settings import TrainSettings

    return TrainSettings(
        tasks=("MiniWoB/click-test-2-v0", "MiniWoB/click-option-v0"), steps=4, episodes_per_step=3, max_rows=5,
        max_episode_steps=2, lora_rank=4, learning_rate=5e-3, warmup_steps=0, checkpoint_every=2, teacher_rate=0.1,
        least_first_divergence=0.0,
    )  # fmt: skip
