"""An adapter's folder on the Hugging Face hub."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from selfsurf.agents.adapters.identity import AdapterError, check_folder


class HubError(AdapterError):
    """The hub can't be reached, or refuses. The message says what to do."""


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Within this context errors of the hub's client are told in a line."""
    from huggingface_hub import errors

    try:
        yield
    except (OSError, ValueError, errors.HTTPError) as error:  # type: ignore[attr-defined]
        said = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise HubError(f"{what}: {said}") from error


def check_push(repo: str) -> None:
    """Make sure that an adapter could be pushed by this user, before it is trained; nothing is made there yet.

    Args:
        repo: as with `push`.

    Raises:
        HubError: it is no name of a repository, nobody is logged in, or the hub can't be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with _told(f"{repo!r} is no repository on the hub (give one such as me/links)"):
        validate_repo_id(repo)
    with _told("Nothing can be pushed to the hub (log in with `hf auth login`, or set HF_TOKEN)"):
        HfApi().whoami()


def push(folder: str | Path, repo: str) -> str:
    """Upload an adapter's folder to a repository on the hub, with the user's token, and return its address.

    Args:
        folder: PEFT's format, as `sdft.train` leaves it.
        repo: `owner/name`, or `name` for the user's own. One that is not there yet is made, for its owner's eyes only.

    Raises:
        FileNotFoundError: there is no adapter in the folder.
        HubError: the hub can't be reached, or refuses.
    """
    from huggingface_hub import HfApi

    check_folder(folder)
    api = HfApi()
    with _told(f"The adapter in {folder} was not pushed (`hf upload {repo} {folder}` tries again)"):
        made = api.create_repo(repo, private=True, exist_ok=True)
        api.upload_folder(repo_id=made.repo_id, folder_path=folder, commit_message="A LoRA adapter of selfsurf")
    return str(made)
