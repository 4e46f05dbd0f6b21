"""`selfsurf adapters`: show where a LoRA adapter can be used, and convert it for MLX or back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from selfsurf.scripts.terminal.arguments import Json
from selfsurf.scripts.terminal.lazy import command_group

COMMANDS: dict[str, tuple[str, str]] = {
    "show": ("selfsurf.scripts.adapters:show", "Show an adapter."),
    "convert": ("selfsurf.scripts.adapters:convert", "Convert an adapter to or from MLX."),
}
"""Import path (`module:function`) and help line of each subcommand, by name."""

app = command_group(COMMANDS)

Folder = Annotated[Path, typer.Argument(help="Folder of the adapter.")]
_BASE = "Base model of the adapter: short name, folder, or hub id of a model that is on this machine."


def show(
    folder: Folder,
    base: Annotated[str, typer.Option(help=f"{_BASE} If given, the adapter is checked against it.")] = "",
    as_json: Json = False,
) -> None:
    """Print an adapter's format, base model and prompt, and any obstacles to serving it with vLLM or TensorRT-LLM."""
    from selfsurf.agents.adapters import identity, servable
    from selfsurf.agents.adapters.prompt import read_prompt

    config, about = identity.read_config(folder), identity.read_about(folder)
    facts: dict[str, Any] = {
        "format": "peft" if "peft_type" in config else "mlx",
        "rank": config.get("r", config.get("lora_parameters", {}).get("rank")),
        "base_model": about.get("base_model") or config.get("base_model_name_or_path"),
        "base_model_sha256": about.get("base_model_sha256"),
    }
    prompt = read_prompt(folder)
    facts["prompt"] = prompt and prompt.model_dump(mode="json")
    for server in servable.DEFAULT_MAX_RANK:
        facts[server] = servable.check_servable(folder, server)
    if base:
        identity.check_base(folder, base)
        facts["checked_on"] = base
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    if prompt:
        facts |= {f"prompt.{name}": json.dumps(value) for name, value in facts.pop("prompt").items()}
    for key, value in facts.items():
        text = "; ".join(value) or "can be served" if isinstance(value, list) else value or "not known"
        typer.echo(f"{key:<24} {text}")


def convert(
    folder: Folder,
    out: Annotated[Path, typer.Argument(help="A new folder.")],
    to: Annotated[Literal["mlx", "peft"], typer.Option(help="The format to write.")],
    base: Annotated[str, typer.Option(help=_BASE)],
    verify: Annotated[
        bool, typer.Option(help="Afterwards run the adapter in PEFT and in MLX, and compare the logits.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Convert an adapter from PEFT's format for MLX, or from MLX's for PEFT, vLLM and TensorRT-LLM."""
    from dataclasses import asdict

    from selfsurf.agents.adapters.convert import mlx_to_peft, peft_to_mlx

    (peft_to_mlx if to == "mlx" else mlx_to_peft)(folder, out, base=base)
    facts: dict[str, Any] = {"adapter": str(out), "format": to}
    if verify:
        from selfsurf.agents.policies.mlx.verify import TEXTS, verify_mlx

        peft, mlx = (folder, out) if to == "mlx" else (out, folder)
        facts["verified"] = asdict(verify_mlx(peft, mlx, base, [(text, None) for text in TEXTS]))
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(str(out))
    if verify:
        found = facts["verified"]
        typer.echo(
            f"{found['modules']} layers; the adapter changes logits by up to {found['moved']:.3g}; MLX and PEFT differ "
            f"by {found['difference']:.2g} (tolerance {found['tolerance']:.2g})."
        )
