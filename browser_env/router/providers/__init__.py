"""The built-in providers by name, and `make`, which creates one of them or one defined elsewhere."""

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
"""Import paths of the built-in providers. `PROVIDERS["mine"] = "module:Class"` adds another, which can also be named by
its class."""


def make(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    decide: Decide | None = None,
    complete: Complete | None = None,
) -> Provider:
    """Create a provider. Its browser is started by the first call.

    Args:
        name: a key of `PROVIDERS`, or `module:Class` or `file.py:Class` of a subclass of `Provider`.
        options: arguments of the class.
        decide: a policy, passed to providers that accept one.
        complete: a model, passed to providers that accept one.

    Raises:
        ValueError: the provider doesn't exist, or doesn't accept these options.
    """
    where = PROVIDERS.get(name, name)
    if ":" not in where:
        raise ValueError(f"There is no provider {name!r}; give {', '.join(PROVIDERS)} or a class as module:Class.")
    kind = load_class(where)
    if not (isinstance(kind, type) and issubclass(kind, Provider)):
        raise ValueError(f"{name} is not a subclass of selfsurf.browser_env.router.provider.Provider.")
    taken = signature(kind).parameters
    given = dict(options or {})
    given |= {key: value for key, value in (("decide", decide), ("complete", complete)) if key in taken and value}
    try:
        signature(kind).bind(**given)
    except TypeError as error:
        raise ValueError(f"The provider {name}: {error}.") from error
    return kind(**given)
