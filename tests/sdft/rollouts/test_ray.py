"""Rollouts on a cluster of several nodes on this machine: the samples of one process, and a tally that adds up when
workers, browsers and nodes are killed in the middle of a batch."""

import contextlib
import os
import signal
from functools import partial

import psutil
import pytest

from selfsurf.agents.play.options import PlayOptions
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.rollouts import EpisodeCounts, Job, RolloutError, Rollouts
from selfsurf.sdft.rollouts.layout import Resources, RolloutSettings
from selfsurf.sdft.rollouts.ray_browser import Setup
from selfsurf.sdft.rollouts.ray_generator import RayGenerator
from tests.processes import browsers, descendants, gone, until

TASKS = ("MiniWoB/click-test-2-v0", "MiniWoB/click-option-v0")
STEPS = 2


def layout(browser_workers=1, policy_workers=1, contexts=2, **more):
    return RolloutSettings(
        workers=browser_workers, policy_workers=policy_workers, contexts=contexts,
        browser=Resources(num_cpus=1, custom={"browsers": 1}), policy=Resources(num_cpus=0.5, custom={"models": 1}),
        start_timeout=100, call_timeout=30, patience=90, **more,
    )  # fmt: skip


def setup(settings, plan, most=None, notes=None):
    agent_of = partial(make_agent, settings=settings, sampling=True)
    return Setup(
        agent_of=agent_of if notes is None else noting(agent_of, notes), layout=plan, play_options=PlayOptions(most=most),
        env_options={"max_episode_steps": STEPS},
    )  # fmt: skip


@pytest.fixture
def generator_of(settings, model):
    """Starts a generator; it is closed at the end, and leaves nothing behind."""
    started = []
    with contextlib.ExitStack() as stack:

        def start(plan, **more):
            started.append(stack.enter_context(RayGenerator(setup(settings, plan, **more), model)))
            return started[-1]

        yield start
        workers = [pid for generator in started for pid in generator.books.processes.values()]
        running = [browser for pid in workers if psutil.pid_exists(pid) for browser in browsers(descendants(pid))]
        stack.close()
        assert gone(running)


def jobs_of(*seeds):
    return [Job(task, seed) for seed in seeds for task in TASKS]


def sampled(results):
    return [
        [(step.decision.completion.token_ids, step.decision.completion.logprobs) for step in result.steps]
        for result in results
    ]


def tokens(results):
    return [[ids for ids, _ in episode] for episode in sampled(results)]


def here(settings, model, weights, jobs, seed, version, most=None):
    """The same episodes in this process."""
    from safetensors.torch import save

    acting = model.make()
    acting.use(version, save(weights))
    with Rollouts(3, most=most, max_episode_steps=STEPS) as rollouts:
        return rollouts.run(make_agent(acting.policy, settings, sampling=True), jobs, seed=seed, version=version)


def in_the_middle(generator, number, ended=2):
    """Wait until some episodes of a batch have ended, and not all."""
    assert until(lambda: generator._orders[number].ledger.closed >= ended, 90)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_worker_changes_no_sample_and_no_count(
    one_thread, cluster_of, generator_of, settings, model, weights_of, caplog
):
    cluster_of(1)
    generator = generator_of(layout(), most=1)
    weights = weights_of(0)
    generator.publish(0, lambda: weights)
    jobs = jobs_of(1, 2, 3, 4)
    generator.request(0, jobs, seed=1)
    in_the_middle(generator, 0, ended=1)
    (victim,) = generator.books.processes.values()
    held = browsers([psutil.Process(victim), *descendants(victim)])
    os.kill(victim, signal.SIGKILL)
    batch = generator.collect(0)
    assert gone(held)
    assert (batch.tally.asked, batch.tally.finished, batch.tally.masked) == (len(jobs), len(jobs), 0)
    assert batch.tally.lost >= 1
    assert (generator.books.browsers_lost, generator.books.browsers_replaced, batch.workers_lost) == (1, 1, 1)
    lost, replaced = (record.getMessage() for record in caplog.records if record.name.startswith("selfsurf"))
    assert lost.startswith("browser worker 0 is lost")
    assert lost.endswith("a replacement is pending")
    (process,) = generator.books.processes.values()
    assert replaced == f"browser worker 0 has been replaced by process {process}"
    assert generator.books.tally == batch.tally
    assert [result.job for result in batch.results] == jobs
    assert sampled(batch.results) == sampled(here(settings, model, weights, jobs, 1, 0, most=1))


