"""Distributions have the quantiles that they are told by."""

from random import Random
from statistics import median, quantiles

import pytest

from agentrt.lab.workloads.draw import Between, Distribution, Fixed, ObservedDistribution, Skewed
from agentrt.lab.workloads.sizes import AGENT_TOOL


def drawn(draw: Distribution) -> list[float]:
    random = Random(0)
    return [draw(random) for _ in range(20_000)]


def test_a_skewed_quantity_has_its_median_and_p90() -> None:
    values = drawn(Skewed(100, 300, 20, 900))
    assert median(values) == pytest.approx(100, rel=0.05)
    assert quantiles(values, n=10)[-1] == pytest.approx(300, rel=0.05)
    assert (min(values), max(values)) == (20, 900)


def test_tools_are_mostly_short_and_sometimes_long() -> None:
    """As 7,774 recorded calls were."""
    values = sorted(drawn(AGENT_TOOL))
    assert sum(value < 0.1 for value in values) / len(values) == pytest.approx(0.64, abs=0.03)
    assert sum(value < 2.0 for value in values) / len(values) == pytest.approx(0.74, abs=0.03)
    tenth = values[-len(values) // 10 :]
    assert sum(tenth) / sum(values) == pytest.approx(0.56, abs=0.05)


def test_the_others_stay_where_they_are() -> None:
    assert set(drawn(Fixed(3))) == {3}
    assert set(drawn(ObservedDistribution((1, 2)))) == {1, 2}
    values = drawn(Between(2, 4))
    assert min(values) >= 2
    assert max(values) <= 4
