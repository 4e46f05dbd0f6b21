"""The native vector environment: N contexts of one browser, stepped at the same time on one loop."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine, Sequence
from itertools import cycle, islice
from operator import index
from typing import Any, TypeVar, cast

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.environment.core import EnvCore
from selfsurf.browser_env.environment.env import configure, make_core, runtime_is_needed
from selfsurf.browser_env.environment.ids import core_of, is_id
from selfsurf.browser_env.environment.pickling import PickleByConstruction
from selfsurf.browser_env.environment.seeds import Seeds
from selfsurf.browser_env.environment.spaces import ActionSpace, observation_space
from selfsurf.browser_env.environment.step_limit import checked_limit
from selfsurf.browser_env.observation import Observation, as_text
from selfsurf.browser_env.task import Task

T = TypeVar("T")


class VectorBrowserEnv(VectorEnv[dict[str, Any], Sequence[Any], Any], PickleByConstruction):
    """N environments stepped together.

    Observations are a dict: `screenshot` is stacked to (N, height, width, 3), every other key is a tuple of N values.
    `observations` holds them as a list of single observations, which agents take.

    Args:
        num_envs: N.
        args: as for `make_core`.
        tasks: tasks or their names, assigned to the environments in turn: with two tasks, the first, third, ...
            environments get the first task. Instead of `task`, `start_url` and `goal`.
        max_episode_steps: the step limit; each task's own by default.
        render_mode: `rgb_array` or `ansi`.
        autoreset_mode: what happens to an ended episode, as in Gymnasium's vector environments. `NextStep`: the next
            `step` ignores its action and resets it. `SameStep`: the step that ends it resets it and returns the new
            episode's observation and info, the old ones in `final_obs` and `final_info`. `Disabled`: nothing until a
            `reset` with a `reset_mask`; steps until then give no reward.
        seeds: the only seeds that episodes may have (`environment.seeds`), shared by all environments: each new episode
            takes the next seed, in the order of the environments' numbers.
        options: as for `make_core`; with ids in `tasks`, as for `gymnasium.make`.

    Raises:
        ValueError: there are fewer environments than tasks, their screenshots have different sizes, or an option is
            invalid.
    """

    metadata = {  # noqa: RUF012 (as Gymnasium declares it)
        "render_modes": ["rgb_array", "ansi"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *args: Any,
        tasks: Sequence[Task | str] | None = None,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        seeds: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        PickleByConstruction.__init__(
            self, num_envs, *args, tasks=tasks, max_episode_steps=max_episode_steps, render_mode=render_mode,
            autoreset_mode=autoreset_mode, seeds=seeds, **options,
        )  # fmt: skip
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode must be one of {self.metadata['render_modes']}, not {render_mode!r}.")
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.cores = _cores(num_envs, tasks, args, options)
        for core in self.cores:
            core.max_steps = checked_limit(max_episode_steps, core.max_steps)
            core.patient = False  # a user's function must not hold up the other environments
        core = self.cores[0]
        screenshot = core.settings.view.screenshot
        if screenshot and len(sizes := {core.viewport for core in self.cores}) > 1:
            raise ValueError(
                f"The tasks' pages have different sizes {sorted(sizes)}: give viewport=, or screenshot=False."
            )
        self.single_observation_space = observation_space(core.viewport, screenshot)
        self.single_action_space = ActionSpace(core.viewport)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observations: list[Observation] = []
        self._seeds = Seeds(seeds)
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]
        self._over = np.zeros(num_envs, dtype=bool)

    @property
    def tasks(self) -> list[Task]:
        """Tasks of the environments, in order."""
        return [core.task for core in self.cores]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode in every environment. `infos["seed"]` holds the seeds.

        Args:
            seed: counted up for the environments: `seed`, `seed + 1`, ...; or one for each.
            options: `start_url` and `goal` for open-ended tasks; `reset_mask`, an array of N truth values, for the
                environments to reset. The other environments keep their observations and are missing in the infos.

        Raises:
            EnvError: a task could not be brought to its start.
            TypeError: `reset_mask` is not an array of truth values.
            ValueError: there are not N seeds or truth values, no value is true, or the first reset has a mask.
        """
        options = dict(options or {})
        chosen = _chosen(options.pop("reset_mask", None), self.num_envs)
        if len(chosen) < self.num_envs and not self.observations:
            raise ValueError("The first reset takes no reset_mask: every environment needs its first observation.")
        seeds = _for_each(seed, self.num_envs)
        for number in chosen:
            configure(self.cores[number], options)
            if (one := seeds[number]) is not None:
                self._rngs[number], _ = gym.utils.seeding.np_random(one)
        self.closed = False  # a reset reopens a closed environment
        results = _together([self.cores[number].reset(self._seed(number, seeds[number])) for number in chosen])
        infos: dict[str, Any] = {}
        observations = list(self.observations) or [seen for seen, _ in results]
        for number, (seen, info) in zip(chosen, results, strict=True):
            observations[number] = seen
            infos = self._add_info(infos, info, number)
        self._over[chosen] = False
        return self._batch(observations), infos

    def step(
        self, actions: Sequence[Any]
    ) -> tuple[dict[str, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, Any]]:
        """Carry out one action in every environment, concurrently.

        An environment that waits for a person (`infos["waiting"]`) does nothing until its action is an `Answer`, or the
        function that answers has done so.
        """
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} actions were given for {self.num_envs} environments.")
        begins = self._over if self.autoreset_mode is AutoresetMode.NEXT_STEP else np.zeros_like(self._over)
        self.closed = self.closed and not begins.any()
        results = _together(
            [
                core.reset_or_fail(self._seed(number)) if begins[number] else core.step(action)
                for number, (core, action) in enumerate(zip(self.cores, actions, strict=True))
            ]
        )
        seen, rewards, terminated, truncated, each = map(list, zip(*results, strict=True))
        ended, cut_off = np.array(terminated), np.array(truncated)
        self._over = ended | cut_off
        infos: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._over.any():
            numbers = np.flatnonzero(self._over).tolist()
            begun = _together([self.cores[number].reset_or_fail(self._seed(number)) for number in numbers])
            for number, new in zip(numbers, begun, strict=True):
                infos = self._add_info(infos, {"final_obs": seen[number], "final_info": each[number]}, number)
                seen[number], each[number] = new[0], new[4]
        for number, info in enumerate(each):
            infos = self._add_info(infos, info, number)
        return self._batch(seen), np.array(rewards, dtype=np.float64), ended, cut_off, infos

    def privileged(self) -> list[dict[str, Any] | None]:
        """Return the oracle's next action and its reason for each environment; None where there is none."""
        return [core.privileged() for core in self.cores]

    def render(self) -> tuple[Any, ...] | None:
        """Return every page as an RGB array or as text, depending on the render mode."""
        if self.render_mode == "ansi":
            return tuple(map(as_text, self.observations))
        if self.render_mode == "rgb_array":
            return tuple(_together([core.screenshot() for core in self.cores]))
        return None

    def close_extras(self, **kwargs: Any) -> None:
        """Close the browser context of every environment."""
        if used := [core for core in self.cores if runtime_is_needed(core)]:
            _together([core.close() for core in used], timeout=60)

    def _add_info(self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int) -> dict[str, Any]:
        """Add an environment's info as Gymnasium does, except for `score`, whose values become arrays of objects.

        The type of a value in a task's `score` may differ between environments and steps.
        """
        infos = super()._add_info(
            vector_infos, {key: value for key, value in env_info.items() if key != "score"}, env_num
        )
        if "score" in env_info:
            score = infos.setdefault("score", {})
            for key, value in env_info["score"].items():
                score.setdefault(key, np.full(self.num_envs, None, dtype=object))[env_num] = value
                score.setdefault(f"_{key}", np.zeros(self.num_envs, dtype=bool))[env_num] = True
            infos.setdefault("_score", np.zeros(self.num_envs, dtype=bool))[env_num] = True
        return infos

    def _seed(self, number: int, asked: int | None = None) -> int:
        return self._seeds.next(asked, self._rngs[number])

    def _batch(self, observations: list[Observation]) -> dict[str, Any]:
        self.observations = observations
        batch: dict[str, Any] = {
            key: tuple(observation[key] for observation in observations)  # type: ignore[literal-required]
            for key in observations[0]
        }
        if "screenshot" in batch:
            batch["screenshot"] = np.stack(batch["screenshot"])
        return batch


