"""Jobs, and who may ask for them, at a real server."""

import asyncio
import json
import logging
import os
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from selfsurf.sdft.service import adapters, supervisor, trainer
from selfsurf.sdft.service.app import make_app, tidy_once
from selfsurf.sdft.service.archive import EPISODE_NAME, pack
from selfsurf.sdft.service.schemas import Adapter, Episode, TrainRequest
from selfsurf.sdft.service.service_folder import NoRoom, ServiceFolder, ServiceSettings
from selfsurf.sdft.service.store import Store
from selfsurf.sdft.service.uploads import Uploads
from tests.processes import crowd
from tests.sdft.service.conftest import until, write_episode


@pytest.fixture
def episode(http, tmp_path):
    archive = pack(write_episode(tmp_path / "one", 1), EPISODE_NAME, tmp_path / "a.tar.gz").read_bytes()
    return http.post("/upload_trajectory", content=archive).json()["episode"]


def train(http, episode, key=None, **more):
    return http.post("/train", json={"episodes": [episode], **more}, headers={"idempotency-key": key} if key else {})


def test_a_request_sent_again_makes_one_job_also_at_the_same_time(http, episode):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: train(http, episode, "once", adapter="same"), range(8)))
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sorted(answer.headers.get("idempotent-replayed", "false") for answer in answers) == ["false"] + ["true"] * 7
    other = train(http, episode, "once", adapter="other")
    assert (other.status_code, other.json()["type"]) == (422, "key_reused")
    assert train(http, episode, adapter="same").json()["adapter"] == "same-2", "a name is given once"


def test_a_job_is_queued_cancelled_and_resumed_and_says_so_in_numbered_events(server, http, episode):
    job = train(http, episode, adapter="events").json()["id"]
    assert http.post(f"/jobs/{job}/cancel").json()["status"] == "cancelled"
    assert http.post(f"/jobs/{job}/cancel").json()["status"] == "cancelled"
    assert http.post(f"/jobs/{job}/resume").json()["status"] == "queued"
    server.kill()
    server.start()
    assert http.get(f"/jobs/{job}").json()["status"] == "queued", "queued stays queued"
    http.post(f"/jobs/{job}/cancel")

    def events(**headers):
        text = http.get(f"/jobs/{job}/events", headers=headers).text
        return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]

    all_of_them = events()
    assert [one["number"] for one in all_of_them] == [1, 2, 3, 4]
    assert [one["data"]["status"] for one in all_of_them] == ["queued", "cancelled", "queued", "cancelled"]
    assert events(**{"last-event-id": "2"}) == all_of_them[2:]
    assert http.get("/train/status").json()["running"] is None
    found = http.get("/metrics").text
    assert 'selfsurf_jobs{status="cancelled"}' in found
    assert episode not in found


@pytest.mark.parametrize(
    ("change", "status", "type"),
    [
        ({"episodes": ["ep-" + "0" * 32]}, 404, "not_found"),
        ({"episodes": ["../../etc"]}, 422, "invalid_request"),
        ({"model": "/etc"}, 404, "unknown_model"),
        ({"adapter": "../x"}, 422, "invalid_request"),
        ({"settings": {"model": "x"}}, 422, "invalid_request"),
        ({"settings": {"steps": 10**9}}, 422, "invalid_request"),
        ({"settings": {"steps": True}}, 422, "invalid_request"),
        ({"start_from": "nothing"}, 404, "not_found"),
        ({"enrich": True}, 422, "no_enrichment"),
        ({"live": True}, 403, "live_refused"),
    ],
)
def test_what_can_t_be_is_refused_with_type_message_and_retryable(http, episode, change, status, type):
    answer = (
        train(http, episode, **{"adapter": "refused", **change})
        if "episodes" not in change
        else http.post("/train", json=change)
    )
    assert (answer.status_code, answer.json()["type"]) == (status, type)
    assert set(answer.json()) == {"type", "message", "retryable"}


def test_without_a_token_only_this_machine_s_own_pages_may_ask(http, server):
    for headers in (
        {"host": "evil.example"},
        {"host": f"evil.example:{server.port}"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"x-forwarded-for": "203.0.113.7"},
        {"forwarded": "for=203.0.113.7"},
    ):
        assert http.get("/jobs", headers=headers).status_code == 403
        assert http.post("/train", json={}, headers=headers).status_code == 403
    assert http.get("/jobs", headers={"origin": server.url}).status_code == 200
    assert http.get("/jobs", headers={"host": f"localhost:{server.port}"}).status_code == 200


