"""Options of a browser session: browser and profile, locale and device, network."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, available_timezones

from selfsurf.browser_env.safety.network import host_and_port
from selfsurf.browser_env.session.storage import CookieError, cookies_of

StrPath = str | PathLike[str]

_NO_ENGINE = (
    "engine={engine!r} can't be used: the environment controls pages through Chromium's DevTools protocol, which "
    "Playwright offers for Chromium only. Use engine='chromium'."
)


_LOCALE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return not available_timezones()  # without a list of time zones here, the browser decides
    return True


@dataclass(frozen=True)
class SessionOptions:
    """Options of an environment's browser session, all of them optional.

    Pass them as `gymnasium.make("Browser-v0", session=SessionOptions(...))`. Other options can be given as `context=`,
    as Playwright's arguments; an option set in both places is an error.

    Raises:
        ValueError: two options exclude each other, a file is missing, or the engine is unsupported.
    """

    profile: StrPath | None = None
    """Folder of a browser profile, created if missing. Its cookies, storage and cache outlive the environment, which
    has a browser process of its own; one environment at a time may use it."""
    cdp_url: str | None = None
    """Address of a running Chromium (`--remote-debugging-port`), e.g. `http://127.0.0.1:9222`. Closing the
    environment closes neither that browser nor a tab that the environment did not open."""
    use_default_context: bool = False
    """Whether to use the browser's own windows, with its user's logins; requires `cdp_url`."""
    webview: str | None = None
    """DevTools address of an application with an embedded browser (QtWebEngine, CEF, Electron, WebView2), whose page is
    taken over and left as it is."""
    detached: StrPath | None = None
    """Folder for a browser that survives the death of this process: an environment with the same folder attaches to it
    (`AsyncBrowserEnv.resume`). Closing the environment ends the browser. Compatible only with `profile`, `proxy` and
    `cookies`."""
    storage_state: StrPath | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = field(default=None, repr=False)
    """Cookies, localStorage, IndexedDB and session storage at the start of every episode: a result of
    `storage_state()`, a list of cookies, or a JSON file with either. The session storage is set in the first tab."""
    cookies: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    """Cookies in the form of Playwright's `add_cookies` (`name`, `value`, and `url` or `domain` and `path`), or as
    browser extensions export them."""
    locale: str | None = None
    """Locale, e.g. `de-DE`: the page's language, number and date formats, and the `Accept-Language` header."""
    timezone: str | None = None
    """Time zone, e.g. `Europe/Berlin`."""
    geolocation: tuple[float, float] | None = None
    """Latitude and longitude in degrees. Pages need the permission `geolocation` to read the position."""
    permissions: Sequence[str] = ()
    """Permissions granted to every page, e.g. `("geolocation", "clipboard-read")`."""
    proxy: str | Mapping[str, str] | None = field(default=None, repr=False)
    """Proxy, e.g. `http://user:password@127.0.0.1:3128`, or Playwright's mapping (`server`, `bypass`, `username`,
    `password`). Requests to loopback go through the proxy as well."""
    user_agent: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    """HTTP headers sent with every request."""
    color_scheme: Literal["light", "dark", "no-preference"] | None = None
    reduced_motion: bool | None = None
    javascript: bool = True
    """Whether pages' scripts run. If not, observing and acting still work."""
    offline: bool = False
    ignore_tls_errors: bool = False
    http_credentials: tuple[str, str] | tuple[str, str, str] | None = field(default=None, repr=False)
    """User and password for HTTP authentication, and the origin that asks for them, e.g. `https://shop.test`; by
    default the origin of the start page. No other origin receives them."""
    device: str | None = None
    """Name of a Playwright device, e.g. `iPhone 15`: viewport, touch, scale factor and user agent (engine and TLS
    remain those of Chromium). A `viewport` given to the environment takes precedence."""
    device_scale_factor: float | None = None
    """Device pixels per CSS pixel. The observation's screenshot keeps the size in CSS pixels."""
    stealth: bool = False
    """Whether to hide the signs of automation and headless mode that pages usually check; see docs/sessions.md."""
    record_har: StrPath | None = None
    """File for each episode's network traffic (`.har` or `.zip`). Nothing is overwritten: the second episode goes to
    `shop-2.har`. A file is complete when the next episode has begun or the environment is closed."""
    replay_har: StrPath | None = None
    """File from which all requests are answered, never from the network. A request missing from the file fails, which
    `obs["events"]` reports."""
    engine: str = "chromium"

    def __post_init__(self) -> None:
        if self.engine != "chromium":
            raise ValueError(_NO_ENGINE.format(engine=self.engine))
        for one, other, why in _EXCLUDED:
            if getattr(self, one) and getattr(self, other):
                raise ValueError(f"SessionOptions: {one} and {other} exclude each other: {why}.")
        if self.use_default_context:
            if not self.cdp_url:
                raise ValueError("SessionOptions: use_default_context needs cdp_url, the address of that browser.")
            given = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
            extra = sorted(set(given) - {"cdp_url", "use_default_context"})
            if extra:
                raise ValueError(
                    f"SessionOptions: {', '.join(extra)} would change the tabs of that browser's user; "
                    "leave out use_default_context, or these options."
                )
        if self.webview:
            given = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
            if extra := sorted(set(given) - {"webview"}):
                raise ValueError(f"SessionOptions: an application's webview doesn't support {', '.join(extra)}.")
        if self.detached:
            given = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
            if extra := sorted(set(given) - {"detached", "profile", "proxy", "cookies"}):
                raise ValueError(
                    f"SessionOptions: a detached browser doesn't support {', '.join(extra)}. For a run with "
                    "--wait, store a login in a profile."
                )
            if (_proxy(self.proxy) or {}).get("username"):
                raise ValueError("SessionOptions: a detached browser can't log in to a proxy: leave out the user.")
        for name in ("cdp_url", "webview"):
            url = getattr(self, name)
            if url and urlsplit(url).scheme not in ("http", "https", "ws", "wss"):
                raise ValueError(f"SessionOptions: {name} must be an address like http://127.0.0.1:9222, not {url!r}.")
        if self.http_credentials and (named := self.http_credentials[2:]) and not origin_of(*named):
            raise ValueError(
                f"SessionOptions: the origin of http_credentials must be like https://shop.test, not {named[0]!r}."
            )
        for name in ("storage_state", "replay_har"):
            path = getattr(self, name)
            if isinstance(path, (str, PathLike)) and not Path(path).is_file():
                raise ValueError(f"SessionOptions: {name}={str(path)!r} does not exist.")
        try:
            cookies_of(self.cookies)
        except CookieError as error:
            raise ValueError(f"SessionOptions: {error}") from None
        if self.timezone is not None and not _is_zone(self.timezone):
            raise ValueError(f"SessionOptions: timezone must be a name like Europe/Berlin, not {self.timezone!r}.")
        if self.locale is not None and not _LOCALE.fullmatch(self.locale):
            raise ValueError(f"SessionOptions: locale must be a name like de-DE, not {self.locale!r}.")
        if self.geolocation is not None:
            latitude, longitude = self.geolocation
            if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
                raise ValueError(
                    f"SessionOptions: geolocation must be latitude (-90 to 90) and longitude (-180 to 180), "
                    f"not {self.geolocation}."
                )

    @property
    def passwords(self) -> dict[str, str]:
        """Passwords among these options, by purpose."""
        found = {"proxy-password": (_proxy(self.proxy) or {}).get("password", "")}
        return {**found, "http-password": self.http_credentials[1]} if self.http_credentials else found

    def credentials(self, start_url: str | None) -> dict[str, Any]:
        """Return the context's argument for HTTP authentication in an episode that starts at `start_url`, if any.

        Raises:
            ValueError: no origin is given, and the start page has none.
        """
        if self.http_credentials is None:
            return {}
        user, password, *named = self.http_credentials
        origin = origin_of(*named) if named else origin_of(start_url or "")
        if not origin:
            raise ValueError(
                "SessionOptions: http_credentials need an origin, and there is no start page to provide it: "
                "give (user, password, 'https://shop.test')."
            )
        return {"http_credentials": {"username": user, "password": password, "origin": origin}}

    @property
    def one_context_an_episode(self) -> bool:
        """Whether every episode needs a context of its own, even if its task restarts the page by itself."""
        return self.record_har is not None or self.replay_har is not None

    def context_arguments(
        self, context: Mapping[str, Any] | None, device: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the arguments for Playwright's `Browser.new_context`, from device, these options and `context`.

        Args:
            context: additional arguments given by the user.
            device: Playwright's description of `device`.

        Raises:
            ValueError: `context` sets an argument that these options set as well.
        """
        mine: dict[str, Any] = {name: value for name, value in (device or {}).items() if name not in _NOT_OF_CONTEXT}
        mine.update({name: value for name, value in self._own_arguments().items() if value is not None})
        context = dict(context or {})
        if self.use_default_context and context:
            raise ValueError("context= can't be used with use_default_context: that context exists already.")
        if self.profile and "storage_state" in context:
            raise ValueError("context= has storage_state, but a profile has its own storage.")
        twice = sorted(set(mine) & set(context))
        if twice:
            raise ValueError(f"Both session= and context= set {', '.join(twice)}: leave it out of one of them.")
        return {**mine, **context}

    def _own_arguments(self) -> dict[str, Any]:
        state = self.storage_state
        return {
            "storage_state": Path(state) if isinstance(state, (str, PathLike)) else state or None,
            "locale": self.locale,
            "timezone_id": self.timezone,
            "geolocation": self.geolocation
            and {"latitude": float(self.geolocation[0]), "longitude": float(self.geolocation[1])},
            "permissions": list(self.permissions) or None,
            "proxy": _proxy(self.proxy),
            "user_agent": self.user_agent,
            "extra_http_headers": self.headers and dict(self.headers),
            "color_scheme": self.color_scheme,
            "reduced_motion": {None: None, True: "reduce", False: "no-preference"}[self.reduced_motion],
            "java_script_enabled": None if self.javascript else False,
            "offline": self.offline or None,
            "ignore_https_errors": self.ignore_tls_errors or None,
            "http_credentials": self.http_credentials
            and {"username": self.http_credentials[0], "password": self.http_credentials[1]},
            "device_scale_factor": self.device_scale_factor,
            # Service workers' responses are neither recorded nor replayed.
            "service_workers": "block" if self.one_context_an_episode else None,
        }


_NOT_OF_CONTEXT = ("viewport", "default_browser_type")
"""Parts of a device's description that are not arguments: the environment sets viewport and browser."""

_EXCLUDED = (
    ("profile", "cdp_url", "a running browser already has a profile"),
    ("profile", "storage_state", "a profile has its own storage"),
    ("stealth", "cdp_url", "stealth needs command-line switches, and the browser is already running"),
    ("stealth", "device", "a Chromium that emulates a device is not an ordinary desktop browser"),
    ("record_har", "replay_har", "one writes the file, the other reads it"),
)


def origin_of(url: str) -> str:
    """Return a web page's origin as browsers write it; empty if the address isn't that of a web page."""
    host, port = host_and_port(url)
    scheme = urlsplit(url).scheme if host else ""
    if scheme not in ("http", "https"):
        return ""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}" + ("" if (scheme, port) in _USUAL else f":{port}")


_USUAL = (("http", 80), ("https", 443))


def _proxy(proxy: str | Mapping[str, str] | None) -> dict[str, str] | None:
    if proxy is None:
        return None
    if isinstance(proxy, Mapping):
        return dict(proxy)
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if not parts.hostname:
        raise ValueError(f"SessionOptions: proxy must be an address like http://127.0.0.1:3128, not {proxy!r}.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    server = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
    if not parts.username:
        return {"server": server}
    return {"server": server, "username": unquote(parts.username), "password": unquote(parts.password or "")}
