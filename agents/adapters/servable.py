"""Compatibility check of PEFT adapters with servers that load them by path: vLLM and TensorRT-LLM.

The rules for refused and silently dropped parts are taken from the servers' sources, of no single release: vLLM's
`PEFTHelper` and TensorRT-LLM's `lora_manager`. Neither server was run, so the result is a hint, not a guarantee.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from selfsurf.agents.adapters import identity, tensors
from selfsurf.agents.adapters.identity import CONFIG, PEFT_WEIGHTS, read_config

Server: TypeAlias = Literal["vllm", "tensorrt"]

VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Allowed values of vLLM's `--max-lora-rank`."""
DEFAULT_MAX_RANK: dict[Server, int] = {"vllm": 16, "tensorrt": 64}
"""Highest adapter rank that a server accepts by default."""
_TENSORRT_MODULES = frozenset({
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj", "up_proj", "gate_up_proj", "w1", "w2", "w3",
    "gate",
})  # fmt: skip
_VISION = (".visual.", ".vision_model.", ".vision_tower.", ".connector.", ".multi_modal_projector.")
_VISION_LOST: dict[Server, str] = {
    "vllm": "layers outside the language model are ignored: start vLLM with --enable-tower-connector-lora",
    "tensorrt": "layers of the vision tower would be applied to language model layers of the same number",
}


def check_servable(folder: str | Path, server: Server, *, max_rank: int | None = None) -> list[str]:
    """Return the reasons why a server would refuse a PEFT adapter or compute it wrongly; empty if there are none.

    Args:
        folder: folder of the adapter.
        server: the server.
        max_rank: the highest rank that the server was started with; None for its default.

    Raises:
        FileNotFoundError: there is no adapter.
        ValueError: the server is unknown.
    """
    if server not in DEFAULT_MAX_RANK:
        raise ValueError(f"Unknown server {server!r}: choose from {', '.join(DEFAULT_MAX_RANK)}.")
    folder = Path(folder).expanduser()
    config = read_config(folder)
    if "peft_type" not in config:
        return [f"it is not in PEFT's format; convert it first (no peft_type in {CONFIG})"]
    return [*_refused(config), *_ranks(folder, config, server, max_rank), *_names(folder, server)]


def _refused(config: dict[str, Any]) -> list[str]:
    whole, bias = config.get("modules_to_save"), config.get("bias", "none") != "none" or config.get("lora_bias")
    reasons = {
        f"only LORA is served, not {config['peft_type']}": config["peft_type"] != "LORA",
        f"modules_to_save is not served: {whole}": whole,
        "DoRA is not served": config.get("use_dora"),
        "biases are not served": bias,
        "alpha_pattern is ignored: modules would have the wrong scale": config.get("alpha_pattern"),
    }
    return [reason for reason, holds in reasons.items() if holds]


def _ranks(folder: Path, config: dict[str, Any], server: Server, max_rank: int | None) -> list[str]:
    rank, found = identity.rank(config), []
    if config.get("rank_pattern") and server == "vllm":
        found.append("rank_pattern is ignored: modules would have the wrong scale")  # vLLM always divides by `r`
    if rank > (limit := max_rank or DEFAULT_MAX_RANK[server]):
        enough = next((allowed for allowed in VLLM_RANKS if allowed >= rank), None)
        if server == "tensorrt":
            how = f"start the server with LoraConfig(max_lora_rank={rank})"
        else:
            how = f"start the server with --max-lora-rank {enough}" if enough else f"vLLM's maximum is {VLLM_RANKS[-1]}"
        found.append(f"its rank is {rank}, but the server's limit is {limit}: {how}")
    return found


def _names(folder: Path, server: Server) -> list[str]:
    file = folder / PEFT_WEIGHTS
    if not file.is_file():
        return [f"it has no {PEFT_WEIGHTS}"]
    found: list[str] = []
    odd: set[str] = set()
    for key in tensors.header(file):
        module, _, side = key.removeprefix("base_model.model.").removesuffix(".weight").rpartition(".")
        known = side in ("lora_A", "lora_B") and key.startswith("base_model.model.")
        if server == "vllm":
            known = known or side == "base_layer"  # PEFT's copy of the base's embedding, which vLLM skips
        else:
            known = known and module.rsplit(".", 1)[-1] in _TENSORRT_MODULES
        if not known:
            odd.add(module or key)
        if not found and any(part in f".{module}" for part in _VISION):
            found.append(_VISION_LOST[server])
    if odd:
        found.append(f"the server does not support {', '.join(sorted(odd)[:3])}{' and others' if len(odd) > 3 else ''}")
    return found
