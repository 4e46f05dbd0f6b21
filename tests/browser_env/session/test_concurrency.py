"""Environments in loops, threads, workers and crowds, closed in any order."""

import asyncio
import multiprocessing
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium
import pytest

from selfsurf import browser_env
from selfsurf.browser_env.browser import runtime as runtime_module
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.session import contexts as contexts_module
from tests.processes import browsers, counts, until

PAGE = "data:text/html,<button onclick=\"document.title='clicked'\">Go</button>"


@pytest.fixture(autouse=True)
def alone():
    """Processes are counted here: what other tests of this process have left running goes first."""
    browser_env.shutdown()


def make():
    return gymnasium.make("Browser-v0", start_url=PAGE, screenshot=False)


def use(env, seed=0):
    env.reset(seed=seed)
    obs, *_, info = env.step({"action": "click", "id": 1})
    return obs["title"], info["outcome"]


WORKED = ("clicked", "running")


def test_inside_a_running_loop():
    async def main():
        env = make()
        seen = use(env)
        env.close()
        return seen

    assert asyncio.run(main()) == WORKED


def test_several_threads_each_with_its_environment():
    seen = {}

    def work(index):
        env = make()
        seen[index] = [use(env, seed) for seed in range(2)]
        env.close()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {index: [WORKED] * 2 for index in range(4)}
    assert counts()["contexts"] == 0


def test_one_environment_in_two_threads_in_turn():
    env, seen = make(), []
    for _ in range(2):
        thread = threading.Thread(target=lambda: seen.append(use(env)))
        thread.start()
        thread.join()
    env.close()
    assert seen == [WORKED] * 2


def worker(results):
    env = make()
    results.put(use(env))
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process")
def test_workers_have_browsers_of_their_own(method):
    env = make()
    assert use(env) == WORKED
    (mine,) = browsers()
    context = multiprocessing.get_context(method)
    results = context.Queue()
    workers = [context.Process(target=worker, args=(results,)) for _ in range(2)]
    for process in workers:
        process.start()
    assert [results.get(timeout=60) for _ in workers] == [WORKED] * 2
    for process in workers:
        process.join(20)
        assert process.exitcode == 0
    assert until(lambda: browsers() == [mine])
    assert use(env) == WORKED
    env.close()


@pytest.mark.slow
def test_an_environment_that_was_used_before_a_fork_can_be_used_in_the_child():
    env = make()
    use(env)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=lambda: (results.put(use(env)), env.close()))
    process.start()
    assert results.get(timeout=60) == WORKED
    process.join(20)
    assert process.exitcode == 0
    assert use(env) == WORKED
    env.close()


@pytest.mark.filterwarnings("ignore:This process")
def test_what_a_forked_child_resets_and_closes_is_not_its_parents(loopback):
    page = loopback(lambda request: b"<input><a href=/file download=kept.txt>Get</a>")
    env = gymnasium.make("Browser-v0", start_url=page.url, screenshot=False)
    task = gymnasium.make("MiniWoB/enter-text-v0", screenshot=False)
    env.reset(seed=0)
    obs, _ = task.reset(seed=0)
    env.step({"action": "click", "id": 2})
    assert until(lambda: env.unwrapped.downloads)
    (kept,) = env.unwrapped.downloads
    context = multiprocessing.get_context("fork")

    def child():
        with pytest.raises(browser_env.EnvError, match="reset"):
            env.step({"action": "click", "id": 1})
        task.reset(seed=1)
        task.close()
        env.close()

    process = context.Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert Path(kept).is_file()
    seen, *_, info = env.step({"action": "fill", "id": 1, "text": "mine"})
    assert (seen["elements"][0]["value"], info["outcome"]) == ("mine", "running")
    seen, *_, info = task.step({"action": "wait", "ms": 0})
    assert (seen["goal"], seen["dom"], info["outcome"]) == (obs["goal"], obs["dom"], "running")
    env.close()
    task.close()


@pytest.mark.slow
def test_many_environments_closed_in_any_order_and_twice():
    envs = [make() for _ in range(12)]
    for env in envs:
        assert use(env) == WORKED
    assert counts()["contexts"] == 12
    assert len(browsers()) == 1
    random.Random(0).shuffle(envs)
    for env in envs:
        env.close()
        env.close()
    assert counts()["contexts"] == 0


@pytest.mark.parametrize("vector", [gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv])
def test_the_vector_environments_of_gymnasium(vector):
    options = {"shared_memory": False} if vector is gymnasium.vector.AsyncVectorEnv else {}
    envs = vector([make, make], **options)
    envs.reset(seed=0)
    *_, infos = envs.step([{"action": "click", "id": 1}] * 2)
    assert list(infos["outcome"]) == ["running"] * 2
    envs.close()


def test_shutdown_and_on():
    env = make()
    assert use(env) == WORKED
    browser_env.shutdown()
    env.close()
    assert use(env) == WORKED
    env.close()


@pytest.mark.slow
def test_in_a_notebook():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    lines = f"""
import asyncio, gymnasium, browser_env
assert asyncio.get_event_loop().is_running()
env = gymnasium.make("Browser-v0", start_url={PAGE!r}, screenshot=False)
env.reset(seed=0)
obs, *_ = env.step({{"action": "click", "id": 1}})
env.close()
other = browser_env.AsyncBrowserEnv({PAGE!r}, screenshot=False)
await other.reset(seed=0)
await other.close()
print(obs["title"])
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(lines)])
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    assert notebook.cells[0].outputs[0]["text"] == "clicked\n"


def test_a_full_browser_gets_no_more_contexts(monkeypatch):
    monkeypatch.setattr(runtime_module, "CONTEXTS", 2)
    envs = [make() for _ in range(5)]

    def contexts():
        return sorted(len(slot.browser.contexts) for slot in runtime()._slots.values())

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda env: env.reset(seed=0), envs))
    assert contexts() == [1, 2, 2]
    for env in envs[:4]:
        env.close()
    assert contexts() == [0, 0, 1]
    use(envs[0])
    assert sum(contexts()) == 2
    assert len(contexts()) == len(browsers()) == 3, "one with room is used again"
    for env in envs:
        env.close()


def test_a_browser_beyond_the_first_ends_once_nobody_uses_it(monkeypatch):
    monkeypatch.setattr(runtime_module, "CONTEXTS", 1)
    monkeypatch.setattr(runtime_module, "UNUSED", 0.1)
    envs = [make() for _ in range(2)]
    for _ in range(2):
        assert [use(env) for env in envs] == [WORKED] * 2
        assert len(browsers()) == 2
        for env in envs:
            env.close()
        assert until(lambda: len(browsers()) == 1)


@pytest.mark.slow
def test_a_context_that_closes_late_takes_no_other_browser_with_it(monkeypatch):
    monkeypatch.setattr(runtime_module, "CONTEXTS", 1)
    monkeypatch.setattr(contexts_module, "LATE_BOUND", 0.3)
    first, second = make(), make()
    use(first)
    use(second)
    slots = [slot for _, slot in sorted(runtime()._slots.items(), key=lambda one: one[0].number)]
    (stuck,) = slots[1].browser.contexts
    monkeypatch.setattr(stuck, "close", lambda: asyncio.sleep(60))
    first.close()
    second.reset(seed=1)
    assert len(slots[0].browser.contexts) == 1
    assert until(lambda: slots[1].browser is None)
    obs, *_, info = second.step({"action": "click", "id": 1})
    assert (obs["title"], info["outcome"]) == WORKED
    assert len(slots[0].rooms) == 1
    second.close()
