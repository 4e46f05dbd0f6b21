"""How rollouts are laid out over a cluster: which workers, and what each of them takes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


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


class Layout(BaseModel):
    """Workers of a cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    browser_workers: int = Field(default=1, ge=1)
    """Processes with a Chromium each."""
    contexts: int = Field(default=8, ge=1)
    """Most episodes at the same time in each of them."""
    policy_workers: int = Field(default=1, ge=1)
    """Processes with a copy of the model each, or clients of an engine."""
    browser: Resources = Resources(num_cpus=0.5)
    """Of a browser worker. Half a processor: most of the time it waits for the model."""
    policy: Resources = Resources()
    """Of a policy worker."""
    start_timeout: float = Field(default=300.0, gt=0)
    """Seconds in which a worker must have started, model included."""
    call_timeout: float = Field(default=120.0, gt=0)
    """Seconds that one call of a model may take, after which another policy worker is asked."""
    patience: float = Field(default=300.0, gt=0)
    """Seconds for which a model that does not answer is asked again, before its episodes count as `env_error`."""
    episode_timeout: float = Field(default=600.0, gt=0)
    """Seconds that an episode may take."""

    def missing(self, there: dict[str, float]) -> str:
        """Say what a cluster with these resources has too little of; empty if nothing."""
        wanted = self.browser.total(self.browser_workers)
        for name, amount in self.policy.total(self.policy_workers).items():
            wanted[name] = wanted.get(name, 0.0) + amount
        lacking = [
            f"{name}: {amount:g} wanted, {there.get(name, 0.0):g} there"
            for name, amount in wanted.items()
            if amount > there.get(name, 0.0) + 1e-9
        ]
        return "; ".join(lacking)
