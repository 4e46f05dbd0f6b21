"""Trainings of the service on a Ray cluster of two nodes on this machine, one of which is lost in the middle."""

import psutil
import pytest

from selfsurf.sdft.service.client import ServiceClient
from selfsurf.sdft.service.store import Store
from tests.models.small import save_small
from tests.sdft.service.conftest import Server, until, write_episode

STEPS = 120
SMALL = {"steps": STEPS, "episodes_per_step": 3, "max_rows": 3, "lora_rank": 4, "evaluate_every": 0, "least_first_divergence": 0,
         "warmup_steps": 0, "learning_rate": 0.005, "checkpoint_every": 5}  # fmt: skip


@pytest.fixture
def cluster(monkeypatch):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield started
    started.shutdown()


def trainers():
    """The trainers' processes on nodes, by the process of their node."""
    found = {}
    for one in psutil.process_iter(["cmdline"]):
        line = one.info["cmdline"] or []
        if "selfsurf.sdft.service.trainer" in line and "selfsurf-training-" in " ".join(line):
            found[one.parent().ppid()] = one.pid
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_jobs_train_on_two_nodes_and_outlive_the_loss_of_one(cluster, saved, tmp_path):
    model = saved(save_small, tie_word_embeddings=True)
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]

    def weights(server, *names):
        with ServiceClient(server.url) as client, server.client() as http:
            episodes = [client.upload(write_episode(tmp_path / server.folder.name / str(n), n)) for n in range(3)]
            body = {"episodes": episodes, "settings": SMALL}
            jobs = [http.post("/train", json={**body, "adapter": name}).json()["id"] for name in names]
            if len(names) > 1:
                store = Store(server.folder / "service.db")
                until(lambda: all(store.job(job).step >= 10 for job in jobs), 300)
                at_work = trainers()
                raylets = {node.all_processes["raylet"][0].process.pid: node for node in nodes}
                assert set(at_work) == set(raylets), "each on a node of its own"
                lost = next(iter(raylets))
                cluster.remove_node(raylets[lost], allow_graceful=False)
                until(lambda: not psutil.pid_exists(at_work[lost]), 60)
                nodes.append(cluster.add_node(num_cpus=1))
            until(lambda: all(http.get(f"/jobs/{job}").json()["ended"] for job in jobs), 400)
            done = [http.get(f"/jobs/{job}").json() for job in jobs]
            assert [(one["status"], one["error"]) for one in done] == [("succeeded", None)] * len(jobs)
            for job in jobs if len(names) > 1 else ():
                events = store.events(job, 0)
                assert {one.data["step"] for one in events if one.type == "progress"} == set(range(1, STEPS + 1))
            made = [
                client.download(client.adapter(name), "peft", tmp_path / server.folder.name / name) for name in names
            ]
            return [(one / "adapter_model.safetensors").read_bytes() for one in made], [one["attempts"] for one in done]

    here = Server(tmp_path / "here", "--model", model)
    try:
        (calm,), _ = weights(here, "calm")
    finally:
        here.end()
    there = Server(
        tmp_path / "there", "--model", model, "--ray", cluster.address, "--ray-gpus", "0", "--trainings", "2"
    )
    try:
        both, attempts = weights(there, "one", "two")
    finally:
        there.end()
    assert both == [calm, calm]
    assert sorted(attempts) == [1, 2]
    assert not trainers()
