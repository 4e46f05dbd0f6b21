"""The adapter that a run starts from: whether it can be trained further, and the settings that it determines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selfsurf.agents.adapters.identity import AdapterError, check_peft, rank, read_about, read_config
from selfsurf.sdft.settings import TrainSettings


def check_start(settings: TrainSettings) -> None:
    """Check that the adapter that a run starts from, if any, can be trained further and fits the settings.

    Raises:
        FileNotFoundError: the folder has no adapter.
        AdapterError: the adapter is damaged, of MLX, or more than LoRA matrices.
        ValueError: the settings name another rank or other targets than the adapter's.
    """
    adapter = settings.start_from
    check_peft(adapter)
    if adapter is None:
        return
    config = read_config(adapter)
    more = [name for name in ("modules_to_save", "trainable_token_indices") if config.get(name)]
    if config.get("bias", "none") != "none":
        more.append("bias")
    if more or config["peft_type"] != "LORA":
        what = ", ".join(more) or config["peft_type"]
        raise AdapterError(f"The adapter at {adapter} can't be trained: it contains more than LoRA matrices ({what}).")
    has = shape_of(adapter)
    for name in sorted(has.keys() & settings.model_fields_set):
        asked = getattr(settings, name)
        if asked != has[name] and not (name == "lora_targets" and {*asked} == {*has[name]}):
            raise ValueError(f"{name} is {asked!r}, but the adapter at {adapter} has {has[name]!r}: leave it out.")


def shape_of(adapter: Path | None) -> dict[str, Any]:
    """Return the settings determined by the adapter that a run starts from; empty without one."""
    if adapter is None:
        return {}
    config, known = read_config(adapter), read_about(adapter).get("settings", {})
    targets = config.get("target_modules") or ()
    ends = sorted({name.rpartition(".")[2] for name in targets}) if not isinstance(targets, str) else [targets]
    vision = {"lora_vision": known["lora_vision"]} if "lora_vision" in known else {}
    return {"lora_rank": rank(config), "lora_targets": tuple(ends), **vision}
