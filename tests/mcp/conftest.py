"""A real server of the official SDK, over both transports."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).with_name("server.py")
OLD_SERVER = Path(__file__).with_name("old_server.py")


@pytest.fixture
def stdio_server() -> list[str]:
    """The command of a server."""
    return [sys.executable, str(SERVER)]


@contextmanager
def over_http(script: Path = SERVER) -> Iterator[str]:
    """The address of a server."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        descriptor = taken.fileno()
        command = [sys.executable, str(script), str(descriptor)]
        with subprocess.Popen(command, pass_fds=(descriptor,)) as process:
            port = taken.getsockname()[1]
            taken.close()  # the server has it; connections wait until it listens to them
            yield f"http://127.0.0.1:{port}/mcp"
            process.kill()


@pytest.fixture
def http_server() -> Iterator[str]:
    """The address of a server of this test alone, which may end it."""
    with over_http() as address:
        yield address


@pytest.fixture(scope="session")
def shop() -> Iterator[str]:
    """The address of a server that no test may end."""
    with over_http() as address:
        yield address


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest) -> Any:
    """A server as `mcp_tools` takes it, over each transport."""
    return request.getfixturevalue("shop" if request.param == "http" else "stdio_server")


@pytest.fixture(params=["stdio", "http"])
def own_server(request: pytest.FixtureRequest) -> Any:
    """The same, of this test alone, which may end it."""
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture(params=["stdio", "http"])
def old_server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A server of the protocol of 2025, of this test alone."""
    if request.param == "stdio":
        yield [sys.executable, str(OLD_SERVER)]
    else:
        with over_http(OLD_SERVER) as address:
            yield address


@pytest.fixture
def small_server() -> list[str]:
    """The command of such a server."""
    return [sys.executable, str(OLD_SERVER)]


@pytest.fixture
def server_with_sessions() -> Iterator[str]:
    """The address of such a server, which can forget its sessions."""
    with over_http(OLD_SERVER) as address:
        yield address
