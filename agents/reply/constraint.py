"""Lark grammars of valid actions on existing elements, for llguidance, and their token masks.

Element ids change at every step, so a grammar is built for each prompt; compiling it takes a millisecond or two. A
grammar always describes the whole reply; a prefill's tokens are fed to the matcher first.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.kinds import DEFAULT_KINDS, MAX_TEXT, Labels, Text, forms
from selfsurf.browser_env.observation import Element, Tab

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_ID_TERMINALS = {
    "click": "ID", "hover": "ID", "drag": "ID", "to": "ID", "fill": "FIELD", "type": "FIELD", "upload": "CHOOSER",
}  # fmt: skip


def grammar(
    elements: Sequence[Element],
    kinds: Sequence[str] = DEFAULT_KINDS,
    *,
    max_text: int = MAX_TEXT,
    thought: int = 0,
    max_actions: int = 1,
    tabs: Sequence[Tab] = (),
    files: Sequence[str] = (),
    labels: Labels = False,
    said: Sequence[str] = (),
) -> str:
    """Build the Lark grammar of one action in compact JSON, or of a list of actions.

    Args:
        elements: the elements that the model can see. Other ids are excluded, and so are options of a `<select>` other
            than the element's own.
        kinds: the kinds of actions to offer, as far as the page allows them.
        max_text: character limit of a text.
        thought: character limit of a `thought` before the `action`; 0 for an action without a thought.
        max_actions: with more than 1, the reply is `{"actions":[...]}` with at most that many actions.
        tabs: all open tabs; other tabs are excluded.
        files: names of the files that may be uploaded.
        labels: whether elements are also named (`agents.kinds.forms`).
        said: the only texts that can be filled in or typed; any text if empty.
    """
    alternatives: list[str] = []
    terminals: dict[str, str] = {}
    for form in forms(kinds, elements, tabs=tabs, files=files, labels=labels, said=said):
        parts: list[str] = []
        literal = ""
        for key, value in form.items():
            literal += f',"{key}":' if parts or literal else f'{key}":'
            if value is True:
                literal += "true"
            elif isinstance(value, Text):
                terminals[value.value] = _text(max_text, value)
                parts += [_quote(literal + '"'), value.value]
                literal = '"'
            elif value is said:
                terminals["SAID"] = " | ".join(_quote(_quote(text)) for text in said)
                parts += [_quote(literal), "SAID"]
                literal = ""
            elif key in _ID_TERMINALS and not {"on", "in"} & form.keys():
                terminals[_ID_TERMINALS[key]] = f"/{'|'.join(map(str, value))}/"
                parts += [_quote(literal), _ID_TERMINALS[key]]
                literal = ""
            elif len(value) == 1:
                literal += _quote(value[0])
            else:
                parts += [_quote(literal), f"({' | '.join(_quote(_quote(word)) for word in value)})"]
                literal = ""
        alternatives.append(" ".join([*parts, *([_quote(literal)] if literal else [])]))
    if max_actions > 1:
        reply = 'actions\\":[{\\"" act "}" (",{\\"" act "}"){0,' + str(max_actions - 1) + '} "]}"'
    else:
        reply = 'action\\":{\\"" act "}}"' if thought else '" act "}"'
    if thought:
        reply = 'thought\\":\\"" THOUGHT "\\",\\"' + reply
        terminals["THOUGHT"] = _text(thought)
    start = 'start: "{\\"' + reply
    lines = [start, "act: " + "\n   | ".join(alternatives)]
    lines += [f"{name}: {pattern}" for name, pattern in terminals.items()]
    return "\n".join(lines) + "\n"


def ll_tokenizer(tokenizer: Any, eos_token_ids: Collection[int] = ()) -> LLTokenizer:
    """Return llguidance's wrapper of a fast Hugging Face tokenizer, cached since creating it takes about half a second.

    Args:
        tokenizer: a fast tokenizer.
        eos_token_ids: the ids that end a reply; those of the tokenizer if empty.

    Raises:
        ValueError: the tokenizer is not a fast one.
    """
    key = tuple(sorted(eos_token_ids)) or (int(tokenizer.eos_token_id),)
    kept = _WRAPPED.setdefault(tokenizer, {})
    if key not in kept:
        from llguidance.hf import from_tokenizer

        kept[key] = from_tokenizer(tokenizer, eos_token=list(key))
    return kept[key]


_WRAPPED: weakref.WeakKeyDictionary[Any, dict[tuple[int, ...], LLTokenizer]] = weakref.WeakKeyDictionary()


class Matcher:
    """Matcher of one reply against its grammar, token by token."""

    def __init__(self, tokenizer: LLTokenizer, text: str, prefill_ids: Sequence[int] = ()) -> None:
        """Compile the grammar and consume the prefill.

        Raises:
            ValueError: the grammar is malformed, or does not begin with the prefill.
        """
        from llguidance import LLMatcher

        self._matcher: LLMatcher = LLMatcher(tokenizer, text, log_level=0)
        self._vocabulary = tokenizer.vocab_size
        self._bits: NDArray[np.int32] = np.zeros((self._vocabulary + 31) // 32, dtype=np.int32)
        if self._matcher.is_error():
            raise ValueError(f"The grammar is malformed: {self._matcher.get_error()}")
        if prefill_ids and self._matcher.try_consume_tokens(list(prefill_ids)) != len(prefill_ids):
            raise ValueError("The grammar does not begin with the prefill.")

    @property
    def done(self) -> bool:
        """Whether the reply is complete, so that only its end can follow."""
        return bool(self._matcher.is_stopped())

    def allowed(self) -> NDArray[np.bool_]:
        """Return the tokens that may come next, as a boolean array over the tokenizer's vocabulary."""
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        bits = np.unpackbits(self._bits.view(np.uint8), bitorder="little")
        return bits[: self._vocabulary].astype(np.bool_)

    def forced_ending(self, longest: int) -> list[int] | None:
        """Consume the rest of the reply if only one is possible, and return its tokens.

        Args:
            longest: maximum number of tokens of the rest.

        Returns:
            The tokens, empty if the reply is complete; None if there is a choice, without consuming anything.
        """
        ending: list[int] = []
        while not self.done:
            choices = np.flatnonzero(self.allowed()).tolist() if len(ending) < longest else []
            if len(choices) != 1 or not self._matcher.consume_token(choices[0]):
                if ending:
                    self._matcher.rollback(len(ending))
                return None
            ending += choices
        return ending

    def likely(self) -> list[int]:
        """Return tokens for the text that must come next, if any; other tokens may spell the same text."""
        return list(self._matcher.compute_ff_tokens())

    def step(self, token_id: int) -> None:
        """Advance by one token.

        Raises:
            ValueError: the grammar does not allow the token; the matcher can't be used any more.
        """
        if not self._matcher.consume_token(token_id):
            raise ValueError(f"The grammar does not allow token {token_id} here.")


