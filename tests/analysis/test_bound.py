"""How fast a run could have been: never slower than it was, and by whose fault it was slower."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import RunRecord, StepCosts, bound, bound_line
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import (
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import Ledger
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play

RUN = RunId("00000000000000a1")
ROOT, PLAN, TOOL = NodeId("root"), NodeId("root/plan#0"), NodeId("root/tool#0")
COSTS = StepCosts(alone_s=0.010, sequence_s=0.001, prompt_token_s=0.001)


def record(*, forced_tokens: int = 0) -> RunRecord:
    """A plan of 21 tokens behind 50 new ones, waiting 0.1 s; code of 0.05 s; a tool of 0.2 s."""
    ledger = Ledger(
        received_at_s=0.0,
        first_token_at_s=0.3,
        finished_at_s=0.7,
        queue_s=0.1,
        prefill_s=0.2,
        decode_s=0.4,
        prompt_tokens=66,
        cached_tokens=16,
        output_tokens=21,
        forced_tokens=forced_tokens,
    )
    found = RunRecord()
    found.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 0.0, 0),
            NodeDeclared(RUN, ROOT, "program", "p", None, (), "p.py:1", 0.0),
            NodeDeclared(RUN, PLAN, "generate", "plan", ROOT, (), "p.py:2", 0.0),
            RequestSent(RUN, PLAN, RequestId(1), "embedded", "tiny", True, 0.0),
            NodeFinished(RUN, PLAN, "ok", 0.7, ledger=ledger),
            NodeDeclared(RUN, TOOL, "tool", "t", ROOT, (), "p.py:3", 0.75, after=PLAN),
            ToolStarted(RUN, TOOL, 0, 0.75),
            ToolEnded(RUN, TOOL, 0, 0.95),
            NodeFinished(RUN, TOOL, "ok", 0.95),
            NodeFinished(RUN, ROOT, "ok", 0.95, after=TOOL),
            RunFinished(RUN, "ok", 0.95),
        ]
    )
    return found


def test_the_least_time_is_that_of_forwards_and_tools() -> None:
    found = bound(record(), COSTS)
    plan_s = 0.010 + 49 * 0.001 + 20 * 0.010
    assert found.path_s == pytest.approx(plan_s + 0.2)
    assert found.work_s == pytest.approx(50 * 0.001 + 21 * 0.001)
    assert found.ratio == pytest.approx(0.95 / found.path_s)
    excess = dict(found.excess)
    over_s = {"queue": 0.1, "prefill": 0.2 - 0.059, "decode": 0.4 - 0.2, "orchestration": 0.05}
    assert excess == pytest.approx(
        {label: seconds / sum(over_s.values()) for label, seconds in over_s.items()}
    )
    assert bound_line(found, "by steps").startswith("2.1x the least by steps (459.0 ms); of the")


def test_given_tokens_take_no_step() -> None:
    free, formed = (bound(record(forced_tokens=count), COSTS) for count in (0, 12))
    assert free.path_s - formed.path_s == pytest.approx(12 * 0.010)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False), st.floats(0.0, 0.1))
def test_no_run_is_faster_than_its_bound(rng: Random, alone_s: float) -> None:
    found = RunRecord()
    found.on_events(play(random_body(rng)))
    least = bound(found, StepCosts(alone_s, 0.0, alone_s / 10))
    assert least.path_s <= found.compound_s + 1e-9
    assert sum(share for _, share in least.excess) == pytest.approx(1.0) or not least.excess
