"""What the client makes of addresses, proxies and connections that break."""

import hashlib
import threading
import time
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from selfsurf.sdft.service import client as module
from selfsurf.sdft.service.archive import ADAPTER_NAME, ArchiveError, pack, unpack
from selfsurf.sdft.service.client import ServiceClient, ServiceError
from selfsurf.sdft.service.schemas import Adapter, File
from tests.sdft.service.conftest import write_episode


@contextmanager
def answering(status, headers, body):
    """Something else than a training service, which answers all alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "headers", "body", "says"),
    [
        (308, {"location": "https://gpu.example.org/health"}, b"", "redirects to https://gpu.example.org/health"),
        (301, {"location": "/login"}, b"<html>", "redirects to /login"),
        (200, {"content-type": "text/html"}, b"<html>Hello", "not a training service"),
        (200, {}, b"", "not a training service"),
        (200, {"content-type": "application/json"}, b'{"status": "ok"}', "not a training service"),
    ],
)
def test_what_is_no_training_service_is_said_and_takes_no_episode(tmp_path, status, headers, body, says):
    folder = write_episode(tmp_path / "one")
    with answering(status, headers, body) as url, ServiceClient(url, patience=0) as client:
        with pytest.raises(ServiceError, match=says):
            client.health()
        with pytest.raises(ServiceError, match=says):
            client.upload(folder)


@pytest.mark.parametrize(
    ("url", "token", "says"),
    [
        ("gpu.example.org", "", "not the address of a server"),
        ("http://gpu:port", "", "not the address of a server"),
        ("http://127.0.0.1:9", "tok\nen", "contains invalid characters"),
        ("http://127.0.0.1:9", "töken", "contains invalid characters"),
    ],
)
def test_addresses_and_tokens_that_can_be_none(url, token, says):
    with pytest.raises(ServiceError, match=says):
        ServiceClient(url, token)


def test_a_token_s_line_end_is_no_part_of_it():
    with ServiceClient("http://127.0.0.1:9", "token\r\n") as client:
        assert client._http.headers["authorization"] == "Bearer token"


def test_patience_begins_anew_where_something_has_moved(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.01)
    tries = 0

    def goes_on(client):
        nonlocal tries
        tries += 1
        time.sleep(0.3)  # longer than patience
        if tries == 4:
            return "done"
        client._went_on()
        raise httpx.ReadError("broken")

    with ServiceClient("http://127.0.0.1:9", patience=0.2) as client:
        assert client._patiently(lambda: goes_on(client)) == "done"
        tries = -100
        monkeypatch.setattr(client, "_went_on", lambda: None)
        with pytest.raises(ServiceError, match=r"can't be reached \(ReadError: broken\)"):
            client._patiently(lambda: goes_on(client))
    assert tries == -99


def test_a_lease_of_a_server_that_is_gone_is_given_up_at_once(server, monkeypatch):
    with ServiceClient(server.url, patience=60) as client:
        monkeypatch.setattr(
            client, "_call", lambda kind, *_: kind(id="0" * 32, expires=0.0), raising=True
        )  # the lease was given; what follows is the end of a context whose server has gone
        client._http.base_url = "http://127.0.0.1:9"
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt), client.held("shop"):
            raise KeyboardInterrupt
    assert time.monotonic() - began < 10


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    """An adapter's archive, and what a server says of it."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "adapter_model.safetensors").write_bytes(bytes(2000))
    archive = pack(tmp_path / "made", ADAPTER_NAME, tmp_path / "a.tar.gz").read_bytes()
    monkeypatch.setattr(ServiceClient, "held", lambda *_: nullcontext())
    file = File(bytes=len(archive), sha256=hashlib.sha256(archive).hexdigest())
    return archive, Adapter(name="shop", created=0.0, model="m", files={"peft": file})


def test_what_the_server_has_wrong_is_not_fetched_again_and_again(adapter, tmp_path):
    archive, one = adapter
    (tmp_path / f".shop.{one.files['peft'].sha256[:16]}.part").write_bytes(b"damaged")
    with answering(200, {}, bytes(len(archive))) as url, ServiceClient(url, patience=60) as client:
        began = time.monotonic()
        with pytest.raises(ServiceError, match="doesn't have the hash that the server states"):
            client.download(one, "peft", tmp_path / "shop")
    assert time.monotonic() - began < 20
    assert not (tmp_path / "shop").exists()


def test_an_adapter_is_not_there_before_all_is_in_its_folder(adapter, tmp_path):
    archive, one = adapter

    def cut(made):
        raise KeyboardInterrupt

    with answering(200, {}, archive) as url, ServiceClient(url, patience=0) as client:
        with pytest.raises(KeyboardInterrupt):
            client.download(one, "peft", tmp_path / "shop", finish=cut)
        assert not (tmp_path / "shop").exists()
        client.download(one, "peft", tmp_path / "shop", finish=lambda made: (made / "origin.json").write_text("{}"))
    assert {path.name for path in (tmp_path / "shop").iterdir()} == {"adapter_model.safetensors", "origin.json"}


def test_an_adapter_may_be_larger_than_an_episode_s_file(tmp_path):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(bytes(2000))
    archive = pack(tmp_path / "adapter", ADAPTER_NAME, tmp_path / "a.tar.gz")
    with archive.open("rb") as file, pytest.raises(ArchiveError, match="a file of more than 1,000 bytes"):
        unpack(file, tmp_path / "small", ADAPTER_NAME, largest=1000)
    with archive.open("rb") as file:
        assert unpack(file, tmp_path / "large", ADAPTER_NAME, largest=3000) == 2000
