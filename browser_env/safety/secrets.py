"""Secrets that an agent types by name without seeing their values. `Vault` fills placeholders and redacts values."""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus

from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.outline import parse_line
from selfsurf.browser_env.safety.network import clean_host, matches

PLACEHOLDER = re.compile(r"<secret:([^<>]*)>")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")

_LOOSE = 6
"""Minimum length of values that are also found with spaces between their characters; shorter ones are found only as
whole words."""
_CLIPPED = 4
"""Minimum length of a value's beginning, truncated by `…`, that counts as the value."""
_GAP = r"[\s\u200b\u00ad\u2060]*"


@dataclass(frozen=True)
class Secret:
    """A secret value, and where it may be typed."""

    value: str | Callable[[], str] = field(repr=False)
    """The value, or a function that returns it, called whenever the value is typed, for codes that change."""
    domains: tuple[str, ...] = ()
    """Hosts whose pages and frames the value may be typed into, written as in `Safety.allowed`; empty for all."""

    def __post_init__(self) -> None:
        if isinstance(self.domains, str):
            raise ValueError(f"Secret.domains must be a tuple, such as ({self.domains!r},).")

    @classmethod
    def from_env(cls, variable: str, domains: tuple[str, ...] = ()) -> Secret:
        """Return a secret that reads its value from an environment variable whenever the value is needed.

        Raises:
            ValueError: when the value is needed and the variable is not set.
        """

        def read() -> str:
            if not os.environ.get(variable):
                raise ValueError(f"The environment variable {variable}, which should hold a secret, is not set.")
            return os.environ[variable]

        return cls(read, domains)

    def current(self) -> str:
        """Return the current value of the secret."""
        return self.value() if callable(self.value) else self.value


class Vault:
    """The secrets of one environment. Falsy when there are none.

    Raises:
        ValueError: a name or a value is invalid.
    """

    def __init__(self, secrets: Mapping[str, str | Secret | Callable[[], str]]) -> None:
        self._secrets = {name: s if isinstance(s, Secret) else Secret(s) for name, s in secrets.items()}
        self._values: dict[str, list[str]] = {}
        self._pattern: re.Pattern[str] | None = None
        for name, secret in self._secrets.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"A secret's name must consist of letters, digits, '_', '.' and '-', not {name!r}.")
            self._learn(name, secret.current())
        if self._pattern is not None:
            _known.setdefault(self._pattern.pattern, self)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def learn(self, name: str, value: str) -> bool:
        """Redact another value from now on; return whether it is new. Values under 3 characters are ignored."""
        if len(value.strip()) < 3 or value in self._values.get(name, ()):
            return False
        self._secrets.setdefault(name, Secret(value))
        self._learn(name, value)
        _known[self] = self
        return True

    def forget(self, name: str, value: str) -> None:
        """Stop redacting a learned value that turned out to be only the beginning of another."""
        self._values[name].remove(value)
        known = self._secrets.get(name)
        if known is not None and known.value == value:
            del self._secrets[name]
        self._compile()

    def _learn(self, name: str, value: str) -> None:
        if not isinstance(value, str) or len(value.strip()) < 3:
            raise ValueError(f"The secret {name!r} must have at least 3 characters: shorter texts can't be hidden.")
        known = self._values.setdefault(name, [])
        if value in known:
            return
        known.append(value)
        self._compile()

    def _compile(self) -> None:
        order = sorted(((v, n) for n, values in self._values.items() for v in values), key=lambda pair: -len(pair[0]))
        self._groups = [name for _, name in order]
        parts = "|".join(f"(?P<s{i}>{'|'.join(_forms(value))})" for i, (value, _) in enumerate(order))
        self._pattern = re.compile(f"(?P<keep>{PLACEHOLDER.pattern})|{parts}", re.IGNORECASE) if parts else None

    @property
    def patterns(self) -> list[str]:
        """Regular expressions for the values as pages show them, in the syntax of both Python and JavaScript."""
        return [form for values in self._values.values() for value in values for form in _forms(value)]

    def fill(self, text: str, host: str, port: int | None = None) -> str:
        """Replace placeholders with values.

        Args:
            text: text that the agent wants to type.
            host: host of the page or frame to type into.
            port: port of the same page or frame.

        Raises:
            ActionError: a secret doesn't exist, or must not be typed on this host.
        """

        def value(match: re.Match[str]) -> str:
            name = match[1]
            secret = self._secrets.get(name)
            if secret is None:
                known = ", ".join(sorted(self._secrets)) or "none"
                raise ActionError(f"There is no secret {name!r}; the available secrets: {known}.")
            clean = clean_host(host) if host else ""
            if secret.domains and not any(clean and matches(domain, clean, port) for domain in secret.domains):
                where = f"on {clean}" if clean else "here"
                raise ActionError(
                    f"The secret {name!r} must not be typed {where}; it is for {', '.join(secret.domains)}.",
                    "refused",
                )
            current = secret.current()
            if current not in self._values[name]:
                self._learn(name, current)
                _known[self] = self
            return current

        return PLACEHOLDER.sub(value, text)

    def redact(self, value: Any) -> Any:
        """Return plain data with every secret value in its strings replaced by `<secret:name>`."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(self._mask, value)
        if isinstance(value, Mapping):
            return {self.redact(key): self.redact(item) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return type(value)(self.redact(item) for item in value)
        return value

    def _mask(self, match: re.Match[str]) -> str:
        if match["keep"] is not None:
            return match[0]
        index = next(int(name[1:]) for name, text in match.groupdict().items() if text is not None)
        return f"<secret:{self._groups[index]}>"

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the start, end and `<secret:name>` of each secret value in a text."""
        for match in self._pattern.finditer(text) if self._pattern is not None else ():
            if match["keep"] is None:
                yield (*match.span(), self._mask(match))

    def redact_observation(self, observation: Observation) -> Observation:
        """Return an observation with secrets masked, including a secret that is split over several fields."""
        if self._pattern is None:
            return observation
        elements, dom = self.mask_split(observation["elements"], observation["dom"])
        observation = {**observation, "elements": elements, "dom": dom}
        picture = {"screenshot": observation["screenshot"]} if "screenshot" in observation else {}
        rest = {key: self.redact(value) for key, value in observation.items() if key != "screenshot"}
        return {**rest, **picture}  # type: ignore[typeddict-item,return-value]

    def mask_split(self, elements: tuple[Element, ...], dom: str) -> tuple[tuple[Element, ...], str]:
        """Mask fields that together contain a secret, in the elements and their outline."""
        split = self._split_over(elements)
        if not split:
            return elements, dom
        masked: list[Element] = [{**one, "value": split[one["id"]]} if one["id"] in split else one for one in elements]
        return tuple(masked), _with_values(dom, elements, split)

    def _split_over(self, elements: Iterable[Element]) -> dict[int, str]:
        """Find fields that together contain a secret; return the mask of each by element ID."""
        fields = [e for e in sorted(elements, key=lambda e: e["id"]) if e["value"] and e["value"].strip("\u2022")]
        masks: dict[int, str] = {}
        text = "".join(field["value"] for field in fields).lower()
        for name, values in self._values.items():
            for value in values:
                at = text.find(value.lower()) if len(value) >= 4 else -1
                while at >= 0:
                    touched, start = [], 0
                    for one in fields:
                        end = start + len(one["value"])
                        if start < at + len(value) and end > at:
                            touched.append(one["id"])
                        start = end
                    if len(touched) > 1:
                        masks.update(dict.fromkeys(touched, f"<secret:{name}>"))
                    at = text.find(value.lower(), at + 1)
        return masks


