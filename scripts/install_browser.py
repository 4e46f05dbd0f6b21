"""Install a Chromium on a machine that has none, with the rights and network that are available.

`python -m selfsurf.scripts.install_browser` installs a browser; `--check` only prints the path of an installed one that
starts. The methods are tried in this order: Playwright's own build; as root on Debian, the Debian package; on Debian
without root, the same package and its missing libraries, unpacked into the cache folder. A library that Playwright's
driver may lack is installed first, in the same way. `browser_env.browser.browsers` decides which browser is used and
with which switches.
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

from selfsurf.browser_env.browser.browsers import cache_home, find_browser
from selfsurf.browser_env.errors import BrowserNotFound
from selfsurf.scripts.machine.install import libraries, write_program

PACKAGE = "chromium-headless-shell"
"""Debian package of the browser (since Debian 12), and the name of its executable."""

DRIVER_PACKAGE = "libatomic1"
"""Debian package of a library that Playwright's bundled Node needs and a bare Debian lacks."""

PLAYWRIGHT_HOST = "https://cdn.playwright.dev"

DOWNLOAD_SECONDS = 900
"""Seconds until a command of an installation is given up, downloads included."""

HELP = f"""\
No browser could be installed. Any one of these helps; then run the same command again:
  Debian:              sudo apt-get install {PACKAGE}
  Ubuntu, Mac, others: .venv/bin/playwright install --with-deps chromium
  another Chromium:    export SELFSURF_BROWSER=/path/to/chrome"""


class InstallError(Exception):
    """A failed attempt to install a browser; the message gives the reason."""


def main(arguments: list[str]) -> int:
    """Print the browser's path and return 0, or print the problem and return 1."""
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
    """Return why the driver or the chosen browser doesn't start; empty when both start."""
    try:
        return driver_broken() or not_starting([find_browser(), "--version"])
    except BrowserNotFound as error:
        return str(error)


def found() -> str:
    """Return the path of the browser that would be used; empty if there is none."""
    try:
        return find_browser()
    except BrowserNotFound:
        return ""


def driver_broken() -> str:
    """Return why Playwright's driver doesn't start; empty when it starts."""
    return not_starting([sys.executable, "-m", "playwright", "--version"])


def not_starting(command: list[str]) -> str:
    """Return why a command fails; empty when it succeeds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{command[0]} does not start: {error}"
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return f"`{' '.join(command)}` fails: {lines[-1]}" if done.returncode else ""


def ways() -> Iterator[Callable[[], None]]:
    """Yield the installation methods that are possible on this machine, the best first."""
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
    """Whether the host responds within five seconds, with any HTTP status."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def driver_package() -> None:
    """Library for Playwright's driver: apt-get install libatomic1."""
    apt_install(DRIVER_PACKAGE)


def unpacked_driver_package() -> None:
    """Library for Playwright's driver, unpacked into the cache folder."""
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
    if problem and path != before:  # libraries are missing: remove this build, so that the Debian package is tried
        shutil.rmtree(Path(path).parents[1])
        raise InstallError(problem)


def debian_package() -> None:
    """Debian's package: apt-get install chromium-headless-shell."""
    apt_install(PACKAGE)


def unpacked_package() -> None:
    """Debian's package and its missing dependencies, unpacked into the cache folder."""
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
    """Install a Debian package; requires root."""
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run(["apt-get", "-o", "DPkg::Lock::Timeout=120", "update"])
    run(["apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", package])


def unpack(package: str, root: Path) -> None:
    """Unpack a Debian package and its missing dependencies into a folder; doesn't require root.

    Args:
        package: Name of the package.
        root: The folder, which is replaced.
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
    """Write an executable script that runs `lines` with the libraries below `root` on the search path."""
    search = f"export LD_LIBRARY_PATH={quote(libraries(root))}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
    write_program(path, search, *lines)


def run(command: list[str]) -> None:
    """Run a command and show its output.

    Raises:
        InstallError: The command fails.
        subprocess.TimeoutExpired: It takes longer than `DOWNLOAD_SECONDS`.
    """
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=DOWNLOAD_SECONDS, check=False)
    if done.returncode:
        raise InstallError(f"{command[0]} ended with exit code {done.returncode}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
