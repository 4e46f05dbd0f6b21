"""Storage states: conversion to Playwright's form, and the session storage that Playwright leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.errors import EnvError

if TYPE_CHECKING:
    from playwright.async_api import Page

    from selfsurf.browser_env.session.tab import Tab

_SAME_SITE = {"strict": "Strict", "lax": "Lax", "none": "None", "no_restriction": "None"}
"""Playwright's `sameSite` values by the lower-case values of browsers and extensions."""

_LAST_SECOND = 253402300799
"""Latest expiry that Playwright accepts, in seconds since 1970: the end of the year 9999."""

_WRITE = "(items) => { for (const {name, value} of items) sessionStorage.setItem(name, value); }"


def read_state(
    state: str | PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a storage state into Playwright's part and the session storage by origin.

    Args:
        state: the state, a list of cookies, or the path of a JSON file with either.

    Raises:
        EnvError: the state can't be read, or is no storage state.
    """
    try:
        given: Any = json.loads(Path(state).read_text(encoding="utf8")) if isinstance(state, (str, PathLike)) else state
        whole: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {"cookies": list(given)}
        origins = whole.get("origins") or ()
        session = {each["origin"]: each["sessionStorage"] for each in origins if each.get("sessionStorage")}
        rest = [{name: value for name, value in each.items() if name != "sessionStorage"} for each in origins]
        kept = [each for each in rest if each.keys() - {"origin", "localStorage"} or each.get("localStorage")]
        return {**whole, "cookies": cookies_of(whole.get("cookies") or ()), "origins": kept}, session
    except CookieError as error:
        raise EnvError(f"The storage state can't be used: {error}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvError(f"The storage state can't be read ({type(error).__name__}).") from None


class CookieError(ValueError):
    """A cookie can't be set. The message names the cookie and the field."""


def cookies_of(cookies: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return cookies in Playwright's format, from that format or a browser extension's export.

    Raises:
        CookieError: a cookie lacks a field, or one of its fields has a value that no cookie can have.
    """
    return [_cookie(number, each) for number, each in enumerate(cookies, 1)]


def _cookie(number: int, cookie: Any) -> dict[str, Any]:
    def wrong(what: str) -> CookieError:
        name = cookie.get("name") if isinstance(cookie, Mapping) else None
        return CookieError(f"cookie {number}{f' ({name!r})' if isinstance(name, str) else ''} {what}.")

    if not isinstance(cookie, Mapping):
        raise wrong(f"is not an object with fields, but {type(cookie).__name__}")
    found = dict(cookie)
    for field in ("name", "value", *(() if found.get("url") else ("domain", "path"))):
        if not isinstance(found.get(field), str) or (field in ("domain", "path") and not found[field]):
            raise wrong(f"has no {field}" if found.get(field) in (None, "") else f"has a {field} that is not a string")
    written = "expirationDate" if found.get("expirationDate") else "expires"
    expires = found.pop("expirationDate", None) or found.get("expires") or -1
    if isinstance(expires, bool) or not isinstance(expires, (int, float)):
        raise wrong(f"has {written}={expires!r}, which should be seconds since 1970 as a number")
    if expires > _LAST_SECOND:
        raise wrong(f"has {written}={expires!r}, which should be seconds since 1970, not milliseconds")
    found["expires"] = expires if expires > 0 else -1
    same_site = _SAME_SITE.get(str(found.pop("sameSite", None)).lower())
    secure = found.get("secure") or str(found.get("url", "")).startswith("https:")
    if cookie.get("sameSite") and same_site and (secure or same_site != "None"):  # None requires secure
        found["sameSite"] = same_site
    partition = found.pop("partitionKey", None)
    if isinstance(partition, Mapping):  # the format of `chrome.cookies`
        found["_crHasCrossSiteAncestor"] = bool(partition.get("hasCrossSiteAncestor", True))
        partition = partition.get("topLevelSite")
    if partition:
        if not isinstance(partition, str) or not secure:
            why = "needs secure=true" if isinstance(partition, str) else "should be a site such as 'https://shop.test'"
            raise wrong(f"has a partitionKey, which {why}")
        found["partitionKey"] = partition
    return found


async def restore(page: Page, session: Mapping[str, Any]) -> None:
    """Fill the session storage of a new tab without network requests or history entries.

    Args:
        page: the tab.
        session: names and values by origin.
    """
    await page.route("**/*", lambda route: route.fulfill(body="", content_type="text/html"))
    for origin, items in session.items():
        await page.goto(origin)
        await page.evaluate(_WRITE, items)
    await page.goto("about:blank")
    await page.unroute_all()
    protocol = await page.context.new_cdp_session(page)
    await protocol.send("Page.resetNavigationHistory")
    await protocol.detach()


async def add_session_storage(state: Mapping[str, Any], tabs: Iterable[Tab]) -> dict[str, Any]:
    """Return a storage state with the session storage of open tabs added; the first tab of an origin counts.

    Args:
        state: storage state from Playwright.
        tabs: the open tabs.
    """
    from playwright.async_api import Error

    origins = {each["origin"]: dict(each) for each in state["origins"]}
    for tab in tabs:
        try:
            tree = await tab.protocol.send("Page.getFrameTree")
            origin = tree["frameTree"]["frame"]["securityOrigin"]
            place = {"securityOrigin": origin, "isLocalStorage": False}
            stored = (await tab.protocol.send("DOMStorage.getDOMStorageItems", {"storageId": place}))["entries"]
        except Error:
            continue  # the page has no storage, or is gone
        found = origins.setdefault(origin, {"origin": origin, "localStorage": []}) if stored else {}
        found.setdefault("sessionStorage", [{"name": name, "value": value} for name, value in stored])
    return {**state, "origins": list(origins.values())}
