"""Calls of an async function on many inputs: bounds, order, errors and ends."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import UsageError
from agentrt.base.bounded_map import BoundedMap, CallEnd
from agentrt.testing import run_virtual

SECONDS = st.lists(st.integers(0, 9), max_size=12)


async def nap(index: int, seconds: float) -> float:
    await anyio.sleep(seconds)
    return seconds


async def read(calls: BoundedMap[Any, Any]) -> list[CallEnd[Any, Any]]:
    async with calls:
        return [end async for end in calls]


@given(SECONDS, st.integers(1, 5), st.none() | st.integers(1, 4), st.booleans(), st.booleans())
def test_each_input_ends_once_within_the_bounds(
    seconds: list[int], concurrency: int, waiting: int | None, ordered: bool, is_async: bool
) -> None:
    under_way = most = taken = 0
    unread: list[int] = []

    async def call(index: int, one: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await anyio.sleep(one)
        under_way -= 1
        return one

    def plain() -> Iterator[int]:
        nonlocal taken
        for one in seconds:
            taken += 1
            yield one

    async def slow() -> AsyncIterator[int]:
        for one in plain():
            await anyio.sleep(0.5)
            yield one

    async def main() -> list[CallEnd[int, int]]:
        inputs = slow() if is_async else plain()
        found = []
        bounds: dict[str, Any] = {"concurrency": concurrency, "waiting": waiting}
        async with BoundedMap(call, inputs, ordered=ordered, **bounds) as ends:
            async for end in ends:
                found.append(end)
                unread.append(taken - len(found))
                await anyio.sleep(0.25)
        return found

    ends = run_virtual(main)
    assert sorted(end.index for end in ends) == list(range(len(seconds)))
    assert all(end.input == end.value == seconds[end.index] for end in ends)
    if ordered:
        assert [end.index for end in ends] == list(range(len(seconds)))
    assert most <= concurrency
    if waiting is not None:
        assert max(unread, default=0) <= concurrency + waiting


def test_ends_may_come_as_calls_end() -> None:
    calls = BoundedMap(nap, [3.0, 1.0, 2.0], concurrency=3, ordered=False)
    assert [end.value for end in run_virtual(read, calls)] == [1.0, 2.0, 3.0]


def test_unread_ends_hold_further_calls_back() -> None:
    began: list[int] = []

    async def call(index: int, one: int) -> None:
        began.append(index)

    async def main() -> list[int]:
        async with BoundedMap(call, range(10**9), concurrency=2, waiting=3) as ends:
            await anyio.sleep(1)
            held = len(began)
            await anext(ends)
            await anyio.sleep(1)
            return [held, len(began)]

    assert run_virtual(main) == [5, 6]


def test_the_first_error_cancels_the_others_and_is_raised() -> None:
    ended: list[str] = []

    async def call(index: int, one: float) -> None:
        try:
            await anyio.sleep(one)
            raise ValueError(one)
        except anyio.get_cancelled_exc_class():
            ended.append(f"{one} cancelled")
            raise

    async def main() -> float:
        start_s = anyio.current_time()
        with pytest.raises(ValueError, match=r"1\.0"):
            await read(BoundedMap(call, [9.0, 1.0, 5.0], concurrency=2))
        return anyio.current_time() - start_s

    assert run_virtual(main) == 1
    assert ended == ["9.0 cancelled"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_errors_may_be_ends(error: Exception | SystemExit) -> None:
    async def call(index: int, one: int) -> int:
        if one == 1:
            raise error
        return one

    calls = BoundedMap(call, [0, 1, 2], concurrency=1, stops_at_error=False)
    assert [end.error or end.value for end in run_virtual(read, calls)] == [0, error, 2]


def test_leaving_early_ends_the_calls_and_the_inputs() -> None:
    log: list[str] = []

    async def inputs() -> AsyncIterator[int]:
        try:
            for one in range(10**9):
                yield one
        finally:
            log.append("inputs closed")

    async def call(index: int, one: int) -> int:
        log.append(f"{one} began")
        try:
            await anyio.sleep(one)
        finally:
            log.append(f"{one} ended")
        return one

    async def main() -> float:
        start_s = anyio.current_time()
        async with BoundedMap(call, inputs(), concurrency=3) as ends:
            async for end in ends:
                if end.value == 1:
                    break
        return anyio.current_time() - start_s

    assert run_virtual(main) == 1
    assert log[0] == "0 began"
    assert "inputs closed" in log
    began = sorted(one.split()[0] for one in log if one.endswith("began"))
    assert began == sorted(one.split()[0] for one in log if one.endswith("ended"))
    assert began == ["0", "1", "2", "3"]


def test_the_error_of_the_block_is_raised_as_itself() -> None:
    async def main() -> None:
        async with BoundedMap(nap, [5.0, 5.0], concurrency=2):
            raise KeyError("block")

    with pytest.raises(KeyError, match="block"):
        run_virtual(main)


def test_a_cancelled_reader_cancels_the_calls() -> None:
    async def main() -> float:
        start_s = anyio.current_time()
        with anyio.move_on_after(1) as scope:
            await read(BoundedMap(nap, [50.0], concurrency=1))
        assert scope.cancelled_caught
        return anyio.current_time() - start_s

    assert run_virtual(main) == 1


def test_an_error_of_the_inputs_comes_behind_the_calls_that_began() -> None:
    def inputs() -> Iterator[float]:
        yield from (2.0, 1.0)
        raise OSError("the file ends")

    found: list[float] = []

    async def main() -> None:
        async with BoundedMap(nap, inputs(), concurrency=9) as ends:
            async for end in ends:
                assert end.value is not None
                found.append(end.value)

    with pytest.raises(OSError, match="the file ends"):
        run_virtual(main)
    assert found == [2.0, 1.0]


def test_what_a_note_of_an_end_raises_ends_the_calls() -> None:
    def note(end: CallEnd[float, float]) -> None:
        raise BrokenPipeError("the bar is gone")

    calls = BoundedMap(nap, [1.0, 9.0], concurrency=2, stops_at_error=False, on_end=note)
    with pytest.raises(BrokenPipeError):
        run_virtual(read, calls)


@pytest.mark.parametrize("bounds", [{"concurrency": 0}, {"concurrency": 1, "waiting": 0}])
def test_bounds_are_checked(bounds: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        BoundedMap(nap, [], **bounds)  # type: ignore[arg-type]
