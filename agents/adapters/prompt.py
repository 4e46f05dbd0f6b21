"""Prompt options of an adapter's training, saved beside the adapter and used again wherever it is loaded.

An adapter performs best under the conditions of its training: the same kinds of actions, the same prompt length, the
same prefill. The module is independent of how adapters are trained.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from selfsurf.agents.adapters.identity import ABOUT, AdapterError, read_about
from selfsurf.agents.kinds import Labels, Texts, check_kinds
from selfsurf.agents.llm.llm_agent import Vision
from selfsurf.agents.policy import Policy
from selfsurf.agents.prompt.named import check_prompt
from selfsurf.agents.prompt.vision import MAX_IMAGE_SIDE
from selfsurf.browser_env.classes import is_loaded

PROMPT = "prompt"
"""Section of `selfsurf.json` with the prompt options."""
GUARDS = True
"""Whether guards check a loaded adapter's actions by default (figures in docs/agents.md); training uses no guards."""


def _named(prompt: str) -> str:
    """Check the name of a prompt without importing anything, since the file may come from anybody."""
    return prompt if ":" in prompt else check_prompt(prompt)


class AdapterPrompt(BaseModel):
    """Prompt and reply options of an adapter's training, with the meanings they have in `LLMAgent`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    role: Literal["agent", "verifier"] = "agent"
    """Role that the adapter was trained for; verifiers have their own prompts (`agents.roles.verifier`), not these
    options."""
    prompt: Annotated[str, AfterValidator(_named)] = "compact"
    instructions: str = ""
    actions: Annotated[tuple[str, ...], AfterValidator(check_kinds)] = ("click", "fill", "select")
    max_prompt_tokens: int = Field(default=1024, ge=1)
    max_new_tokens: int = Field(default=48, ge=1)
    constrained: bool = True
    prefill: str = '{"'
    labels: Labels = False
    texts: Texts = "free"
    vision: Vision = "auto"
    max_image_side: int | None = Field(default=MAX_IMAGE_SIDE, ge=1)
    text_page: bool = True
    guards: bool | tuple[str, ...] = GUARDS

    def check_imported(self) -> None:
        """Make sure that the prompt's class can be loaded without running a file that only the adapter names.

        Raises:
            AdapterError: the class is in a file that is not imported yet.
        """
        where = self.prompt.rpartition(":")[0]
        if where and not is_loaded(where):
            raise AdapterError(
                f"The adapter was trained with a prompt from {where}, which is not imported automatically. If you "
                f"trust that file, give prompt={self.prompt!r} (--set prompt={self.prompt})."
            )

    def options(self, policy: Policy) -> dict[str, Any]:
        """Return the options of an `LLMAgent` around a policy, without features that the policy doesn't support."""
        options = self.model_dump(exclude={"role"})
        if not policy.sees_images:
            options["vision"] = "none"
        if policy.guidance == "none":
            options["constrained"] = False
        return options


def read_prompt(adapter: str | Path | None) -> AdapterPrompt | None:
    """Return the prompt options of the adapter in a folder; None for adapters on servers or made by other software.

    Adapters saved without this section have the same options among their training settings.

    Raises:
        AdapterError: the saved options are damaged.
    """
    if adapter is None:
        return None
    folder = Path(adapter).expanduser()
    about = read_about(folder)
    saved = about.get(PROMPT, about.get("settings"))
    if saved is None:
        return None
    try:
        return AdapterPrompt.model_validate(saved)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise AdapterError(f"{folder / ABOUT} is damaged: {PROMPT} {where}: {first['msg']}.") from None
