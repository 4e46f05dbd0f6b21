"""What a run's records say of its agent."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path
from typing import Any

from selfsurf import agents
from selfsurf.browser_env.classes import load_class


def agent_about(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a run keeps of its agent: `name`, `model`, `adapter`, their SHA-256 and the options."""
    about: dict[str, Any] = {"name": name, "backend": name, "model": None, "adapter": None, "options": options}
    if ":" in name:  # a class of the user's own
        about["code_sha256"] = hashlib.sha256(Path(inspect.getfile(load_class(name))).read_bytes()).hexdigest()
    if name in ("random", "oracle", "scripted") or ":" in name:
        return about
    model = options.get("model") or inspect.signature(agents.policy_class(name)).parameters["model"].default
    about["model"], about["adapter"] = str(model), options.get("adapter")
    if name != "openai":
        from selfsurf.agents.adapters.base import folder_hash, local_folder

        folder = local_folder(model)
        about["model_sha256"] = folder_hash(folder) if folder else None
    if about["adapter"]:
        digest = hashlib.sha256()
        for file in sorted(Path(about["adapter"]).glob("*.safetensors")):
            digest.update(file.read_bytes())
        about["adapter_sha256"] = digest.hexdigest()
    return about