def test_a_cluster_that_is_too_small_is_refused(settings, model):
    plan = layout(browser_workers=3, policy_workers=2)
    there = {"CPU": 2.0, "browsers": 3.0}
    assert plan.missing(there) == "CPU: 4 needed, 2 available; models: 2 needed, 0 available"
    assert plan.missing({"CPU": 4.0, "browsers": 3.0, "models": 2.0}) == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_seeds_give_the_same_samples(one_thread, cluster_of, generator_of, settings, model, weights_of):
    cluster_of(2)
    exact = generator_of(layout(browser_workers=2), most=1)
    jobs = jobs_of(1, 2)
    for number, seed in enumerate((1, 2, 3)):
        weights = weights_of(number)
        exact.publish(number, lambda weights=weights: weights)
        exact.request(number, jobs, seed=seed)
        found = exact.collect(number).results
        assert sampled(found) == sampled(here(settings, model, weights, jobs, seed, number, most=1)), seed
        assert {result.version for result in found} == {number}
    (state,) = exact.policy_states()
    assert (state.loads, exact.books.weights_put) == (3, 3)  # once a version
    exact.close()
    together = generator_of(layout(browser_workers=2, contexts=3))
    weights = weights_of(0)
    together.publish(0, lambda: weights)
    for seed in (4, 5):
        together.request(seed, jobs, seed=seed)
        found = together.collect(seed).results
        expected = here(settings, model, weights, jobs, seed, 0)
        assert tokens(found) == tokens(expected), seed
        for one, other in zip(sampled(found), sampled(expected), strict=True):
            for (_, ours), (_, theirs) in zip(one, other, strict=True):
                assert ours == pytest.approx(theirs, abs=1e-4)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_browsers_models_and_nodes(one_thread, cluster_of, generator_of, settings, model, weights_of, tmp_path):
    cluster, nodes = cluster_of(3)
    (notes := tmp_path / "asked").mkdir()
    generator = generator_of(layout(browser_workers=2, policy_workers=2), most=1, notes=notes)
    weights = weights_of(0)
    generator.publish(0, lambda: weights)
    jobs = jobs_of(1, 2, 3, 4)
    expected = sampled(here(settings, model, weights, jobs, 7, 0, most=1))

    def check(number):
        batch = generator.collect(number)
        assert (batch.tally.asked, batch.tally.finished, batch.tally.masked) == (len(jobs), len(jobs), 0)
        assert sampled(batch.results) == expected
        return batch.tally

    # A browser: its episodes are env_error in their worker, and are run again.
    with under_way(generator, 0, jobs, notes):
        (browser,) = browsers(descendants(min(generator.books.processes.values())))
        browser.kill()
    assert check(0).rerun >= 1
    assert generator.books.lost == 0

    # A node: its worker goes on elsewhere.
    with under_way(generator, 1, jobs, notes):
        raylets = {psutil.Process(worker).parent().pid for worker in generator.books.processes.values()}
        lost = next(node for node in nodes if raylet_pid(node) in raylets)
        cluster.remove_node(lost, allow_graceful=False)
    assert check(1).lost >= 1
    assert generator.books.browsers_lost >= 1
    assert until(lambda: generator.books.browsers_replaced == generator.books.browsers_lost, 90)

    # A model: the other one is asked, and Ray starts it again.
    generator.request(2, jobs, seed=7)
    in_the_middle(generator, 2, ended=1)
    os.kill(generator.policy_states()[0].pid, signal.SIGKILL)
    assert check(2) == EpisodeCounts(asked=len(jobs), finished=len(jobs))
    assert until(lambda: generator.books.policies_replaced == 1, 90)
    assert generator.books.policies_lost == 1
    assert generator.books.tally.asked == 3 * len(jobs)


