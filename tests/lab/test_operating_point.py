"""The search for a rate and memory, over engines that are formulas."""

import math
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.errors import UsageError
from agentrt.lab.operating_point import (
    OperatingPoint,
    RateProbe,
    RateSearch,
    find_rate,
    operating_point,
)

AMPLE = 1 << 20
SEARCH = RateSearch(near=0.15, factor=1.6, most_halvings=40)


def probe(rate: float, slowdown: float, kv_tokens: int = 0, kept: float = 0.0) -> RateProbe:
    return RateProbe(rate, kv_tokens, slowdown, kept)


@given(st.floats(0.1, 100), st.floats(1.5, 50), st.floats(0.5, 4))
def test_a_rate_is_found_where_slowdown_grows_with_it(
    first: float, wanted: float, power: float
) -> None:
    probes: list[RateProbe] = []

    def measure(rate: float) -> RateProbe:
        probes.append(probe(rate, 1 + math.pow(rate, power)))
        return probes[-1]

    best = find_rate(measure, first, wanted, SEARCH)
    assert abs(best.slowdown / wanted - 1) <= 0.15
    assert best in probes


def test_the_nearest_is_taken_if_no_rate_is_near() -> None:
    probes: list[RateProbe] = []

    def measure(rate: float) -> RateProbe:
        probes.append(probe(rate, min(3.0, 1 + rate)))
        return probes[-1]

    best = find_rate(measure, 1.0, 10.0, RateSearch(0.15, 1.6, most_halvings=6, most_probes=4))
    assert best.slowdown == 3.0
    assert len(probes) == 4
    assert all(low.rate < high.rate for low, high in pairwise(probes))


def test_a_jump_is_halved_so_often_and_no_more() -> None:
    """Slowdown jumps past the wanted one: the interval between is never near."""
    probes: list[float] = []

    def measure(rate: float) -> RateProbe:
        probes.append(rate)
        return probe(rate, 2.0 if rate < 3.0 else 50.0)

    best = find_rate(measure, 1.0, 10.0, RateSearch(0.05, 2.0, most_halvings=3))
    assert probes[:3] == [1.0, 2.0, 4.0]
    assert len(probes) == 3 + 3
    assert best.slowdown in (2.0, 50.0)


def test_a_search_beyond_its_highest_rate_fails() -> None:
    search = RateSearch(0.05, 1.4, most_halvings=6, most_rate=1.5)
    with pytest.raises(UsageError, match="Give more programs"):
        find_rate(lambda rate: probe(rate, 1.0), 1.0, 1e6, search)


def found(asked: list[tuple[int, float, int]], **changed: float) -> OperatingPoint:
    """Two draws, each slow at rate 2 with ample memory and at rate 1 with less."""

    def measure(draw: int, rate: float, kv_tokens: int) -> RateProbe:
        asked.append((draw, rate, kv_tokens))
        slow = 10.0 * rate / (2.0 if kv_tokens == AMPLE else 1.0)
        return probe(rate, slow, kv_tokens, 30_000.0 if kv_tokens == AMPLE else 9_000.0)

    setting = {"kv_share": 1 / 3, "slowdown": 10.0, "first_rate": 2.0, **changed}
    return operating_point(
        [partial(measure, 0), partial(measure, 1)],
        RateSearch(near=0.05, factor=2.0, most_halvings=6),
        ample_tokens=AMPLE,
        least_tokens=4_000,
        **setting,  # type: ignore[arg-type]
    )


def test_memory_follows_the_working_set_and_each_draw_has_a_rate() -> None:
    """The share is of what would be kept with memory for all, not of what is kept with less."""
    asked: list[tuple[int, float, int]] = []
    point = found(asked)
    assert point.kv_tokens == 10_000
    assert asked == [(0, 2.0, AMPLE), (0, 2.0, 10_000), (0, 1.0, 10_000), (1, 1.0, 10_000)]
    assert [one.rate for one in point.found] == [1.0, 1.0]
    assert len(point.tried) == 4
    assert "0.33 of the mix's working set (30000 tokens" in point.in_words()
    assert "would keep 9000 tokens" in point.in_words()


def test_memory_holds_the_largest_request() -> None:
    assert found([], kv_share=1e-4).kv_tokens == 4_000


def test_given_memory_and_rate_are_taken() -> None:
    asked: list[tuple[int, float, int]] = []
    point = found(asked, kv_tokens=4096)
    assert (point.kv_tokens, point.ample) == (4096, None)
    asked.clear()
    assert [one.rate for one in found(asked, rate=7.0).found] == [7.0, 7.0]
    assert asked == [(0, 7.0, AMPLE), (0, 7.0, 10_000), (1, 7.0, 10_000)]


def test_no_share_gives_ample_memory() -> None:
    asked: list[tuple[int, float, int]] = []
    point = found(asked, kv_share=0.0)
    assert point.kv_tokens == AMPLE
    assert point.found[0] is point.ample
    assert asked == [(0, 2.0, AMPLE), (1, 2.0, AMPLE)]
