"""The service under load: a real process on loopback, and clients in this one."""

import pytest

from selfsurf.scripts.service.load import measure


@pytest.mark.slow
def test_pollers_streams_and_uploads_at_once_neither_fail_nor_grow_the_server(tmp_path):
    figures = measure(tmp_path / "load", seconds=30, pollers=200, streams=50, uploads=20, upload_mb=20)
    assert figures["errors"] == []
    assert figures["uploads"] == 20
    assert figures["events"] >= 50
    assert figures["polls"] > 5000
    assert figures["memory_grew_mb"] < 50
    assert figures["p99_ms"] < 100  # on an idle machine
