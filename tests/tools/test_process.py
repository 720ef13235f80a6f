"""Tools in processes of their own: what they do there is no harm here."""

import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from agentrt.base.errors import OutcomeUnknown, ToolFailed, UsageError
from agentrt.testing import run_virtual
from agentrt.tools import ToolSpec, WriteCalls, execute
from agentrt.tools.process_child import found
from tests.tools import process_tools as here

FILE = str(Path(here.__file__).resolve())


def called(fn: Any, *, effects: Any = "read", **settings: Any) -> Any:
    """Calls it in a process with arguments by name."""
    spec = ToolSpec.of(fn, effects=effects, process=True, **settings)
    return lambda **arguments: anyio.run(lambda: execute(spec, arguments))


def test_values_cross_as_their_types(capfd: pytest.CaptureFixture[str]) -> None:
    spec = here.double.spec.bind(factor=3)
    result = anyio.run(lambda: execute(spec, {"trade": here.Trade("IBM", 50)}))
    assert result == here.Trade("IBM", 150)
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "printed\n")


@pytest.mark.parametrize("fn", [here.pid, here.pid_on_a_loop])
def test_it_is_another_process(fn: Any) -> None:
    assert called(fn)() != os.getpid()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "fails: ValueError: no such row"),
        ("exit", "fails: its process exited with code 7 before it returned"),
        ("sys.exit", "fails: SystemExit: done"),
        ("segfault", r"fails: its process was killed by signal 11 \(SIGSEGV\)"),
        ("kill", r"fails: its process was killed by signal 9 \(SIGKILL\)"),
        ("memory", "fails: MemoryError: it needs more than memory_bytes=2000000000"),
        ("nan", "fails: "),
    ],
)
def test_each_end_is_one_clear_failure(how: str, message: str) -> None:
    with pytest.raises(ToolFailed, match=message) as failed:
        called(here.fails, memory_bytes=2_000_000_000)(how=how)
    if how == "raise":
        assert ":3" in failed.value.where, "the line in the tool"


def test_what_json_changes_is_refused() -> None:
    with pytest.raises(ToolFailed, match="not the same after JSON"):
        called(here.any_value)()
    with pytest.raises(ToolFailed, match="its arguments cannot be sent as JSON"):
        called(here.large)(n="many")


def test_a_result_that_is_too_large_is_not_read() -> None:
    with pytest.raises(ToolFailed, match="more than 1000 bytes"):
        called(here.large, max_result_bytes=1000)(n=5_000_000)


def test_secrets_of_the_environment_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTRT_TEST_KEY", "s3cret")
    monkeypatch.setenv("AGENTRT_TEST_NAME", "named")
    names = ["AGENTRT_TEST_KEY", "AGENTRT_TEST_NAME", "PATH"]
    values = called(here.variables, env=["AGENTRT_TEST_NAME"])(names=names)
    assert values == ["", "named", os.environ["PATH"]]


def test_threads_that_are_left_do_not_hold_it() -> None:
    assert called(here.leaves_a_thread)() == "done"


async def begun(folder: Path) -> int:
    """The process of `holds`, once it is inside."""
    while not (folder / "begun").exists() or not (folder / "begun").read_text():
        await checkpoint()
    return int((folder / "begun").read_text())


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cancelled_read_is_killed(tmp_path: Path) -> None:
    spec = ToolSpec.of(here.holds, effects="read", process=True)

    async def main() -> int:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: execute(spec, {"folder": str(tmp_path)}))
            process = await begun(tmp_path)
            tasks.cancel_scope.cancel()
        while lives(process):  # until the worker thread has seen its end
            await checkpoint()
        return process

    assert anyio.run(main)
    assert not (tmp_path / "done").exists()


def test_a_timeout_kills_a_read(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="took longer than"):
        called(here.holds, timeout_s=0.01)(folder=str(tmp_path))


def test_a_cancelled_write_goes_on(tmp_path: Path) -> None:
    spec = ToolSpec.of(here.holds, effects="write", process=True)

    async def main() -> None:
        writes = WriteCalls()

        async def pay() -> None:
            with pytest.raises(OutcomeUnknown):
                await execute(spec, {"folder": str(tmp_path)}, writes=writes)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pay)
            await begun(tmp_path)
            tasks.cancel_scope.cancel()
        (tmp_path / "go").touch()
        await writes.hold(60)

    anyio.run(main)
    assert (tmp_path / "done").exists()


def test_virtual_time_waits_for_it() -> None:
    spec = ToolSpec.of(here.pid, effects="read", process=True, timeout_s=5)
    assert run_virtual(lambda: execute(spec, {}))


def nested() -> Any:
    def inside() -> int:
        return 1

    return inside


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (nested(), "cannot be imported by another process"),
        (lambda: 1, "cannot be imported by another process"),
        (threading.Event().wait, "cannot be imported by another process"),
        (here.no_result_type, "has no result type"),
        (here.odd_result, "the type of the result has no JSON form"),
        (here.odd_argument, "the type of parameter lock has no JSON form"),
    ],
)
def test_what_cannot_cross_is_refused_where_it_is_declared(fn: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ToolSpec.of(fn, effects="read", process=True, name="odd")


def test_limits_are_of_a_process() -> None:
    with pytest.raises(UsageError, match="memory_bytes and env are of a process"):
        ToolSpec.of(here.pid, effects="read", memory_bytes=1)
    with pytest.raises(UsageError, match="memory_bytes=0"):
        ToolSpec.of(here.pid, effects="read", process=True, memory_bytes=0)


def test_a_script_is_found_by_its_file(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("def price() -> int:\n    return 5\nassert __name__ != '__main__'\n")
    assert found("__main__", str(script), "price")() == 5
    assert found("tests.tools.process_tools", FILE, "pid") is here.pid
    assert found("tests.tools.process_tools", FILE, "double") is here.double.spec.fn
