"""Server-sent events survive any cutting."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.remote.answers.sse import EventStream

STREAM = (
    ": a comment\n\n"
    'data: {"a": 1}\n\n'
    "event: message\r\ndata: two\r\ndata: lines\r\nid: 7\r\n\r\n"
    "data:é→😀\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = ['{"a": 1}', "two\nlines", "é→😀", "[DONE]"]


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.integers(0, len(STREAM))))
def test_any_cutting_gives_the_same_events(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    stream, found = EventStream(), []
    for start, end in pairwise(edges):
        found += stream.feed_data(STREAM[start:end])
    assert found == EVENTS
    assert stream.flush() == []


@pytest.mark.parametrize("tail", ["data: last", "data: last\n"])
def test_a_last_event_without_blank_line_counts(tail):
    stream = EventStream()
    assert stream.feed_data(tail.encode()) == []
    assert stream.flush() == ["last"]
