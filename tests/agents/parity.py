"""Does a backend compute what its reference computes? Two numbers: equal greedy replies, largest logit difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.policies.local.prompts import Prompt
from selfsurf.agents.policies.mlx.policy import MLXPolicy
from selfsurf.agents.policy import Completion, Conversation, Message

_QUESTIONS = (
    "What is {}?", "Name one thing about {}.", "Say something short on {}.", "Is {} useful?", "Who needs {}?",
)  # fmt: skip
_SUBJECTS = (
    "water", "a browser", "the moon", "Paris", "a button", "money", "the letter A", "music", "a table", "rain",
)  # fmt: skip


@dataclass(frozen=True)
class Parity:
    """How far a policy is from its reference."""

    equal: int
    """Prompts with the same greedy reply, token by token."""
    total: int
    """Prompts compared."""
    largest_difference: float
    """Over all logits at all tokens of the prompts and of the reference's replies."""


class Comparable(Protocol):
    """What can be compared: a policy in this process, or `PlainTorch`."""

    def complete(
        self, conversations: Sequence[Conversation], *, prefill: str = "", max_new_tokens: int = 64
    ) -> list[Completion]:
        """Reply greedily; see `Policy.complete`."""


def logits_of(policy: Any, ids: Sequence[int]) -> NDArray[np.float32]:
    """Return the logits (T, V) after each of T tokens of text, from one forward pass."""
    if isinstance(policy, MLXPolicy):
        return policy._decoder.logits(Prompt(list(ids)))
    if isinstance(policy, PlainTorch):
        return policy.logits(ids)
    import torch

    device = policy.model.get_input_embeddings().weight.device
    with policy.reading():
        output = policy.model(input_ids=torch.tensor([list(ids)], device=device))
    found: NDArray[np.float32] = output.logits[0].float().cpu().numpy()
    return found


def compare(
    reference: Comparable,
    policy: Comparable,
    prompts: Sequence[Conversation],
    *,
    prefill: str = "",
    max_new_tokens: int = 6,
) -> Parity:
    """Compare a policy with its reference.

    Args:
        reference: what is right.
        policy: what is to be checked.
        prompts: text only.
        prefill: the replies' first characters.
        max_new_tokens: length of the replies.

    Raises:
        ValueError: there is no prompt, or the two write a prompt in different tokens.
    """
    if not prompts:
        raise ValueError("There is no prompt to compare with.")
    expected = reference.complete(prompts, prefill=prefill, max_new_tokens=max_new_tokens)
    found = policy.complete(prompts, prefill=prefill, max_new_tokens=max_new_tokens)
    largest = 0.0
    for right, given in zip(expected, found, strict=True):
        if right.prompt_token_ids != given.prompt_token_ids:
            raise ValueError("The policy and its reference do not write the same prompt; compare like with like.")
        ids = right.prompt_token_ids + right.token_ids
        one, other = logits_of(reference, ids), logits_of(policy, ids)
        width = min(one.shape[1], other.shape[1])  # some pad the vocabulary
        largest = max(largest, float(np.abs(one[:, :width] - other[:, :width]).max()))
    equal = sum(right.token_ids == given.token_ids for right, given in zip(expected, found, strict=True))
    return Parity(equal, len(expected), largest)


def short_prompts(count: int = 50) -> list[Conversation]:
    """Return up to 50 different short conversations."""
    asked = [question.format(subject) for question in _QUESTIONS for subject in _SUBJECTS]
    return [(Message("user", text),) for text in asked[:count]]


class PlainTorch:
    """The reference: transformers' own `generate`, one prompt at a time, with nothing of ours but the prompt.

    Args:
        model: a transformers model in evaluation mode.
        tokenizer: its tokenizer.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._tokenizer = tokenizer

    def complete(
        self, conversations: Sequence[Conversation], *, prefill: str = "", max_new_tokens: int = 64
    ) -> list[Completion]:
        """Reply greedily. Log-probabilities are not given."""
        import torch

        completions = []
        start = self._ids(prefill)
        for messages in conversations:
            turns = [{"role": message.role, "content": message.text} for message in messages]
            text = self._tokenizer.apply_chat_template(
                turns, add_generation_prompt=True, tokenize=False, enable_thinking=False
            )
            prompt = self._ids(text) + start
            ids = torch.tensor([prompt], device=self._model.device)
            whole = self._model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=max_new_tokens
            )
            tokens = [int(token) for token in whole[0, len(prompt) :]]
            reply = prefill + self._tokenizer.decode(tokens, skip_special_tokens=True)
            reason: Any = "length" if len(tokens) == max_new_tokens else "eos"
            completions.append(Completion(reply, prompt, tokens, [], None, reason, start))
        return completions

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the logits (T, V) after each of T tokens."""
        import torch

        with torch.no_grad():
            output = self._model(input_ids=torch.tensor([list(ids)], device=self._model.device))
        found: NDArray[np.float32] = output.logits[0].float().cpu().numpy()
        return found

    def _ids(self, text: str) -> list[int]:
        return [int(token) for token in self._tokenizer.encode(text, add_special_tokens=False)] if text else []
