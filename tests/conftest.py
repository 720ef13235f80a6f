"""What several rooms share: one tiny engine, two servers over it, one event loop.

Also how tests run in tiers and beside each other: see "Tests" in CONTRIBUTING.md.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio.from_thread
import pytest

from agentrt import redact_content
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.serve import ServeConfig, serving
from agentrt.testing import tiny_engine
from tests.oracles.browser import browser, unseen_pages

# Triton reads this when a kernel is declared, so it stands before anything may import one. Tests
# run kernels under the interpreter, on any machine; what needs the compiler starts a process.
os.environ.setdefault("TRITON_INTERPRET", "1")

# What tests learn is nobody's: nothing is read from the user's state, and nothing written there.
os.environ["AGENTRT_ESTIMATES"] = "off"
_STATE = tempfile.mkdtemp(prefix="agentrt-tests-")
os.environ["XDG_STATE_HOME"] = _STATE
os.environ["AGENTRT_CAPABILITIES"] = "off"
os.environ["XDG_CONFIG_HOME"] = _STATE
atexit.register(shutil.rmtree, _STATE, ignore_errors=True)

# Workers share the cores: each computes on one thread, and so do the processes that it starts.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"

ON_ONE_SERVER = {"tests/backend_contract", "tests/cli", "tests/remote"}
HEAVY = ("torch", "transformers", "triton")

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "programs"


class WithoutTorch(MetaPathFinder):
    """Refuses to import torch and what imports it, so that tests that pass need none."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Never finds anything itself."""
        if name in HEAVY:
            raise ModuleNotFoundError(f"{name} is imported in a test of `make quick`", name=name)
        return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-torch", action="store_true", help="refuse to import torch")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--without-torch"):
        assert not sys.modules.keys() & set(HEAVY)
        sys.meta_path.insert(0, WithoutTorch())


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if line := unseen_pages(config.args, browser()):
        terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Send tests of one group to one worker: what a group makes once is not made twice."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.partition("::")[0])

    return Groups(config, log)


def group_of(file: str) -> str:
    """The file itself, but for folders whose tests share a server, or the trees of all sources."""
    folder = Path(file).parent.as_posix()
    return "server" if folder in ON_ONE_SERVER else folder if folder == "tests" else file


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


@pytest.fixture
def engines_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embedded engines run in threads of this process, which has imported what they need."""
    from agentrt.engine.process import backend

    here = backend.EmbeddedBackend

    def placed(config: Any, clock: Any, *, place: str) -> backend.EmbeddedBackend:
        return here(config, clock, place="thread")

    monkeypatch.setattr(backend, "EmbeddedBackend", placed)


@pytest.fixture(scope="session")
def portal() -> Iterator[anyio.from_thread.BlockingPortal]:
    """An event loop that lasts as long as the backends on it."""
    with anyio.from_thread.start_blocking_portal() as started:
        yield started


@pytest.fixture(scope="session")
def server(tiny: EngineConfig) -> Iterator[subprocess.Popen[str]]:
    """An OpenAI-compatible server in a process of its own; it may still be loading."""
    command = [sys.executable, "-m", "tests.remote.server", str(tiny.model_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
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


@pytest.fixture(autouse=True)
def _without_redaction() -> Iterator[None]:
    """No test leaves its redaction of content to those after it."""
    yield
    redact_content(None)