def test_a_token_is_asked_for_and_guesses_are_slowed_down(tmp_path):
    app = make_app(tmp_path, ServiceSettings(models={"tiny": "tiny"}), ["the-right-token-of-the-test"])

    async def ask():
        transport = httpx.ASGITransport(app, client=("203.0.113.9", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://gpu.example") as http:
            open_ones = [(await http.get(path)).status_code for path in ("/health", "/")]
            right = {"authorization": "Bearer the-right-token-of-the-test"}
            good = await http.get("/jobs", headers=right)
            told = (await http.get("/jobs")).json()["message"]
            closed = {
                path: (await http.get(path)).status_code
                for path in ("/jobs", "/metrics", "/episodes", "/openapi.json", "/adapters")
            }
            wrong = [
                (await http.get("/jobs", headers={"authorization": "Bearer the-right-token-of-the-tesT"})).status_code
                for _ in range(9)
            ]
            late = await http.get("/jobs", headers=right)
            return open_ones, good, closed, told, wrong, late

    open_ones, good, closed, told, wrong, late = asyncio.run(ask())
    assert open_ones == [200, 200]
    assert good.status_code == late.status_code == 200
    assert set(closed.values()) == {401}
    assert "SELFSURF_SERVER_TOKEN" in told
    assert wrong[0] == 401
    assert wrong[-1] == 429


def test_what_an_adapter_is_held_for_it_is_not_deleted(tmp_path, http):
    from selfsurf.sdft.service.errors import RefusedRequest

    place = ServiceFolder(tmp_path)
    store = Store(place.database)
    (tmp_path / "adapters/shop").mkdir()
    (tmp_path / "adapters/unfinished-shop").mkdir()
    store.put_adapter(Adapter(name="shop", created=1.0, model="tiny", files={}))
    lease, _ = store.lease("shop", 60)
    with pytest.raises(RefusedRequest, match="is using this adapter"):
        adapters.remove(place, store, "shop")
    assert store.release("shop", lease)
    store.lease("shop", -1)
    adapters.remove(place, store, "shop")
    assert [path.name for path in (tmp_path / "adapters").iterdir()] == ["unfinished-shop"]
    assert http.delete("/adapters/nothing").status_code == 404
    assert http.post("/adapters/nothing/leases").status_code == 404


def test_no_other_takes_the_name_of_an_adapter_that_is_being_imported(tmp_path, monkeypatch):
    token, begun, rest = "the-right-token-of-the-test", threading.Event(), threading.Event()
    app = make_app(tmp_path, ServiceSettings(models={"tiny": "tiny"}), [token])
    episode = f"ep-{0:032x}"
    (tmp_path / "episodes" / episode).mkdir()

    def slowly(place, store, archive, name, model):
        assert not begun.is_set(), "two at once"
        begun.set()
        rest.wait()
        one = Adapter(name=name, created=1.0, model="tiny", files={})
        store.put_adapter(one)
        return one

    async def ask():
        transport, headers = httpx.ASGITransport(app), {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://gpu.example", headers=headers) as http:

            def bring():
                return http.post("/adapters/import", params={"name": "shop"}, content=b"no archive")

            refused = [await bring() for _ in range(2)]
            monkeypatch.setattr(adapters, "bring", slowly)
            first = asyncio.ensure_future(bring())
            await asyncio.to_thread(begun.wait)
            try:
                second = await bring()
                job = await http.post("/train", json={"episodes": [episode], "adapter": "shop"})
            finally:
                rest.set()
            return [*refused, await first, second, await bring()], job

    answers, job = asyncio.run(ask())
    assert [one.status_code for one in answers] == [422, 422, 201, 409, 409]
    assert [one.json()["retryable"] for one in answers[3:]] == [True, False], "an import may fail"
    assert job.json()["adapter"] == "shop-2"


def test_an_episode_is_deleted_once_no_job_needs_it(http, episode):
    job = train(http, episode).json()
    used = http.delete(f"/episodes/{episode}")
    assert (used.status_code, used.json()["type"]) == (409, "in_use")
    http.post(f"/jobs/{job['id']}/cancel")
    assert until(lambda: http.get(f"/jobs/{job['id']}").json()["status"] == "cancelled")
    key = {"idempotency-key": "gone"}
    assert [http.delete(f"/episodes/{episode}", headers=key).status_code for _ in range(2)] == [204, 204]
    assert http.get(f"/episodes/{episode}").status_code == 404
    assert http.delete(f"/episodes/{episode}").status_code == 404
    assert http.post(f"/jobs/{job['id']}/resume").json()["type"] == "not_found"


def test_a_job_whose_trainer_dies_before_it_begins_fails_after_some_tries(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "TRIES", 2)
    place = ServiceFolder(tmp_path)
    place.settle(ServiceSettings(models={"tiny": "tiny"}))
    store = Store(place.database)
    job = store.add_job(TrainRequest(episodes=(f"ep-{0:032x}",)), "tiny")
    watching = supervisor.Supervisor(place, store)
    (tmp_path / "service.json").write_text("{}")
    watching.begin()
    try:
        until(lambda: store.job(job.id).ended, 30 * crowd())
        done = store.job(job.id)
        store.change_job(job.id, status="queued", ended=None, error=None)  # as when it is resumed
        until(lambda: store.job(job.id).ended, 30 * crowd())
    finally:
        watching.end()
    assert (done.status, done.attempts, done.error.type, done.error.retryable) == ("failed", 0, "trainer_died", True)
    assert done.error.message.startswith("The trainer died 2 times in a row before it began")
    assert (tmp_path / "jobs" / job.id / "trainer.log").read_text().count("Traceback") == 4
    assert [one.data["status"] for one in store.events(job.id, 0)] == ["queued", "failed", "queued", "failed"]


def test_a_trainer_that_has_not_begun_ends_with_the_server(tmp_path):
    place = ServiceFolder(tmp_path)
    place.settle(ServiceSettings(models={"tiny": "tiny"}))
    store = Store(place.database)
    job = store.add_job(TrainRequest(episodes=(f"ep-{0:032x}",)), "tiny")
    watching = supervisor.Supervisor(place, store)
    watching.begin()
    try:
        (child,) = until(lambda: [*watching._children.values()])
    finally:
        watching.end()
    assert child.poll() is not None
    assert store.job(job.id).status == "queued", "it waits for the next server"


def test_a_sign_of_life_that_can_not_be_written_is_not_the_last(tmp_path, monkeypatch):
    beats = iter([sqlite3.OperationalError("disk is full"), sqlite3.OperationalError("locked"), False, True])
    ended = []

    def beat(*_):
        if isinstance(one := next(beats), Exception):
            raise one
        return one

    monkeypatch.setattr(Store, "beat", beat)
    monkeypatch.setattr(trainer, "HEARTBEAT", 0.01)
    monkeypatch.setattr(os, "kill", lambda *given: ended.append(given))
    trainer._beat(ServiceFolder(tmp_path), "job", threading.Event(), None)
    assert ended == [(os.getpid(), signal.SIGTERM)], "the fourth said that the job is cancelled"


def test_a_job_for_which_there_is_no_room_left_says_so(tmp_path):
    place = ServiceFolder(tmp_path)
    place.settle(ServiceSettings(models={"tiny": "tiny"}, quota=2**20))
    store = Store(place.database)
    job = store.add_job(TrainRequest(episodes=(f"ep-{0:032x}",)), "tiny")  # there was room then
    (tmp_path / "episodes" / "large").write_bytes(bytes(2**20))
    with pytest.raises(NoRoom) as raised:
        trainer.work(place, store, job)
    problem = trainer._problem(raised.value)
    assert (problem.type, problem.retryable) == ("no_room", True)
    assert problem.message.startswith("The server's quota is used up")


def test_the_schema_says_that_a_token_is_wanted_where_one_is(tmp_path):
    settings = ServiceSettings(models={"tiny": "tiny"})
    told = make_app(tmp_path, settings, ["the-right-token-of-the-test"]).openapi()
    assert told["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    assert all("security" in told["paths"][path]["get"] for path in ("/jobs", "/episodes", "/metrics"))
    assert "security" not in told["paths"]["/health"]["get"]
    assert "securitySchemes" not in make_app(tmp_path, settings).openapi()["components"]


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    from typer.testing import CliRunner

    from selfsurf.scripts.cli import app

    (tmp_path / "photo.jpg").write_text("mine")
    told = CliRunner().invoke(app, ["serve", str(tmp_path), "--port", "0"], env={"COLUMNS": "300"})
    assert (told.exit_code, "holds other files" in told.output) == (2, True)
    assert [path.name for path in tmp_path.iterdir() if path.name == "uploads"] == []


def test_old_episodes_that_no_job_uses_go(tmp_path):
    store = Store(ServiceFolder(tmp_path).database)
    ids = [f"ep-{number:032x}" for number in range(3)]
    for number, id in enumerate(ids):
        store.add_episode(Episode(id=id, created=float(number), bytes=1, steps=1, solved=True))
    store.add_job(TrainRequest(episodes=(ids[0],)), "tiny")
    assert store.idle_episodes(2.0) == [ids[1]]


def test_goals_are_listed_also_from_the_file_of_an_older_server(tmp_path):
    path = ServiceFolder(tmp_path).database
    with sqlite3.connect(path) as db:
        db.execute(
            "create table episodes (number integer primary key autoincrement, id text unique not null,"
            " created real not null, bytes integer not null, steps integer not null, solved integer not null)"
        )
        db.execute("insert into episodes (id, created, bytes, steps, solved) values ('ep-old', 1.0, 1, 1, 1)")
    db.close()
    store = Store(path)
    store.add_episode(Episode(id="ep-new", created=2.0, bytes=1, steps=1, solved=True), "Order tea")
    assert [(one.id, one.goal) for one in store.episodes(None, 9)[0]] == [("ep-new", "Order tea"), ("ep-old", "")]
    Store(path).close()


def test_a_long_message_of_a_training_arrives_whole(tmp_path):
    store = Store(ServiceFolder(tmp_path).database)
    job = store.add_job(TrainRequest(episodes=(f"ep-{0:032x}",)), "tiny")
    advice = "Nothing is being learned. " + "Try more steps. " * 20
    record = logging.LogRecord("selfsurf.sdft", logging.WARNING, "", 0, advice, None, None)
    trainer._Log(store, job.id).emit(record)
    assert store.events(job.id, 0)[-1].data["text"] == advice.strip()


def test_an_old_episode_that_a_job_takes_while_old_ones_go_stays(tmp_path, monkeypatch):
    place, settings = ServiceFolder(tmp_path), ServiceSettings(models={"tiny": "tiny"})
    store = Store(place.database)
    ids = [f"ep-{number:032x}" for number in range(2)]
    for id in ids:
        store.add_episode(Episode(id=id, created=1.0, bytes=1, steps=1, solved=True))
        (place.root / "episodes" / id).mkdir()
    listed = store.idle_episodes

    def then_taken(before):
        found = listed(before)
        store.add_job(TrainRequest(episodes=(ids[1],)), "tiny")
        return found

    monkeypatch.setattr(store, "idle_episodes", then_taken)
    tidy_once(place, store, Uploads(place, store, settings), settings)
    assert [path.name for path in (place.root / "episodes").iterdir()] == [ids[1]]
    assert store.episode(ids[1]).created == 1.0
    store.add_episode(Episode(id=ids[1], created=2.0, bytes=1, steps=1, solved=True))
    assert store.episode(ids[1]).created == 2.0, "what is brought again is kept as if it were new"


def test_a_damaged_database_is_said(tmp_path):
    from typer.testing import CliRunner

    from selfsurf.scripts.cli import app

    (tmp_path / "service.db").write_text("no database")
    told = CliRunner().invoke(app, ["serve", str(tmp_path), "--port", "0"], env={"COLUMNS": "300"})
    assert (told.exit_code, "service.db can't be read (file is not a database)" in told.output) == (2, True)


@pytest.mark.slow
def test_a_probe_in_16_bits_allows_for_rounding(monkeypatch, model_folder):
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.service import probe
    from selfsurf.sdft.service.schemas import Probe

    narrow = TransformersPolicy(str(model_folder), dtype="bf16")
    values, ids = probe._logits(narrow.model, narrow.tokenizer).topk(probe.MOST)
    told = Probe(
        text=probe.TEXT, tokens=tuple(ids.tolist()), logits=tuple(values.tolist()), moved=0.1, dtype="bfloat16"
    )
    wide = TransformersPolicy(str(model_folder), dtype="fp32")
    monkeypatch.setattr(
        "selfsurf.agents.policies.transformers.policy.TransformersPolicy", lambda *args, **options: wide
    )
    difference, allowed = probe.compare(told, "smollm2", model_folder)
    assert told.moved / 4 < difference < allowed


@pytest.mark.parametrize(("turn", "visible", "taken"), [
    ("trainer", "3,5", "3"), ("trainer-2", "3,5", "5"), ("trainer-3", "3,5", "3"), ("trainer-2", "0", "0"), ("trainer-2", "", ""), ("trainer-2", None, "1"),
])  # fmt: skip
def test_trainers_side_by_side_take_a_gpu_each(monkeypatch, tmp_path, turn, visible, taken):
    for number in range(4):
        (tmp_path / f"0000:0{number}").mkdir()
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    trainer.take_gpu(turn, tmp_path)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == taken
