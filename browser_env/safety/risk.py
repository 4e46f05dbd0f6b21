"""Recognition of risky actions before they happen: pure functions of the action, its target and its surroundings.

The risk follows from the target: the label of a button or link, the kind of a field, and, if these are uninformative
("OK", Enter), from the dialog or form that contains the target.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from selfsurf.browser_env.actions import Click, Fill, Press, Select, Type
from selfsurf.browser_env.human_input import Risk, RiskKind
from selfsurf.browser_env.keys import held_keys, key_chord, pressed_key
from selfsurf.browser_env.observation import Element

_WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("risk_words.toml").read_text(encoding="utf8"))
_HARMLESS, _NO_COMMAND, _TELLS, _NEVER_MIND, _GO_AHEAD, _LOG_IN, _PAYMENT_FIELD, _CARD_NUMBER, _PASSWORD_FIELD = (
    re.compile(_WORDS[name].replace("\n", ""))
    for name in (
        "harmless", "no_command", "tells", "never_mind", "go_ahead", "log_in", "payment_field", "card_number",
        "password_field",
    )
)  # fmt: skip
_ASKS = re.compile(rf"\b{_WORDS['asks'].replace(chr(10), '')}\b")
_PRICED = re.compile(_WORDS["priced"]["purchase"].replace("\n", ""))

_FIELDS = frozenset({"textbox", "searchbox", "combobox", "spinbutton", "listbox", "slider"})
_LISTS = frozenset({"select", "input", "textarea"})
"""Tags whose options `select` can choose without a click."""
_CHOICES = frozenset(
    {"tab", "checkbox", "radio", "switch", "heading", "treeitem", "row", "menuitemcheckbox", "menuitemradio"}
)
_SUBMITTING = frozenset({"Enter", "NumpadEnter"})
_ACTIVATING = _SUBMITTING | {"Space"}
_LATIN, _WORD = re.compile("[A-Za-z]"), re.compile(r"\w+")
_LINE_BREAK = re.compile(r"[\r\n]")
_GAP = re.compile(rf"^(?:(?:{_WORDS['before'].replace(chr(10), '')}) )+")
_AMOUNT = r"(?<!\d)\d[\d.,\u00a0\u202f' ]{0,20}"
_CURRENCY = r"(?:[A-Z]{0,2}[$€£¥₹₩]|EUR|USD|GBP|CHF|AUD|CAD|JPY|BRL|euros?\b|dollars?\b|francs?\b|kr\b|zł)"
_PRICE = re.compile(rf"(?:\b(?:for|für|pour|por|per|voor|à|a) )?(?:{_CURRENCY}\s?{_AMOUNT}|{_AMOUNT}{_CURRENCY})", re.I)

LABEL_WORDS = 9
"""Maximum number of words in a label that counts as a command; longer labels are headings or sentences."""
LINK_WORDS = 6
"""Maximum number of words in a link's label that counts as a command."""

_LOOKALIKES = str.maketrans(
    "АВЕІЈКМНОРСТУХЅавекмнорстухіјѕһԁԛԝӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικνορυχı",
    "ABEIJKMHOPCTYXSabekmhopctyxijshdqwlABEZHIKMNOPTYXaikvopuxi",
)
"""Cyrillic and Greek letters that look like Latin ones."""

_Patterns = list[tuple[RiskKind, re.Pattern[str]]]


@cache
def _patterns() -> tuple[_Patterns, _Patterns, _Patterns, _Patterns]:
    """Return the patterns for beginnings, endings and contents of labels, and for texts of dialogs."""
    my, deal = (_WORDS[name].replace("\n", "") for name in ("my", "deal"))
    return (
        [
            (kind, re.compile(f"(?:{')|(?:'.join(words).replace('<deal>', deal).replace('<my>', my)})"))
            for kind, words in _WORDS["first"].items()
        ],
        [
            (kind, re.compile(rf"\b(?<!\bte )(?<!\bzu )(?:{'|'.join(words)})$"))
            for kind, words in _WORDS["last"].items()
        ],
        [(kind, re.compile(words.replace("\n", ""))) for kind, words in _WORDS["inside"].items()],
        [(kind, re.compile(rf"\b(?:{words})\b")) for kind, words in _WORDS["said"].items()],
    )


