"""Scanners: items and calls come out at their closing character, however the text is cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.segments import JSON_ARRAY_FRAME, CallFrame
from agentrt.structured import NOTHING, CallScanner, CallText, ItemScanner, PartialJson

TOKEN_FRAME = CallFrame(
    before='<|call|>{"name":"',
    middle='","arguments":',
    after="}<|/call|>",
    special=("<|call|>", "<|/call|>"),
)
TAG_FRAME = CallFrame(
    before='<tool_call>\n{"name": "',
    middle='", "arguments": ',
    after="}\n</tool_call>",
    between="\n",
)
FRAMES = [TOKEN_FRAME, TAG_FRAME, JSON_ARRAY_FRAME]

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=6)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
calls = st.lists(
    st.tuples(st.sampled_from(["price", "vol"]), st.dictionaries(st.text(max_size=4), values)),
    min_size=1,
    max_size=3,
)


def cut(text, marks):
    edges = [0, *sorted(m % (len(text) + 1) for m in marks), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def written(frame, made):
    inner = frame.between.join(
        frame.before + name + frame.middle + compact(arguments) + frame.after
        for name, arguments in made
    )
    return frame.first + inner + frame.last


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(values, max_size=5), st.lists(st.integers(0, 999), max_size=8), st.booleans())
def test_items_do_not_depend_on_the_cuts(items, marks, spaced):
    """Whatever the pieces, the same items, as text that parses to the same values."""
    text = json.dumps(items, ensure_ascii=False) if spaced else compact(items)
    scanner = ItemScanner()
    found = [item for piece in cut(text, marks) for item in scanner.feed_text(piece)]
    assert [json.loads(item) for item in found] == items
    assert scanner.done


def test_an_item_is_out_at_its_closing_character():
    """Objects and strings at their last character, numbers at the one behind."""
    scanner = ItemScanner()
    text = '[{"a":[1]},"x\\"]",7,true]'
    out = [(at, item) for at, char in enumerate(text) for item in scanner.feed_text(char)]
    assert out == [
        (text.index("},"), '{"a":[1]}'),
        (text.index(",7") - 1, '"x\\"]"'),
        (text.index(",true"), "7"),
        (len(text) - 1, "true"),
    ]


@pytest.mark.parametrize("text", ["{}", "[,", "[1,]", "[1}", "[] x", "[1 2]"])
def test_what_is_no_array_is_an_error(text):
    with pytest.raises(ValueError, match="not a JSON array"):
        ItemScanner().feed_text(text)


@pytest.mark.parametrize("frame", FRAMES, ids=["tokens", "tags", "array"])
@settings(max_examples=30, derandomize=True, deadline=None)
@given(calls, st.lists(st.integers(0, 999), max_size=8), st.sampled_from(["", "Let me see. "]))
def test_calls_do_not_depend_on_the_cuts(frame, made, marks, before):
    """Whatever the pieces, the same calls, and content is what stands outside of them."""
    scanner = CallScanner(frame)
    text = before + written(frame, made)
    found = [call for piece in cut(text, marks) for call in scanner.feed_text(piece)]
    assert found == [CallText(name, compact(arguments)) for name, arguments in made]
    assert scanner.end_text() == before
    assert not scanner.in_call


def test_a_call_is_out_when_its_arguments_close():
    """Not a character later: a tool starts there."""
    scanner = CallScanner(TOKEN_FRAME)
    text = written(TOKEN_FRAME, [("price", {"symbol": "}"}), ("vol", {})])
    out = [at for at, char in enumerate(text) for _ in scanner.feed_text(char)]
    assert out == [text.index("}}<"), text.rindex("}}<")]


def test_text_that_looks_like_a_frame_stays_content():
    scanner = CallScanner(JSON_ARRAY_FRAME)
    assert scanner.feed_text('[1,2] and [{"nam') == []
    assert scanner.feed_text("e of it") == []
    assert scanner.end_text() == '[1,2] and [{"name of it'


def test_text_after_calls_is_content():
    scanner = CallScanner(TOKEN_FRAME)
    found = scanner.feed_text(written(TOKEN_FRAME, [("vol", {})]) + "done")
    assert found == [CallText("vol", "{}")]
    assert scanner.content + scanner.end_text()[len(scanner.content) :] == "done"


@settings(max_examples=60, derandomize=True, deadline=None)
@given(values, st.lists(st.integers(0, 999), max_size=8))
def test_partial_values_grow_to_the_whole(value, marks):
    """Every prefix has a reading or none; closing brackets, strings and words give the whole."""
    partial = PartialJson()
    text = compact(value)
    for piece in cut(text, marks):
        partial.feed_text(piece)
        partial.value()
    if isinstance(value, list | dict | str | bool) or value is None:
        assert partial.value() == value
    else:
        assert partial.value() is NOTHING


PARTIALS = [
    ('{"a":12', {}),
    ('{"a":12,', {"a": 12}),
    ('{"a":"x\\', {"a": "x"}),
    ('{"a":[1,2', {"a": [1]}),
    ('{"a":tr', {}),
    ('{"a', {}),
    ("", NOTHING),
    ("12", NOTHING),
    ('"1', "1"),
]


@pytest.mark.parametrize(("text", "expected"), PARTIALS)
def test_partial_values(text, expected):
    partial = PartialJson()
    for char in text:
        partial.feed_text(char)
    assert partial.value() == expected


PIECES = ['<|call|>{"name":"', '","arguments":', "}<|/call|>", "{}", '{"a":1}', "<|", "x", '"', "}"]


@settings(max_examples=80, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=9), st.lists(st.integers(0, 999), max_size=9))
def test_any_text_is_scanned_the_same_however_cut(pieces, marks):
    """Also what no grammar would let a model write: broken frames, stray brackets."""
    text = "".join(pieces)
    whole, parts = CallScanner(TOKEN_FRAME), CallScanner(TOKEN_FRAME)
    at_once = whole.feed_text(text)
    found = [call for piece in cut(text, marks) for call in parts.feed_text(piece)]
    assert found == at_once
    assert parts.end_text() == whole.end_text()
    assert parts.in_call == whole.in_call
