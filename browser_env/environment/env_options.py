"""Environment options as plain data, for command lines, configuration files and saved runs.

Secrets are not part of the data: an option names the variable or file that holds the value (`env:VARIABLE`,
`file:PATH`), and `EnvironmentSettings.options` reads it. `browser_env.environment.env.make_core` takes the result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from selfsurf.browser_env.classes import file_path, load_class
from selfsurf.browser_env.safety import terminal
from selfsurf.browser_env.safety.policy import LATER, Safety, refuse
from selfsurf.browser_env.safety.secrets import Secret, Vault
from selfsurf.browser_env.session.options import SessionOptions
from selfsurf.browser_env.session.storage import CookieError, cookies_of

_ELSEWHERE = {
    "secrets": "--secret", "start_url": "the task", "goal": "the task", "task": "the task", "screenshot": "the command",
    "headless": "--headful", "count": "the agent", "session": "its own options", "safety": "its own options",
    "detached": "--wait",
}  # fmt: skip
"""Options of `make_core` and its parts that `env_option` rejects, each with the option or source that sets it."""

_SENSITIVE = ("http_credentials", "headers", "cookies", "context")
"""Options that may hold a secret, so that `env_option` takes the variable or file that holds their value."""


class Program:
    """A function that answers in the user's place, given by name so that any process can load it.

    Args:
        name: `module:function`, or `file.py:function`.

    Raises:
        ValueError: there is no such function.
    """

    def __init__(self, name: str) -> None:
        where, _, function = name.rpartition(":")
        self.name = f"{file_path(where)}:{function}" if where.endswith(".py") else name
        load_class(self.name, what="function")

    def __call__(self, question: str) -> str:
        """Return the function's answer."""
        said: str = load_class(self.name)(question)
        return said


