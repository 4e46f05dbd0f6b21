"""How a run's episodes are made: in this process or by workers on a Ray cluster, and what each worker takes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Resources(BaseModel):
    """What one worker asks of Ray. It is placed on a node that has so much left."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_cpus: float = Field(default=1.0, ge=0)
    num_gpus: float = Field(default=0.0, ge=0)
    custom: dict[str, float] = {}
    """Resources that the nodes were started with, such as `{"browsers": 1}`."""

    def options(self) -> dict[str, Any]:
        """As options of a Ray actor."""
        return {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus, "resources": dict(self.custom)}

    def total(self, workers: int) -> dict[str, float]:
        """What so many workers take together, by Ray's names."""
        each = {"CPU": self.num_cpus, "GPU": self.num_gpus, **self.custom}
        return {name: workers * amount for name, amount in each.items() if amount}


class RolloutSettings(BaseModel):
    """Where episodes run and how their actions are sampled. What is learned doesn't depend on it, but for `ahead`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    workers: int = Field(default=0, ge=0)
    """Browser workers on a Ray cluster, with a Chromium each; 0 runs the episodes in this process, with the same
    samples."""
    contexts: int = Field(default=8, ge=1)
    """Most episodes at the same time in each browser worker."""
    policy_workers: int = Field(default=1, ge=1)
    """Workers of the cluster with a copy of the model each (or clients of `engine`), which browser workers ask for
    actions."""
    browser: Resources = Resources(num_cpus=0.5)
    """What a browser worker asks of Ray. Half a processor: most of the time it waits for the model."""
    policy: Resources = Resources()
    """What a policy worker asks of Ray, such as `{"num_gpus": 1}`."""
    batch: int | None = Field(default=None, ge=1)
    """Most actions that are sampled together; None: all that are due. With 1, samples don't depend on scheduling to the
    last bit; otherwise another batch may change last bits of probabilities, and so, rarely, a token."""
    ahead: Literal[0, 1] = 0
    """1 makes the next batch's episodes while the current one is learned from, by weights that are one step older;
    `importance_clip` can weigh for that."""
    engine: str | None = None
    """Address of a vLLM server, `http://host:8000/v1`, that samples in place of the policy workers' own copies of the
    model; it loads each version of the adapter from `engine_folder`."""
    engine_folder: str | None = None
    """Folder that policy workers and `engine` share."""
    start_timeout: float = Field(default=300.0, gt=0)
    """Seconds in which a worker must have started, model included. This and the three below are limits of workers,
    without meaning with `workers=0`; all four last longer where other programs crowd the processor."""
    call_timeout: float = Field(default=120.0, gt=0)
    """Seconds that one call of a policy worker's model may take, after which another policy worker is asked."""
    patience: float = Field(default=300.0, gt=0)
    """Seconds for which policy workers that do not answer are asked again, before the episode is `env_error`."""
    episode_timeout: float = Field(default=600.0, gt=0)
    """Seconds that an episode in a browser worker may take."""

    @model_validator(mode="after")
    def _workers_are_needed(self) -> RolloutSettings:
        if self.workers == 0 and (self.ahead or self.engine):
            raise ValueError("ahead and engine need workers: set rollouts.workers=1 or more")
        if (self.engine is None) != (self.engine_folder is None):
            raise ValueError("engine and engine_folder go together")
        return self

    def missing(self, there: dict[str, float]) -> str:
        """Say what a cluster with these resources has too little of; empty if nothing."""
        wanted = self.browser.total(self.workers)
        for name, amount in self.policy.total(self.policy_workers).items():
            wanted[name] = wanted.get(name, 0.0) + amount
        lacking = [
            f"{name}: {amount:g} wanted, {there.get(name, 0.0):g} there"
            for name, amount in wanted.items()
            if amount > there.get(name, 0.0) + 1e-9
        ]
        return "; ".join(lacking)