def noting(make, folder):
    """Make agents that leave a file there, named after their process, when their model is asked."""

    def made(policy):
        complete = policy.complete

        def noted(*asked, **options):
            (folder / str(os.getpid())).touch()
            return complete(*asked, **options)

        policy.complete = noted
        return make(policy)

    return made


@contextlib.contextmanager
def under_way(generator, number, jobs, notes):
    """Ask for a batch; inside, every worker has an episode that waits for its action, and none goes on."""
    generator.wait_ready()
    models = [state.pid for state in generator.policy_states()]
    for pid in models:
        os.kill(pid, signal.SIGSTOP)
    for note in notes.iterdir():
        note.unlink()
    generator.request(number, jobs, seed=7)
    workers = [str(pid) for pid in generator.books.processes.values()]
    assert until(lambda: all((notes / worker).exists() for worker in workers), 60)
    yield
    for pid in models:
        os.kill(pid, signal.SIGCONT)


def raylet_pid(node):
    return node.all_processes["raylet"][0].process.pid


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_worker_without_room_is_said_to_be_pending(
    cluster_of, generator_of, settings, weights_of, caplog, monkeypatch
):
    monkeypatch.setattr("selfsurf.sdft.rollouts.ray_generator.PENDING", 1.0)
    cluster, nodes = cluster_of(2)
    generator = generator_of(layout(browser_workers=2))
    weights = weights_of(0)
    generator.publish(0, lambda: weights)
    generator.wait_ready()
    cluster.remove_node(nodes[0], allow_graceful=False)
    generator.request(0, jobs_of(1, 2), seed=1)
    assert generator.collect(0).tally.finished == 4
    assert until(lambda: "is still pending" in caplog.text, 60)
    assert (generator.books.browsers_lost, generator.books.browsers_replaced) == (1, 0)
    assert "has been replaced" not in caplog.text
    cluster.add_node(num_cpus=2, resources={"browsers": 1})
    assert until(lambda: generator.books.browsers_replaced == 1, 90)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_lost_too_often_is_masked(cluster_of, generator_of, settings, weights_of):
    from selfsurf.agents.play.ledger import LOSSES

    cluster_of(1)
    generator = generator_of(layout(contexts=1))
    weights = weights_of(0)
    generator.publish(0, lambda: weights)
    os.kill(generator.policy_states()[0].pid, signal.SIGSTOP)  # so that no episode can end
    generator.request(0, [Job("MiniWoB/click-test-v0", 1)], seed=1)
    for _ in range(LOSSES + 1):
        assert until(lambda: generator.books.processes, 90)
        (victim,) = generator.books.processes.values()
        os.kill(victim, signal.SIGKILL)
        assert until(lambda victim=victim: victim not in generator.books.processes.values(), 60)
    batch = generator.collect(0)
    assert batch.tally == EpisodeCounts(asked=1, masked=1, lost=LOSSES + 1)
    (result,) = batch.results
    assert (result.outcome, result.trainable) == ("env_error", False)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_with_workers_learns_from_the_same_rows(
    one_thread, cluster_of, settings, tiny_folder, tmp_path, monkeypatch
):
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft import train
    from selfsurf.sdft.trainers import base as trainer

    learned = []
    collate = trainer.collate

    def noted(rows, *arguments, **options):
        learned.append(rows)
        return collate(rows, *arguments, **options)

    monkeypatch.setattr(trainer, "collate", noted)
    cluster_of(2)
    base = settings.model_copy(update={"steps": 3, "rollouts": RolloutSettings(batch=1)})
    remote = type(settings).model_validate(
        {
            **base.model_dump(),
            "rollouts": {
                "batch": 1, "workers": 2, "contexts": 2, "browser": {"num_cpus": 1, "custom": {"browsers": 1}},
                "policy": {"num_cpus": 1, "custom": {"models": 1}},
            },
        }
    )  # fmt: skip
    ahead = remote.model_copy(update={"rollouts": remote.rollouts.model_copy(update={"ahead": 1})})
    rows = {}
    for name, chosen in {"here": base, "remote": remote, "ahead": ahead, "ahead again": ahead}.items():
        train(chosen, tmp_path / name, policy=TransformersPolicy(tiny_folder, dtype="float32"))
        rows[name] = list(learned)
        learned.clear()
        stale = [line["rows/staleness"] for line in metrics(tmp_path / name)]
        assert stale == ([0, 1, 1] if chosen.rollouts.ahead else [0, 0, 0])
    for one, other in (("here", "remote"), ("ahead", "ahead again")):
        for ours, theirs in zip(rows[one], rows[other], strict=True):
            for row, same in zip(ours, theirs, strict=True):
                assert row.completion_ids == same.completion_ids
                assert (row.prompt_ids, row.version) == (same.prompt_ids, same.version)
                assert row.logprobs == pytest.approx(same.logprobs, abs=1e-3)  # training may differ in last bits
    assert [sample.logprobs for sample in rows["here"][0]] == [sample.logprobs for sample in rows["remote"][0]]
    assert [sample.logprobs for sample in rows["here"][2]] != [sample.logprobs for sample in rows["ahead"][2]]


