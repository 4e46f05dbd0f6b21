"""Upload of an adapter's folder to the Hugging Face hub."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from selfsurf.agents.adapters.identity import AdapterError, check_folder


class HubError(AdapterError):
    """The hub can't be reached, or refuses the request. The message includes the remedy."""


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Context in which errors of the hub's client are raised as one-line `HubError`s."""
    from huggingface_hub import errors

    try:
        yield
    except (OSError, ValueError, errors.HTTPError) as error:  # type: ignore[attr-defined]
        said = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise HubError(f"{what}: {said}") from error


def check_push(repo: str) -> None:
    """Check that the user can push an adapter, before it is trained; no repository is created.

    Args:
        repo: the repository, as for `push`.

    Raises:
        HubError: the repository's name is invalid, nobody is logged in, or the hub can't be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with _told(f"{repo!r} is not a valid repository name (use a name such as me/links)"):
        validate_repo_id(repo)
    with _told("Can't push to the hub (log in with `hf auth login`, or set HF_TOKEN)"):
        HfApi().whoami()


def push(folder: str | Path, repo: str) -> str:
    """Upload an adapter's folder to a repository on the hub, with the user's token, and return its address.

    Args:
        folder: folder in PEFT's format, as written by `sdft.train`.
        repo: `owner/name`, or `name` for the user's own. A new repository is private.

    Raises:
        FileNotFoundError: there is no adapter in the folder.
        HubError: the hub can't be reached, or refuses the request.
    """
    from huggingface_hub import HfApi

    check_folder(folder)
    api = HfApi()
    with _told(f"The adapter in {folder} was not pushed (try again with `hf upload {repo} {folder}`)"):
        made = api.create_repo(repo, private=True, exist_ok=True)
        api.upload_folder(repo_id=made.repo_id, folder_path=folder, commit_message="LoRA adapter trained with selfsurf")
    return str(made)
