import math

import pytest

from selfsurf.browser_env import EnvError, Outcome
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.measure.evaluate import summarise
from selfsurf.sdft.measure.retention import general_text, perplexity
from selfsurf.sdft.measure.statistics import interval_over_seeds, wilson_interval
from selfsurf.sdft.rollouts import Job, Result, Rollouts


def test_wilson_agrees_with_the_published_example():
    # 15 of 20: 0.5313 to 0.8881 (Brown, Cai, DasGupta 2001, formula 4)
    low, high = wilson_interval(15 / 20, 20).ends
    assert (round(low, 4), round(high, 4)) == (0.5313, 0.8881)
    assert wilson_interval(0, 40).low == 0.0
    assert wilson_interval(1, 40).high == 1.0
    assert wilson_interval(0, 0).ends == (0.0, 1.0)


def of_one_training(solved):
    return {(0, page): done for page, done in enumerate(solved)}


def test_the_mean_interval_is_as_wide_as_it_should_be():
    half_right = of_one_training([True] * 20 + [False] * 20)
    low, high = interval_over_seeds({"a": half_right, "b": half_right}).ends
    half = 1.96 * math.sqrt(0.25 / 40 / 2)
    assert low == pytest.approx(0.5 - half, abs=0.02)
    assert high == pytest.approx(0.5 + half, abs=0.02)
    assert interval_over_seeds({"a": {}}).ends == (0.0, 1.0)


@pytest.mark.parametrize("solved", [True, False])
def test_tasks_without_an_exception_are_not_certain(solved):
    def interval(tasks, pages):
        return interval_over_seeds({str(task): of_one_training([solved] * pages) for task in range(tasks)}).ends

    few, many = interval(2, 5), interval(5, 40)
    assert 1.0 * solved in few
    assert 1.0 * solved in many
    assert 0.0 < many[1] - many[0] < 0.05 < few[1] - few[0] < 0.5


def test_training_seeds_on_the_same_pages_are_no_more_pages():
    pages = [True] * 5 + [False] * 5
    one = interval_over_seeds({"a": of_one_training(pages)}).ends
    three = interval_over_seeds(
        {"a": {(seed, page): done for seed in range(3) for page, done in enumerate(pages)}}
    ).ends
    assert three == pytest.approx(one, abs=0.02)


def test_how_training_seeds_differ_is_in_the_interval():
    tasks = {str(task): {(seed, page): page < 5 + 4 * seed for seed in (0, 1) for page in range(10)} for task in (0, 1)}
    low, high = interval_over_seeds(tasks).ends
    assert low < 0.5
    assert high > 0.9
    tasks["0"] = {key: done for key, done in tasks["0"].items() if key[0] == 0}  # the other's were not judged
    tasks["1"] = {key: done for key, done in tasks["1"].items() if key[0] == 1}
    low, high = interval_over_seeds(tasks).ends
    assert low < 0.7 < high


def test_infrastructure_failures_stand_beside_the_score():
    results = [
        Result(Job("a", 0), str(Outcome.SOLVED), trainable=True),
        Result(Job("a", 1), str(Outcome.FAILED), trainable=True),
        Result(Job("a", 2), str(Outcome.ENV_ERROR), trainable=False),
        Result(Job("b", 0), str(Outcome.ENV_ERROR), trainable=False),
    ]
    summary = summarise(results, {"only a": ["a"]})
    assert summary["tasks"]["a"]["success"] == 0.5
    assert summary["tasks"]["a"]["env_errors"] == 1
    assert summary["tasks"]["b"]["success"] is None
    assert summary["groups"]["only a"]["success"] == 0.5
    assert summary["outcomes"] == {"solved": 1, "failed": 1, "env_error": 2}


def test_the_general_text_is_long_enough(tokenizer):
    assert len(tokenizer.encode(general_text(), add_special_tokens=False)) > 2000


def test_perplexity_of_a_uniform_model_is_its_vocabulary(tiny_policy):
    import torch

    with torch.no_grad():
        for parameter in tiny_policy.model.parameters():
            parameter.zero_()
    found = perplexity(tiny_policy, "a few words of text")
    assert found["perplexity"] == pytest.approx(tiny_policy.model.config.vocab_size, rel=1e-4)


def test_perplexity_is_the_models_own_loss(tiny_policy):
    import torch

    text = "The harbour town wakes before the light does."
    ids = torch.tensor([tiny_policy.tokenizer.encode(text, add_special_tokens=False)])
    with torch.no_grad():
        loss = float(tiny_policy.model(input_ids=ids, labels=ids).loss)
    assert perplexity(tiny_policy, text)["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)


def test_an_episode_that_the_infrastructure_failed_is_run_again(tiny_policy, settings, monkeypatch):
    from selfsurf.browser_env.environment.env import AsyncBrowserEnv

    original, failures = AsyncBrowserEnv.reset, []

    async def flaky(self, *, seed=None, options=None):
        if seed == 1 and len(failures) < 1:
            failures.append(seed)
            raise EnvError("The browser went away.")
        return await original(self, seed=seed, options=options)

    monkeypatch.setattr(AsyncBrowserEnv, "reset", flaky)
    jobs = [Job(settings.tasks[0], seed) for seed in range(3)]
    with Rollouts(2, max_episode_steps=1) as rollouts:
        results = rollouts.run(make_agent(tiny_policy, settings, sampling=False), jobs)
    assert failures == [1]
    assert [result.job.seed for result in results] == [0, 1, 2]
    assert all(result.outcome != "env_error" for result in results)


def test_one_that_fails_again_is_masked_and_counted(tiny_policy, settings, monkeypatch):
    from selfsurf.browser_env.environment.env import AsyncBrowserEnv

    async def broken(self, *, seed=None, options=None):
        raise EnvError("The browser went away.")

    monkeypatch.setattr(AsyncBrowserEnv, "reset", broken)
    with Rollouts(2) as rollouts:
        (result,) = rollouts.run(make_agent(tiny_policy, settings, sampling=False), [Job(settings.tasks[0], 0)])
    assert (result.outcome, result.trainable, result.detail) == ("env_error", False, "The browser went away.")