def token_masks(
    tokenizer: Any,
    text: str,
    token_ids: Sequence[int],
    prefill_ids: Sequence[int] = (),
    *,
    vocabulary: int | None = None,
    eos_token_ids: Collection[int] = (),
) -> NDArray[np.bool_]:
    """Recompute which tokens were allowed at each sampled position, so that training scores under the same mask.

    Args:
        tokenizer: the fast tokenizer that the policy samples with.
        text: the grammar, `Completion.grammar`.
        token_ids: T sampled tokens, `Completion.token_ids`.
        prefill_ids: `Completion.prefill_token_ids`.
        vocabulary: width V of the result (the model's logits may be wider than the tokenizer); extra columns are
            False. Defaults to the tokenizer's.
        eos_token_ids: the policy's end-of-turn ids; those of the tokenizer if empty.

    Returns:
        Boolean array (T, V). `token_ids[t]` is True in row t.

    Raises:
        ValueError: a token lies outside its mask, or the grammar does not fit the prefill.
    """
    wrapped = ll_tokenizer(tokenizer, eos_token_ids)
    matcher = Matcher(wrapped, text, prefill_ids)
    width = wrapped.vocab_size if vocabulary is None else vocabulary
    masks = np.zeros((len(token_ids), width), dtype=np.bool_)
    for position, token_id in enumerate(token_ids):
        allowed = matcher.allowed()[:width]
        if token_id >= allowed.size or not allowed[token_id]:
            raise ValueError(f"Token {token_id} at position {position} was not allowed by the grammar.")
        masks[position, : allowed.size] = allowed
        matcher.step(token_id)
    return masks


def _text(most: int, kind: Text = Text.ANY) -> str:
    """Return the pattern of a JSON string's content."""
    escaped = r'\\["\\]'
    one = rf'([^"\\\x00-\x1F\x7F]|{escaped})'
    if kind is Text.VALUE:
        return rf'/(([^"\\\x00-\x20\x7F]|{escaped}){one}' + f"{{0,{most - 1}}})?/"
    return f"/{one}{{{int(kind is Text.SOME)},{most}}}/"


def _quote(value: str | int) -> str:
    return json.dumps(value, ensure_ascii=False)
