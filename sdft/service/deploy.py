"""Deployment: upload local episodes, train on a server, download the adapter. Resumes after any interruption."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from selfsurf.agents.adapters.identity import check_base_on_disk, check_folder
from selfsurf.agents.model_files import file_sha256
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.sdft.service import probe
from selfsurf.sdft.service.archive import ADAPTER_NAME
from selfsurf.sdft.service.client import ServiceClient, ServiceError, episode_id
from selfsurf.sdft.service.schemas import Adapter, Form, Hyperparameters, Job, TrainRequest

TAKEN = "{out} already exists with other content: choose another --out, or remove the folder."
ORIGIN = "origin.json"
"""File name of a downloaded adapter's origin: the hash of the training `request`, the `sha256` of the archive, and
hashes of the `files`."""


class Watcher(Protocol):
    """Interface for progress reports."""

    def stage(self, title: str, total: int) -> Callable[..., None]:
        """Begin a stage; return a function to call with the amount done, and with `figures` of a training."""

    def said(self, text: str) -> None:
        """Report a log message of the server."""


def deploy(
    client: ServiceClient,
    folders: Sequence[Path],
    name: str,
    out: Path,
    watcher: Watcher,
    *,
    model: tuple[str, str],
    settings: Hyperparameters,
    form: Form = "peft",
    enrich: bool = False,
) -> dict[str, Any]:
    """Upload episodes, train an adapter, download it, and verify that it equals the server's.

    Args:
        client: client of the server.
        folders: folders of the episodes.
        name: name of the adapter on the server.
        out: folder of the adapter. If it already contains the same adapter, nothing is downloaded.
        watcher: receiver of progress reports.
        model: the base model's name on the server, and its local name or folder.
        settings: settings of the training.
        form: format to download.
        enrich: whether a large model explains the demonstrations.

    Returns:
        `job`, `adapter` (the folder), `name` (on the server), `figures`, and `probe`, the result of comparing logits.

    Raises:
        ServiceError: the server refuses, the training failed, or the downloaded adapter isn't the trained one.
    """
    request = TrainRequest(
        episodes=tuple(dict.fromkeys(map(episode_id, folders))), adapter=name, model=model[0], settings=settings,
        enrich=enrich,
    )  # fmt: skip
    origin = {"request": _hash_of(request, form)}
    before = _origin(out)
    if before is not None and before["request"] != origin["request"]:
        raise ServiceError(TAKEN.format(out=out))
    if model[0] not in (known := client.health().models):
        raise ServiceError(f"The server trains only {', '.join(known)}, not {model[0]}: choose another --model.")
    for index, folder in enumerate(folders):
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        title = f"Uploading {index + 1} of {len(folders)}"
        client.upload(folder, watcher.stage(title, size))
    job = client.train(request)
    if job.status in ("failed", "cancelled"):
        job = client.resume(job.id)
    if job.status != "succeeded":
        job = _followed(client, job, watcher)
    try:
        one = client.adapter(job.adapter)
    except ServiceError as error:
        if error.problem is None or error.problem.type != "not_found":
            raise
        told = f"The adapter {job.adapter} is no longer on the server. Train it again under another --adapter-name."
        raise ServiceError(told, error.problem) from None
    if before is None:
        moved = watcher.stage("Downloading", one.files[form].bytes if form in one.files else 1)
        client.download(one, form, out, moved, finish=partial(_note_origin, origin, one, form))
    elif before["sha256"] != one.files[form].sha256:
        raise ServiceError(TAKEN.format(out=out))
    return {
        "job": job.id, "name": one.name, "adapter": str(out), "figures": job.figures,
        "probe": verify(one, form, out, model[1]),
    }  # fmt: skip


def _followed(client: ServiceClient, job: Job, watcher: Watcher) -> Job:
    """Wait for a job's end; return the finished job."""
    update = None
    for event in client.follow(job.id):
        if event.type == "progress":
            update = update or watcher.stage("Training", int(event.data["steps"]))
            figures = {key: value for key, value in event.data.items() if key not in ("step", "steps")}
            update(int(event.data["step"]), figures=figures)
        elif event.type == "log":
            watcher.said(str(event.data.get("text", "")))
    now = client.job(job.id)
    if now.status != "succeeded":
        why = now.error.message if now.error else "The job was cancelled."
        raise ServiceError(f"Training {now.status}: {why} Run the same command again to resume.", now.error)
    return now


def verify(one: Adapter, form: Form, folder: Path, model: str) -> str:
    """Compare the adapter's logits here with those on the server; return the result in a sentence.

    Raises:
        ServiceError: the logits differ.
    """
    check_folder(folder)
    check_base_on_disk(folder, model)
    if one.probe is None:
        return "The server recorded no probe."
    if form == "mlx" or not (find_spec("torch") and find_spec("peft")):
        return "The hash is right. The logits were not compared: that needs the PEFT format and the extra `train`."
    difference, allowed = probe.compare(one.probe, model, folder)
    if difference > allowed:
        raise ServiceError(
            f"{folder} matches the server's adapter, but on {model} its logits differ by {difference:.2g} from the "
            f"server's (at most {allowed:.2g} is allowed): check that the base model is the same."
        )
    if one.probe.moved <= allowed:
        return "The hash is right. The logits prove nothing, because the adapter changes them less than rounding does."
    return f"The logits differ by {difference:.2g} from the server's (at most {allowed:.2g} is allowed)."


def _hash_of(request: TrainRequest, form: Form) -> str:
    return hashlib.sha256(f"{form} {request.model_dump_json()}".encode()).hexdigest()


def _note_origin(origin: dict[str, str], one: Adapter, form: Form, made: Path) -> None:
    files = {path.name: file_sha256(path) for path in sorted(made.iterdir()) if ADAPTER_NAME.fullmatch(path.name)}
    write_atomically(made / ORIGIN, json.dumps({**origin, "sha256": one.files[form].sha256, "files": files}, indent=1))


def _origin(out: Path) -> dict[str, Any] | None:
    """Return the origin of the adapter that an earlier `deploy` left in a folder; None for an empty folder.

    Raises:
        ServiceError: the folder contains something else, or the adapter has been modified.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    try:
        origin: dict[str, Any] = json.loads((out / ORIGIN).read_text(encoding="utf8"))
        same = {*origin} >= {"request", "sha256"} and all(
            file_sha256(out / name) == sha for name, sha in origin["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        same = False
    if not same:
        raise ServiceError(TAKEN.format(out=out))
    return origin
