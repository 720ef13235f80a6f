"""A simulation whose engine fails ends with its error."""

from collections.abc import Callable
from dataclasses import replace
from typing import SupportsFloat

import pytest

from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import Workload

Draw = Callable[[int, int, float], Workload]


class Broken(float):
    """Seconds that cannot be multiplied."""

    def __mul__(self, other: SupportsFloat, /) -> float:
        raise ZeroDivisionError(f"{float(other):g} times that is too much")


@pytest.mark.parametrize("part", range(3), ids=["delta_s", "gap_row_s", "close_s"])
def test_an_error_of_a_callback_ends_the_simulation(part: int, costs: SimCosts, draw: Draw) -> None:
    """At the end of a step, before time moves on, and at the end of an output."""
    workload, much = draw(0, 6, 4.0), Broken(1e-5)
    broken = (
        replace(costs, delta_s=much),
        replace(costs, gap_row_s=much),
        replace(costs, close_s=much),
    )
    with pytest.raises(ZeroDivisionError, match="times that is too much"):
        Simulation(Setup(broken[part], 4096)).run(workload)
    assert len(Simulation(Setup(costs, 4096)).run(workload).programs) == 6
