"""Events of every protocol become the same text, calls, reasoning, figures and errors."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import AnswerRefused, EngineDied, RequestRejected
from agentrt.remote.answers.sse import EventStream
from agentrt.remote.protocols.answer_parts import NamePart, UsagePart
from agentrt.remote.protocols.answer_shape import Malformed, parsed_object
from tests.remote.event_reading import EventReading
from tests.remote.protocols.streams import ARGUMENTS, REASONING, STREAMS, TEXT, sent

WRITTEN = (
    f'{TEXT}[{{"name":"a","arguments":{ARGUMENTS[0]}}},{{"name":"b","arguments":{ARGUMENTS[1]}}}]'
)


def read(protocol, pieces, **options):
    """The reading and the text of a stream that comes in these pieces."""
    reading, stream, text = EventReading(protocol=protocol, **options), EventStream(), ""
    for piece in pieces:
        for data in stream.feed_data(piece):
            text += reading.feed_event(parsed_object(data))
    return reading, text + reading.close()


@pytest.mark.parametrize("protocol", STREAMS)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.data())
def test_a_stream_is_read_however_it_is_cut(protocol, data):
    whole = sent(STREAMS[protocol])
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=8).map(sorted))
    edges = [0, *cuts, len(whole)]
    pieces = [whole[begin:end] for begin, end in pairwise(edges)]
    reading, text = read(protocol, pieces)
    assert text == WRITTEN
    assert reading.take_reasoning() == REASONING
    assert reading.usage == UsagePart(20, 16, 9, 4)
    assert (reading.finish, reading.calls) == ("stop", 2)
    assert reading.name == NamePart("answer-1", "m-2026-10-01")


@pytest.mark.parametrize("protocol", STREAMS)
def test_a_value_by_call_is_the_arguments_of_the_first(protocol):
    reading, text = read(protocol, [sent(STREAMS[protocol])], max_calls=0, by_call=True)
    assert json.loads(text) == json.loads(ARGUMENTS[0])
    assert reading.full


@pytest.mark.parametrize("protocol", STREAMS)
@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.data())
def test_a_mutated_event_is_read_or_refused(protocol, data):
    junk = st.sampled_from([None, 0, -1, True, "x", [], {}, [1], {"type": 3}, 1e300])
    reading = EventReading(protocol=protocol)
    for event in STREAMS[protocol]:
        mutated = json.loads(json.dumps(event))
        place = mutated
        while data.draw(st.booleans()) and (
            inner := [one for one in place.values() if isinstance(one, dict) and one]
        ):
            place = data.draw(st.sampled_from(inner))
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(junk)
        try:
            reading.feed_event(mutated).encode()
        except (Malformed, RequestRejected, EngineDied):
            return


def failed(code):
    return {"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": "no\nway"}}}  # fmt: skip  # noqa: E501


def sick(kind):
    return {"type": "error", "error": {"type": kind, "message": "no\nway"}}


ERRORS = [
    ("messages", sick("overloaded_error"), EngineDied),
    ("messages", sick("api_error"), EngineDied),
    ("messages", sick("invalid_request_error"), RequestRejected),
    ("responses", failed("server_error"), EngineDied),
    ("responses", failed("invalid_prompt"), RequestRejected),
    ("responses", {"type": "error", "code": "server_error", "message": "no\nway"}, EngineDied),
    ("chat_completions", {"error": {"message": "no\nway", "code": 500}}, EngineDied),
]


@pytest.mark.parametrize(("protocol", "event", "kind"), ERRORS)
def test_an_error_in_the_stream_says_whose_it_is(protocol, event, kind):
    reading = EventReading(protocol=protocol)
    with pytest.raises(kind, match="no way"):
        reading.feed_event(event)
    assert reading.failed


def ends(reason, **more):
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": {}}


def incomplete(reason):
    response = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return {"type": "response.incomplete", "response": response}


@pytest.mark.parametrize(
    ("protocol", "events"),
    [
        ("messages", [ends("refusal", stop_details={"explanation": "it is a\nweapon"})]),
        (
            "responses",
            [
                {"type": "response.refusal.delta", "delta": "it is a"},
                {"type": "response.refusal.delta", "delta": " weapon"},
                {"type": "response.completed", "response": {"status": "completed"}},
            ],
        ),
    ],
)
def test_a_refusal_is_an_error_with_its_words(protocol, events):
    reading = EventReading(protocol=protocol)
    *before, last = events
    for event in before:
        reading.feed_event(event)
    with pytest.raises(AnswerRefused, match="it is a weapon"):
        reading.feed_event(last)


@pytest.mark.parametrize(
    ("protocol", "event", "finish"),
    [
        ("messages", ends("max_tokens"), "length"),
        ("messages", ends("model_context_window_exceeded"), "length"),
        ("messages", ends("end_turn"), "stop"),
        ("messages", ends("stop_sequence", stop_sequence="###"), "stop"),
        ("responses", incomplete("max_output_tokens"), "length"),
    ],
)
def test_the_reason_of_the_end_is_kept(protocol, event, finish):
    reading = EventReading(protocol=protocol)
    reading.feed_event(event)
    assert reading.finish == finish
    assert reading.stopped_by == event.get("delta", {}).get("stop_sequence", "")


def test_a_filtered_response_is_refused():
    with pytest.raises(AnswerRefused, match="filtered"):
        EventReading(protocol="responses").feed_event(incomplete("content_filter"))
