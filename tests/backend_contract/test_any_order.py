"""Whatever is asked, filled and cancelled in whatever order: every request ends, exactly once.

The bench fails on a second end and on a delta after the end.
"""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentrt.protocol.backend import HoleFill, TokenPrompt

SEEDED = settings(
    max_examples=12,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass(frozen=True)
class Plan:
    """The life of one request.

    Attributes:
        max_tokens: Its limit.
        holes: Parts that come later, 0 when the prompt is whole at once.
        kind: Of its constraint, or None.
        closes: Whether it is closed at the limit.
        cancelled_at: After how many steps it is cancelled; None never.
        stops: Whether it has a stop string.
    """

    max_tokens: int
    holes: int
    kind: str | None
    closes: bool
    cancelled_at: int | None
    stops: bool


PLANS = st.lists(
    st.builds(
        Plan,
        max_tokens=st.integers(1, 40),
        holes=st.integers(0, 2),
        kind=st.sampled_from([None, None, "json", "choice", "regex"]),
        closes=st.booleans(),
        cancelled_at=st.none() | st.integers(0, 8),
        stops=st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture(params=["scripted", "thread", "process"])
def kind(request):
    return request.param


@pytest.fixture
def requests_of(bench, cases):
    def make(plan: Plan):
        ids = bench.prompt("one two three four five").token_ids
        head = ids[: len(ids) - plan.holes]
        return bench.request(
            prompt=TokenPrompt(head, complete=plan.holes == 0),
            constraint=cases[plan.kind].spec if plan.kind else None,
            on_limit="close" if plan.closes else "raise",
            sampling={
                "max_tokens": plan.max_tokens,
                "seed": plan.max_tokens,
                "stop": ("e",) if plan.stops else (),
            },
        ), [HoleFill(ids[at : at + 1], at + 1 == len(ids)) for at in range(len(head), len(ids))]

    return make


def test_every_request_ends_in_any_order(bench, portal, requests_of):
    @SEEDED
    @given(PLANS)
    @example([Plan(1, 0, "json", closes=False, cancelled_at=None, stops=False)])
    def check(plans):
        made = [requests_of(plan) for plan in plans]
        steps = 0

        def next_thing(_step=None):
            """After each step: cancel who is due, and fill one hole of each who has one."""
            nonlocal steps
            for plan, (request, fills) in zip(plans, made, strict=True):
                if plan.cancelled_at == steps:
                    bench.backend.cancel(request.request_id, "as planned")
                if fills:
                    bench.backend.fill_hole(request.request_id, fills.pop(0))
            steps += 1

        async def main():
            for request, _ in made:
                bench.backend.submit(request)
            while any(fills for _, fills in made) and not any(not fills for _, fills in made):
                next_thing()  # nobody can run yet: no step would come
            next_thing()
            return await bench.play(
                *(request for request, _ in made), submit=False, on_step=next_thing
            )

        outcomes = portal.call(main)
        for plan, outcome in zip(plans, outcomes, strict=True):
            end = outcome.over
            if plan.cancelled_at is None and end.reason == "failed":
                assert end.error.type in ("ConstraintError", "RequestRejected"), end.error
            assert end.ledger.output_tokens <= plan.max_tokens
            if plan.cancelled_at is None:
                assert end.reason != "cancelled"

    check()
