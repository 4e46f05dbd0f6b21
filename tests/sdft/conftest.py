"""A tiny Llama with the real tokenizer: its weights are random, everything else is as with a real model."""

import os

import pytest

from tests.models.small import save_small, small_llama

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


@pytest.fixture(scope="session")
def new_policy(tokenizer):
    """Makes a policy around a new tiny model, the same every time."""

    def make():
        from selfsurf.agents.policies.transformers.policy import TransformersPolicy

        return TransformersPolicy(small_llama(tokenizer, tie_word_embeddings=True), tokenizer)

    return make


@pytest.fixture
def tiny_policy(new_policy):
    return new_policy()


@pytest.fixture
def tiny_folder(saved):
    """The folder of that model, in float32."""
    return saved(save_small, tie_word_embeddings=True)


@pytest.fixture(scope="session")
def settings():
    """Settings of a run that takes seconds."""
    from selfsurf.sdft.settings import TrainSettings

    return TrainSettings(
        tasks=("MiniWoB/click-test-2-v0", "MiniWoB/click-option-v0"), steps=4, episodes_per_step=3, max_rows=5,
        max_episode_steps=2, lora_rank=4, learning_rate=5e-3, warmup_steps=0, checkpoint_every=2, teacher_rate=0.1,
        least_first_divergence=0.0,
    )  # fmt: skip
