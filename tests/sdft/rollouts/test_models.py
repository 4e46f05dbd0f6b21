"""What a policy worker speaks for."""

from dataclasses import replace

from safetensors.torch import save

from selfsurf.agents.policy import Message
from selfsurf.sdft.rollouts.models import CompletionArguments, reuse


def test_prompts_that_begin_alike_are_read_once_until_the_weights_change(model, weights_of):
    asked = CompletionArguments([[Message("user", "Goal: press OK. Page: OK, Cancel")]], {"max_new_tokens": 2}, {})
    worker = replace(model, reuse=reuse(None)).make()
    known = []
    for version in (0, 1):
        worker.use(version, save(weights_of(version)))
        known += [worker.complete(asked)[0].usage.cached_tokens > 0 for _ in range(2)]
    assert known == [False, True, False, True]


def test_nothing_is_reused_where_samples_are_the_same_to_the_last_bit(model, weights_of):
    asked = CompletionArguments([[Message("user", "Goal: press OK.")]], {"max_new_tokens": 2}, {})
    worker = replace(model, reuse=reuse(1)).make()
    worker.use(0, save(weights_of(0)))
    assert [worker.complete(asked)[0].usage.cached_tokens for _ in range(2)] == [0, 0]
