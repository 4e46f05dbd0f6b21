"""The adapter that a run starts from: whether it can be trained further."""

from __future__ import annotations

from selfsurf.agents.adapters.identity import AdapterError, check_peft, read_config
from selfsurf.sdft.settings import TrainSettings


def check_start(settings: TrainSettings) -> None:
    """Make sure that the adapter that a run starts from, if it does, can be trained further.

    Raises:
        FileNotFoundError: there is none.
        AdapterError: it is damaged, of MLX, or more than LoRA matrices.
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
        raise AdapterError(f"The adapter at {adapter} has more than LoRA matrices ({what}): it can't be trained here.")