def _cores(
    number: int, tasks: Sequence[Task | str] | None, args: tuple[Any, ...], options: dict[str, Any]
) -> list[EnvCore]:
    """Create `number` environments of one task, or of several tasks in turn."""
    if tasks is None:
        task = options.pop("task", None)
        cores = [make_core(*args, task=copy.deepcopy(task), **options) for _ in range(number)]
    elif args or options.get("task") is not None:
        raise ValueError("Give either tasks=, or a task or page for all environments, not both.")
    elif not 0 < len(tasks) <= number:
        raise ValueError(f"Give at least one task and at most num_envs={number}, not {len(tasks)} tasks.")
    else:
        each = islice(cycle(tasks), number)
        cores = [
            core_of(str(task), **options) if is_id(task) else make_core(task=copy.deepcopy(task), **options)
            for task in each
        ]
    for core in cores:
        core.max_steps = core.max_steps or core.task.max_steps
    return cores


def _for_each(seed: int | Sequence[int | None] | None, number: int) -> list[int | None]:
    """Return a seed for each environment.

    Raises:
        ValueError: there are too many or too few seeds.
    """
    if seed is None:
        return [None] * number
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + place for place in range(number)]
    seeds = [None if one is None else index(one) for one in seed]
    if len(seeds) != number:
        raise ValueError(f"{len(seeds)} seeds were given for {number} environments.")
    return seeds


def _chosen(mask: Any, number: int) -> list[int]:
    """Return the indices of the environments that a mask selects; all indices without a mask.

    Raises:
        TypeError: the mask is not an array of truth values.
        ValueError: the mask has the wrong shape, or no true value.
    """
    if mask is None:
        return list(range(number))
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"reset_mask must be a NumPy array of truth values, not {mask!r}.")
    if mask.shape != (number,) or not mask.any():
        raise ValueError(f"reset_mask must have {number} truth values, at least one of them true, not {mask!r}.")
    return [int(one) for one in np.flatnonzero(mask)]


def _together(work: Sequence[Coroutine[Any, Any, T]], timeout: float | None = None) -> list[T]:
    """Run coroutines concurrently on the runtime's loop and return their results in order.

    An exception is raised once all have ended, so that none keeps running afterwards.
    """

    async def gathered() -> list[T]:
        results = await asyncio.gather(*work, return_exceptions=True)
        for failure in (one for one in results if isinstance(one, BaseException)):
            raise failure
        return cast(list[T], results)

    return runtime().run(gathered(), timeout)
