"""Chunks of a stream become text, calls in the frame that the capabilities promise."""

import json

import pytest

from agentrt.base.errors import RequestRejected
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.remote.constraints.json_filters import JsonCompactor
from agentrt.remote.protocols.answer_parts import TimesPart, UsagePart
from agentrt.structured import CallScanner
from tests.remote.event_reading import EventReading


def content(text, finish=None):
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def call(index, name=None, arguments=None, finish=None):
    function = {"name": name} if name is not None else {}
    function |= {"arguments": arguments} if arguments is not None else {}
    delta = {"tool_calls": [{"index": index, "function": function}]}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def last(finish):
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}


CALLS = [
    (
        "two calls, arguments in pieces",
        [
            call(0, "a", ""),
            call(0, arguments='{"x"'),
            call(0, arguments=": 1}"),
            call(1, "b", '{"y":"\\u00e9"}'),
            last("tool_calls"),
        ],
        [("a", {"x": 1}), ("b", {"y": "é"})],
        "",
    ),
    ("no arguments at all", [call(0, "a"), last("tool_calls")], [("a", {})], ""),
    (
        "an object in place of a string",
        [call(0, "a", {"x": 1}), last("stop")],
        [("a", {"x": 1})],
        "",
    ),
    (
        "text before the calls",
        [content("Let me see. "), call(0, "a", "{}"), last("tool_calls")],
        [("a", {})],
        "Let me see. ",
    ),
    ("no finish", [call(0, "a", "{}")], [("a", {})], ""),
    ("a quoted name", [call(0, 'a"b', "{}"), last("stop")], [('a"b', {})], ""),
]


@pytest.mark.parametrize(
    ("chunks", "calls", "text"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS]
)
def test_calls_are_written_in_the_frame(chunks, calls, text):
    reading = EventReading()
    written = "".join(map(reading.feed_event, chunks)) + reading.close()
    array = json.loads(written.removeprefix(text))
    assert [(one["name"], one["arguments"]) for one in array] == calls
    if '"b"' not in written or "é" in written:
        scanner = CallScanner(JSON_ARRAY_FRAME)
        found = scanner.feed_text(written)
        assert [json.loads(one.arguments_json) for one in found] == [part for _, part in calls]
        assert scanner.end_text().strip() == text.strip()


def test_only_so_many_calls_are_taken():
    reading = EventReading(max_calls=1)
    chunks = [call(0, "a", "{}"), call(1, "b", "{}"), call(1, arguments="junk")]
    written = "".join(map(reading.feed_event, chunks)) + reading.close()
    assert json.loads(written) == [{"name": "a", "arguments": {}}]
    assert reading.full


def test_usage_reasons_and_timings_are_kept():
    reading = EventReading()
    assert reading.feed_event({"choices": []}) == ""
    assert reading.feed_event(content("hi", "length")) == "hi"
    timings = {"prompt_ms": 1, "predicted_ms": 2}
    reading.feed_event({"choices": [], "usage": {"prompt_tokens": 3}, "timings": timings})
    assert (reading.finish, reading.chunks) == ("length", 1)
    assert (reading.usage, reading.times) == (UsagePart(3), TimesPart(0.0, 0.001, 0.002))


@pytest.mark.parametrize(
    ("chunk", "match"),
    [
        ({"error": {"message": "out of\nmemory"}}, "out of memory"),
        ({"error": "plain"}, "plain"),
        (last("content_filter"), "filtered"),
    ],
)
def test_errors_in_the_stream_are_errors(chunk, match):
    with pytest.raises(RequestRejected, match=match):
        EventReading().feed_event(chunk)


def test_white_space_goes_and_strings_stay():
    compact = JsonCompactor()
    text = '[ {"a b" : "x \\" y\\\\" , "c":\n[1 , 2 ]} ]'
    written = "".join(compact.feed_text(char) for char in text)
    assert written == '[{"a b":"x \\" y\\\\","c":[1,2]}]'
