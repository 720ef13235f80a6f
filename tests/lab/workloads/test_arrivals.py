"""Arrivals come in order, at the rate asked for, evenly or in bursts."""

from itertools import pairwise
from random import Random
from statistics import mean, pstdev

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.arrivals import bursty, one_by_one, poisson
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import drawn
from agentrt.lab.workloads.trace import Workload

PROGRAMS = [drawn("extraction", 0, Scale())] * 4_000


def gaps(workload: Workload) -> list[float]:
    instants = [0.0, *(arrival.at_s for arrival in workload)]
    return [later - earlier for earlier, later in pairwise(instants)]


def test_even_arrivals_vary_as_much_as_their_mean() -> None:
    found = gaps(poisson(PROGRAMS, 5.0, Random(0)))
    assert min(found) >= 0
    assert mean(found) == pytest.approx(0.2, rel=0.05)
    assert pstdev(found) / mean(found) == pytest.approx(1.0, rel=0.1)


def test_bursts_vary_as_asked_for() -> None:
    found = gaps(bursty(PROGRAMS, 5.0, Random(0), variation=4.0))
    assert min(found) >= 0
    assert mean(found) == pytest.approx(0.2, rel=0.2)
    assert pstdev(found) / mean(found) == pytest.approx(4.0, rel=0.25)


def test_one_by_one_waits_for_nothing() -> None:
    assert {arrival.at_s for arrival in one_by_one(PROGRAMS[:3])} == {0.0}


def test_a_rate_is_positive() -> None:
    with pytest.raises(UsageError, match="rate=0"):
        poisson(PROGRAMS, 0.0, Random(0))
    with pytest.raises(UsageError, match="variation=1"):
        bursty(PROGRAMS, 1.0, Random(0), variation=1.0)
