"""The providers that come with the package, by name; `make` makes one of them, or anybody's."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from selfsurf.browser_env.classes import load_class
from selfsurf.browser_env.router.provider import Complete, Decide, Provider

PROVIDERS = {
    "playwright": "selfsurf.browser_env.router.providers.playwright:PlaywrightProvider",
    "stagehand": "selfsurf.browser_env.router.providers.stagehand:StagehandProvider",
    "webview": "selfsurf.browser_env.router.providers.webview:WebviewProvider",
}
"""Where each is. `PROVIDERS["mine"] = "module:Class"` adds another; so does naming its class."""


def make(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    decide: Decide | None = None,
    complete: Complete | None = None,
) -> Provider:
    """Make a provider; nothing is started before its first call.

    Args:
        name: one of `PROVIDERS`, or `module:Class` or `file.py:Class` of a subclass of `Provider`.
        options: arguments of its class.
        decide: a policy, for providers that take one.
        complete: a model, for providers that take one.

    Raises:
        ValueError: there is no such provider, or it doesn't take these options.
    """
    where = PROVIDERS.get(name, name)
    if ":" not in where:
        raise ValueError(f"There is no provider {name!r}; there are {', '.join(PROVIDERS)}, and classes, module:Class.")
    kind = load_class(where)
    if not (isinstance(kind, type) and issubclass(kind, Provider)):
        raise ValueError(f"{name} is no subclass of selfsurf.browser_env.router.provider.Provider.")
    taken = signature(kind).parameters
    given = dict(options or {})
    given |= {key: value for key, value in (("decide", decide), ("complete", complete)) if key in taken and value}
    try:
        signature(kind).bind(**given)
    except TypeError as error:
        raise ValueError(f"The provider {name}: {error}.") from error
    return kind(**given)
