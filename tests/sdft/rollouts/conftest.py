"""A tiny model in a folder, for workers that load it themselves, and clusters of several nodes on this machine."""

import pytest

LORA = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


@pytest.fixture
def one_thread():
    """Sums of several threads may have other last bits; workers have one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def model(tiny_folder):
    """What makes the tiny model with an adapter, here or in a worker."""
    from peft import LoraConfig

    from selfsurf.sdft.rollouts.models import LocalModel

    return LocalModel(str(tiny_folder), LoraConfig(**LORA), {"dtype": "float32"})


@pytest.fixture
def weights_of(model):
    """Makes the weights of a version: random, the same every time."""
    import torch
    from peft import get_peft_model_state_dict

    names = {name: tensor.shape for name, tensor in get_peft_model_state_dict(model.make().policy.model).items()}

    def make(version):
        random = torch.Generator().manual_seed(version)
        return {name: torch.randn(shape, generator=random) * 0.2 for name, shape in names.items()}

    return make


@pytest.fixture
def cluster_of(monkeypatch):
    """Starts a cluster: a head for policy workers, and so many nodes for browser workers; returns it with the nodes."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    started = []
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

    def start(nodes, browsers_each=1):
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "resources": {"models": 2}})
        started.append(cluster)
        added = [cluster.add_node(num_cpus=2, resources={"browsers": browsers_each}) for _ in range(nodes)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        return cluster, added

    yield start
    ray.shutdown()
    for cluster in started:
        cluster.shutdown()
