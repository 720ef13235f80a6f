"""Shares of a device sum to the time in which it was in use."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.ids import RequestId
from agentrt.protocol.device_share import DeviceShare

spans = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10)), min_size=1, max_size=8)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(spans)
def test_shares_sum_to_the_time_in_use(spans: list[tuple[int, int]]) -> None:
    share = DeviceShare()
    marks = [(begin, 1, at) for at, (begin, _) in enumerate(spans)]
    marks += [(begin + length, 0, at) for at, (begin, length) in enumerate(spans)]
    total_s = 0.0
    for now, begins, at in sorted(marks):
        if begins:
            share.begin(RequestId(at), float(now))
        else:
            own_s = share.end(RequestId(at), float(now))
            assert own_s <= spans[at][1] + 1e-9
            total_s += own_s
    used = {second for begin, length in spans for second in range(begin, begin + length)}
    assert total_s == pytest.approx(len(used))


def test_a_request_that_never_began_has_no_share() -> None:
    assert DeviceShare().end(RequestId(3), 5.0) == 0.0
