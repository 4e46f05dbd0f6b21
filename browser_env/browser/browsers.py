"""Search for the Chromium to run, and its command-line switches.

`python -m selfsurf.browser_env.browser.browsers` prints the executable that would be used, or says what to install.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from selfsurf.browser_env.errors import BrowserNotFound

SYSTEM_NAMES = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome",
)  # fmt: skip
"""Names of executables to search for on the PATH, the fastest first."""

HEADFUL_NAMES = SYSTEM_NAMES[1:]

NO_DISPLAY = "There is no display for a window (DISPLAY is not set): run this under xvfb-run, or on a desktop."

_MAC_APPS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

_DEBIAN = Path("/usr/lib/chromium")

DISABLED_FEATURES = (
    # With this feature, the browser rejects the answer to a dialog opened during a navigation and waits forever.
    "RenderDocument",
    # Playwright's own list, which our switch replaces.
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect", "TcpPortRandomizationWin", "OptimizationHints",
    "NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch", "msForceBrowserSignIn",
    "msEdgeUpdateLaunchServicesPreferredVersion",
)  # fmt: skip
"""Chromium features that are disabled."""


_DISABLE = "--disable-features="


def without(*features: str) -> str:
    """Return the switch that disables these features of Chromium."""
    return _DISABLE + ",".join(features)


def can_hold_time(browser: str, headless: bool, switches: Sequence[str]) -> bool:
    """Whether a browser supports virtual time and frames on demand. Only Chromium's headless shell on Linux does.

    Args:
        browser: path of the browser.
        headless: whether the browser will run without a window.
        switches: additional switches of the browser.
    """
    shell = "headless" in Path(browser).resolve().name
    return sys.platform == "linux" and headless and shell and "--site-per-process" not in switches


def merged(switches: Iterable[str]) -> list[str]:
    """Merge all switches that disable features into one, because Chromium obeys only the last."""
    every = list(switches)
    features = [name for one in every if one.startswith(_DISABLE) for name in one.removeprefix(_DISABLE).split(",")]
    return [*(one for one in every if not one.startswith(_DISABLE)), without(*dict.fromkeys(features))]


FREE_FRAMES = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
"""Switches that draw frames on request and not on a 60 Hz clock: a screenshot takes 5-9 ms instead of 17 or 33."""

SWITCHES = (
    "--disable-gpu",
    # Without this switch, a pixel at the edge of a repainted part differs from the same pixel of a full repaint.
    "--disable-partial-raster",
    "--hide-scrollbars",
    "--font-render-hinting=none",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    without(*DISABLED_FEATURES),
)
"""Command-line switches in addition to Playwright's."""


def cache_home() -> Path:
    """Return the folder for downloaded browsers and models: `SELFSURF_HOME`, or `~/.cache/selfsurf`."""
    return Path(os.environ.get("SELFSURF_HOME") or Path.home() / ".cache" / "selfsurf")


def find_browser(*, headless: bool = True, playwright_path: str | None = None) -> str:
    """Return the path of the Chromium to run.

    Searched in this order: the environment variable `SELFSURF_BROWSER`; Playwright's own build
    (`playwright_path`, as Playwright reports it, or its cache folder); a system browser on the PATH; the
    project's cache folder.

    Raises:
        BrowserNotFound: none was found, or `SELFSURF_BROWSER` names a file that doesn't exist.
    """
    wanted = os.environ.get("SELFSURF_BROWSER")
    if wanted:
        found = shutil.which(wanted)
        if not found:
            raise BrowserNotFound(f"SELFSURF_BROWSER is {wanted!r}, which is not an executable file.")
        return found
    candidates = [playwright_path] if playwright_path else []
    candidates += [str(path) for path in _playwright_builds(headless)]
    # Debian's launchers on the PATH are shell scripts that don't `exec`: killing one would orphan its browser.
    candidates += [str(_DEBIAN / name) for name in (SYSTEM_NAMES if headless else HEADFUL_NAMES)[:2]]
    candidates += [shutil.which(name) or "" for name in (SYSTEM_NAMES if headless else HEADFUL_NAMES)]
    candidates += list(_MAC_APPS) if sys.platform == "darwin" else []
    if headless:
        candidates.append(str(cache_home() / "browser" / "chromium-headless-shell"))
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    raise BrowserNotFound(
        (
            "No Chromium was found. Run `python -m selfsurf.scripts.install_browser`"
            if headless
            else "No Chromium with a window was found. Run `playwright install --with-deps chromium`"
        )
        + ", or set SELFSURF_BROWSER to the browser's path."
    )


def has_window() -> bool:
    """Whether a browser with a window can run here, which needs a full Chromium and, on Linux, a display."""
    try:
        require_window()
    except BrowserNotFound:
        return False
    return True


def require_window() -> None:
    """Check that a browser with a window can run here.

    Raises:
        BrowserNotFound: no window is possible; the message says what is missing.
    """
    missing = []
    try:
        windowed_browser()
    except BrowserNotFound as error:
        missing.append(str(error))
    if not has_display():
        missing.insert(0, NO_DISPLAY)
    if missing:
        raise BrowserNotFound(" ".join(missing))


def windowed_browser() -> str:
    """Return the path of a Chromium that can show a window.

    Raises:
        BrowserNotFound: there is no such browser.
    """
    path = find_browser(headless=False)
    if "headless" in Path(path).name:
        raise BrowserNotFound(f"{path} has no window: install a full Chromium, or set SELFSURF_BROWSER to its path.")
    return path


def has_display() -> bool:
    """Whether there is a display for a window."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _playwright_builds(headless: bool) -> list[Path]:
    root = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    if root in (None, "", "0"):
        home = Path.home()
        root = str(home / "Library/Caches/ms-playwright" if sys.platform == "darwin" else home / ".cache/ms-playwright")
    shells = "chromium_headless_shell-*/chrom*/*headless[-_]shell"
    full = ("chromium-*/chrome-linux*/chrome", "chromium-*/chrome-mac*/Chromium.app/Contents/MacOS/Chromium")
    patterns = (shells, *full) if headless else full
    return [path for pattern in patterns for path in sorted(Path(root).glob(pattern), reverse=True)]


if __name__ == "__main__":
    try:
        print(find_browser())
    except BrowserNotFound as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
