"""Results have a limit, and large ones are measured off the loop."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from agentrt.base.errors import ToolFailed, UsageError
from agentrt.tools import ToolSpec, execute
from agentrt.tools.result_size import QUICK_BYTES, text_bytes


@dataclass(frozen=True, slots=True)
class Row:
    text: str


RING: list[Any] = []
RING.append(RING)


@pytest.mark.parametrize(
    ("value", "least"),
    [
        ("abc", 3),
        ("é" * 10, 20),
        ("\ud800", 3),
        (b"abc", 3),
        ({"key": ["ab", "cd"]}, 7),
        ([Row("abcdef")], 6),
        (RING, 1),
        (None, 1),
        (3.5, 1),
    ],
)
def test_a_text_has_at_least_its_bytes(value: Any, least: int) -> None:
    assert least <= text_bytes(value, 1000) <= least + 10


class Endless(list[int]):
    """A list that counts how far it is read."""

    read = 0

    def __iter__(self) -> Iterator[int]:
        while True:
            self.read += 1
            yield self.read


def test_counting_stops_at_the_bound() -> None:
    endless = Endless()
    assert text_bytes(endless, 100) >= 100
    assert endless.read <= 101


@pytest.mark.parametrize("give", [lambda n: "x" * n, lambda n: ["x"] * (n // 2)])
def test_one_byte_too_many_is_a_failure(give: Any) -> None:
    def report(n: int) -> Any:
        return give(n)

    async def main(n: int) -> Any:
        spec = ToolSpec.of(report, effects="read", max_result_bytes=200_000, retries=1)
        return await execute(spec, {"n": n}, max_result_bytes=10)

    assert anyio.run(main, 199_000)
    with pytest.raises(ToolFailed, match="report gave a result of more than 200000 bytes"):
        anyio.run(main, 400_000)


def test_the_default_is_that_of_the_runtime() -> None:
    spec = ToolSpec.of(lambda: "x" * 100, effects="read", name="report")
    with pytest.raises(ToolFailed, match="more than 99 bytes"):
        anyio.run(lambda: execute(spec, {}, max_result_bytes=99))


class Watched(list[str]):
    """A list that knows the threads that read it."""

    def __init__(self, *texts: str) -> None:
        super().__init__(texts)
        self.threads: list[threading.Thread] = []

    def __iter__(self) -> Iterator[str]:
        self.threads.append(threading.current_thread())
        return super().__iter__()


@pytest.mark.parametrize(("size", "here"), [(100, True), (2 * QUICK_BYTES, False)])
def test_large_results_are_measured_in_a_thread(size: int, here: bool) -> None:
    result = Watched("x" * size)
    spec = ToolSpec.of(lambda: result, effects="read", name="report")
    anyio.run(lambda: execute(spec, {}))
    assert (result.threads[-1] is threading.main_thread()) is here


def test_a_limit_is_positive() -> None:
    with pytest.raises(UsageError, match="max_result_bytes=0"):
        ToolSpec.of(lambda: "x", effects="read", name="report", max_result_bytes=0)
