"""Concealment of the usual signs of an automated headless browser.

Some checks still succeed: docs/sessions.md lists what is not concealed.
"""

from __future__ import annotations

import asyncio
import platform
import re
import sys
from typing import Any

from selfsurf.browser_env.errors import EnvError

STEALTH_SWITCHES = ("--disable-blink-features=AutomationControlled", "--accept-lang=en-US,en")
"""Switches without which `navigator.webdriver` is true and `navigator.languages` has one entry."""

_versions: dict[str, str] = {}


async def stealth_identity(executable: str, locale: str) -> dict[str, Any]:
    """Return the identity of a browser with a window, as arguments of `Emulation.setUserAgentOverride`.

    Args:
        executable: path of the browser.
        locale: language of the user, e.g. `de-DE`.

    Raises:
        EnvError: the browser doesn't print its version.
    """
    if executable not in _versions:
        process = await asyncio.create_subprocess_exec(
            executable, "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        printed, _ = await process.communicate()
        found = re.search(rb"\d+(\.\d+){3}", printed)
        if found is None:
            raise EnvError(f"{executable} --version prints no version.")
        _versions[executable] = found[0].decode()
    full = _versions[executable]
    major = full.split(".")[0]
    mac = sys.platform == "darwin"
    system = "Macintosh; Intel Mac OS X 10_15_7" if mac else "X11; Linux x86_64"
    engine = "AppleWebKit/537.36 (KHTML, like Gecko)"
    return {
        "userAgent": f"Mozilla/5.0 ({system}) {engine} Chrome/{major}.0.0.0 Safari/537.36",
        "acceptLanguage": ",".join(dict.fromkeys([locale, locale.split("-")[0]])),
        "userAgentMetadata": {
            "brands": [{"brand": "Not:A-Brand", "version": "8"}, {"brand": "Chromium", "version": major}],
            "fullVersionList": [{"brand": "Not:A-Brand", "version": "8.0.0.0"}, {"brand": "Chromium", "version": full}],
            "platform": "macOS" if mac else "Linux",
            "platformVersion": platform.mac_ver()[0] if mac else "",
            "architecture": "arm" if platform.machine() in ("arm64", "aarch64") else "x86",
            "bitness": "64",
            "model": "",
            "mobile": False,
        },
    }
