"""Episodes arrive whole or not at all, and an archive can do no harm."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import time

import httpx
import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.sdft.service.app import make_app
from selfsurf.sdft.service.archive import BROUGHT_NAME, EPISODE_NAME, ArchiveError, pack, unpack
from selfsurf.sdft.service.client import ServiceClient, episode_id
from selfsurf.sdft.service.errors import RefusedRequest
from selfsurf.sdft.service.service_folder import ServiceFolder, ServiceSettings
from selfsurf.sdft.service.store import Store
from selfsurf.sdft.service.uploads import Uploads
from tests.sdft.service.conftest import write_episode

JSON = {"content-type": "application/json"}


def sent(http, archive, **headers):
    return http.post(
        "/upload_trajectory", content=archive, headers={name.replace("_", "-"): one for name, one in headers.items()}
    )


def test_the_same_content_is_the_same_episode_however_it_is_packed(http, tmp_path):
    folder = write_episode(tmp_path / "one", 1)
    archive = pack(folder, EPISODE_NAME, tmp_path / "a.tar.gz").read_bytes()
    assert pack(folder, EPISODE_NAME, tmp_path / "b.tar.gz").read_bytes() == archive
    other = io.BytesIO()
    with tarfile.open(fileobj=other, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(folder, "./")
    first, again = sent(http, archive).json(), sent(http, other.getvalue()).json()
    assert first["episode"] == again["episode"] == episode_id(folder)
    assert (first["known"], again["known"]) == (False, True)
    assert http.get(f"/episodes/{first['episode']}").json()["steps"] == 2


def test_an_upload_goes_on_where_it_broke_off_also_after_the_server_was_killed(server, http, tmp_path):
    archive = pack(
        write_episode(tmp_path / "two", 2, size=(200, 200)), EPISODE_NAME, tmp_path / "a.tar.gz"
    ).read_bytes()
    name, length, half = hashlib.sha256(archive).hexdigest(), len(archive), len(archive) // 2
    told = {"upload_id": name, "upload_length": str(length)}
    answer = sent(http, archive[:half], **told)
    assert (answer.status_code, answer.json()["offset"], answer.json()["episode"]) == (202, half, None)
    server.kill()
    server.start()
    assert http.get(f"/uploads/{name}").json()["offset"] == half
    wrong = sent(http, archive, **told)
    assert (wrong.status_code, wrong.json()["type"], wrong.json()["retryable"]) == (409, "wrong_offset", True)
    done = sent(http, archive[half:], upload_offset=str(half), **told)
    assert done.json()["episode"] == episode_id(tmp_path / "two")
    assert sent(http, b"", upload_offset=str(length), **told).json()["episode"] == done.json()["episode"]


def test_the_rest_of_an_upload_that_broke_off_may_come_in_one_request(http, tmp_path):
    archive = pack(write_episode(tmp_path / "six", 6), EPISODE_NAME, tmp_path / "a.tar.gz").read_bytes()
    name, length = hashlib.sha256(archive).hexdigest(), len(archive)
    assert sent(http, archive[:100], upload_id=name, upload_length=str(length)).status_code == 202
    done = sent(http, archive)
    assert (done.status_code, done.json()["episode"]) == (200, episode_id(tmp_path / "six"))


def test_an_upload_that_will_not_go_on_is_deleted(http):
    name = hashlib.sha256(b"never sent whole").hexdigest()
    assert sent(http, b"never", upload_id=name, upload_length="16").json()["offset"] == 5
    assert http.delete(f"/uploads/{name}").status_code == 204
    assert http.get(f"/uploads/{name}").json()["offset"] == 0
    assert http.delete(f"/uploads/{name}").json()["type"] == "not_found"


def test_what_arrived_damaged_is_asked_for_again(http, tmp_path):
    archive = pack(write_episode(tmp_path / "three", 3), EPISODE_NAME, tmp_path / "a.tar.gz").read_bytes()
    name = hashlib.sha256(archive).hexdigest()
    broken = archive[:-20] + bytes(20)
    answer = sent(http, broken, upload_id=name, upload_length=str(len(archive)))
    assert (answer.status_code, answer.json()["type"], answer.json()["retryable"]) == (422, "wrong_hash", True)
    assert http.get(f"/uploads/{name}").json()["offset"] == 0
    with ServiceClient(str(http.base_url)) as client:
        assert client.upload(tmp_path / "three") == client.upload(tmp_path / "three") == episode_id(tmp_path / "three")


def spoiled(folder, change):
    change(folder)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(folder, "./")
    return out.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "steps.jsonl").write_text("{}\n"),
        lambda folder: (folder / "artifacts/0009.png").write_bytes(b"not in the manifest"),
        lambda folder: (folder / "episode.json").write_text("[" * 100_000),
    ],
    ids=["no manifest", "changed", "added", "deep"],
)
def test_no_whole_episode_is_refused(http, tmp_path, change):
    archive = spoiled(write_episode(tmp_path / "one", 4), change)
    answer = sent(http, archive)
    assert (answer.status_code, answer.json()["type"]) == (422, "bad_episode")
    assert answer.json()["retryable"] is False


def entry(name, content=b"x", **more):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in more.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512)


def pax_bomb():
    info = tarfile.TarInfo("bomb")
    info.type, info.size = tarfile.XHDTYPE, 8**11 - 1
    return info.tobuf(tarfile.USTAR_FORMAT)


def negative():
    raw = bytearray(entry("steps.jsonl", b""))
    raw[124:136] = b"\xff" * 12  # -1 in base 256
    raw[148:156] = b"%06o\0 " % (sum(raw[:148]) + 8 * 32 + sum(raw[156:512]))
    return bytes(raw)


HOSTILE = {
    "an absolute name": entry("/etc/cron.d/evil"),
    "a way out": entry("../../evil.json"),
    "a way out of artifacts": entry("artifacts/../../x.png"),
    "a hidden way out": entry("artifacts/..png/../../../x.png"),
    "a link": entry("steps.jsonl", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": entry("steps.jsonl", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
    "a device": entry("steps.jsonl", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "a pipe": entry("steps.jsonl", b"", type=tarfile.FIFOTYPE),
    "a folder of another name": entry("evil", b"", type=tarfile.DIRTYPE),
    "twice the same": entry("steps.jsonl") + entry("./steps.jsonl"),
    "another file": entry("evil.py"),
    "a header as large as a disk": pax_bomb(),
    "a long name": entry("././@LongLink", b"a" * 600, type=tarfile.GNUTYPE_LONGNAME),
    "a hole": entry("steps.jsonl", b"", type=tarfile.GNUTYPE_SPARSE),
    "a negative size": negative(),
    "no tar": b"x" * 2000,
    "cut off": entry("steps.jsonl", b"x" * 5000)[:3000],
    "nothing": b"",
    "something after the end": entry("steps.jsonl") + bytes(1024) + b"x" * 512,
    "an odd name": entry("artifacts/\x1b[2J.png"),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(tmp_path, what):
    content = HOSTILE[what]
    ending = b"" if what in ("cut off", "nothing") else bytes(1024)
    with pytest.raises(ArchiveError):
        unpack(io.BytesIO(gzip.compress(content + ending)), tmp_path / "in" / "deep" / "made", EPISODE_NAME)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name not in ("made", "artifacts")]
    assert not written


def test_bombs_and_a_million_files_are_cut_short(server, http, tmp_path):
    """5 GB of zeros in 5 MB, by a real request; and very many files of no size."""
    info = tarfile.TarInfo("steps.jsonl")
    info.size = 5 * 2**30
    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb", compresslevel=1) as file:
        file.write(info.tobuf(tarfile.USTAR_FORMAT))
        file.write(bytes(2**20))
    start = time.monotonic()
    assert sent(http, bomb.getvalue()).json()["type"] == "bad_episode"
    many = b"".join(entry(f"artifacts/{number}.png", b"") for number in range(10_003))
    answer = sent(http, gzip.compress(many, 1))
    assert "more than 10,000 files" in answer.json()["message"]
    zeros = gzip.compress(entry("steps.jsonl") + bytes(2 * 2**20), 1)
    assert "data after its end" in sent(http, zeros).json()["message"]
    assert time.monotonic() - start < 30
    assert not [path for path in (server.folder / "uploads").iterdir() if path.suffix in (".part", ".folder", ".body")]


def test_what_is_too_large_is_refused_before_it_is_read(http):
    answer = http.post("/upload_trajectory", content=b"x", headers={"upload-id": "0" * 64, "upload-length": str(2**40)})
    assert (answer.status_code, answer.json()["type"]) == (413, "too_large")
    assert http.post("/train", content=b"x" * (2**20 + 1)).status_code == 413
    unsaid = http.post("/train", content=iter([b"x" * 2**19] * 3))
    assert (unsaid.status_code, unsaid.json()["type"]) == (413, "too_large")
    known = http.post("/train", content=iter([b'{"episodes": ["ep-', b"0" * 32, b'"]}']), headers=JSON)
    assert (known.status_code, known.json()["type"]) == (404, "not_found"), "what comes in parts is read, too"


def test_a_full_disk_is_said_and_the_upload_stays(http, server, tmp_path, monkeypatch):
    from selfsurf.sdft.service.service_folder import NoRoom, ServiceFolder

    place = ServiceFolder(tmp_path / "service")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 100, 0))
    with pytest.raises(NoRoom, match="disk is full"):
        place.check_room(1, 2**40)
    monkeypatch.undo()
    with pytest.raises(NoRoom, match="quota"):
        place.check_room(2**20, 2**10)


@pytest.fixture
def uploads(tmp_path):
    """Makes what takes uploads, with a quota of its own."""

    def make(quota):
        place = ServiceFolder(tmp_path / "service")
        return Uploads(place, Store(place.database), ServiceSettings(models={"m": "m"}, quota=quota))

    return make


def test_what_is_still_arriving_counts_for_the_quota(uploads):
    taking, more, refused = uploads(2 * 2**20), asyncio.Event(), []

    async def slowly():
        await more.wait()
        yield b"x"

    async def send(number):
        try:
            await taking.receive(f"{number:064}", 0, 900_000, slowly())
        except RefusedRequest as error:
            refused.append((error.status, error.problem.type))

    async def all_at_once():
        sending = [asyncio.ensure_future(send(number)) for number in range(6)]
        await asyncio.sleep(0.1)
        more.set()
        await asyncio.gather(*sending)

    asyncio.run(all_at_once())
    assert refused == [(507, "no_room")] * 4


def test_what_does_not_say_how_long_it_is_gets_no_more_than_is_left(tmp_path):
    place = ServiceFolder(tmp_path / "service")
    asked = make_app(place.root, ServiceSettings(models={"m": "m"}, quota=2 * 2**20))
    taken = []

    async def endless():
        for number in range(40):
            taken.append(number)
            yield os.urandom(2**18)

    async def ask():
        transport = httpx.ASGITransport(asked, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.post("/adapters/import", params={"name": "large"}, content=endless())

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["type"], answer.json()["retryable"]) == (507, "no_room", True)
    assert len(taken) < 10
    assert not [*(place.root / "uploads").iterdir()]


def test_who_sends_nothing_keeps_nobody_from_sending(uploads, monkeypatch):
    from selfsurf.sdft.service import uploads as module

    monkeypatch.setattr(module, "STALLED", 0.05)
    taking = uploads(2**30)

    async def silent():
        yield b"abc"
        await asyncio.sleep(60)

    async def rest():
        yield b"def"

    async def both():
        with pytest.raises(RefusedRequest) as refused:
            await taking.receive("0" * 64, 0, 6, silent())
        assert (refused.value.status, refused.value.problem.type, refused.value.problem.retryable) == (
            408,
            "stalled",
            True,
        )
        return await taking.receive("0" * 64, 3, 6, rest())

    assert asyncio.run(both()).offset == 6


def test_an_episode_that_is_larger_than_what_is_left_is_not_a_bad_one(uploads):
    large = gzip.compress(entry("steps.jsonl", b" " * 4 * 2**20), 9)
    name = hashlib.sha256(large).hexdigest()
    taking = uploads(2 * 2**20)

    async def send():
        yield large

    asyncio.run(taking.receive(name, 0, len(large), send()))
    with pytest.raises(RefusedRequest) as refused:
        taking.finish(name)
    assert (refused.value.status, refused.value.problem.type, refused.value.problem.retryable) == (507, "no_room", True)
    assert taking.progress(name).offset == len(large), "it stays, until there is room"


def test_what_is_finished_by_several_requests_at_once_is_checked_once(uploads, tmp_path, monkeypatch):
    archive = pack(write_episode(tmp_path / "one", 1), EPISODE_NAME, tmp_path / "a.tar.gz").read_bytes()
    name, taking, checked = hashlib.sha256(archive).hexdigest(), uploads(2**30), []
    finish = taking.finish
    monkeypatch.setattr(taking, "finish", lambda upload: checked.append(upload) or finish(upload))

    async def send():
        yield archive

    async def all_at_once():
        await taking.receive(name, 0, len(archive), send())
        gone, *others = [asyncio.ensure_future(taking.finished(name)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(RefusedRequest, match="is sending"):
            taking.forget(name)
        gone.cancel()
        return await asyncio.gather(*others)

    first, second = asyncio.run(all_at_once())
    assert first == second
    assert (first.episode, first.known) == (episode_id(tmp_path / "one"), False)
    assert checked == [name]
    assert asyncio.run(taking.finished(name)).known


def test_lists_come_in_parts(http, tmp_path):
    made = [
        sent(http, pack(write_episode(tmp_path / f"{i}", 10 + i), EPISODE_NAME, tmp_path / "a").read_bytes()).json()[
            "episode"
        ]
        for i in range(3)
    ]
    first = http.get("/episodes", params={"limit": 2}).json()
    assert [one["id"] for one in first["data"]] == [made[2], made[1]]
    assert first["has_more"]
    rest = http.get("/episodes", params={"after": made[1], "limit": 1}).json()
    assert [one["id"] for one in rest["data"]] == [made[0]]
    assert "shop.example" not in json.dumps(http.get("/episodes").json()), "nothing of a page is told"


def test_a_run_sends_its_episode_and_is_none_the_worse_where_that_fails(server, http, tmp_path, monkeypatch):
    page = "data:text/html,<title>Shop</title><button>Buy</button>"
    (tmp_path / "rule.py").write_text(
        "class Rule:\n    def act(self, obs):\n        return {'action': 'finish', 'answer': obs['title']}\n"
    )
    command = ["run", "--agent", f"{tmp_path}/rule.py:Rule", "--goal", "Read", "--url", page, "--upload", "--json"]

    def run(name, *more):
        done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / name), *more], env={"COLUMNS": "400"})
        return done.exit_code, done.stdout, done.stderr

    monkeypatch.delenv("SELFSURF_SERVER_URL", raising=False)
    code, _, said = run("none")
    assert (code, "SELFSURF_SERVER_URL must be the address of a training service" in said) == (2, True)
    assert not (tmp_path / "none").exists()
    monkeypatch.setenv("SELFSURF_SERVER_URL", server.url)
    code, printed, _ = run("sent")
    sent = json.loads(printed)["upload"]["episode"]
    assert (code, sent) == (0, episode_id(tmp_path / "sent"))
    assert http.get(f"/episodes/{sent}").json()["steps"] == 1
    monkeypatch.setenv("SELFSURF_SERVER_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("selfsurf.scripts.terminal.uploading.PATIENCE", 0.2)
    code, printed, said = run("kept")
    assert (code, "error" in json.loads(printed)["upload"]) == (0, True)
    assert f"selfsurf deploy --episodes {tmp_path / 'kept'}" in said
    assert (tmp_path / "kept" / "episode.json").exists()


def test_the_names_in_an_adapter_that_deploy_fetched():
    assert BROUGHT_NAME.fullmatch("origin.json")
    assert BROUGHT_NAME.fullmatch("adapter_config.json")
    assert not BROUGHT_NAME.fullmatch("other.json")
