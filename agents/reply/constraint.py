"""The grammar of a valid action on an element that exists, and its token masks. Lark, for llguidance.

Element ids change at every step, so a grammar is built for each prompt; compiling one takes a millisecond or two.
A grammar always describes the whole reply; a prefill's tokens are fed to the matcher first.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.reply.kinds import DEFAULT_KINDS, MAX_TEXT, Labels, Text, forms
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
    """Build the Lark grammar of one action in compact JSON, or of a list of them.

    Args:
        elements: the elements that the model can see; no other id can be written, and no other option of a
            `<select>` than the element's own.
        kinds: the actions to offer, those of them that the page allows.
        max_text: most characters of a text.
        thought: most characters of a `thought` that comes before the `action`; 0: the action stands alone.
        max_actions: with more than 1, the reply is `{"actions":[...]}` with as many at most.
        tabs: all that are open; no other can be gone to.
        files: the names of those that may be uploaded.
        labels: elements are named, too (`agents.reply.kinds.forms`).
        said: the only texts that can be filled in or typed; any if empty.
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
    """Return llguidance's wrapper of a fast Hugging Face tokenizer. Making one takes about half a second; it is kept.

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
    """The position of one reply in its grammar."""

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
        """Whether only the end can follow."""
        return bool(self._matcher.is_stopped())

    def allowed(self) -> NDArray[np.bool_]:
        """The tokens that may come next, as a boolean array over the tokenizer's vocabulary."""
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        bits = np.unpackbits(self._bits.view(np.uint8), bitorder="little")
        return bits[: self._vocabulary].astype(np.bool_)

    def forced_ending(self, longest: int) -> list[int] | None:
        """Consume the rest of the reply if only one is possible, and return its tokens.

        Args:
            longest: most tokens that it may have.

        Returns:
            The tokens, empty if the reply is complete; None if there is a choice, and then nothing is consumed.
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
        """Return tokens for the text that must come next, if any must; other tokens may spell the same text."""
        return list(self._matcher.compute_ff_tokens())

    def step(self, token_id: int) -> None:
        """Advance by one token.

        Raises:
            ValueError: the grammar does not allow it; the matcher can't be used any more.
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
    """The pattern of a JSON string's inside."""
    escaped = r'\\["\\]'
    one = rf'([^"\\\x00-\x1F\x7F]|{escaped})'
    if kind is Text.VALUE:
        return rf'/(([^"\\\x00-\x20\x7F]|{escaped}){one}' + f"{{0,{most - 1}}})?/"
    return f"/{one}{{{int(kind is Text.SOME)},{most}}}/"


def _quote(value: str | int) -> str:
    return json.dumps(value, ensure_ascii=False)
