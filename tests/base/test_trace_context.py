"""Trace context as W3C has it."""

import pytest

from agentrt.base.trace_context import MAX_STATE_CHARACTERS, TraceContext, trace_context_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_a_header_is_read_as_it_is_written(flags: int) -> None:
    given = TraceContext(TRACE, SPAN, flags)
    assert trace_context_of(given.traceparent()) == given
    assert given.sampled == bool(flags & 1)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "none",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0x",
    ],
)
def test_a_malformed_header_is_none(header: str) -> None:
    assert trace_context_of(header) is None


def test_a_later_version_may_be_longer_and_have_other_flags() -> None:
    found = trace_context_of(f"cc-{TRACE}-{SPAN}-ff-what-ever")
    assert found is not None
    assert found.traceparent() == f"00-{TRACE}-{SPAN}-03"


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("vendor=1,other=2", "vendor=1,other=2"),
        ("x" * (MAX_STATE_CHARACTERS + 1), ""),
        ("a=1\r\nHost: evil", ""),
    ],
)
def test_state_is_passed_on_if_it_fits_a_header(state: str, kept: str) -> None:
    found = trace_context_of(f"00-{TRACE}-{SPAN}-01", state)
    assert found is not None
    assert found.state == kept
    assert ("tracestate" in found.headers()) == bool(kept)
