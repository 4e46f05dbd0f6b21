"""Get a Chromium onto a machine that has none, with whatever rights and network there are.

`python -m scripts.install_browser` installs one, `--check` only prints the path of one that is there and starts.
Tried in this order: Playwright's own build; as root on Debian its package; on Debian without root the same package
and the libraries that the system lacks, unpacked into the cache folder. Which browser is used, and with which
switches, is not decided here but in `browser_env.browsers`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from xml.sax.saxutils import escape

from browser_env.browsers import cache_home, find_browser
from browser_env.errors import BrowserNotFound

PACKAGE = "chromium-headless-shell"
"""Debian's package (since 12), and the name of its executable."""

PLAYWRIGHT_HOST = "https://cdn.playwright.dev"

DOWNLOAD_SECONDS = 900
"""How long one way may take, downloads included."""

HELP = f"""\
No browser could be installed. Any one of these helps; then run the same command again:
  Debian:              sudo apt-get install {PACKAGE}
  Ubuntu, Mac, others: .venv/bin/playwright install --with-deps chromium
  another Chromium:    export SELFSURF_BROWSER=/path/to/chrome"""


class InstallError(Exception):
    """A way that did not lead to a browser; the message says why."""


def main(arguments: list[str]) -> int:
    """Print the browser's path and return 0, or say what to do and return 1."""
    problem = broken()
    if problem and "--check" not in arguments:
        for way in ways():
            print(f"browser: {way.__doc__}", flush=True)
            try:
                way()
            except (InstallError, OSError, subprocess.SubprocessError) as error:
                print(f"browser: this failed: {error}", flush=True)
            problem = broken()
            if not problem:
                break
        else:
            print(HELP)
    if problem:
        print(problem, file=sys.stderr)
        return 1
    print(find_browser())
    return 0


def broken() -> str:
    """Say what keeps the browser that would be used from starting; empty when it starts."""
    try:
        path = find_browser()
    except BrowserNotFound as error:
        return str(error)
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{path} does not start: {error}"
    lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
    return f"{path} does not start: {lines[-1]}" if run.returncode else ""


def ways() -> Iterator[Callable[[], None]]:
    """The ways to a browser that make sense here, the best first."""
    if os.environ.get("PLAYWRIGHT_DOWNLOAD_HOST") or reachable(PLAYWRIGHT_HOST):
        yield playwright_build
    if shutil.which("apt-get"):
        yield debian_package if os.geteuid() == 0 else unpacked_package


def reachable(url: str) -> bool:
    """Whether the host answers at all within five seconds."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def playwright_build() -> None:
    """Playwright's own build: playwright install --only-shell chromium."""
    command = [sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]
    if sys.platform == "linux" and os.geteuid() == 0 and shutil.which("apt-get"):
        command.insert(4, "--with-deps")
    run(command)
    path = Path(find_browser())
    problem = broken()
    if problem and "ms-playwright" in path.parts:  # the libraries are missing: make way for a build that brings them
        shutil.rmtree(path.parents[1])
        raise InstallError(problem)


def debian_package() -> None:
    """Debian's package: apt-get install chromium-headless-shell."""
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run(["apt-get", "-o", "DPkg::Lock::Timeout=120", "update"])
    run(["apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", PACKAGE])


def unpacked_package() -> None:
    """Debian's package and what it lacks here, unpacked into the cache folder."""
    home = cache_home() / "browser"
    work, root = home / "unpacking", home / "root"
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("state/lists/partial", "cache/archives/partial", "root"):
        (work / folder).mkdir(parents=True)
    apt = ["apt-get", "-o", f"Dir::State={work}/state", "-o", "Dir::State::status=/var/lib/dpkg/status"]
    apt += ["-o", f"Dir::Cache={work}/cache", "-o", "Debug::NoLocking=1", "-o", "Acquire::Languages=none"]
    run([*apt, "update"])
    run([*apt, "install", "-y", "--no-install-recommends", "--download-only", PACKAGE])
    for package in sorted((work / "cache/archives").glob("*.deb")):
        run(["dpkg-deb", "--extract", str(package), str(work / "root")])
    shutil.rmtree(root, ignore_errors=True)
    (work / "root").rename(root)
    shutil.rmtree(work)
    write_launcher(home, root)


def write_launcher(home: Path, root: Path) -> None:
    """Write the script that starts the unpacked browser with its own libraries and fonts."""
    libraries = sorted({str(path.parent) for path in root.rglob("*.so*")})
    fonts = home / "fonts.conf"
    places = (root / "usr/share/fonts", "/usr/share/fonts", "~/.fonts")
    folders = "".join(f"<dir>{escape(str(place))}</dir>" for place in places)
    cache = f"<cachedir>{escape(str(home / 'fonts'))}</cachedir>"
    fonts.write_text(f"<fontconfig>{folders}{cache}</fontconfig>\n", encoding="utf-8")
    launcher = home / f"{PACKAGE}.new"
    launcher.write_text(
        "#!/bin/sh\n"
        f"export LD_LIBRARY_PATH={quote(':'.join(libraries))}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n"
        f'[ -n "$FONTCONFIG_FILE" ] || export FONTCONFIG_FILE={quote(str(fonts))}\n'
        f'exec {quote(str(root))}/usr/lib/chromium/{PACKAGE} "$@"\n',
        encoding="utf-8",
    )
    launcher.chmod(0o755)
    launcher.rename(home / PACKAGE)


def run(command: list[str]) -> None:
    """Run a command with its output shown; raise if it fails or takes too long."""
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=DOWNLOAD_SECONDS, check=False)
    if done.returncode:
        raise InstallError(f"{command[0]} ended with exit code {done.returncode}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
