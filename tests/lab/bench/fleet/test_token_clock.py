"""A clock of served tokens reads the servers' counters, and fails with them."""

import threading

import pytest

from agentrt.lab.bench.fleet.token_clock import TokenClock
from agentrt.lab.errors import BenchFailed


def clock_of(looks: list[tuple[float, int]]) -> TokenClock:
    times, counts = (iter(column) for column in zip(*looks, strict=True))
    clock = TokenClock(lambda: next(counts), lambda: next(times))
    for _ in looks:
        clock.look()
    return clock


def test_tokens_count_from_the_first_look() -> None:
    clock = clock_of([(10.0, 500), (11.0, 600), (13.0, 640)])
    assert [clock.read(at_s) for at_s in (0.0, 0.5, 1.0, 2.0, 3.0)] == [0, 50, 100, 120, 140]
    assert clock.between(0.5, 2.0) == 70


def test_instants_outside_read_the_nearest_look() -> None:
    clock = clock_of([(0.0, 7), (1.0, 9)])
    assert (clock.read(-1.0), clock.read(99.0), clock.read(float("inf"))) == (0, 2, 2)


def test_a_server_that_is_gone_fails_the_play() -> None:
    looks = iter([1])

    def tokens() -> int:
        for count in looks:
            return count
        raise BenchFailed("the server has ended")

    with pytest.raises(BenchFailed, match="has ended"), TokenClock(tokens):
        pass


def test_servers_that_put_out_nothing_fail_the_play() -> None:
    counts, times = iter([5, 6, 6, 6]), iter([0.0, 1.0, 60.0, 121.0])
    clock = TokenClock(lambda: next(counts), lambda: next(times), still_s=120.0)
    for _ in range(3):
        clock.look()
    with pytest.raises(BenchFailed, match="nothing for 120 s"):
        clock.look()


def test_each_look_reports_the_tokens_since_the_first() -> None:
    counts, seen = iter([500, 600, 640]), list[float]()
    clock = TokenClock(lambda: next(counts), lambda: 0.0, on_look=seen.append)
    for _ in range(3):
        clock.look()
    assert seen == [0.0, 100.0, 140.0]


def test_a_failure_ends_the_block_and_stands_for_what_it_raised() -> None:
    """The block waits for an arm, which is killed: its error would say only that."""
    looks, failed = iter([1]), threading.Event()

    def tokens() -> int:
        for count in looks:
            return count
        raise BenchFailed("the server has ended")

    def note(_: BenchFailed) -> None:
        failed.set()

    def wait_for_the_arm() -> None:
        with TokenClock(tokens, on_failure=note):
            failed.wait()
            raise BenchFailed("the arm was killed")

    with pytest.raises(BenchFailed, match="has ended"):
        wait_for_the_arm()
