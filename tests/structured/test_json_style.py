"""Styles of JSON: each grammar takes its own style and no other, and closes in it."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from llguidance import LLMatcher

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.json_style import SEPARATORS, JsonStyle, styled_json
from agentrt.base.segments import JSON_ARRAY_FRAME, ToolSchema
from agentrt.structured import (
    Shape,
    TagShape,
    calls_spec,
    cfg_shape,
    checked_schema_shape,
    compile_constraint,
    in_style,
    json_schema_shape,
    literal_part,
    shape_of,
    tags_spec,
)
from agentrt.structured.closing.fewest_tokens import FewestTokens
from agentrt.structured.closing.model import grammar_of
from agentrt.structured.closing.token_trie import trie_of
from agentrt.structured.composition import BYTES, composed_spec
from agentrt.structured.parts import Joined, Leaf
from agentrt.structured.sandbox.compiled import native_grammar

STYLES: tuple[JsonStyle, ...] = ("compact", "spaced")
NESTED = {
    "type": "object",
    "properties": {
        "fixed": {"const": {"x": [1, 2], "y": {}}},
        "whole": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        "any": {},
    },
    "required": ["fixed", "whole"],
    "additionalProperties": {"type": "integer"},
}
VALUES = [
    {"fixed": {"x": [1, 2], "y": {}}, "whole": [1, 2]},
    {"fixed": {"x": [1, 2], "y": {}}, "whole": [5], "any": {"q": [1, {}], "r": "a, b: c"}, "z": 3},
]
LARGE = {**NESTED, "additionalProperties": {"type": "integer", "maximum": 2**60}}
PAIRS = {
    "type": "array",
    "prefixItems": [{"type": "integer", "maximum": 2**60}, {"type": "string"}],
    "items": {"type": "object", "additionalProperties": {"type": "number", "exclusiveMinimum": 0}},
    "minItems": 2,
}


def takes(spec: ConstraintSpec | None, text: str) -> bool:
    assert spec is not None
    matcher = LLMatcher(BYTES, native_grammar(spec), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    letters = list(text.encode())
    return matcher.try_consume_tokens(letters) == len(letters) and matcher.is_accepting()


def texts(value: Any) -> dict[JsonStyle, str]:
    return {style: styled_json(value, style) for style in STYLES}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("shape", "value"),
    [
        *((json_schema_shape(NESTED), value) for value in VALUES),
        *((json_schema_shape(LARGE), value) for value in VALUES),
        (json_schema_shape(PAIRS), [1, "a", {"b": 0.5, "c": 1}]),
        (checked_schema_shape({**NESTED, "minProperties": 2}), VALUES[0]),
        (shape_of(set[Literal["a", "b", "c"]]), ["c", "a"]),
        (shape_of(dict[str, list[int]]), {"a": [1, 2], "b": []}),
    ],
)
def test_a_shape_takes_its_own_style_alone(shape: Shape, value: Any, style: JsonStyle):
    styled = in_style(shape, style)
    for other, text in texts(value).items():
        assert takes(styled.spec, text) is (other == style)
    assert styled.parse(texts(value)[style]) == shape.parse(texts(value)["compact"])


def test_the_standard_library_writes_spaced_json():
    assert styled_json(VALUES[1], "spaced") == json.dumps(VALUES[1])


@pytest.mark.parametrize("shape", [shape_of(str), shape_of(Literal["a", "b"])])
def test_other_text_has_no_style(shape: Shape):
    assert in_style(shape, "spaced") is shape


@pytest.mark.parametrize("style", STYLES)
def test_a_grammar_writes_its_json_in_its_style(style: JsonStyle):
    spec = cfg_shape(f'start: "v " %json {json.dumps(LARGE)} " " %json {{}}', style).spec
    for other, text in texts(VALUES[1]).items():
        assert takes(spec, f"v {text} {texts([1, {'a': 2}])[style]}") is (other == style)


@pytest.mark.parametrize("style", STYLES)
def test_parts_keep_their_style(style: JsonStyle):
    shape = in_style(json_schema_shape(NESTED), style)
    spec = composed_spec(Joined((literal_part("v: "), Leaf(shape.spec, shape.schema))))
    tag = TagShape("v", "<v>", "</v>", "<v>", shape)
    tagged = tags_spec([tag], 1)
    for other, text in texts(VALUES[0]).items():
        assert takes(spec, f"v: {text}") is (other == style)
        assert takes(tagged, f"a <v>{text}</v> b") is (other == style)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("schema", [NESTED, LARGE, PAIRS])
def test_the_shortest_text_is_in_the_style(schema: Any, style: JsonStyle, vocab):
    shape = in_style(json_schema_shape(schema), style)
    assert shape.spec is not None
    compiled = compile_constraint(shape.spec, vocab, JSON_ARRAY_FRAME)
    assert compiled.shortest is not None
    text = b"".join(vocab.token_bytes[token] for token in compiled.shortest).decode()
    shape.parse(text)
    assert text == styled_json(json.loads(text), style)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("schema", [NESTED, LARGE, PAIRS])
def test_the_search_for_the_fewest_tokens_knows_the_style(schema: Any, style: JsonStyle, vocab):
    shape = in_style(json_schema_shape(schema), style)
    assert shape.spec is not None
    found = FewestTokens(grammar_of(shape.spec, "", {}), trie_of(vocab)).find()
    assert found is not None
    text = b"".join(vocab.token_bytes[token] for token in found).decode()
    assert takes(shape.spec, text)


@pytest.mark.parametrize("style", STYLES)
def test_a_final_answer_has_the_style_and_calls_are_compact(style: JsonStyle, vocab):
    tool = ToolSchema("f", "", {"type": "object", "properties": {"a": {"type": "integer"}}})
    spec = calls_spec([tool], NESTED, style=style)
    state = compile_constraint(spec, vocab, JSON_ARRAY_FRAME).start()
    for other, text in texts(VALUES[0]).items():
        tokens = [vocab.token_bytes.index(bytes([byte])) for byte in text.encode()]
        ahead = state.fork()
        assert (ahead.advance(tokens) == len(tokens) and ahead.can_stop()) is (other == style)
    call = '[{"name":"f","arguments":{"a":1}}]'
    tokens = [vocab.token_bytes.index(bytes([byte])) for byte in call.encode()]
    assert state.advance(tokens) == len(tokens)
    assert state.can_stop()


@pytest.mark.parametrize("style", STYLES)
def test_items_are_distinct_in_every_style(style: JsonStyle, vocab):
    items = {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True}
    shape = in_style(json_schema_shape(items), style)
    assert shape.spec is not None
    compiled = compile_constraint(shape.spec, vocab, JSON_ARRAY_FRAME)
    for value, fits in ((["a", "b"], True), (["a", "a"], False)):
        text = styled_json(value, style).encode()
        tokens = [vocab.token_bytes.index(bytes([byte])) for byte in text]
        state = compiled.start()
        assert (state.advance(tokens) == len(tokens) and state.can_stop()) is fits


def test_styles_are_the_separators():
    assert tuple(SEPARATORS) == STYLES