class EnvironmentSettings(BaseModel):
    """Settings of the browser, its permissions, and who answers the agent."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    profile: Path | None = None
    """Folder of a browser profile, created if missing. Logins are kept. One episode at a time uses it."""
    storage_state: Path | None = None
    """JSON file with cookies and storage that every episode starts with."""
    proxy: str = ""
    """Proxy, such as http://127.0.0.1:3128. A proxy address with a password is given as env:VARIABLE or file:PATH."""
    stealth: bool = False
    """Hide the usual signs of automation."""
    device: str = ""
    """Playwright device to emulate, such as 'iPhone 15'."""
    secret: tuple[str, ...] = ()
    """Secret that the agent types as <secret:NAME> and never sees: NAME=env:VARIABLE or NAME=file:PATH.
    NAME@HOST,HOST=... restricts it to pages of these hosts. Repeatable."""
    allowed: tuple[str, ...] = ()
    """Host that may be reached besides the task's own; *.HOST includes its subdomains. Default: all public hosts.
    Repeatable."""
    blocked: tuple[str, ...] = ()
    """Host that may not be reached, nor its subdomains. Repeatable."""
    upload_from: tuple[Path, ...] = ()
    """Folder from which files may be uploaded. Repeatable."""
    download_to: Path | None = None
    """Folder for downloads, which are discarded without it."""
    confirm: Literal["ask", "auto", "never"] = "auto"
    """Handling of risky actions, such as a purchase: ask at the terminal (`run`, with a person there), auto (carry out
    and log) or never (refuse)."""
    user: str = "none"
    """Who answers the agent's questions: none, ask (you, at the terminal), or a function of the question as
    file.py:answer or module:answer."""
    env_option: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("env_option", "env"))
    """Another option of the environment as name=value (docs/environment.md). The value is JSON, or else plain text.
    Repeatable."""

    @property
    def asks(self) -> tuple[str, ...]:
        """Names of the options that are set to ask at the terminal."""
        return tuple(name for name in ("confirm", "user") if getattr(self, name) == "ask")

    def given(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, to be saved with a run."""
        return self.model_dump(mode="json", include=set(EnvironmentSettings.model_fields), exclude_defaults=True)

    def options(self, *, later: bool = False) -> dict[str, Any]:
        """Return the arguments of `make_core`, with the values of secrets.

        Args:
            later: whether the creator of the environment supplies a person's answers; otherwise the terminal asks for
                them.

        Raises:
            ValueError: a variable or a file is missing, or an option is unknown or wrong. No message contains a value.
        """
        more = _more(self.env_option)
        session: dict[str, Any] = {
            "profile": self.profile and self.profile.expanduser(),
            "storage_state": self.storage_state and _state(self.storage_state.expanduser()),
            "proxy": _proxy(self.proxy),
            "stealth": self.stealth or None,
            "device": self.device or None,
        }
        sources = tuple(folder.expanduser() for folder in self.upload_from)
        target = self.download_to and self.download_to.expanduser()
        for folder in (*sources, *([target] if target and target.exists() else [])):
            if not folder.is_dir():
                raise ValueError(f"{folder} is not a folder.")
        safety: dict[str, Any] = {
            "secrets": dict(map(_secret, self.secret)) or None,
            "allowed": self.allowed or None,
            "blocked": self.blocked or None,
            "upload_from": sources or None,
            "download_to": target,
            "confirm": {"ask": LATER if later else terminal.confirm, "never": refuse, "auto": None}[self.confirm],
        }
        safety = _joined(safety, more[Safety])
        session = _joined(session, more[SessionOptions])
        found: dict[str, Any] = _joined({"user": _user(self.user, later=later)}, more[None])
        if session:
            found["session"] = SessionOptions(**session)
        if safety:
            found["safety"] = Safety(**safety)
            Vault(found["safety"].secrets)  # raises if a secret's name or value is invalid
        return found

    @field_validator("secret")
    @classmethod
    def _no_values(cls, items: tuple[str, ...]) -> tuple[str, ...]:
        names = [_name_and_reference(item)[0] for item in items]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)}: given twice")
        return items

    @field_validator("proxy")
    @classmethod
    def _no_password(cls, proxy: str) -> str:
        if "@" in proxy and not _is_reference(proxy):
            raise ValueError(f"a proxy's address with user and password is a secret. {_CURE}")
        return proxy

    @field_validator("env_option")
    @classmethod
    def _known(cls, items: tuple[str, ...]) -> tuple[str, ...]:
        for item in items:
            name, equals, value = item.partition("=")
            if not equals:
                raise ValueError(f"{name}: give name=value")
            if name in _ELSEWHERE or name in set(EnvironmentSettings.model_fields) - {"env_option"}:
                raise ValueError(f"{name} is set by {_ELSEWHERE.get(name) or '--' + name.replace('_', '-')}")
            if name not in _takers():
                near = get_close_matches(name, _takers(), 1)
                meant = f"did you mean {near[0]}?" if near else f"the options are {', '.join(sorted(_takers()))}."
                raise ValueError(f"there is no option {name}; {meant}")
            if name in _SENSITIVE and not _is_reference(value):
                raise ValueError(f"{name} may hold a secret. {_CURE}")
        return items


_CURE = "Put it into an environment variable or a file, and give env:VARIABLE or file:PATH instead."


def _is_reference(text: str) -> bool:
    kind, colon, where = text.partition(":")
    return kind in ("env", "file") and bool(colon and where)


def _name_and_reference(item: str) -> tuple[str, tuple[str, ...], str]:
    """Split a secret option into the name, the hosts and the reference to the value."""
    name, equals, reference = item.partition("=")
    name, at, hosts = name.partition("@")
    if not equals or not name or bool(at) != bool(hosts):
        raise ValueError("a secret is NAME=env:VARIABLE or NAME=file:PATH, such as password=env:SHOP_PASSWORD")
    if reference in ("env:", "file:"):
        raise ValueError(f"{name}: {reference} names no {'variable' if reference == 'env:' else 'file'}")
    if not _is_reference(reference):
        raise ValueError(f"{name}: the value itself would stay in the shell's history or in a file. {_CURE}")
    return name, tuple(filter(None, hosts.split(","))), reference


def _secret(item: str) -> tuple[str, Secret]:
    name, hosts, reference = _name_and_reference(item)
    return name, Secret(_read(reference, f"the secret {name}"), hosts)


def _read(reference: str, what: str) -> str:
    """Return the value that a reference names."""
    kind, _, where = reference.partition(":")
    if kind == "env":
        if not os.environ.get(where):
            raise ValueError(f"The environment variable {where}, which should hold {what}, is not set.")
        return os.environ[where]
    try:
        return Path(where).expanduser().read_text(encoding="utf8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"The file {where}, which should hold {what}, can't be read ({type(error).__name__})."
        ) from None


def _proxy(given: str) -> str | None:
    if not given:
        return None
    address = _read(given, "the proxy's address") if _is_reference(given) else given
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        good = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise ValueError("proxy must be an address such as http://127.0.0.1:3128 or http://user:password@host:3128.")
    return address


def _state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"storage_state: {path} can't be read ({type(error).__name__}).") from None
    state = {"cookies": state} if isinstance(state, list) else state  # browser extensions export a list
    try:
        _StorageState.model_validate(state, strict=True)
        cookies_of(state["cookies"])
    except CookieError as error:
        raise ValueError(f"storage_state: {path}: {error}") from None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ValueError(
            f"storage_state: {path} is not a storage state as returned by env.unwrapped.storage_state()"
            f"{where and f' ({where} is missing or wrong)'}."
        ) from None
    return dict(state)


class _Cookie(BaseModel):
    """The fields that Playwright requires of a cookie, besides `domain` and `path` or `url`."""

    name: str
    value: str


class _Origin(BaseModel):
    origin: str
    storage: list[_Cookie] = Field(default=[], alias="localStorage")


class _StorageState(BaseModel):
    cookies: list[_Cookie]
    origins: list[_Origin] = []


def _user(name: str, *, later: bool) -> Any:
    if name in ("none", ""):
        return None
    if name == "ask":
        return LATER if later else terminal.answer
    if ":" not in name:
        raise ValueError(f"user must be none, ask, or a function (file.py:answer or module:answer), not {name!r}.")
    return Program(name)


@cache
def _takers() -> dict[str, tuple[Any, Any]]:
    """Return the options that `env_option` takes, each with its class (None for `make_core` itself) and its type."""
    from selfsurf.browser_env.environment.env import make_core

    kinds: tuple[tuple[Any, Any], ...] = ((SessionOptions, SessionOptions), (Safety, Safety), (None, make_core))
    own = {*_ELSEWHERE, *EnvironmentSettings.model_fields, "return"}
    found: dict[str, tuple[Any, Any]] = {}
    for taker, kind in kinds:
        hints = get_type_hints(kind)
        names: Iterable[str] = (each.name for each in fields(kind)) if taker is not None else hints
        found.update({name: (taker, hints[name]) for name in names if name not in own})
    return found


def _more(items: Iterable[str]) -> dict[Any, dict[str, Any]]:
    """Return the options of `env_option` converted to their types, grouped by the class that takes them."""
    found: dict[Any, dict[str, Any]] = {SessionOptions: {}, Safety: {}, None: {}}
    for item in items:
        name, _, text = item.partition("=")
        taker, kind = _takers()[name]
        if name in _SENSITIVE:
            text = _read(text, name)
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        try:
            found[taker][name] = TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            why = error.errors(include_input=False)[0]["msg"].replace("Input should", "it should")
            raise ValueError(f"env_option {name}: {why}.") from None
    return found


def _joined(own: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in own.items() if value is not None}, **more}
