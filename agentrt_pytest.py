"""The pytest plugin of agentrt: the fixtures `scripted` and `recorded`, and the marker `agentrt`.

It stands beside the package, as pytest imports it in every session of an environment that has
agentrt: until a test asks for one of its fixtures, nothing of the package is imported.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agentrt.testing import ScriptedRuntime
    from agentrt.testing.recorded_runtime import RecordedRuntime, RecordingRuntime

MARKER = "agentrt: an `async` test that runs on an event loop with virtual time"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("agentrt")
    group.addoption(
        "--agentrt-record",
        action="store_true",
        help="record the runs of the fixture `recorded` anew, on the engine of AGENTRT_ENGINE and "
        "AGENTRT_MODEL or of agentrt.toml",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async` test that is marked `agentrt` on a loop with virtual time.

    Time is real while it records.
    """
    if pyfuncitem.get_closest_marker("agentrt") is None:
        return None
    function = pyfuncitem.obj
    if type(pyfuncitem).__module__.startswith("pytest_asyncio"):  # its auto mode takes all of them
        function = inspect.unwrap(function)
    if not inspect.iscoroutinefunction(function):
        return None
    import anyio

    from agentrt.testing import run_virtual

    is_recorded = "recorded" in pyfuncitem.fixturenames
    is_real = is_recorded and pyfuncitem.config.getoption("--agentrt-record")
    names = inspect.signature(function).parameters
    arguments = {name: one for name, one in pyfuncitem.funcargs.items() if name in names}

    async def main() -> None:
        await function(**arguments)

    if is_real:
        anyio.run(main)
    else:
        run_virtual(main)
    return True


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedRuntime]]:
    """Makes a runtime with scripted answers: `scripted(script, ...)` is `ScriptedRuntime(...)`.

    As long as the test runs, `program.run(...)` of the code under test runs on the last one made.
    """
    from contextlib import ExitStack

    from agentrt.testing import ScriptedRuntime

    with ExitStack() as stack:

        def make(*args: Any, **kwargs: Any) -> ScriptedRuntime:
            engine = ScriptedRuntime(*args, **kwargs)
            stack.enter_context(engine.as_default())
            return engine

        yield make


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Iterator[RecordedRuntime | RecordingRuntime]:
    """Replays the recording of this test; with `--agentrt-record` the test makes it.

    The recording is `recordings/MODULE.TEST.jsonl` beside the file of the test.
    """
    path = recording_path(request.path, request.node.name)
    if request.config.getoption("--agentrt-record"):
        from agentrt.testing.recorded_runtime import RecordingRuntime

        engine: RecordedRuntime | RecordingRuntime = RecordingRuntime(path)
    else:
        from agentrt.testing.recorded_runtime import RecordedRuntime

        engine = RecordedRuntime(path)
    with engine.as_default():
        yield engine


def recording_path(file: Path, test: str) -> Path:
    """The recording of a test."""
    name = re.sub(r"[^\w.-]+", "_", f"{file.stem}.{test}").strip("_")
    return file.parent / "recordings" / f"{name}.jsonl"
