"""Storage states: what users give, what Playwright takes, and the session storage that Playwright leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.errors import EnvError

if TYPE_CHECKING:
    from playwright.async_api import Page

    from selfsurf.browser_env.session.tab import Tab

_SAME_SITE = {"strict": "Strict", "lax": "Lax", "none": "None", "no_restriction": "None"}
"""Playwright's words for `sameSite` by those of browsers and their extensions, in lower case."""

_WRITE = "(items) => { for (const {name, value} of items) sessionStorage.setItem(name, value); }"


def read_state(state: str | PathLike[str] | Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a storage state into what Playwright takes and the session storage by origin.

    Args:
        state: the state, or the path of a JSON file with it.

    Raises:
        EnvError: it can't be read, or is no storage state.
    """
    try:
        whole = state if isinstance(state, Mapping) else json.loads(Path(state).read_text(encoding="utf8"))
        origins = whole.get("origins") or ()
        session = {each["origin"]: each["sessionStorage"] for each in origins if each.get("sessionStorage")}
        rest = [{name: value for name, value in each.items() if name != "sessionStorage"} for each in origins]
        kept = [each for each in rest if each.keys() - {"origin", "localStorage"} or each.get("localStorage")]
        return {**whole, "cookies": [cookie_of(each) for each in whole.get("cookies") or ()], "origins": kept}, session
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvError(f"The storage state can't be read ({type(error).__name__}).") from None


def cookie_of(cookie: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cookie as Playwright takes it, from its own format or that of a browser extension's export."""
    found = dict(cookie)
    expires = found.pop("expirationDate", None) or found.get("expires")
    found["expires"] = expires if expires and expires > 0 else -1
    same_site = _SAME_SITE.get(str(found.pop("sameSite", None)).lower())
    secure = found.get("secure") or str(found.get("url", "")).startswith("https:")
    if cookie.get("sameSite") and same_site and (secure or same_site != "None"):  # browsers refuse it otherwise
        found["sameSite"] = same_site
    return found


async def restore(page: Page, session: Mapping[str, Any]) -> None:
    """Fill the session storage of a new tab, without a request and without a trace in its history.

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
    """Return a storage state with the session storage of the pages that tabs show; of equal origins the first counts.

    Args:
        state: as Playwright returns it.
        tabs: which.
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