def _with_values(dom: str, elements: Iterable[Element], values: Mapping[int, str]) -> str:
    """Replace the values of elements in an outline, or in a delta, where lines start with `+ ` or `~ `."""
    old = {element["id"]: element["value"] for element in elements if element["id"] in values}
    rows = dom.split("\n")
    for number, row in enumerate(rows):
        mark = row[:2] if row.startswith(("+ ", "~ ")) else ""
        line = parse_line(row.removeprefix(mark))
        element = line.element
        if line.id in old and element and element.value == old[line.id]:
            rows[number] = mark + str(line._replace(text=str(element._replace(value=values[line.id]))))
    return "\n".join(rows)


def _base64_forms(value: str) -> list[str]:
    """Return a value's base64 forms at every offset, without the characters that encode adjacent bytes as well."""
    data = value.encode()
    forms = []
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        first = -(-before * 8 // 6)  # characters that also encode preceding bits
        last = (before + len(data)) * 8 // 6  # the next character also encodes following bits
        forms.append(whole[first:last])
    return forms


def _forms(value: str) -> list[str]:
    """Return regular expressions for a value: plain, encoded for URLs, HTML, JSON and base64, and truncated."""
    encoded = _base64_forms(value)
    texts = [
        quote(value, safe=""), quote(value), quote_plus(value), html.escape(value), json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    ]  # fmt: skip
    if len(value) < _LOOSE:
        plain = f"(?<![0-9A-Za-z]){_literal(value)}(?![0-9A-Za-z])"
    else:
        plain = _GAP.join(_literal(char) for char in value if not char.isspace())
    forms = [plain, *(_literal(text) for text in dict.fromkeys(texts) if text != value)]
    if len(value) >= _LOOSE:
        forms += [_literal(one) for one in encoded]
    forms += [_literal(value[:end]) + "\u2026" for end in range(len(value) - 1, _CLIPPED - 1, -1)]
    return forms


def _literal(text: str) -> str:
    """Escape a text for regular expressions of both Python and JavaScript."""
    return "".join(
        char if (char.isalnum() and char.isascii()) or ord(char) > 0xFFFF else f"\\u{ord(char):04x}" for char in text
    )


_known: dict[str | Vault, Vault] = {}
"""Vaults of this process, one per set of values, plus those that have learned further values. They are never removed,
because an episode may outlive its environment."""


def hide(name: str, value: str) -> None:
    """Redact a value in everything that this process writes from now on; agents can't type it."""
    if len(value.strip()) >= 3:
        Vault({name: value})


def known_values() -> list[str]:
    """Return the secret values of all environments of this process, for callers with their own search."""
    return [value for vault in list(_known.values()) for values in vault._values.values() for value in values]


def find_known(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start, end and `<secret:name>` of each secret of this process's environments in a text."""
    for vault in list(_known.values()):
        yield from vault.find(text)


def redact_known(record: Any) -> Any:
    """Redact the secrets of all of this process's environments in plain data."""
    for vault in list(_known.values()):
        record = vault.redact(record)
    return record
