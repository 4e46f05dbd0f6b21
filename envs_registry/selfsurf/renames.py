"""Names of earlier versions that were changed or removed: one table for the hints of all commands and imports.

Old names are not accepted; errors name their replacements.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from importlib.abc import MetaPathFinder
from types import ModuleType

from selfsurf.bare import PARTS

SETTINGS = {
    "rollout_workers": "rollouts.workers", "rollout_contexts": "rollouts.contexts", "rollout_batch": "rollouts.batch",
    "rollout_engine": "rollouts.engine", "rollout_engine_folder": "rollouts.engine_folder",
    "rollout_start_timeout": "rollouts.start_timeout", "rollout_call_timeout": "rollouts.call_timeout",
    "rollout_patience": "rollouts.patience", "rollout_episode_timeout": "rollouts.episode_timeout",
    "policy_workers": "rollouts.policy_workers", "ahead": "rollouts.ahead",
    "browser_resources": "rollouts.browser", "policy_resources": "rollouts.policy",
}  # fmt: skip
"""Current names of renamed training settings."""

REMOVED_SETTINGS = {
    "skip_right": False, "skip_solved": False, "min_divergence": 0.0, "under_grammar": False, "mean_over": "rows",
    "support": "vocabulary", "skip_tokens": 0, "teacher_every": 1, "oracle_reason": False, "top_k": None,
}  # fmt: skip
"""Removed training settings, with the values at which earlier versions trained as this version does."""

OPTIONS = {"--env": ("--env-option",), "--logs": ("--attempt-log", "--keep-episodes")}
"""Current names of renamed command-line options, by command."""

IMPORTS = {
    "agents.constraint": "agents.reply.constraint",
    "agents.examples": "agents.prompt.examples",
    "agents.models": "agents.model_files",
    "agents.parse": "agents.reply.parse",
    "agents.policies.endpoints": "agents.policies.openai.endpoints",
    "agents.policies.mlx.MLXPolicy": "agents.policies.mlx.policy.MLXPolicy",
    "agents.policies.openai.OpenAIPolicy": "agents.policies.openai.policy.OpenAIPolicy",
    "agents.policies.tensorrt.TensorRTPolicy": "agents.policies.tensorrt.policy.TensorRTPolicy",
    "agents.policies.transformers.TransformersPolicy": "agents.policies.transformers.policy.TransformersPolicy",
    "agents.schema": "agents.reply.schema",
    "browser_env.delta": "browser_env.observe.delta",
    "browser_env.episode": "browser_env.record.episode",
    "browser_env.marks": "browser_env.observe.marks",
    "browser_env.record.Recorder": "browser_env.record.recorder.Recorder",
    "browser_env.replay": "agents.play.replay",
    "envs_registry.load_task": "envs_registry.task_of",
    "sdft.lora": "sdft.loss.lora",
    "sdft.rollouts.Books": "sdft.rollouts.EpisodeCounts",
    "sdft.train": "sdft",
    "sdft.trainer": "sdft.trainers.sdft",
}
"""New locations, below `selfsurf`, of modules and names that version 0.1.0 had elsewhere."""


class Renamed(ModuleNotFoundError):
    """A module, or a name in a module, was moved; the message gives its new location."""


def told_of_setting(name: str) -> str:
    """Return a hint on a setting that earlier versions had; empty for any other name."""
    if name in SETTINGS:
        return f"{name} is {SETTINGS[name]} now."
    if name in REMOVED_SETTINGS:
        return f"{name} was removed in 0.2.0; docs/learning.md gives the reasons."
    return ""


def told_of_settings(names: Iterable[str]) -> str:
    """Return hints on the settings that only earlier versions had; empty if there are none."""
    return " ".join(filter(None, map(told_of_setting, names)))


def unknown_setting(name: str, known: Collection[str]) -> str:
    """Return a hint on what an unknown setting may have meant."""
    if told := told_of_setting(name):
        return told
    close = get_close_matches(name, known, 1)
    meant = f"did you mean {close[0]}?" if close else f"the settings are {', '.join(sorted(known))}."
    return f"there is no setting {name}; {meant}"


def told_of_import(name: str) -> str:
    """Return a hint on the new location of a module or name; empty if it was never moved or isn't ours."""
    if name in PARTS:
        return f"There is no module {name}; import selfsurf.{name}."
    own = name.removeprefix("selfsurf.")
    part = name.partition(".")[0]
    others = part != "selfsurf" and sys.modules.get(part) is not sys.modules.get(f"selfsurf.{part}")
    if own not in IMPORTS or others:  # other code may have its own modules named `agents`
        return ""
    return f"{name} of 0.1.0 is now selfsurf.{IMPORTS[own]}."


class _Pointer(MetaPathFinder):
    """A finder used when all others have failed, which reports the new location of a moved module."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        # callers that only check whether a module exists get no error
        importing = sys._getframe(2).f_code.co_name == "_find_and_load_unlocked"
        if importing and (told := told_of_import(fullname)):
            # With the module's name set, `from selfsurf.browser_env import delta` would ignore this error.
            raise Renamed(told, name=fullname if fullname in PARTS else None)


sys.meta_path.append(_Pointer())
