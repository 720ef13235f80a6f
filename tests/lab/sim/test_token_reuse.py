"""With pages of 16 tokens no more of a prompt is computed than with pages of one token."""

import pytest

from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import Arrival, Workload
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import SHAPES, drawn

MOST = 1.01
KV_TOKENS = 1 << 20  # nothing is evicted


def computed_tokens(costs: SimCosts, page_tokens: int, workload: Workload) -> int:
    """Prompt tokens that an engine computes."""
    setup = Setup(costs, kv_tokens=KV_TOKENS, page_tokens=page_tokens)
    (totals,) = Simulation(setup).run(workload).engines
    return totals.prefill_tokens


@pytest.mark.parametrize("shape", SHAPES)
def test_a_page_costs_no_tokens(shape: str, costs: SimCosts) -> None:
    """One program after the other: each shares what it can with those before it."""
    workload = tuple(Arrival(1000.0 * at, drawn(shape, at, Scale(context=0.5))) for at in range(2))
    by_page, by_token = (computed_tokens(costs, page, workload) for page in (16, 1))
    print(f"{shape:20}{by_page:8}{by_token:8}{by_page / by_token:8.3f}")
    assert by_page <= MOST * by_token