@dataclass(frozen=True)
class Surroundings:
    """Surroundings of an element, as returned by `page/surroundings.js`."""

    type: str = ""
    """Attribute `type` of the element itself."""
    autocomplete: str = ""
    href: str = ""
    """Address of the link; empty if the link only runs a script."""
    submits: bool = False
    """Whether a click on the element submits a form."""
    opens: bool = False
    """Whether the element only opens a menu or a dialog."""
    dialog: str = ""
    """Text of the dialog that contains the element."""
    search: bool = False
    """Whether the element's form is a search."""
    fields: tuple[str, ...] = ()
    """Attribute `autocomplete` or `type` of each other field of the form."""
    submit: str = ""
    """Label of the form's submit button."""
    form: str = ""
    """Name or heading of the form."""
    title: str = ""
    """Description of the element, or its `title`."""
    navigates: bool = False
    """Whether the element is in a navigation (`nav`)."""
    filled: tuple[str, ...] = ()
    """Names and labels of the filled fields of the form or, without a form, of the dialog or page."""

    @property
    def pays(self) -> bool:
        """Whether a card number has been entered."""
        return any(name == "cc-number" or _CARD_NUMBER.fullmatch(normal(name)) for name in self.filled)


NO_SURROUNDINGS = Surroundings()


def might_be_risky(action: Any, element: Element | None) -> bool:
    """Whether the element's surroundings have to be read from the page. False means that there is no risk."""
    match action:
        case Click():
            return element is None or _tells(element)
        case Fill() | Type() | Select():
            return True
        case Press():
            return _activates(action) or (action.id is not None and (element is None or _tells(element)))
    return False


def _tells(element: Element) -> bool:
    """Whether an element's label shows that a click may be risky, or that the surroundings decide."""
    if element["role"] in _CHOICES or element["role"] in _FIELDS:
        return False
    label = normal(element["name"])
    if not label:
        return True  # the element's title may indicate a risk
    return bool(_GO_AHEAD.match(label) or _LOG_IN.match(label) or of_label(element["name"]))


def assess(action: Any, element: Element | None, around: Surroundings = NO_SURROUNDINGS) -> Risk | None:
    """Return the risk of an action; None if there is none.

    Args:
        action: a typed action.
        element: target of the action, if known.
        around: surroundings of the target on the page.
    """
    role, name, tag = (element["role"], element["name"], element["tag"]) if element is not None else ("", "", "")
    if not normal(name):
        name = around.title or name
    match action:
        case Fill():
            return _of_field(name, around)
        case Select():
            return _of_field(name, around) or (None if tag in _LISTS else _of_options(action.options))
        case Type():
            risk = _of_field(name, around)
            if risk is None and _LINE_BREAK.search(action.text):
                risk = _of_form(around)
            # Targets that don't take keys are clicked first.
            return risk or (_of_button(role, name, around) if action.id is not None else None)
        case Press() if _activates(action) and (role in _FIELDS or not role):
            return _of_form(around) if pressed_key(key_chord(action.key)) in _SUBMITTING else None
        case Press() if _activates(action) or action.id is not None:
            return _of_button(role, name, around)
        case Click() if element is not None:
            return _of_button(role, name, around)
    return None


def _of_options(options: Sequence[str]) -> Risk | None:
    """Assess options outside native lists, where choosing an option clicks any element with its text."""
    for option in options:
        if kind := of_label(option):
            return Risk(kind, f"The option {option!r} looks like one to {_SAYS[kind]}.")
    return None


def of_label(label: str, words: int = LABEL_WORDS) -> RiskKind | None:
    """Return the kind of risk that a button's label indicates; None for no risk."""
    unpriced = _PRICE.sub(" ", label)
    text = normal(unpriced)
    count = len(text.split())
    if not text or count > words or _HARMLESS.search(text) or _NO_COMMAND.match(text):
        return None
    if label.rstrip().endswith("?") and _ASKS.search(text):
        return None
    if unpriced != label and _PRICED.search(text):
        return "purchase"
    firsts, lasts, insides, _ = _patterns()
    for kind, inside in insides:
        if inside.search(text):
            return kind
    for candidate in dict.fromkeys((normal(label), text, _GAP.sub("", text))):
        for kind, first in firsts:
            if first.match(candidate):
                return kind
        if _NEVER_MIND.match(candidate):
            return None
        if 2 <= len(candidate.split()) <= 6 and not _TELLS.search(candidate):
            for kind, last in lasts:
                if last.search(candidate):
                    return kind
    return None


