"""The grammar of a valid action on an element that exists, and its token masks. Lark, for llguidance.

Element ids change at every step, so a grammar is built for each prompt; compiling one takes a millisecond or two.
A grammar always describes the whole reply; where a reply is prefilled, its tokens are fed to the matcher first.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.observation import Element

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

DEFAULT_KINDS = ("click", "fill", "select", "press", "scroll", "finish")
"""The actions offered to a model unless told otherwise."""

KINDS = (
    "click", "fill", "type", "select", "hover", "press", "scroll", "navigate", "back", "forward", "new_tab",
    "close_tab", "wait", "message", "ask_user", "finish", "infeasible",
)  # fmt: skip
"""The actions that a grammar can offer."""

KEYS = (
    "Enter", "Tab", "Escape", "Space", "Backspace", "Delete", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight",
    "PageUp", "PageDown", "Home", "End", "Control+a", "Control+c", "Control+v",
)  # fmt: skip
"""The keys that a grammar offers."""

EDITABLE_ROLES = frozenset({"textbox", "searchbox", "combobox", "spinbutton", "slider"})
MAX_TEXT = 200
"""Characters in one string of a reply."""

_STATIC_INPUTS = frozenset({"button", "checkbox", "radio", "link", "menuitem", "switch", "tab", "option", "img"})
_TEXT_KEYS = frozenset({"navigate", "new_tab", "message", "ask_user", "finish", "infeasible"})


def is_editable(element: Element) -> bool:
    """Whether text can be filled into the element."""
    if element["tag"] == "select" or {"disabled", "readonly"} & set(element["states"]):
        return False
    if element["role"] in EDITABLE_ROLES:
        return True
    return element["tag"] in ("input", "textarea") and element["role"] not in _STATIC_INPUTS


def usable_options(element: Element) -> list[str]:
    """The labels of a `<select>` that can be written in a reply, each once."""
    return [label for label in dict.fromkeys(element.get("options", ())) if label and label.isprintable()]


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds as a tuple.

    Raises:
        ValueError: a kind is unknown, or there is none.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ValueError(f"Unknown actions {unknown}: choose from {', '.join(KINDS)}.")
    return tuple(dict.fromkeys(kinds))


def offered(kinds: Sequence[str], elements: Sequence[Element]) -> tuple[str, ...]:
    """The kinds that are possible on a page with these elements; `wait` if there is no other."""
    possible = []
    for kind in kinds:
        if kind in ("click", "hover") and not elements:
            continue
        if kind in ("fill", "type") and not any(is_editable(element) for element in elements):
            continue
        if kind == "select" and not any(element["tag"] == "select" for element in elements):
            continue
        possible.append(kind)
    return tuple(possible) or ("wait",)


def grammar(
    elements: Sequence[Element],
    kinds: Sequence[str] = DEFAULT_KINDS,
    *,
    max_text: int = MAX_TEXT,
) -> str:
    """Build the Lark grammar of one action in compact JSON.

    Args:
        elements: the elements that the model can see; no other id can be written, and no other option of a
            `<select>` than the element's own.
        kinds: the actions to offer, those of them that the page allows.
        max_text: most characters of a text.
    """
    alternatives = []
    terminals: dict[str, str] = {}
    for kind in offered(check_kinds(kinds), elements):
        head = f'{kind}":'
        if kind in ("click", "hover"):
            terminals["ID"] = _ids(element["id"] for element in elements)
            alternatives.append(f"{_quote(head)} ID")
        elif kind in ("fill", "type"):
            terminals["FIELD"] = _ids(element["id"] for element in elements if is_editable(element))
            terminals["TEXT"] = _text(max_text)
            middle, end = _quote(',"text":"'), _quote('"')
            alternatives.append(f"{_quote(head)} FIELD {middle} TEXT {end}")
        elif kind == "select":
            selects = [element for element in elements if element["tag"] == "select"]
            alternatives += [_select(element, terminals, max_text) for element in selects]
        elif kind == "press":
            terminals["KEY"] = "/" + "|".join(key.replace("+", "\\+") for key in KEYS) + "/"
            alternatives.append(f"{_quote(head + chr(34))} KEY {_quote(chr(34))}")
        elif kind == "scroll":
            alternatives.append(f"""{_quote(head)} ({_quote('"down"')} | {_quote('"up"')})""")
        elif kind == "wait":
            alternatives.append(f'{_quote(head)} ("200" | "1000")')
        elif kind in _TEXT_KEYS:
            terminals["TEXT"] = _text(max_text)
            alternatives.append(f"{_quote(head + chr(34))} TEXT {_quote(chr(34))}")
        else:
            alternatives.append(_quote(head + "true"))
    lines = ['start: "{\\"" act "}"', "act: " + "\n   | ".join(alternatives)]
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
    """One reply's walk through its grammar."""

    def __init__(self, tokenizer: LLTokenizer, text: str, prefill_ids: Sequence[int] = ()) -> None:
        """Compile the grammar and step over the prefill.

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
        """Whether nothing but the end can follow."""
        return bool(self._matcher.is_stopped())

    def allowed(self) -> NDArray[np.bool_]:
        """The tokens that may come next, as a boolean array over the tokenizer's vocabulary."""
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        bits = np.unpackbits(self._bits.view(np.uint8), bitorder="little")
        return bits[: self._vocabulary].astype(np.bool_)

    def forced_ending(self, longest: int) -> list[int] | None:
        """Step over the rest of the reply if only one is possible, and return its tokens.

        Args:
            longest: most tokens that it may have.

        Returns:
            The tokens, none if the walk is done already; None (and no step is made) if there is a choice.
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
        """The tokens that write what must come next, if something must; other tokens may write it as well."""
        return list(self._matcher.compute_ff_tokens())

    def step(self, token_id: int) -> None:
        """Go on by one token.

        Raises:
            ValueError: the grammar does not allow it; the walk is over.
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


def _select(element: Element, terminals: dict[str, str], max_text: int) -> str:
    head = _quote(f'select":{element["id"]},"option":')
    usable = usable_options(element)
    if usable:
        return f"{head} ({' | '.join(_quote(json.dumps(label, ensure_ascii=False)) for label in usable)})"
    terminals["TEXT"] = _text(max_text)
    return f'{head} "\\"" TEXT "\\""'


def _ids(ids: Iterable[int]) -> str:
    return "/" + "|".join(str(number) for number in sorted(set(ids))) + "/"


def _text(length: int) -> str:
    return r'/([^"\\\x00-\x1F\x7F]|\\["\\]){0,' + str(length) + "}/"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
