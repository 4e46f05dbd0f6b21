"""The model card of an adapter, `README.md` beside it: its origin, settings and results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from selfsurf.agents.model_files import KNOWN
from selfsurf.sdft.measure.agreement import ChoiceAgreement
from selfsurf.sdft.measure.heldout import extent
from selfsurf.sdft.run.learning import SIGNS
from selfsurf.sdft.settings import TrainSettings

_OWN_LINE = ("model", "tasks", "steps", "seed")
_PATHS = ("demonstrations", "episodes", "hindsight_episodes", "start_from")
"""Settings with folders of the training machine, left out of the card."""
_VERSIONS = ("selfsurf", "python", "torch", "transformers", "peft")


def card(about: Mapping[str, Any]) -> str:
    """Return the model card, with the metadata that the Hugging Face Hub reads.

    Args:
        about: metadata saved beside the adapter (`Run.about`, or the summary of a finished run).
    """
    from huggingface_hub import ModelCardData

    hub, name = _base(about["base_model"])
    found = [f"base_model:adapter:{hub}"] if hub else []
    tags = [*found, "lora", "selfsurf", "web-agent"]
    data = ModelCardData(base_model=hub, library_name="peft", pipeline_tag="text-generation", tags=tags)
    versions = about["versions"]
    rows = {
        "base model": f"{hub or name}, SHA-256 of its weights `{about['base_model_sha256']}`",
        **(_training(about) if "settings" in about else {"trained by": "a custom trainer"}),
        "versions": ", ".join(f"{package} {versions[package]}" for package in _VERSIONS),
    }
    table = "".join(f"| {title} | {text} |\n" for title, text in rows.items())
    return f"""---
{data.to_yaml()}
---

# A web agent: LoRA adapter for {name}

Made with selfsurf {versions["selfsurf"]}. Use the adapter with its base model and the prompt in `selfsurf.json`:

```python
from selfsurf import agents

agent = agents.make("transformers", model="{about["base_model"] if hub else name}", adapter="FOLDER_OF_THIS_FILE")
```

| | |
| --- | --- |
{table}{_outcome(about) if "settings" in about else ""}"""


def _training(about: Mapping[str, Any]) -> dict[str, Any]:
    settings = about["settings"]
    return {
        "tasks": ", ".join(about["learned"]),
        "optimizer steps": about.get("steps", settings["steps"]),
        "seed": settings["seed"],
        **({"learned from": _sources(about["distilled"])} if "distilled" in about else {}),
        "adapter": f"rank {settings['lora_rank']} on {', '.join(settings['lora_targets'])}",
    }


def _sources(distilled: float) -> str:
    """Describe what the rows with a known action were learned from."""
    return (
        f"the teacher's distribution (SDFT) in {distilled:.0%} of the rows with a recorded action, the action itself "
        "(SFT) in the others"
    )


def _outcome(about: Mapping[str, Any]) -> str:
    return f"""
## Results

{"".join(_results(about))}
## Settings that differ from the defaults

```json
{json.dumps(_changed(about["settings"]), indent=1)}
```
"""


def _base(name: str) -> tuple[str | None, str]:
    """Return the base model's hub id, if it has one, and its name without a folder."""
    if name in KNOWN:
        return KNOWN[name].hub, KNOWN[name].hub.partition("/")[2]
    is_hub_id = name.count("/") == 1 and name[0] not in "./~" and not Path(name).exists()
    return name if is_hub_id else None, Path(name).name


def _results(about: Mapping[str, Any]) -> Iterator[str]:
    if found := about.get("evaluation"):
        settings = about["settings"]
        first, count = settings["first_evaluation_seed"], settings["evaluate_seeds"]
        measure, held = found.get("measure", "success"), found.get("held_out", True)
        if measure == "success":
            seeds = f"seeds {first} to {first + count - 1} of every task"
            yield f"Held-out episodes, {seeds}; perplexity on general text.\n\n"
        else:
            at = "held-out recorded states" if held else "recorded states, none of them held out, so no gain is claimed"
            at += f" ({many})" if (many := extent(found)) else ""
            yield f"Recorded actions reproduced at {at}; perplexity on general text.\n\n"
        yield f"| | {measure} | perplexity |\n| --- | --- | --- |\n"
        for title, one in (
            ("before", found["base"]),
            (f"this adapter (step {found['best']['step']})", found["best"]),
        ):
            success = "unknown" if one["success"] is None else f"{one['success']:.2f}"
            yield f"| {title} | {success} | {one['perplexity']:.2f} |\n"
        yield "\n"
    else:
        yield "Not evaluated on held-out episodes. "
    if choices := about.get("recorded", {}).get("choices"):
        yield f"Choices: {'; '.join(ChoiceAgreement.model_validate(one).text() for one in choices)}.\n\n"
    if learning := about.get("learning"):
        told = (
            f"{SIGNS[sign]} {one['first']:.2f} in the first {one['steps']} steps, {one['last']:.2f} in the last"
            for sign, one in learning.items()
        )
        yield f"In training episodes, with sampled actions: {'; '.join(told)}.\n"
    yield "\n"


def _changed(settings: Mapping[str, Any]) -> dict[str, Any]:
    defaults = TrainSettings.model_construct().model_dump(mode="json")
    shown = {name: value for name, value in settings.items() if name not in (*_OWN_LINE, *_PATHS)}
    return {name: value for name, value in shown.items() if value != defaults.get(name)}