def metrics(folder):
    import json

    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_model_that_is_broken_is_not_the_environments_failure(cluster_of, generator_of, settings, weights_of):
    """It would break again, so the run ends, with what the model said."""
    cluster_of(1)
    generator = generator_of(layout())
    broken = {name: weight * float("nan") for name, weight in weights_of(0).items()}
    generator.publish(0, lambda: broken)
    generator.request(0, jobs_of(1), seed=1)
    with pytest.raises(RolloutError, match=r"An episode could not be run: .*BrokenModel: The model's scores"):
        generator.collect(0)


def test_a_model_in_memory_is_refused(settings, tiny_policy, tmp_path):
    from selfsurf.sdft import train

    chosen = settings.model_copy(update={"rollouts": RolloutSettings(workers=1)})
    with pytest.raises(ValueError, match="give its name or folder"):
        train(chosen, tmp_path / "run", policy=tiny_policy)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_that_cannot_start_say_why(cluster_of, settings, model):
    from dataclasses import replace

    cluster_of(1)
    plan = layout()
    with pytest.raises(RolloutError, match="nowhere"):
        RayGenerator(setup(settings, plan), replace(model, model="/nowhere/at/all"))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_own_tasks_travel_with_their_batch(cluster_of, generator_of, settings, weights_of, tmp_path):
    from tests.scripts.test_own_tasks import SHOP

    (tmp_path / "shop_of_test.py").write_text(SHOP)
    cluster_of(1)
    generator = generator_of(layout(), most=1)
    generator.publish(0, lambda: weights_of(0))
    name = f"{tmp_path}/shop_of_test.py:Order?price=4"
    generator.request(0, [Job(name, seed) for seed in range(3)], seed=1)  # no worker has started yet
    (tmp_path / "shop_of_test.py").unlink()
    batch = generator.collect(0)
    assert (batch.tally.finished, batch.tally.masked, batch.tally.lost) == (3, 0, 0)
    assert {result.score["reason"] for result in batch.results} == {"price 4"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_grpo_learns_from_workers_episodes_under_a_prompt_of_ones_own(
    one_thread, cluster_of, settings, tiny_folder, tmp_path, monkeypatch
):
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.settings import GRPOSettings
    from selfsurf.sdft.trainers.grpo import train_grpo
    from tests.scripts.test_bench_ray import PROMPT

    cluster_of(1)
    (tmp_path / "my_prompt.py").write_text(PROMPT)
    monkeypatch.chdir(tmp_path)  # which the cluster's processes are not in
    workers = {"workers": 1, "contexts": 2, "browser": {"num_cpus": 1}, "policy": {"num_cpus": 0.5}}
    given = {**settings.model_dump(), "steps": 1, "group_size": 2, "episodes_per_step": 4, "rollouts": workers}
    chosen = GRPOSettings.model_validate({**given, "prompt": "my_prompt.py:Mine"})
    train_grpo(chosen, tmp_path / "run", policy=TransformersPolicy(tiny_folder, dtype="float32"))
    (line,) = metrics(tmp_path / "run")
    assert line["tokens/generated"] > 0
    with pytest.raises(ValueError, match="ahead works with SDFT only"):
        train_grpo(
            chosen.model_copy(update={"rollouts": chosen.rollouts.model_copy(update={"ahead": 1})}), tmp_path / "no"
        )
