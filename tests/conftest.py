"""What several rooms share: one tiny engine, two servers over it, one event loop."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio.from_thread
import pytest

from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.serve import ServeConfig, serving
from agentrt.testing import tiny_engine

# Triton reads this when a kernel is declared, so it stands before anything may import one. Tests
# run kernels under the interpreter, on any machine; what needs the compiler starts a process.
os.environ.setdefault("TRITON_INTERPRET", "1")

# What tests learn is nobody's: nothing is read from the user's state, and nothing written there.
os.environ["AGENTRT_ESTIMATES"] = "off"

SERVER = Path(__file__).parent / "remote" / "server.py"
PROGRAMS = Path(__file__).parent.parent / "programs"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> EngineConfig:
    """An engine of two random layers."""
    return tiny_engine(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def folder_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that commands are given in; files that are run by path leave no module."""
    monkeypatch.chdir(tmp_path)
    modules, path = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).parent in (tmp_path, PROGRAMS):
            del sys.modules[name]


@pytest.fixture(scope="session")
def portal() -> Iterator[anyio.from_thread.BlockingPortal]:
    """An event loop that lasts as long as the backends on it."""
    with anyio.from_thread.start_blocking_portal() as started:
        yield started


@pytest.fixture(scope="session")
def server(tiny: EngineConfig) -> Iterator[subprocess.Popen[str]]:
    """An OpenAI-compatible server in a process of its own; it may still be loading."""
    command = [sys.executable, str(SERVER), str(tiny.model_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.terminate()


@pytest.fixture(scope="session")
def server_url(server: subprocess.Popen[str]) -> str:
    """Its address, once it serves."""
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    assert port, "the server did not start"
    return f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def own_server_url(tiny: EngineConfig, portal: anyio.from_thread.BlockingPortal) -> Iterator[str]:
    """The address of our own server, on the event loop of the backends."""
    config = ServeConfig("tiny", port=0, grace_s=1)
    opening = open_runtime(engine=tiny, place="thread", scheduler=SchedulerConfig(policy="fcfs"))
    with portal.wrap_async_context_manager(serving(config, opening)) as url:
        yield url
