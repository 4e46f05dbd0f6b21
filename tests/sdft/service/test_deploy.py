"""The round trip: episodes here, trained there, an adapter here; through kills of server and trainer at every stage."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import httpx
import psutil
import pytest

from selfsurf import agents
from selfsurf.agents.scripted import OracleAgent
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.service.store import Store
from tests.models.small import save_small
from tests.sdft.service.conftest import ROOT, Server, until, write_episode

WEIGHTS = "adapter_model.safetensors"
KILLS, STEPS = 10, 400
"""Training is to outlast the kills."""


def deploy(server, episodes, out, model, *more, steps=3):
    small = {"episodes_per_step": 3, "max_rows": 3, "lora_rank": 4, "evaluate_every": 0, "least_first_divergence": 0,
             "warmup_steps": 0, "learning_rate": 0.005, "ema_alpha": 0.1, "checkpoint_every": 2}  # fmt: skip
    settings = [part for name, value in small.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "selfsurf.scripts.cli", "deploy", "--episodes", episodes, "--server-url", server.url,
               "--model", model, "--out", out, "--adapter-name", out.name, "--steps", steps, "--json", *settings, *more]  # fmt: skip
    environment = {**os.environ, "SELFSURF_SERVER_TOKEN": server.token, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        list(map(str, command)), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def done(process, seconds=1200):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture
def setting(tmp_path, saved):
    model = saved(save_small, tie_word_embeddings=True)
    for number in range(3):
        write_episode(tmp_path / "episodes" / str(number), number, size=(300, 300))
    server = Server(tmp_path / "service", "--model", model, token="the-token-of-the-deploy-test")
    yield server, tmp_path / "episodes", model
    server.end()


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_ten_kills_of_server_and_trainer_change_no_byte_of_the_adapter(setting, tmp_path):
    server, episodes, model = setting
    calm = done(deploy(server, episodes, tmp_path / "calm", model, steps=STEPS))
    assert "logits differ" in calm["probe"]
    assert calm["run"].startswith("selfsurf run --goal")
    process = deploy(server, episodes, tmp_path / "stormy", model, steps=STEPS)
    over, killed, rng, most = threading.Event(), [], random.Random(0), [0]
    store = Store(server.folder / "service.db")

    def trainers():
        found = []
        for one in psutil.process_iter(["cmdline"]):
            line = one.info["cmdline"] or []
            if "selfsurf.sdft.service.trainer" in line and str(server.folder) in line:
                found.append(one.pid)
        return found

    def working():
        return [pid for pid in trainers() if any(pid == held for _, held, _ in store.unfinished())]

    def kill():
        victims = ["server", "trainer"] * (KILLS // 2)
        rng.shuffle(victims)
        for victim in victims:
            over.wait(rng.uniform(1, 9))
            while victim == "trainer" and not over.is_set() and not working():
                over.wait(0.1)
            if over.is_set():
                return
            most[0] = max(most[0], len(working()))
            if victim == "trainer":
                os.kill(working()[0], signal.SIGKILL)
            else:
                server.kill()
                over.wait(rng.uniform(0, 2))
                server.start()
            killed.append(victim)

    storm = threading.Thread(target=kill)
    storm.start()
    try:
        stormy = done(process)
    finally:
        over.set()
        storm.join()
    print(f"killed: {killed}, attempts: {store.job(stormy['job']).attempts}")
    assert most[0] <= 1, "never two trainers on one job"
    assert len(killed) == KILLS, killed
    assert (tmp_path / "stormy" / WEIGHTS).read_bytes() == (tmp_path / "calm" / WEIGHTS).read_bytes()
    again = done(deploy(server, episodes, tmp_path / "stormy", model, steps=STEPS))
    assert again["job"] == stormy["job"], "run again it goes on: there is nothing left to do"
    steps = [one.data["step"] for one in store.events(stormy["job"], 0) if one.type == "progress"]
    assert set(steps) == set(range(1, STEPS + 1))
    (tmp_path / "stormy" / WEIGHTS).write_bytes(b"x")
    spoiled = deploy(server, episodes, tmp_path / "stormy", model, steps=STEPS)
    _, err = spoiled.communicate(timeout=600)
    assert spoiled.returncode == 1
    assert "already exists with other content" in " ".join(err.split())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_running_job_is_cancelled_with_a_checkpoint_and_deploy_goes_on_with_it(setting, tmp_path):
    server, episodes, model = setting
    first = deploy(server, episodes, tmp_path / "cut", model, steps=40)
    with server.client() as http:
        job = until(lambda: [one for one in http.get("/jobs").json()["data"] if one["step"] >= 3], 600)[0]
        http.post(f"/jobs/{job['id']}/cancel")
        until(lambda: http.get(f"/jobs/{job['id']}").json()["status"] == "cancelled", 120)
        assert first.wait(60) == 1
        assert "Run the same command again to resume" in " ".join(first.communicate()[1].split())
        before = http.get(f"/jobs/{job['id']}").json()["step"]
        assert done(deploy(server, episodes, tmp_path / "cut", model, steps=40))["job"] == job["id"]
        events = http.get(f"/jobs/{job['id']}/events", params={"after": 0}).text
    steps = [json.loads(line[5:])["data"].get("step") for line in events.splitlines() if line.startswith("data:")]
    steps = [step for step in steps if step]
    assert steps.count(before) == 1, "no step is done twice after a cancellation"
    assert max(steps) == 40
    log = (server.folder / "jobs" / job["id"] / "trainer.log").read_text()
    assert "shop.example" not in log
    assert server.token not in log


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_server_that_is_away_is_waited_for_and_then_said(tmp_path):
    write_episode(tmp_path / "episodes" / "0")
    missing = Server.__new__(Server)
    missing.url, missing.token = "http://127.0.0.1:9", ""
    start = time.monotonic()
    process = deploy(missing, tmp_path / "episodes", tmp_path / "never", "smollm2", "--patience", "2")
    _, err = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "can't be reached" in err
    assert time.monotonic() - start > 1
    assert not (tmp_path / "never").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_script_starts_a_service_with_a_token_of_its_own(tmp_path):
    command = ["bash", ROOT / "scripts/start_server.sh", tmp_path / "service", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            url = re.search(r"http://\S+\d", process.stdout.readline())[0]
            token = tmp_path / "service" / "token"
            assert token.stat().st_mode & 0o777 == 0o600
            assert httpx.get(f"{url}/jobs").status_code == 401
            bearer = {"authorization": f"Bearer {token.read_text().strip()}"}
            assert httpx.get(f"{url}/jobs", headers=bearer).json()["data"] == []
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_an_adapter_of_the_real_model_comes_back_and_does_better_on_other_seeds(tmp_path, model_folder):
    task, model = "MiniWoB/click-option-v0", str(model_folder)

    def solved(**adapter):
        agent = agents.make("transformers", model=model, **adapter)
        with Rollouts(8) as rollouts:
            results = rollouts.run(agent, [Job(task, seed) for seed in range(4_000_000, 4_000_020)])
        return sum(one.solved for one in results)

    with Rollouts(8) as rollouts:
        shown = rollouts.run(OracleAgent(), [Job(task, seed) for seed in range(50)], folder=tmp_path / "episodes")
    assert all(one.solved for one in shown)
    before = solved()
    server = Server(tmp_path / "service", "--model", model, token="the-token-of-the-round-trip")
    command = [sys.executable, "-m", "selfsurf.scripts.cli", "deploy", "--episodes", tmp_path / "episodes", "--steps", "40",
               "--server-url", server.url, "--model", model, "--out", tmp_path / "adapter", "--json"]  # fmt: skip
    environment = {**os.environ, "SELFSURF_SERVER_TOKEN": server.token}
    try:
        made = subprocess.run(
            list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2000
        )
    finally:
        server.end()
    assert made.returncode == 0, made.stderr
    after = solved(adapter=json.loads(made.stdout)["adapter"])
    print(f"solved of 20: {before} before, {after} after")
    assert after >= before + 8


def test_what_can_not_end_well_is_refused_before_anything_is_sent(server, http, tmp_path):
    from selfsurf.sdft.service.client import ServiceClient, ServiceError
    from selfsurf.sdft.service.deploy import deploy as send
    from selfsurf.sdft.service.schemas import Hyperparameters

    episode, before = write_episode(tmp_path / "one", 77), http.get("/episodes").json()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "origin.json").write_text('{"request": "of other episodes", "sha256": "0", "files": {}}')
    with ServiceClient(server.url, patience=0) as client:
        for out, model, why in (
            ("mine", "smollm2", "already exists with other content"), ("earlier", "smollm2", "already exists with other content"),
            ("new", "no-such", "not no-such"),
        ):  # fmt: skip
            with pytest.raises(ServiceError, match=why):
                send(client, [episode], "a", tmp_path / out, None, model=(model, model), settings=Hyperparameters())
    assert http.get("/episodes").json() == before
