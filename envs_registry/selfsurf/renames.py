"""What earlier versions called by other names, or had besides: one table, from which all commands and Python answer.

Nothing is taken by its old name; who uses one is told the new one.
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
"""Settings of training, and what they are called now."""

REMOVED_SETTINGS = {
    "skip_right": False, "skip_solved": False, "min_divergence": 0.0, "under_grammar": False, "mean_over": "rows",
    "support": "vocabulary", "skip_tokens": 0, "teacher_every": 1, "oracle_reason": False, "top_k": None,
}  # fmt: skip
"""Settings of training that are gone, and the values by which they learned as this version does."""

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
    "sdft.rollouts.Books": "sdft.rollouts.Tally",
    "sdft.train": "sdft",
    "sdft.trainer": "sdft.trainers.sdft",
}
"""Modules, and names in modules, that 0.1.0 had elsewhere; all of them below `selfsurf` now."""


class Renamed(ModuleNotFoundError):
    """A module, or a name in one, that is elsewhere now; the message says where."""


def told_of_setting(name: str) -> str:
    """Say what became of a setting that earlier versions had; empty for any other name."""
    if name in SETTINGS:
        return f"{name} is {SETTINGS[name]} now."
    if name in REMOVED_SETTINGS:
        return f"{name} was removed in 0.2.0; what decided that is in docs/learning.md."
    return ""


def told_of_settings(names: Iterable[str]) -> str:
    """Say what became of those of these settings that earlier versions had; empty if there are none."""
    return " ".join(filter(None, map(told_of_setting, names)))


def unknown_setting(name: str, known: Collection[str]) -> str:
    """Say what a setting that there is not may have been meant to be."""
    if told := told_of_setting(name):
        return told
    close = get_close_matches(name, known, 1)
    meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}."
    return f"there is no setting {name}; {meant}"


def told_of_import(name: str) -> str:
    """Say where a module, or a name in one, is now; empty if it was never elsewhere, or is not ours."""
    if name in PARTS:
        return f"There is no module {name}; it is selfsurf.{name}."
    own = name.removeprefix("selfsurf.")
    part = name.partition(".")[0]
    others = part != "selfsurf" and sys.modules.get(part) is not sys.modules.get(f"selfsurf.{part}")
    if own not in IMPORTS or others:  # somebody may have modules `agents` of his own
        return ""
    return f"What was {name} in 0.1.0 is selfsurf.{IMPORTS[own]} now."


class _Pointer(MetaPathFinder):
    """Comes last, where no other has found a module, and says where it is now."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        importing = sys._getframe(2).f_code.co_name == "_find_and_load_unlocked"  # not who asks whether it is there
        if importing and (told := told_of_import(fullname)):
            # With the module's name in it, `from selfsurf.browser_env import delta` would pass over this error.
            raise Renamed(told, name=fullname if fullname in PARTS else None)


sys.meta_path.append(_Pointer())
