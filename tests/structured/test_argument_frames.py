"""Calls whose arguments stand one by one: the grammar allows just what the reader takes."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from agentrt.base.errors import ConstraintError
from agentrt.base.segments import ArgumentFrame, CallFrame, ToolSchema
from agentrt.structured import (
    CallScanner,
    CallText,
    bitmask_words,
    calls_spec,
    compile_constraint,
)
from agentrt.structured.call_arguments import argument_kinds, read_argument
from agentrt.structured.matcher import allowed_ids

QWEN = CallFrame(
    before="<|call|>\n<function=",
    middle=">\n",
    after="</function>\n<|/call|>",
    between="\n",
    special=("<|call|>", "<|/call|>"),
    argument=ArgumentFrame("<parameter=", ">\n", "\n</parameter>\n"),
)
INVOKE = CallFrame(
    before='<invoke name="',
    middle='">\n',
    after="</invoke>\n",
    first="<calls>\n",
    last="</calls>",
    argument=ArgumentFrame('<parameter name="', '">', "</parameter>\n"),
)
TOKENS = CallFrame(
    before="<|call|>",
    middle="",
    after="<|/call|>",
    special=("<|call|>", "<|/call|>", "<|tool|>", "<|user|>", "<|system|>"),
    argument=ArgumentFrame("<|tool|>", "<|user|>", "\n<|system|>"),
)
"""Special tokens stand around each argument, and nothing else ends a name."""

FRAMES = [QWEN, INVOKE, TOKENS]
APART = CallFrame(
    before="<|call|>",
    middle=":",
    after="<|/call|>",
    special=("<|call|>", "<|/call|>"),
    argument=ArgumentFrame("(", " text)", "(/)", " json)"),
)
"""The markup tells texts from JSON."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "body": {"type": "string"},
        "count": {"type": "integer", "minimum": 0, "maximum": 20},
        "deep": {"type": "array", "items": {"type": "object", "additionalProperties": {}}},
        "mode": {"anyOf": [{"enum": ["r", "w", "5"]}, {"type": "null"}]},
        "value": {"type": ["string", "integer", "null"], "maximum": 7},
        "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "boolean"}}]},
        "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,3}$"},
        "exact": {"type": "integer", "minimum": 2**60, "maximum": 2**60 + 1},
    },
    "required": ["path"],
    "additionalProperties": False,
}
TOOL = ToolSchema("write", "", SCHEMA)
GOOD: list[dict[str, Any]] = [
    {"path": "a.py"},
    {"path": 'x"\n{}', "body": ""},
    {"path": "true", "body": "<parameter=x>\nA</para", "count": 12},
    {"path": "5", "deep": [{"a": [1, None, "\n"]}], "mode": None},
    {"path": "a", "mode": "5", "value": "eight"},
    {"path": "a", "value": 7, "either": [True]},
    {"path": "a", "value": None, "either": "(x", "code": "AB-12"},
    {"path": "a", "code": "AB-123", "exact": 2**60 + 1},
]
BAD: list[tuple[str, str]] = [
    ("path", ""),
    ("count", "21"),
    ("count", '"5"'),
    ("count", " 5"),
    ("mode", "x"),
    ("mode", '"r"'),
    ("value", "8"),
    ("either", "[1]"),
    ("either", "[true"),
    ("code", "AB-1234"),
    ("code", '"AB-1"'),
    ("exact", str(2**60 + 2)),
    ("other", "1"),
    ("deep", "[1]"),
]


def written(frame: CallFrame, arguments: str) -> str:
    return frame.first + frame.before + f"write{frame.middle}{arguments}{frame.after}" + frame.last


def takes(vocab, frame: CallFrame, text: str, tool: ToolSchema = TOOL) -> bool:
    """Whether the constraint takes a text, walked by masks and by tokens alike."""
    compiled = compile_constraint(calls_spec([tool], max_calls=1), vocab, frame)
    state, row = compiled.start(), np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    for token in tokens_of(vocab, text):
        state.fill_bitmask(row)
        allowed = token in allowed_ids(row)
        taken = state.advance([token]) == 1
        assert taken or not allowed, "the mask allows what is refused"
        if not taken:
            return False
    return state.can_stop()


def tokens_of(vocab, text: str) -> list[int]:
    found: list[int] = []
    while text:
        special = next((one for one in vocab.special_ids if text.startswith(one)), None)
        if special is not None:
            found.append(vocab.special_ids[special])
            text = text[len(special) :]
            continue
        found += [vocab.token_bytes.index(bytes([byte])) for byte in text[0].encode()]
        text = text[1:]
    return found


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("arguments", GOOD)
def test_what_fits_is_allowed_and_read_back(vocab, frame: CallFrame, arguments: dict[str, Any]):
    text = written(frame, frame.arguments_text(json.dumps(arguments)))
    assert takes(vocab, frame, text)
    for size in (1, 7, len(text)):
        scanner = CallScanner(frame, [TOOL])
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        (found,) = [one for piece in pieces for one in scanner.feed_text(piece)]
        assert found.name == "write"
        assert json.loads(found.arguments_json) == arguments
        assert not scanner.in_call
        assert scanner.end_text() == ""


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(("key", "text"), BAD)
def test_what_does_not_fit_is_not_allowed(vocab, frame: CallFrame, key: str, text: str):
    one = frame.argument
    assert one is not None
    path = "" if key == "path" else f"{one.before}path{one.middle}a{one.after}"
    arguments = f"{path}{one.before}{key}{one.middle}{text}{one.after}"
    assert not takes(vocab, frame, written(frame, arguments))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("value", "7"),
        ("value", 7),
        ("value", "null"),
        ("value", None),
        ("either", "[true]"),
        ("either", [True]),
        ("mode", "5"),
        ("body", "(body json)"),
        ("count", 3),
    ],
)
def test_markup_tells_texts_from_json(vocab, key: str, value: Any):
    """No text is taken for JSON, so each value of the schema has a form of its own."""
    arguments = {"path": "a", key: value}
    text = written(APART, APART.arguments_text(json.dumps(arguments)))
    assert takes(vocab, APART, text)
    (found,) = CallScanner(APART, [TOOL]).feed_text(text)
    assert json.loads(found.arguments_json) == arguments


