"""Episodes in one process: each at its own pace, and sampled the same whatever runs beside it."""

import asyncio

import pytest

from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rollouts import EpisodeCounts, Job, LocalGenerator, Rollouts
from tests.processes import counts, until

TASKS = ("MiniWoB/click-test-2-v0", "MiniWoB/click-option-v0")


def jobs_of(*seeds):
    return [Job(task, seed) for seed in seeds for task in TASKS]


def sampled(results):
    """What was sampled in every episode: tokens and their log-probabilities."""
    return [
        [(step.decision.completion.token_ids, step.decision.completion.logprobs) for step in result.steps]
        for result in results
    ]


@pytest.fixture
def delay(monkeypatch):
    """Makes the steps of an episode with this seed wait until a condition holds."""
    original, seeds = AsyncBrowserEnv.reset, {}

    async def reset(self, *, seed=None, options=None):
        seeds[self] = seed
        return await original(self, seed=seed, options=options)

    def slow(seed, condition):
        step = AsyncBrowserEnv.step

        async def delayed(self, action):
            if seeds[self] == seed:
                assert await asyncio.to_thread(until, condition, 60)
            return await step(self, action)

        monkeypatch.setattr(AsyncBrowserEnv, "step", delayed)

    monkeypatch.setattr(AsyncBrowserEnv, "reset", reset)
    return slow


def test_a_slow_page_delays_its_own_episode_only(tiny_policy, settings, delay):
    ended = [0]
    delay(1, lambda: ended[0] == 4)  # its first step takes until all others have ended
    jobs = [Job(TASKS[0], seed) for seed in (1, 2, 3, 4, 5)]
    with Rollouts(2, max_episode_steps=2) as rollouts:
        results = rollouts.run(
            make_agent(tiny_policy, settings, sampling=True), jobs, progress=lambda count: ended.__setitem__(0, count)
        )
        assert rollouts.tally == EpisodeCounts(asked=5, finished=5)
    assert [result.job for result in results] == jobs


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_samples_do_not_depend_on_scheduling(tiny_policy, settings, delay, seed):
    agent = make_agent(tiny_policy, settings, sampling=True)
    jobs = jobs_of(seed, 10 + seed)
    with Rollouts(1, most=1, max_episode_steps=2) as rollouts:
        alone = sampled(rollouts.run(agent, jobs, seed=seed))
        other = sampled(rollouts.run(agent, jobs, seed=seed + 100))
    ended = [0]
    delay(seed, lambda: ended[0] > 0)
    with Rollouts(3, most=1, max_episode_steps=2) as rollouts:
        found = rollouts.run(agent, jobs[::-1], seed=seed, progress=lambda count: ended.__setitem__(0, count))
        side_by_side = sampled(found)[::-1]
    assert alone == side_by_side  # to the last bit
    assert other != alone
    with Rollouts(4, max_episode_steps=2) as rollouts:
        together = sampled(rollouts.run(agent, jobs, seed=seed))
    for one, other in zip(alone, together, strict=True):  # batches change last bits only
        assert [tokens for tokens, _ in one] == [tokens for tokens, _ in other]
        for (_, expected), (_, found) in zip(one, other, strict=True):
            assert found == pytest.approx(expected, abs=1e-4)


def test_a_runs_seed_goes_on_in_the_agents_stream(tiny_policy, settings):
    jobs = jobs_of(1)
    agent = make_agent(tiny_policy, settings, sampling=True)
    with Rollouts(2, max_episode_steps=1) as rollouts:
        first, second = (sampled(rollouts.run(agent, jobs)) for _ in range(2))
        agent.reseed(settings.seed)
        again = sampled(rollouts.run(agent, jobs))
    assert [tokens for ((tokens, _),) in first] == [tokens for ((tokens, _),) in again]
    assert [tokens for ((tokens, _),) in first] != [tokens for ((tokens, _),) in second]


def test_a_local_generator_makes_a_batch_when_it_is_collected(tiny_policy, settings):
    with Rollouts(2, max_episode_steps=1) as rollouts:
        generator = LocalGenerator(rollouts, make_agent(tiny_policy, settings, sampling=True))
        generator.publish(3, dict)
        generator.request(7, jobs_of(1), seed=5)
        assert rollouts.tally == EpisodeCounts()
        batch = generator.collect(7)
        assert batch.tally == EpisodeCounts(asked=2, finished=2)
        assert {result.version for result in batch.results} == {3}
        generator.request(8, jobs_of(2), seed=5)
        assert generator.collect(8).tally == EpisodeCounts(asked=2, finished=2)
        with pytest.raises(KeyError):
            generator.collect(8)


def test_environments_that_stay_open_are_bounded(tiny_policy, settings):
    from selfsurf.browser_env.browser.runtime import runtime

    agent = make_agent(tiny_policy, settings, sampling=True)
    names = ("click-test", "click-test-2", "click-button", "click-option", "click-link")
    with Rollouts(2, max_episode_steps=1) as rollouts:
        before = counts()["contexts"]
        rollouts.run(agent, [Job(f"MiniWoB/{name}-v0", 1) for name in names])
        assert until(lambda: counts()["contexts"] <= before + 2)
    assert until(lambda: counts()["contexts"] == before)
    assert runtime().loop.is_running()
