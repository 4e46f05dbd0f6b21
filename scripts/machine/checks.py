"""Checks of what this machine can run, with fixes for what it can't.

The checks try things out and change nothing. Installed parts must work: the environment, and each extra that
`scripts/setup.sh` was asked for. Everything else is optional.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal

from selfsurf import threads
from selfsurf.agents import model_files
from selfsurf.extras import CHECKOUT, how_to_install, how_to_repair
from selfsurf.scripts.machine import tensorrt_check
from selfsurf.scripts.machine.requirements import RequiredPackage, installed, needed

SETUP = Path(sys.prefix) / "setup.stamp"
"""File in which `scripts/setup.sh` records its installation; the second line names the extras."""

DEFAULT_MODEL = "smollm2"

LEAST_DISK = 0.5
"""Free disk space in GB below which a model or a run would fail."""
SCANT_DISK = 5.0
"""Free disk space in GB below which a warning is shown."""

KIND = f"a checkout in {Path(__file__).parents[2]}" if CHECKOUT else "an installed package"

PAGE = "data:text/html,<body style='background:rgb(0,160,120)'><button>Press</button>"
PAGE_COLOUR = (0, 160, 120)

State = Literal["ok", "optional", "warning", "failed"]


@dataclass(frozen=True)
class Check:
    """A line of the report."""

    group: str
    name: str
    state: State
    """State of the part: `failed` if an installed part can't run; `optional` if it is absent and wasn't asked for."""
    found: str
    fix: str = ""
    """Suggested fix, a command if possible."""


def asked_for() -> tuple[str, ...]:
    """Return the extras that were installed on purpose, as far as known; the empty name is the package itself."""
    lines = SETUP.read_text(encoding="utf-8").splitlines() if SETUP.is_file() else []
    return ("", *(lines[1].split() if len(lines) > 1 else ()))


def system() -> Iterator[Check]:
    """Check Python and the operating system."""
    yield Check("system", "selfsurf", "ok", f"{installed('selfsurf') or 'no version'}, {KIND}")
    yield Check("system", "python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Check("system", "platform", "ok", f"{platform.platform()}, {os.cpu_count()} cores")
    waiting = ", ".join(f"{name}={value}" for name, value in threads.in_force().items())
    yield Check("system", "threads", "ok", f"wait as {waiting} says")


def packages() -> Iterator[Check]:
    """Check each package in the project's metadata; an extra without any installed package takes one line."""
    try:
        everything = needed()
    except importlib.metadata.PackageNotFoundError:
        yield Check("packages", "selfsurf", "failed", "not installed", how_to_install())
        return
    for extra, group in groupby(everything, key=lambda item: item.extra):
        items = list(group)
        title = f"packages [{extra}]" if extra else "packages"
        if extra not in asked_for() and not any(item.installed for item in items):
            wanted = ", ".join(item.name for item in items)
            yield Check(title, wanted, "optional", "not installed", how_to_install(extra))
        else:
            yield from (_package(title, item) for item in items)


def _package(title: str, item: RequiredPackage) -> Check:
    found = f"{item.installed or 'not installed'} (wanted {item.wanted})"
    if item.fits:
        return Check(title, item.name, "ok", found)
    state: State = "failed" if item.extra in asked_for() else "optional"
    return Check(title, item.name, state, found, how_to_repair(item.extra))


def browser() -> Iterator[Check]:
    """Check that there is a browser, and that a page loads in it and can be read and captured."""
    from selfsurf import browser_env
    from selfsurf.browser_env.browser.browsers import find_browser

    get = how_to_repair() if CHECKOUT else "python -m selfsurf.scripts.install_browser"
    fix = f"{get}, or set SELFSURF_BROWSER to the path of a Chromium that starts"
    try:
        path = find_browser()
    except browser_env.BrowserNotFound as error:
        yield Check("browser", "executable", "failed", str(error), fix)
        return
    shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    yield Check("browser", "executable", "ok", f"{path} ({shown.stdout.strip() or 'no version'})")
    env = browser_env.BrowserEnv(PAGE, "Press it.", viewport=(320, 200))
    try:
        began = time.perf_counter()
        observation, _ = env.reset(seed=0)
        seconds = time.perf_counter() - began
    finally:
        env.close()
    seen = tuple(int(value) for value in observation["screenshot"][-1, -1])
    names = [element["name"] for element in observation["elements"]]
    if names != ["Press"] or max(abs(a - b) for a, b in zip(seen, PAGE_COLOUR, strict=True)) > 2:
        yield Check(
            "browser", "page", "failed", f"a test page was shown incorrectly: colour {seen}, elements {names}", fix
        )
    else:
        yield Check("browser", "page", "ok", f"starts, reads and shows a page in {seconds:.1f} s")


def window() -> Iterator[Check]:
    """Check for a browser with a window and a display, as `record`, `--headful` and the provider `stagehand` need."""
    from selfsurf import browser_env
    from selfsurf.browser_env.browser.browsers import has_display, windowed_browser

    try:
        yield Check("window", "browser", "ok", windowed_browser())
    except browser_env.BrowserNotFound:
        get = "playwright install --with-deps chromium, or apt-get install chromium"
        yield Check("window", "browser", "optional", "no browser with a window, which record and --headful need", get)
        if _present("stagehand"):
            yield Check(
                "window", "stagehand", "warning", "no full Chromium, which Stagehand needs to load its extension", get
            )
    if has_display():
        yield Check(
            "window", "display", "ok", os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or "there"
        )
    else:
        yield Check("window", "display", "optional", "no display, which record and --headful need",
                    "run them under xvfb-run, or on a desktop")  # fmt: skip


