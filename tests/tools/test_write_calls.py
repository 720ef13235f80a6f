"""A `write` tool ends by itself: timeouts and cancellations end the wait for it alone."""

import asyncio
import logging
import threading
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from agentrt.base.errors import OutcomeUnknown, ToolFailed
from agentrt.testing import run_virtual
from agentrt.tools import AttemptEnded, ToolSpec, WriteCalls, execute


def paying(log: list[str], seconds: float = 10.0, **settings: Any) -> ToolSpec:
    async def pay() -> str:
        log.append("begun")
        try:
            await anyio.sleep(seconds)
        except BaseException:
            log.append("cut short")
            raise
        log.append("paid")
        return "receipt"

    return ToolSpec.of(pay, effects="write", **settings)


def test_a_timeout_ends_the_wait_and_not_the_tool() -> None:
    log: list[str] = []
    reports: list[Any] = []

    async def main() -> float:
        writes = WriteCalls()
        began_s = anyio.current_time()
        with pytest.raises(OutcomeUnknown, match="longer than 3 s") as unknown:
            await execute(paying(log, timeout_s=3), {}, writes=writes, on_attempt=reports.append)
        waited_s = anyio.current_time() - began_s
        assert unknown.value.tool == "pay"
        assert log == ["begun"]
        await writes.hold(30)
        return waited_s

    assert run_virtual(main) == 3
    assert log == ["begun", "paid"]
    assert isinstance(reports[-1], AttemptEnded)
    assert reports[-1].error
    assert reports[-1].error.type == "OutcomeUnknown"


def test_a_timeout_of_a_thread_ends_the_wait_and_not_the_tool() -> None:
    log: list[str] = []
    release = threading.Event()

    def pay() -> None:
        release.wait(30)
        log.append("paid")

    async def main() -> None:
        writes = WriteCalls()
        spec = ToolSpec.of(pay, effects="write", timeout_s=0.01)
        with pytest.raises(OutcomeUnknown):
            await execute(spec, {}, writes=writes)
        release.set()
        await writes.hold(30)

    anyio.run(main)
    assert log == ["paid"]


def test_a_cancellation_ends_the_wait_at_once() -> None:
    log: list[str] = []

    async def main() -> float:
        writes = WriteCalls()
        began_s = anyio.current_time()
        with anyio.move_on_after(3), pytest.raises(OutcomeUnknown, match="cancelled"):
            await execute(paying(log), {}, writes=writes)
        waited_s = anyio.current_time() - began_s
        await writes.hold(30)
        return waited_s

    assert run_virtual(main) == 3
    assert log == ["begun", "paid"]


def test_what_ends_in_time_is_the_outcome() -> None:
    log: list[str] = []
    assert run_virtual(lambda: execute(paying(log, timeout_s=20), {})) == "receipt"


def test_a_write_that_fails_has_failed() -> None:
    async def pay() -> None:
        raise OSError("no money")

    with pytest.raises(ToolFailed, match="no money"):
        run_virtual(lambda: execute(ToolSpec.of(pay, effects="write"), {}))


def test_the_grace_ends_the_hold(capsys: pytest.CaptureFixture[str]) -> None:
    log: list[str] = []

    async def main() -> float:
        writes = WriteCalls()
        with anyio.move_on_after(1), pytest.raises(OutcomeUnknown):
            await execute(paying(log, seconds=100), {}, writes=writes)
        began_s = anyio.current_time()
        await writes.hold(20)
        return anyio.current_time() - began_s

    assert run_virtual(main) == 20
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("waiting up to 20 s for pay: ")
    assert said[1] == "pay has not ended: its outcome is unknown"


def test_nothing_under_way_holds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run_virtual(lambda: WriteCalls().hold(20))
    assert capsys.readouterr().err == ""


def test_a_late_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def pay() -> None:
        await anyio.sleep(2)
        raise OSError("no money")

    async def main() -> None:
        writes = WriteCalls()
        with pytest.raises(OutcomeUnknown):
            await execute(ToolSpec.of(pay, effects="write", timeout_s=1), {}, writes=writes)
        await writes.hold(20)

    with caplog.at_level(logging.WARNING, "agentrt"):
        run_virtual(main)
    assert "pay failed: OSError('no money')" in caplog.text


@pytest.mark.parametrize(
    "kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]
)
@pytest.mark.parametrize("effects", ["read", "write"])
@pytest.mark.parametrize("threaded", [True, False])
def test_whatever_a_tool_raises_is_its_failure(
    kind: type[BaseException], effects: Any, threaded: bool
) -> None:
    def fails() -> None:
        raise kind("mine")

    async def fails_on_the_loop() -> None:
        raise kind("mine")

    spec = ToolSpec.of(fails if threaded else fails_on_the_loop, effects=effects)

    async def main() -> ToolFailed:
        with pytest.raises(ToolFailed) as failed:
            await execute(spec, {})
        await checkpoint()  # the task itself is not being cancelled
        return failed.value

    failed = anyio.run(main)
    assert "mine" in str(failed)
    assert failed.where.partition(":")[0].endswith("test_write_calls.py")


def test_a_coroutine_that_is_closed_is_no_failure() -> None:
    closed: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except GeneratorExit:
            closed.append("closed")
            raise

    call = execute(ToolSpec.of(slow, effects="read"), {})

    async def main() -> None:
        call.send(None)

    anyio.run(main)
    call.close()
    assert closed == ["closed"]
