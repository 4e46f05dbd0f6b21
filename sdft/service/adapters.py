"""Adapters stored by the service, each in a folder with an archive for PEFT and, if possible, one for MLX."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

from selfsurf.agents.adapters.convert import peft_to_mlx
from selfsurf.agents.adapters.foreign import check_foreign
from selfsurf.agents.adapters.identity import check_base
from selfsurf.agents.model_files import ModelError, file_sha256
from selfsurf.sdft.run.checkpoint_files import UNFINISHED, discard, publish
from selfsurf.sdft.service.archive import (
    ADAPTER_NAME,
    BROUGHT_NAME,
    LARGEST_ADAPTER,
    ArchiveError,
    TooLarge,
    pack,
    unpack,
)
from selfsurf.sdft.service.errors import RefusedRequest
from selfsurf.sdft.service.schemas import Adapter, File, Form, Probe
from selfsurf.sdft.service.service_folder import ServiceFolder
from selfsurf.sdft.service.store import Store

PROBE = "probe.json"
"""File name of an adapter's probe, in its folder."""


def archive_of(place: ServiceFolder, name: str, form: Form) -> Path:
    """Return the path of an adapter's archive."""
    return place.root / "adapters" / name / f"{form}.tar.gz"


def weights_of(place: ServiceFolder, name: str) -> Path:
    """Return the folder of an adapter in PEFT's format."""
    return place.root / "adapters" / name / "peft"


def keep(
    place: ServiceFolder,
    store: Store,
    source: Path,
    name: str,
    *,
    model: tuple[str, str],
    job: str | None = None,
    probe: Probe | None = None,
) -> Adapter:
    """Store a copy of a PEFT adapter under a name, replacing any adapter of that name. The write is atomic.

    Args:
        place: the service's folder.
        store: the service's database.
        source: folder of the adapter.
        name: name of the copy.
        model: the base model's name and source.
        job: id of the job that made the adapter.
        probe: the model's logits for a fixed text.
    """
    target = place.root / "adapters" / name
    made = target.with_name(f"{name}.{UNFINISHED}")
    discard(made)
    (made / "peft").mkdir(parents=True)
    for path in source.iterdir():
        if ADAPTER_NAME.fullmatch(path.name):
            shutil.copyfile(path, made / "peft" / path.name)
    if probe is not None:
        (made / "peft" / PROBE).write_text(probe.model_dump_json(), encoding="utf8")
    reason = ""
    try:
        peft_to_mlx(made / "peft", made / "mlx", base=model[1])
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(made / "peft" / PROBE, made / "mlx" / PROBE)
    except (ModelError, FileNotFoundError) as error:  # includes AdapterError
        reason = str(error)
        shutil.rmtree(made / "mlx", ignore_errors=True)
    files: dict[Form, File] = {}
    for form in ("peft", "mlx"):
        if (made / form).is_dir():
            archive = pack(made / form, ADAPTER_NAME, made / f"{form}.tar.gz")
            files[form] = File(bytes=archive.stat().st_size, sha256=file_sha256(archive))
    publish(made, target)
    one = Adapter(name=name, created=time.time(), model=model[0], job=job, files=files, reason=reason, probe=probe)
    store.put_adapter(one)
    return one


def bring(place: ServiceFolder, store: Store, archive: Path, name: str, model: tuple[str, str]) -> Adapter:
    """Store an imported PEFT adapter of one of the server's base models.

    Raises:
        Refused: the archive contains no such adapter.
    """
    made = archive.with_suffix(".folder")
    room = place.settings().quota - place.used()
    try:
        with archive.open("rb") as file:
            unpack(file, made, BROUGHT_NAME, most=max(0, min(LARGEST_ADAPTER, room)), largest=LARGEST_ADAPTER)
        (made / PROBE).unlink(missing_ok=True)  # an unverified probe isn't kept
        check_foreign(made)
        check_base(made, model[1])
        return keep(place, store, made, name, model=model)
    except TooLarge as error:
        if room < LARGEST_ADAPTER:
            told = "The adapter exceeds the remaining quota."
            raise RefusedRequest(507, "no_room", told, retryable=True) from None
        raise RefusedRequest(413, "too_large", str(error)) from None
    except (ArchiveError, ModelError, ValueError, KeyError, TypeError, AttributeError, FileNotFoundError) as error:
        told = "" if isinstance(error, (KeyError, TypeError, AttributeError)) else f": {error}".replace(f"{made}", "it")
        raise RefusedRequest(422, "bad_adapter", f"This is not a PEFT adapter of {model[0]}{told}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


def remove(place: ServiceFolder, store: Store, name: str) -> None:
    """Delete an adapter that isn't in use.

    Raises:
        Refused: the adapter is in use, or doesn't exist.
    """
    try:
        one = store.adapter(name)
    except KeyError:
        raise RefusedRequest(404, "not_found", "There is no such adapter.") from None
    if one.leases or any(job.request.start_from == name for job, _, _ in store.unfinished()):
        raise RefusedRequest(409, "in_use", "A client or a job is using this adapter.", retryable=True)
    store.forget_adapter(name)
    discard(place.root / "adapters" / name)
