"""Adapters on disk: PEFT's format, plus a file with everything needed to reproduce one and to use it rightly."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from browser_env.episode import write_atomically

ABOUT = "selfsurf.json"


def save_adapter(model: Any, folder: Path, about: dict[str, Any]) -> Path:
    """Write the student's adapter in PEFT's format with `about` beside it, and return the folder."""
    from sdft.teacher import STUDENT

    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(str(folder), selected_adapters=[STUDENT])
    write_atomically(folder / ABOUT, json.dumps(about, indent=1, ensure_ascii=False))
    return folder


def read_about(folder: str | Path) -> dict[str, Any]:
    """Return what was saved beside an adapter; empty for an adapter from elsewhere."""
    path = Path(folder) / ABOUT
    return dict(json.loads(path.read_text(encoding="utf8"))) if path.exists() else {}


def weights_hash(model: Any) -> str:
    """Return a SHA-256 over names, shapes and values of a model's base weights, adapters left out."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if "lora_" in name:
            continue
        plain = name.replace("base_model.model.", "").replace(".base_layer.", ".")
        digest.update(f"{plain} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
