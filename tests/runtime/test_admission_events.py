"""What is told of a place in a step: the node's own part, and who went before it."""

from typing import Any

import pytest

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.step_output import Admission
from agentrt.runtime.requests.admission_events import AdmissionEvents

OURS, OTHER = RunId("a1"), RunId("b2")


def admission(at_s: float, **known: Any) -> Admission:
    known = {"waited_s": 0.0, "position": 0, "waiting": 0, "terms": (("aged_s", 0.25),), **known}
    return Admission(RequestId(1), at_s, "rwa", **known)


def test_a_place_at_once() -> None:
    told = AdmissionEvents().placed(OURS, NodeId("n"), admission(2.0, position=1, waiting=3))
    assert (told.run_id, told.node_id, told.at_s) == (OURS, "n", 2.0)
    assert (told.decision, told.policy) == ("placed", "rwa")
    assert told.reason == "at once"
    assert told.terms == (
        ("queued_s", 0.0),
        ("place", 1.0),
        ("others_waiting", 3.0),
        ("aged_s", 0.25),
    )


def test_who_waited_tells_why_and_who_went_before() -> None:
    placements = AdmissionEvents()
    placements.placed(OTHER, NodeId("early"), admission(1.0))
    placements.placed(OTHER, NodeId("root/plan#0"), admission(2.5))
    placements.placed(OURS, NodeId("root/first#0"), admission(2.6, terms=()))
    late = admission(3.0, waited_s=1.0, passed_over=(("pages", 12), ("prefix", 1), ("new", 2)))
    told = placements.placed(OURS, NodeId("root/last#0"), late)
    assert told.reason == (
        "too little memory in 12 steps, another one computing the same prefix in 1 step, "
        "new in 2 steps; before it: root/plan#0 of run b2 (aged_s 0.25), root/first#0"
    )
    assert dict(told.terms)["passed_over_pages"] == 12.0


def test_of_many_that_went_before_the_last_are_told() -> None:
    placements = AdmissionEvents()
    for number in range(100):
        placements.placed(OURS, NodeId(f"n{number}"), admission(1.0))
    told = placements.placed(
        OURS, NodeId("last"), admission(2.0, waited_s=1.5, passed_over=(("slots", 9),))
    )
    assert told.reason.count("aged_s") == 5
    assert "n99 (aged_s 0.25)" in told.reason
    assert told.reason.endswith("59 more"), "of those that are remembered"


@pytest.mark.parametrize(
    ("policy", "term"), [("fcfs", "run_started_at_s"), ("lpm", "cached_tokens"), ("plas", "aged_s")]
)
def test_the_term_that_says_most(policy: str, term: str) -> None:
    placements = AdmissionEvents()
    terms = (("other", 1.0), (term, 7.0))
    first = Admission(RequestId(1), 1.0, policy, 0.0, 0, 0, terms=terms)
    placements.placed(OURS, NodeId("first"), first)
    told = placements.placed(
        OURS, NodeId("n"), admission(2.0, waited_s=1.5, passed_over=(("slots", 1),))
    )
    assert told.reason.endswith(f"before it: first ({term} 7)")
