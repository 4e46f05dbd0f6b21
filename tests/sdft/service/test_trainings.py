"""What the service trains besides the round trip: on from an adapter, after a trainer that hung, and live."""

import http.server
import os
import signal
import threading
import time

import pytest

from selfsurf.sdft.service import supervisor
from selfsurf.sdft.service.archive import ADAPTER_NAME, BROUGHT_NAME, EPISODE_NAME, pack
from selfsurf.sdft.service.client import ServiceClient
from selfsurf.sdft.service.schemas import Hyperparameters, TrainRequest
from selfsurf.sdft.service.service_folder import ServiceFolder, ServiceSettings
from selfsurf.sdft.service.store import Store
from tests.models.small import save_small
from tests.sdft.service.conftest import Server, until, write_episode

SMALL = {"steps": 3, "episodes_per_step": 3, "max_rows": 3, "lora_rank": 4, "evaluate_every": 0, "least_first_divergence": 0,
         "warmup_steps": 0, "learning_rate": 0.005, "checkpoint_every": 1}  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def model(saved):
    return saved(save_small, tie_word_embeddings=True)


def ended(http, job, seconds=300):
    return until(lambda: (one := http.get(f"/jobs/{job}").json())["ended"] and one, seconds)


def request(episodes, **more):
    return {"episodes": episodes, "settings": SMALL, **more}


def test_training_goes_on_from_an_adapter_that_was_brought(tmp_path, model):
    server = Server(tmp_path / "service", "--model", model)
    try:
        with ServiceClient(server.url) as client, server.client() as http:
            episodes = [client.upload(write_episode(tmp_path / str(number), number)) for number in range(3)]
            first = http.post("/train", json=request(episodes, adapter="first")).json()
            assert ended(http, first["id"])["status"] == "succeeded"
            own = client.download(client.adapter("first"), "peft", tmp_path / "first")
            (own / "origin.json").write_text("{}")  # as `deploy` leaves it
            archive = pack(own, BROUGHT_NAME, tmp_path / "adapter.tar.gz").read_bytes()
            brought = http.post("/adapters/import", params={"name": "brought"}, content=archive)
            assert (brought.status_code, brought.json()["model"]) == (201, model.name)
            assert (brought.json()["job"], brought.json()["probe"]) == (None, None)
            taken = http.post("/adapters/import", params={"name": "brought"}, content=archive)
            assert (taken.status_code, taken.json()["type"]) == (409, "name_taken")
            (own / "adapter_config.json").write_text("{}")
            damaged = pack(own, ADAPTER_NAME, tmp_path / "damaged.tar.gz").read_bytes()
            refused = http.post("/adapters/import", params={"name": "bad"}, content=damaged)
            assert (refused.status_code, refused.json()["type"]) == (422, "bad_adapter")
            assert http.get("/adapters/bad").status_code == 404
            missing = http.post("/train", json=request(episodes, adapter="on", start_from="nobody"))
            assert (missing.status_code, missing.json()["type"]) == (404, "not_found")
            on = http.post("/train", json=request(episodes, adapter="on", start_from="brought")).json()
            held = http.delete("/adapters/brought")
            assert (held.status_code, held.json()["type"]) == (409, "in_use")
            done = ended(http, on["id"])
            assert (done["status"], done["error"]) == ("succeeded", None)
            assert client.adapter("on").files["peft"].sha256 != client.adapter("brought").files["peft"].sha256
            assert http.delete("/adapters/brought").status_code == 204
    finally:
        server.end()


def test_a_trainer_that_hangs_is_ended_and_its_job_gone_on_with(tmp_path, model, monkeypatch):
    monkeypatch.setattr(supervisor, "SILENT", 5.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    place = ServiceFolder((tmp_path / "service").resolve())
    place.settle(ServiceSettings(models={model.name: str(model)}))
    store = Store(place.database)
    server = Server(place.root, "--model", model)  # for the upload alone: the other one's folder is free afterwards
    with ServiceClient(server.url) as client:
        episode = client.upload(write_episode(tmp_path / "one", 1))
    server.end()
    settings = Hyperparameters(**{**SMALL, "steps": 60, "episodes_per_step": 1})
    job = store.add_job(TrainRequest(episodes=(episode,), adapter="hung", settings=settings), model.name)
    watching = supervisor.Supervisor(place, store)
    watching.begin()
    try:
        until(lambda: store.job(job.id).step >= 2, 200)
        (pid,) = [pid for one, pid, _ in store.unfinished() if one.id == job.id]
        os.kill(pid, signal.SIGSTOP)
        stopped = time.monotonic()
        until(lambda: store.job(job.id).attempts == 2, 60)
        assert time.monotonic() - stopped > 4
        until(lambda: store.job(job.id).ended, 300)
    finally:
        watching.end()
    assert store.job(job.id).status == "succeeded"
    steps = [one.data["step"] for one in store.events(job.id, 0) if one.type == "progress"]
    assert steps[-1] == 60
    assert len(steps) - len(set(steps)) <= 1, "it went on from its last checkpoint"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>Shop</title>" + b"".join(b"<a href=#%d>%d</a> " % (i, i) for i in range(3)))

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("allowed", [True, False])
def test_training_plays_live_only_where_the_operator_allows_it(tmp_path, model, allowed):
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    site.asked = 0
    threading.Thread(target=site.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{site.server_port}/"
    domain = "127.0.0.1" if allowed else "shop.example"
    server = Server(tmp_path / "service", "--model", model, "--allow-domain", domain)
    try:
        with ServiceClient(server.url) as client, server.client() as asking:
            archive = pack(write_episode(tmp_path / "one", 1, url=url), EPISODE_NAME, tmp_path / "one.tar.gz")
            episode = asking.post("/upload_trajectory", content=archive.read_bytes()).json()["episode"]
            answer = asking.post("/train", json=request([episode], adapter="live", live=True))
            if allowed:
                done = ended(asking, answer.json()["id"])
                assert (done["status"], done["error"]) == ("succeeded", None)
                assert client.adapter("live").job == done["id"]
                assert site.asked >= 3, "its episodes were played there"
            else:
                assert (answer.status_code, answer.json()["type"]) == (403, "live_refused")
                assert site.asked == 0
    finally:
        server.end()
        site.shutdown()
        site.server_close()
