"""The native vector environment: N contexts of one browser, stepped at the same time on one loop."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from selfsurf.browser_env.env import configure, make_core, runtime_is_needed
from selfsurf.browser_env.observation import Info, Observation
from selfsurf.browser_env.session.runtime import runtime
from selfsurf.browser_env.spaces import ActionSpace, observation_space

T = TypeVar("T")


class VectorBrowserEnv(VectorEnv[dict[str, Any], Sequence[Any], Any]):
    """N environments stepped together.

    Observations are a dict: `screenshot` is stacked to (N, height, width, 3), every other key is a tuple of N values.
    `observations` holds them as a list of single observations, which agents take. An episode that has ended is reset
    by the next `step` (Gymnasium's next-step autoreset), which ignores the action for it.
    """

    metadata = {  # noqa: RUF012 (as Gymnasium declares it)
        "render_modes": ["rgb_array"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *args: Any,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.num_envs = num_envs
        self.render_mode = render_mode
        task = options.pop("task", None)
        self.cores = [make_core(*args, task=copy.deepcopy(task), **options) for _ in range(num_envs)]
        for core in self.cores:
            core.max_steps = max_episode_steps or core.task.max_steps
        core = self.cores[0]
        self.single_observation_space = observation_space(core.viewport, core.settings.view.screenshot)
        self.single_action_space = ActionSpace(core.viewport)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observations: list[Observation] = []
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]
        self._over = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode in every environment. A single seed is counted up: `seed`, `seed + 1`, ..."""
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + i for i in range(self.num_envs)]
        seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds were given for {self.num_envs} environments.")
        for index, (core, one) in enumerate(zip(self.cores, seeds, strict=True)):
            configure(core, options)
            if one is not None:
                self._rngs[index], _ = gym.utils.seeding.np_random(one)

        each = zip(self.cores, self._rngs, seeds, strict=True)
        results = _together([core.reset(rng, one) for core, rng, one in each])
        self._over[:] = False
        return self._batch([obs for obs, _ in results]), self._infos([info for _, info in results])

    def step(
        self, actions: Sequence[Any]
    ) -> tuple[dict[str, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, Any]]:
        """Carry out one action in every environment, concurrently."""
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} actions were given for {self.num_envs} environments.")

        results = _together(
            [
                core.reset_or_fail(rng) if over else core.step(action)
                for core, rng, over, action in zip(self.cores, self._rngs, self._over, actions, strict=True)
            ]
        )
        seen, rewards, terminated, truncated, infos = zip(*results, strict=True)
        ended, cut_off = np.array(terminated), np.array(truncated)
        self._over = ended | cut_off
        return self._batch(list(seen)), np.array(rewards, dtype=np.float64), ended, cut_off, self._infos(infos)

    def privileged(self) -> list[dict[str, Any] | None]:
        """Return every environment's privileged view."""
        return [core.privileged() for core in self.cores]

    def render(self) -> tuple[Any, ...] | None:
        """Return every page as an RGB array in mode `rgb_array`."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(_together([core.screenshot() for core in self.cores]))

    def close_extras(self, **kwargs: Any) -> None:
        """Close every context."""
        if used := [core for core in self.cores if runtime_is_needed(core)]:
            _together([core.close() for core in used], timeout=60)

    def _batch(self, observations: list[Observation]) -> dict[str, Any]:
        self.observations = observations
        batch: dict[str, Any] = {
            key: tuple(observation[key] for observation in observations)  # type: ignore[literal-required]
            for key in observations[0]
        }
        if "screenshot" in batch:
            batch["screenshot"] = np.stack(batch["screenshot"])
        return batch

    def _infos(self, infos: Sequence[Info]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for index, info in enumerate(infos):
            merged = self._add_info(merged, info, index)
        return merged


def _together(work: Sequence[Coroutine[Any, Any, T]], timeout: float | None = None) -> list[T]:
    """Run coroutines concurrently on the runtime's loop, and return their results in order."""

    async def gathered() -> list[T]:
        return await asyncio.gather(*work)

    return runtime().run(gathered(), timeout)
