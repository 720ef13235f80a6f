"""Pauses between the attempts of a tool, on the runtime's clock."""

import anyio
import pytest

from agentrt import ToolFailed, UsageError, tool
from agentrt.base.clock import Clock, FakeClock
from agentrt.testing import LoopClock, run_virtual
from agentrt.tools import AttemptEnded, AttemptStarted, Backoff, ToolSpec, execute


def broken(backoff: Backoff, retries: int) -> ToolSpec:
    @tool(effects="read", retries=retries, backoff=backoff)
    async def fail() -> None:
        """Fails."""
        raise ConnectionError("closed")

    return fail.spec


async def starts_of(spec: ToolSpec, clock: Clock) -> list[float]:
    """Instants of the attempts, after the first one."""
    started: list[float] = []

    def note(attempt: AttemptStarted | AttemptEnded) -> None:
        if isinstance(attempt, AttemptStarted):
            started.append(attempt.at_s)

    with pytest.raises(ToolFailed):
        await execute(spec, {}, clock=clock, on_attempt=note)
    return [at_s - started[0] for at_s in started[1:]]


@pytest.mark.parametrize(
    ("backoff", "starts_s"),
    [
        (1.0, [1, 3, 7, 12, 17]),
        (0, [0, 0, 0, 0, 0]),
        (lambda failed: 10.0 * failed, [10, 30, 60, 100, 150]),
        (lambda failed: -1.0, [0, 0, 0, 0, 0]),
    ],
)
def test_pauses_double_or_are_those_of_a_function(backoff: Backoff, starts_s: list[float]) -> None:
    assert run_virtual(starts_of, broken(backoff, 5), LoopClock()) == starts_s


def test_a_pause_ends_when_the_runtimes_clock_has_moved_on() -> None:
    clock = FakeClock()
    moved: list[float] = []

    async def move() -> None:
        for _ in range(8):
            await anyio.sleep(60)  # the loop's own time, which is none of the runtime's
            clock.advance(0.5)
            moved.append(clock.now_s())

    async def main() -> list[float]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(move)
            found = await starts_of(broken(1.0, 2), clock)
            assert moved[-1] == 3
            tasks.cancel_scope.cancel()
        return found

    assert run_virtual(main) == [1, 3]


def test_a_pause_below_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="backoff=-1"):
        broken(-1, 1)