@pytest.mark.parametrize(
    ("key", "text"),
    [("count", " text)3"), ("count", " json)21"), ("body", ' json)"x"'), ("mode", " text)x")],
)
def test_markup_of_the_other_kind_is_not_allowed(vocab, key: str, text: str):
    path = APART.arguments_text('{"path":"a"}')
    assert not takes(vocab, APART, written(APART, f"{path}({key}{text}(/)"))


def test_a_name_that_begins_another_is_refused_if_nothing_ends_names(vocab):
    tools = [ToolSchema(name, "", {"type": "object", "properties": {}}) for name in ("ab", "a")]
    with pytest.raises(ConstraintError, match="the name of the tool a begins that of ab"):
        compile_constraint(calls_spec(tools), vocab, TOKENS)
    compile_constraint(calls_spec(tools), vocab, QWEN)


def test_arguments_keep_the_order_of_the_parameters(vocab):
    path, count = (QWEN.arguments_text(one) for one in ('{"path":"a"}', '{"count":1}'))
    assert takes(vocab, QWEN, written(QWEN, path + count))
    assert not takes(vocab, QWEN, written(QWEN, count + path))
    assert not takes(vocab, QWEN, written(QWEN, path + path))
    assert not takes(vocab, QWEN, written(QWEN, count))


@pytest.mark.parametrize("frame", FRAMES)
def test_a_tool_without_parameters(vocab, frame: CallFrame):
    tool = ToolSchema("write", "", {"type": "object", "properties": {}})
    assert takes(vocab, frame, written(frame, ""), tool)
    assert CallScanner(frame, [tool]).feed_text(written(frame, "")) == [CallText("write", "{}")]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("seed", range(6))
def test_every_walk_is_read_back_as_it_was_meant(vocab, frame: CallFrame, seed: int):
    """A uniform walk, closed by the shortest end, gives arguments that fit the schema."""
    from jsonschema import Draft202012Validator

    dice = random.Random(seed)
    state = compile_constraint(calls_spec([TOOL], max_calls=1), vocab, frame).start()
    row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    walked: list[int] = []
    for _ in range(60):
        if state.can_stop():
            break
        state.fill_bitmask(row)
        token = dice.choice(list(allowed_ids(row)))
        assert state.advance([token]) == 1
        walked.append(token)
    rest = state.completion(400)
    assert rest is not None
    names = {at: name.encode() for name, at in vocab.special_ids.items()}
    data = b"".join(names.get(token) or vocab.token_bytes[token] for token in [*walked, *rest])
    scanner = CallScanner(frame, [TOOL])
    (found,) = scanner.feed_text(data.decode(errors="replace"))
    Draft202012Validator(SCHEMA).validate(json.loads(found.arguments_json))


def test_the_shortest_call_is_in_the_frame(vocab):
    for frame in FRAMES:
        compiled = compile_constraint(calls_spec([TOOL], max_calls=1), vocab, frame)
        assert compiled.shortest is not None
        assert compiled.start().reaches_end(compiled.shortest)
        assert len(compiled.shortest) < 80


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string", "format": "email"}, "texts with format"),
        ({"type": "string", "allOf": [{"minLength": 2}]}, "texts with allOf"),
    ],
)
def test_what_has_no_form_outside_of_json_is_refused(vocab, schema: Any, said: str):
    tool = ToolSchema("write", "", {"type": "object", "properties": {"a": schema}})
    with pytest.raises(ConstraintError, match=f"tool write: the argument 'a': {said}"):
        compile_constraint(calls_spec([tool]), vocab, QWEN)


def test_values_are_read_by_the_kinds_that_a_schema_allows():
    kinds = argument_kinds({"type": ["string", "null"]}, {})
    assert [read_argument(text, kinds) for text in ("null", "5", "")] == ["null", '"5"', '""']
    assert read_argument("5", argument_kinds({"type": "integer"}, {})) == "5"
    assert read_argument("5", argument_kinds(True, {})) == "5"
    assert read_argument("5 apples", argument_kinds({}, {})) == '"5 apples"'
    assert read_argument("[1]", argument_kinds({"type": "string"}, {})) == '"[1]"'


def test_a_call_that_leaves_the_frame_is_content():
    scanner = CallScanner(QWEN, [TOOL])
    assert scanner.feed_text(f"{QWEN.before}write>\nnothing here") == []
    assert not scanner.in_call
    assert scanner.end_text() == "nothing here"
