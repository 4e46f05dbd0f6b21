"""The cluster file of the documentation: Ray takes it, and what the documentation runs on it has room."""

import json
from pathlib import Path

import pytest

from selfsurf.sdft.rollouts.layout import Resources, RolloutSettings

FILE = Path(__file__).parents[3] / "docs" / "cluster" / "ray.yaml"


def test_ray_takes_the_cluster_file_and_the_run_has_room():
    ray = pytest.importorskip("ray")
    yaml = pytest.importorskip("yaml")
    jsonschema = pytest.importorskip("jsonschema")
    schema = Path(ray.__file__).parent / "autoscaler" / "ray-schema.json"
    config = yaml.safe_load(FILE.read_text(encoding="utf8"))
    jsonschema.validate(config, json.loads(schema.read_text(encoding="utf8")))
    there = dict.fromkeys(("CPU", "GPU", "models", "browsers"), 0.0)
    for node in config["available_node_types"].values():
        for name, amount in node["resources"].items():
            there[name] = there.get(name, 0.0) + amount * node["min_workers"]
    plan = RolloutSettings(
        workers=64,
        policy_workers=2,
        browser=Resources(num_cpus=1, custom={"browsers": 1}),
        policy=Resources(num_cpus=2, num_gpus=1, custom={"models": 1}),
    )
    assert plan.missing(there) == ""
    assert plan.missing({**there, "models": 1}) == "models: 2 needed, 1 available"