def normal(text: str) -> str:
    """Return a text in lower case, without accents, with punctuation replaced by single spaces.

    "&" becomes "and". Letters of other alphabets that look like Latin ones become Latin if the text has other Latin
    letters.
    """
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("İ", "I").replace("&", " and "))
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    if not plain.isascii() and _LATIN.search(plain):
        plain = _WORD.sub(_without_lookalikes, plain)
    return re.sub(r"[\W_]+", " ", plain.lower()).strip()


def _without_lookalikes(word: re.Match[str]) -> str:
    """Return a word in Latin letters if all of its letters look Latin, otherwise unchanged."""
    latin = word[0].translate(_LOOKALIKES)
    return latin if latin.isascii() else word[0]


def _activates(action: Press) -> bool:
    chord = key_chord(action.key)
    return not _ACTIVATING.isdisjoint({pressed_key(chord), *held_keys(chord)})


def _of_field(name: str, around: Surroundings) -> Risk | None:
    hints = around.autocomplete.lower().split()
    label = normal(name)
    card = any(hint.startswith("cc-") for hint in hints)
    secret = around.type == "password" or not {"current-password", "new-password", "one-time-code"}.isdisjoint(hints)
    if around.search and not card and not secret:
        return None
    if card or _PAYMENT_FIELD.match(label):
        return Risk("payment", f"The field {name!r} takes payment data.")
    if secret or _PASSWORD_FIELD.match(label):
        return Risk("credentials", f"The field {name!r} takes a password or code.")
    return None


def _of_button(role: str, name: str, around: Surroundings) -> Risk | None:
    if role in _FIELDS or role in _CHOICES or around.opens:
        return None
    label = normal(name)
    kind = of_label(name)
    if kind is not None:
        if around.search and kind in ("send", "publish"):
            return None
        if role == "link" and around.href and kind != "delete":
            return None  # the link only leads to another page
        words = len(label.split())
        if role == "link" and kind == "purchase" and (words > LINK_WORDS or (words == 1 and around.navigates)):
            return None
        return Risk(kind, f"The {role or 'element'} {name!r} looks like one to {_SAYS[kind]}.")
    if _NEVER_MIND.match(label):
        return None
    if _LOG_IN.match(label) and "password" in around.fields and role != "link":
        return Risk("credentials", f"The {role} {name!r} sends a password.")
    if not _GO_AHEAD.match(label) or around.search:
        return None
    said = _of_text(around.dialog)
    if said is not None:
        return Risk(said, f"The {role} {name!r} answers a dialog whose purpose is to {_SAYS[said]}.")
    return _of_form(around, told=False) if around.submits or around.pays else None


def _of_form(around: Surroundings, *, told: bool = True) -> Risk | None:
    """Assess the submission of a form. `told` includes the submit button's label, which was not assessed before."""
    if around.search:
        return None
    if told and around.submit:
        kind = of_label(around.submit)
        if kind is not None:
            return Risk(kind, f"It submits the form with the button {around.submit!r}.")
        if _NEVER_MIND.match(normal(around.submit)):
            return None
    if around.pays or any(field.startswith("cc-") for field in around.fields):
        return Risk("purchase", "It submits a form with payment data.")
    if "password" in around.fields:
        return Risk("credentials", "It submits a form with a password.")
    said = _of_text(around.dialog) or of_label(around.form)
    return Risk(said, f"It submits a form whose purpose is to {_SAYS[said]}.") if said else None


def of_dialog(message: str) -> Risk | None:
    """Return the risk of accepting a dialog opened by a page's script, judged by its text; None for no risk."""
    kind = _of_text(message) or of_label(message)
    return Risk(kind, f"The page asks {message!r}, which looks like agreeing to {_SAYS[kind]}.") if kind else None


def _of_text(text: str) -> RiskKind | None:
    plain = normal(text)
    if not plain or _HARMLESS.search(plain[:80]):
        return None
    return next((kind for kind, said in _patterns()[3] if said.search(plain)), None)


_SAYS: dict[RiskKind, str] = {
    "purchase": "buy or pay",
    "payment": "give payment data",
    "transfer": "move money",
    "delete": "delete or cancel something",
    "send": "send something",
    "publish": "publish something",
    "credentials": "use or change credentials",
}
