"""The service keeps to what its OpenAPI description says: schemathesis against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOOKS = """
import schemathesis

@schemathesis.serializer("application/gzip")
def archive(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
"""
"""How it sends bytes."""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("phase", ["coverage", "fuzzing", "stateful"])
def test_schemathesis_finds_nothing(server, phase, tmp_path):
    command = Path(sys.executable).with_name("schemathesis")
    if not command.exists():
        pytest.skip("needs schemathesis (pip install schemathesis)")
    lenient = ["--exclude-checks", "positive_data_acceptance"]  # no schema tells an archive from other bytes
    (tmp_path / "hooks.py").write_text(HOOKS)
    done = subprocess.run(
        [command, "run", f"{server.url}/openapi.json", "--phases", phase, "--max-examples", "15", *lenient],
        capture_output=True, text=True, cwd=tmp_path, check=False,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
