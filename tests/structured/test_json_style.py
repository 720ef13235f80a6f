"""Styles of JSON: each grammar takes its own style and no other, and closes in it."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from llguidance import LLMatcher

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
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
from agentrt.structured.json_schema.sample_texts import sample_texts
from agentrt.structured.parts import Joined, Leaf
from agentrt.structured.sandbox.compiled import native_grammar

STYLES: tuple[JsonStyle, ...] = ("compact", "spaced")
"""Styles of any schema; indented JSON is of schemas that show how deep it gets."""

ALL_STYLES: tuple[JsonStyle, ...] = (*STYLES, "indented")
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
TREE = {"type": "array", "items": {"$ref": "#/$defs/t"}}
TABLE = {
    "type": "object",
    "properties": {
        "fixed": {"enum": [{"x": [1, 2], "y": {}}, None]},
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer"},
                    "b": {"type": "array", "items": {"type": "string", "maxLength": 5}},
                },
                "additionalProperties": False,
            },
        },
        "pair": {
            "anyOf": [
                {"type": "null"},
                {
                    "type": "array",
                    "prefixItems": [{"type": "integer"}, {"$ref": "#/$defs/word"}],
                    "items": False,
                },
            ]
        },
    },
    "required": ["rows"],
    "additionalProperties": {"type": "integer"},
    "$defs": {"word": {"type": "string"}},
}
TABLES: list[dict[str, Any]] = [
    {"fixed": None, "rows": [], "pair": []},
    {"rows": [{}], "pair": None, "z": 5},
    {
        "fixed": {"x": [1, 2], "y": {}},
        "rows": [{}, {"a": 1}, {"a": 2, "b": []}, {"b": ["x", "{\n}"]}],
        "pair": [7, "[]"],
        "y": 1,
        "z": 2,
    },
]
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
    assert tuple(SEPARATORS) == ALL_STYLES


@pytest.mark.parametrize("style", ALL_STYLES)
@pytest.mark.parametrize("value", TABLES)
def test_a_table_takes_its_own_style_alone(value: Any, style: JsonStyle):
    styled = in_style(json_schema_shape(TABLE), style)
    for other in ALL_STYLES:
        assert takes(styled.spec, styled_json(value, other)) is (other == style)
    assert styled.parse(styled_json(value, style)) == value


@pytest.mark.parametrize("value", TABLES)
def test_the_standard_library_indents_alike(value: Any):
    assert styled_json(value, "indented") == json.dumps(value, indent=2)


@pytest.mark.parametrize("style", ALL_STYLES)
def test_all_texts_are_written_the_same_again(style: JsonStyle):
    """Texts drawn from the grammar, read and written by the standard library."""
    spec = in_style(json_schema_shape(TABLE), style).spec
    assert spec is not None
    drawn = sample_texts(spec)
    assert len(drawn) > 3
    for text in drawn:
        assert styled_json(json.loads(text), style) == text


def test_indented_values_stand_at_their_depth():
    value = {"a": [1, {"b": "x\ny"}], "c": {}}
    whole = json.dumps({"deep": [value]}, indent=2)
    assert styled_json(value, "indented", depth=2) in whole


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, "any value may stand in some place"),
        ({"type": "object"}, "any value may stand in some place"),
        ({"$ref": "#/$defs/t", "$defs": {"t": TREE}}, "it holds itself, so no line is the deepest"),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "there are no rules for uniqueItems",
        ),
        (
            {
                "type": "object",
                "patternProperties": {"^a": {"type": "null"}},
                "additionalProperties": False,
            },
            "there are no rules for patternProperties",
        ),
    ],
)
def test_what_cannot_be_indented_is_refused_at_its_declaration(schema: Any, said: str):
    shape = json_schema_shape(schema)
    with pytest.raises(ConstraintError, match=said):
        in_style(shape, "indented")


def test_indented_parts_of_larger_texts_keep_their_lines():
    shape = in_style(json_schema_shape(TABLE), "indented")
    spec = composed_spec(Joined((literal_part("v: "), Leaf(shape.spec, shape.schema))))
    tag = TagShape("v", "<v>", "</v>", "<v>", shape)
    written = cfg_shape(f'start: "v: " %json {json.dumps(TABLE)}', "indented").spec
    text = json.dumps(TABLES[-1], indent=2)
    assert takes(spec, f"v: {text}")
    assert takes(written, f"v: {text}")
    assert takes(tags_spec([tag], 1), f"a <v>{text}</v> b")


def test_an_indented_output_closes_from_any_place(vocab):
    """The fewest tokens are known, and a limit leaves valid JSON in the style."""
    shape = in_style(json_schema_shape(TABLE), "indented")
    assert shape.spec is not None
    compiled = compile_constraint(shape.spec, vocab, JSON_ARRAY_FRAME)
    found = FewestTokens(grammar_of(shape.spec, "", {}), trie_of(vocab)).find()
    assert found is not None
    assert compiled.shortest is not None
    assert len(found) <= len(compiled.shortest)
    whole = json.dumps(TABLES[-1], indent=2)
    for cut in range(0, len(whole), 7):
        state = compiled.start()
        tokens = [vocab.token_bytes.index(bytes([byte])) for byte in whole[:cut].encode()]
        assert state.advance(tokens) == len(tokens)
        rest = state.completion(200)
        assert rest is not None, whole[:cut]
        text = whole[:cut] + b"".join(vocab.token_bytes[token] for token in rest).decode()
        assert text == json.dumps(json.loads(text), indent=2)
