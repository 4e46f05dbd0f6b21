"""Get a Chromium onto a machine that has none, with whatever rights and network there are.

`python -m selfsurf.scripts.install_browser` installs one, `--check` only prints the path of one that is there and
starts. Tried in this order: Playwright's own build; as root on Debian its package; on Debian without root the same
package and the libraries that the system lacks, unpacked into the cache folder. A library that Playwright's own
program may lack comes first, in the same manner. Which browser is used, and with which switches, is not decided here
but in `browser_env.session.browsers`.
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

from selfsurf.browser_env.errors import BrowserNotFound
from selfsurf.browser_env.session.browsers import cache_home, find_browser
from selfsurf.scripts.machine.install import libraries, write_program

PACKAGE = "chromium-headless-shell"
"""Debian's package (since 12), and the name of its executable."""

DRIVER_PACKAGE = "libatomic1"
"""What Playwright's bundled Node needs and a bare Debian does not have."""

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
    """Say what keeps the driver or the browser that would be used from starting; empty when both start."""
    try:
        return driver_broken() or not_starting([find_browser(), "--version"])
    except BrowserNotFound as error:
        return str(error)


def found() -> str:
    """The path of the browser that would be used; empty if there is none."""
    try:
        return find_browser()
    except BrowserNotFound:
        return ""


def driver_broken() -> str:
    """Say what keeps Playwright's own program from starting; empty when it starts."""
    return not_starting([sys.executable, "-m", "playwright", "--version"])


def not_starting(command: list[str]) -> str:
    """Say why a command fails; empty when it does not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{command[0]} does not start: {error}"
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return f"`{' '.join(command)}` fails: {lines[-1]}" if done.returncode else ""


def ways() -> Iterator[Callable[[], None]]:
    """The ways to a browser that make sense here, the best first."""
    has_apt, is_root = shutil.which("apt-get"), os.geteuid() == 0
    if driver_broken() and has_apt:
        yield driver_package if is_root else unpacked_driver_package
    if not broken() or os.environ.get("SELFSURF_BROWSER"):
        return
    if os.environ.get("PLAYWRIGHT_DOWNLOAD_HOST") or reachable(PLAYWRIGHT_HOST):
        yield playwright_build
    if has_apt:
        yield debian_package if is_root else unpacked_package


def reachable(url: str) -> bool:
    """Whether the host answers at all within five seconds."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def driver_package() -> None:
    """The library that Playwright's own program needs: apt-get install libatomic1."""
    apt_install(DRIVER_PACKAGE)


def unpacked_driver_package() -> None:
    """The library that Playwright's own program needs, unpacked into the cache folder."""
    from playwright._impl._driver import compute_driver_executable

    root = cache_home() / "browser" / "driver"
    unpack(DRIVER_PACKAGE, root)
    node = Path(compute_driver_executable()[0])
    real = node.with_name("node.real")
    with open(node, "rb") as file:
        wrapped = file.read(2) == b"#!"
    if not wrapped:
        real.unlink(missing_ok=True)
        os.link(node, real)
    write_script(node, root, f'exec {quote(str(real))} "$@"')


def playwright_build() -> None:
    """Playwright's own build: playwright install --only-shell chromium."""
    command = [sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]
    if sys.platform == "linux" and os.geteuid() == 0 and shutil.which("apt-get"):
        command.insert(4, "--with-deps")
    before = found()
    run(command)
    path = found()
    problem = broken()
    if problem and path != before:  # libraries are missing: make way for a build that brings them
        shutil.rmtree(Path(path).parents[1])
        raise InstallError(problem)


def debian_package() -> None:
    """Debian's package: apt-get install chromium-headless-shell."""
    apt_install(PACKAGE)


def unpacked_package() -> None:
    """Debian's package and what it lacks here, unpacked into the cache folder."""
    home = cache_home() / "browser"
    root = home / "root"
    unpack(PACKAGE, root)
    places = (root / "usr/share/fonts", "/usr/share/fonts", "~/.fonts")
    folders = "".join(f"<dir>{escape(str(place))}</dir>" for place in places)
    fonts = home / "fonts.conf"
    cache = f"<cachedir>{escape(str(home / 'fonts'))}</cachedir>"
    fonts.write_text(f"<fontconfig>{folders}{cache}</fontconfig>\n", encoding="utf-8")
    use_fonts = f'[ -n "$FONTCONFIG_FILE" ] || export FONTCONFIG_FILE={quote(str(fonts))}'
    write_script(home / PACKAGE, root, use_fonts, f'exec {quote(str(root))}/usr/lib/chromium/{PACKAGE} "$@"')


def apt_install(package: str) -> None:
    """Install a Debian package; wants root."""
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run(["apt-get", "-o", "DPkg::Lock::Timeout=120", "update"])
    run(["apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", package])


def unpack(package: str, root: Path) -> None:
    """Unpack a Debian package, and what it depends on and the system lacks, into a folder; wants no rights.

    Args:
        package: name of the package.
        root: the folder, which is replaced.
    """
    work = root.with_name(f"{root.name}.unpacking")
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("state/lists/partial", "cache/archives/partial", "root"):
        (work / folder).mkdir(parents=True)
    apt = ["apt-get", "-o", f"Dir::State={work}/state", "-o", "Dir::State::status=/var/lib/dpkg/status"]
    apt += ["-o", f"Dir::Cache={work}/cache", "-o", "Debug::NoLocking=1", "-o", "Acquire::Languages=none"]
    run([*apt, "update"])
    run([*apt, "install", "-y", "--no-install-recommends", "--download-only", package])
    for archive in sorted((work / "cache/archives").glob("*.deb")):
        run(["dpkg-deb", "--extract", str(archive), str(work / "root")])
    shutil.rmtree(root, ignore_errors=True)
    (work / "root").rename(root)
    shutil.rmtree(work)


def write_script(path: Path, root: Path, *lines: str) -> None:
    """Write a script that finds the libraries below `root`."""
    search = f"export LD_LIBRARY_PATH={quote(libraries(root))}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
    write_program(path, search, *lines)


def run(command: list[str]) -> None:
    """Run a command with its output shown; raise if it fails or takes too long."""
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=DOWNLOAD_SECONDS, check=False)
    if done.returncode:
        raise InstallError(f"{command[0]} ended with exit code {done.returncode}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
