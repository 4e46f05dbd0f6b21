"""Settings of a run's rollouts: in this process or by workers on a Ray cluster, and each worker's resources."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Resources(BaseModel):
    """Resources that one worker requests from Ray, which places it on a node that has them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_cpus: float = Field(default=1.0, ge=0)
    num_gpus: float = Field(default=0.0, ge=0)
    custom: dict[str, float] = {}
    """Custom resources with which the nodes were started, such as `{"browsers": 1}`."""

    def options(self) -> dict[str, Any]:
        """Return the resources as options of a Ray actor."""
        return {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus, "resources": dict(self.custom)}

    def total(self, workers: int) -> dict[str, float]:
        """Return the total resources of a number of workers, by Ray's names."""
        each = {"CPU": self.num_cpus, "GPU": self.num_gpus, **self.custom}
        return {name: workers * amount for name, amount in each.items() if amount}


class RolloutSettings(BaseModel):
    """Placement of episodes and sampling of their actions. Only `ahead` affects what is learned."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    workers: int = Field(default=0, ge=0)
    """Number of browser workers on a Ray cluster, with one Chromium each; 0 runs the episodes in this process, with the
    same samples."""
    contexts: int = Field(default=8, ge=1)
    """Maximum number of concurrent episodes in each browser worker."""
    policy_workers: int = Field(default=1, ge=1)
    """Number of workers that sample actions for browser workers, each with a copy of the model (or as a client of
    `engine`)."""
    browser: Resources = Resources(num_cpus=0.5)
    """Resources of a browser worker. Half a CPU by default, because it mostly waits for the model."""
    policy: Resources = Resources()
    """Resources of a policy worker, such as `{"num_gpus": 1}`."""
    batch: int | None = Field(default=None, ge=1)
    """Maximum number of actions sampled together; None for all that are due. With 1, samples are independent of
    scheduling to the last bit; otherwise another batch may change the last bits of probabilities and so, rarely, a
    token."""
    ahead: Literal[0, 1] = 0
    """Number of batches played in advance. With 1, the next batch is played while the current one is learned from; its
    samples come from weights one step older, which `importance_clip` can compensate."""
    engine: str | None = None
    """Address of a vLLM server, such as `http://host:8000/v1`, that samples instead of the policy workers' own models.
    It loads each version of the adapter from `engine_folder`."""
    engine_folder: str | None = None
    """Folder shared by policy workers and `engine`."""
    start_timeout: float = Field(default=300.0, gt=0)
    """Timeout of a worker's start, in seconds, including its model. This and the three following limits apply only to
    workers; all four are extended on a busy CPU."""
    call_timeout: float = Field(default=120.0, gt=0)
    """Timeout of one call of a policy worker's model, in seconds; then another policy worker is asked."""
    patience: float = Field(default=300.0, gt=0)
    """Seconds for which calls to unresponsive policy workers are retried before the episode ends as `env_error`."""
    episode_timeout: float = Field(default=600.0, gt=0)
    """Timeout of an episode in a browser worker, in seconds."""

    @model_validator(mode="after")
    def _workers_are_needed(self) -> RolloutSettings:
        if self.workers == 0 and (self.ahead or self.engine):
            raise ValueError("ahead and engine need workers: set rollouts.workers to at least 1")
        if (self.engine is None) != (self.engine_folder is None):
            raise ValueError("engine and engine_folder must be given together")
        return self

    def missing(self, there: dict[str, float]) -> str:
        """Return the resources that a cluster lacks, in words; empty if none."""
        wanted = self.browser.total(self.workers)
        for name, amount in self.policy.total(self.policy_workers).items():
            wanted[name] = wanted.get(name, 0.0) + amount
        lacking = [
            f"{name}: {amount:g} needed, {there.get(name, 0.0):g} available"
            for name, amount in wanted.items()
            if amount > there.get(name, 0.0) + 1e-9
        ]
        return "; ".join(lacking)
