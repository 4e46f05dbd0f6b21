"""An adapter is pushed to the hub by its own client, over HTTP: a server on loopback that answers as the hub does."""

import base64
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.few import few

TOKEN = "hf_of_a_test"


class Hub(BaseHTTPRequestHandler):
    """The calls that a push makes. It keeps what was asked of it, and the files."""

    def log_message(self, *_):
        pass

    def _answer(self, body, status=200):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(data)

    def _read(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self):
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if self.path == "/api/whoami-v2" and known:
            self._answer({"type": "user", "name": "me", "fullname": "Me"})
        else:
            self._answer({"error": "Invalid user token." if not known else self.path}, 404 if known else 401)

    def do_PUT(self):
        self.server.large[self.path.removeprefix("/large/")] = self._read()
        self._answer({})

    def do_POST(self):
        body, files = self._read(), self.server.files
        path = self.path.partition("?")[0]
        self.server.calls.append(path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer({"error": "Invalid user token."}, 401)
        elif path == "/api/repos/create":
            self.server.made = json.loads(body)
            self._answer({"url": f"{self.server.url}/me/links", "name": "me/links"})
        elif path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif path == "/api/models/me/links/preupload/main":
            asked = [one["path"] for one in json.loads(body)["files"]]
            modes = {one: "lfs" if one.endswith(".safetensors") else "regular" for one in asked}
            told = [{"path": one, "uploadMode": mode, "shouldIgnore": False} for one, mode in modes.items()]
            self._answer({"files": told})
        elif path == "/me/links.git/info/lfs/objects/batch":
            objects = [
                {**one, "actions": {"upload": {"href": f"{self.server.url}/large/{one['oid']}"}}}
                for one in json.loads(body)["objects"]
            ]
            self._answer({"transfer": "basic", "objects": objects})
        elif path == "/api/models/me/links/commit/main":
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                elif line["key"] == "lfsFile":
                    files[line["value"]["path"]] = self.server.large[line["value"]["oid"]]
            self._answer({"success": True, "commitUrl": f"{self.server.url}/me/links/commit/1", "commitOid": "1" * 40})
        else:
            self._answer({"error": path}, 404)


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.calls, server.files, server.large = [], {}, {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def run(hub, code, token=TOKEN):
    """In a process of its own: the client reads where the hub is when it is imported."""
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    environment |= {"HF_TOKEN": token}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    return done.stdout, " ".join(done.stderr.replace("│", " ").split())


@pytest.fixture
def adapter(tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (adapter / "README.md").write_text("---\nlibrary_name: peft\n---\n")
    save_file({"weight": np.ones((4, 2), np.float32)}, adapter / "adapter_model.safetensors")
    return adapter


def test_what_is_pushed_is_the_adapters_folder(hub, adapter):
    code = (
        "from selfsurf.agents.adapters.hub import check_push, push\n"
        f"check_push('me/links')\nprint(push({str(adapter)!r}, 'me/links'))"
    )
    assert run(hub, code)[0] == f"{hub.url}/me/links\n"
    assert (hub.made["name"], hub.made["organization"], hub.made["visibility"]) == ("links", "me", "private")
    assert hub.files == {path.name: path.read_bytes() for path in adapter.iterdir()}
    assert hub.calls[-1] == "/api/models/me/links/commit/main"


def test_train_pushes_what_it_has_trained(hub, adapter, tmp_path):
    arguments = ["train", "MiniWoB/click-test-v0", "--out", str(tmp_path / "run"), "--push-to-hub", "me/links"]
    code = (
        "import selfsurf.sdft\nfrom selfsurf.scripts.cli import app\n"
        f"selfsurf.sdft.train = lambda *_, **__: {{'adapter': {str(adapter)!r}, 'model': None}}\napp({arguments!r})"
    )
    assert run(hub, code)[0] == f"Adapter: {adapter}, {hub.url}/me/links\n"
    assert hub.files.keys() == {path.name for path in adapter.iterdir()}


@pytest.mark.parametrize(
    ("repo", "token", "says"),
    few(
        1,
        [
            ("not a name", TOKEN, "'not a name' is not a valid repository name"),
            ("me/links", "hf_wrong", "log in with `hf auth login`, or set HF_TOKEN"),
        ],
    ),
)
def test_what_can_t_be_pushed_is_refused_before_anything_is_trained(hub, tmp_path, repo, token, says):
    out = tmp_path / "run"
    arguments = ["train", "MiniWoB/click-test-v0", "--out", str(out), "--push-to-hub", repo]
    assert says in run(hub, f"from selfsurf.scripts.cli import app; app({arguments!r})", token)[1]
    assert not out.exists()
    assert hub.calls == []