def model() -> Iterator[Check]:
    """Check for the default model's weights."""
    folder = model_files.pulled(DEFAULT_MODEL)
    if folder:
        yield Check(
            "model", DEFAULT_MODEL, "ok", f"{folder} (from {model_files.record(folder).get('source', 'unknown')})"
        )
    else:
        yield Check("model", DEFAULT_MODEL, "warning", "not fetched yet", f"selfsurf models pull {DEFAULT_MODEL}")


def backends() -> Iterator[Check]:
    """Check the backends that can generate text on this machine."""
    if _present("torch") and _present("transformers"):
        import torch

        device = "CUDA" if torch.cuda.is_available() else "MPS" if torch.backends.mps.is_available() else "CPU"
        yield Check("backends", "transformers", "ok", f"{_versions('transformers', 'torch')}, on {device}")
    else:
        state: State = "failed" if "train" in asked_for() else "optional"
        yield Check("backends", "transformers", state, "not installed", how_to_install("train"))
    yield _extra("mlx", ("mlx", "mlx_lm"), ("mlx", "mlx-lm", "mlx-vlm"))
    yield from tensorrt()
    for name, key in (("openai", "OPENAI_API_KEY"), ("nim", "NVIDIA_API_KEY")):
        there = _extra(name, ("openai",), ("openai",))
        if there.state == "ok" and os.environ.get(key):
            there = replace(there, found=f"{there.found}, {key} is set")
        elif there.state == "ok":
            found, fix = f"{there.found}, {key} is not set", f"export {key}=..., or give a base URL"
            there = replace(there, state="optional", found=found, fix=fix)
        yield there
    yield _extra("ray", ("ray",), ("ray",))


def tensorrt() -> Iterator[Check]:
    """Check that TensorRT-LLM is installed and has the device and the signatures that its agent needs."""
    guide = "follow NVIDIA's installation guide: PyPI's tensorrt-llm is only a stub"
    if not _has_tensorrt():
        yield _absent("tensorrt_llm", guide)
        return
    found = tensorrt_check.check()
    if found.error:
        yield Check("backends", "tensorrt_llm", "warning", f"can't be imported: {found.error}", guide)
        return
    yield Check("backends", "tensorrt_llm", "ok", found.version or "installed, version unknown")
    yield Check(
        "backends", "tensorrt_llm: GPU", "ok" if found.device else "warning", found.device or "no CUDA device",
        "" if found.device else "check nvidia-smi, the driver and CUDA_VISIBLE_DEVICES",
    )  # fmt: skip
    if found.missing:
        yield Check("backends", "tensorrt_llm: API", "warning", f"this release lacks {', '.join(found.missing)}",
                    "install a release that has it, or serve the model: trtllm-serve and the agent openai")  # fmt: skip
    else:
        yield Check("backends", "tensorrt_llm: API", "ok", "has every signature that the agent uses")


def _absent(name: str, fix: str) -> Check:
    return Check("backends", name, "optional", "not installed", fix)


def _extra(name: str, modules: tuple[str, ...], distributions: tuple[str, ...]) -> Check:
    """Check an optional backend, which the extra of the same name installs."""
    if not all(map(_present, modules)):
        return _absent(name, how_to_install(name))
    return Check("backends", name, "ok", _versions(*distributions))


def _versions(*distributions: str) -> str:
    return ", ".join(f"{name} {installed(name) or 'absent'}" for name in distributions)


def _present(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _has_tensorrt() -> bool:
    """Whether TensorRT-LLM is installed with its contents; PyPI's package of that name is an empty stub."""
    spec = importlib.util.find_spec("tensorrt_llm")
    return any(
        os.path.isdir(os.path.join(place, "llmapi")) for place in (spec and spec.submodule_search_locations) or ()
    )


def storage() -> Iterator[Check]:
    """Check the cache folder and the free space on its disk."""
    home = model_files.home()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"x")
    except OSError as error:
        yield Check("storage", "cache", "failed", f"{home} can't be written: {error.strerror}",
                    "set SELFSURF_HOME to a folder that can be written")  # fmt: skip
        return
    free = shutil.disk_usage(home).free / 1e9
    state: State = "failed" if free < LEAST_DISK else "warning" if free < SCANT_DISK else "ok"
    yield Check("storage", "cache", "ok", f"{home} can be written")
    yield Check("storage", "disk", state, f"{free:.1f} GB free", "" if state == "ok" else f"make room around {home}")


PARTS = (system, packages, browser, window, model, backends, storage)
"""Checks in the order of the report."""


def guarded(part: Callable[[], Iterator[Check]]) -> list[Check]:
    """Run a part of the checks; an exception in it becomes a failed check."""
    checks: list[Check] = []
    try:
        checks.extend(part())
    except Exception as error:  # a broken installation may raise anything
        found = f"{type(error).__name__}: {error}".splitlines()[0]
        checks.append(Check(part.__name__, "check", "failed", found, how_to_repair()))
    return checks
