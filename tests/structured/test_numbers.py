"""Numbers are exact: every number that fits a schema can be written, and no other."""

from __future__ import annotations

import itertools
import json
import re
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

import pytest
from pydantic import Field, TypeAdapter

from agentrt import ConstraintError
from agentrt.structured import json_schema_shape, shape_of
from agentrt.structured.closing.example_text import shortest_instance
from agentrt.structured.json_schema.json_grammar import has_rules
from agentrt.structured.json_schema.normalize import normalize
from agentrt.structured.json_schema.number_leaf import narrowed
from agentrt.structured.json_schema.number_range import Bound, DecimalRange
from agentrt.structured.json_schema.number_text import number_terms
from agentrt.structured.types.type_schema import schema_of
from tests.structured.number_judge import Grammar, fits, wrong_verdicts

INT64, FLOAT64 = 2**63, 1.7976931348623157e308
UINT64 = 2**64
FLOAT32 = 3.4028234663852886e38


def taken(schema, *texts):
    grammar = Grammar(normalize(schema))
    return [text for text in texts if grammar.takes(text)]


@pytest.mark.parametrize(
    "value",
    [1234567890123456789, 2**53 + 1, -INT64, 1 - INT64, -INT64 - 1, INT64 - 1, UINT64 - 1, 10**40],
)
def test_a_large_constant_is_itself_and_nothing_near_it(value):
    near = [str(value + by) for by in (-1000, -21, -1, 0, 1, 21, 1000)]
    for schema in ({"const": value}, {"enum": ["a", value]}, {"minimum": value, "maximum": value}):
        assert taken({**schema}, *near) == [str(value)], schema
    nested = {"const": {"a": [value]}}
    assert taken(nested, f'{{"a":[{value}]}}', f'{{"a":[{value + 1}]}}') == [f'{{"a":[{value}]}}']


def test_a_constant_near_the_end_of_64_bits_is_declared():
    shape = json_schema_shape({"const": 1 - INT64})
    assert shape.parse(str(1 - INT64)) == 1 - INT64


@pytest.mark.parametrize(
    ("low", "high"),
    [(-INT64, INT64 - 1), (0, UINT64 - 1), (-(2**31), 2**31 - 1), (1 - 2**53, 2**53 - 1)],
)
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_the_range_of_a_machine_integer_ends_where_it_ends(kind, low, high):
    schema = {"type": kind, "minimum": low, "maximum": high}
    inside = [low, low + 1, -1 if low else 1, 0, 1, high - 1, high]
    outside = [low - 1, low - 1000, high + 1, high + 1000, 10 * high]
    assert taken(schema, *map(str, inside)) == list(map(str, inside))
    assert taken(schema, *map(str, outside)) == []


@pytest.mark.parametrize("end", [FLOAT32, FLOAT64])
def test_the_range_of_a_machine_float_ends_where_it_ends(end):
    schema = {"type": "number", "minimum": -end, "maximum": end}
    text = format(Decimal(repr(end)), "f")
    above = format(Decimal(repr(end)) * Decimal("1.0001"), "f")
    inside = ["0", "0.5", "-1e-7", text, f"-{text}", repr(end), repr(-end)]
    assert taken(schema, *inside) == inside
    assert taken(schema, above, f"-{above}", "1e309", "-1e400") == []


def test_an_excluded_zero_stays_out_in_every_notation():
    schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 0.1}
    zeros = ["0", "0.0", "-0", "-0.0", "0e5", "0." + "0" * 400 + "1", "1e-400"]
    inside = ["0.1", "0.10", "0.05", "0." + "0" * 323 + "5", "0.000000001"]
    assert taken(schema, *zeros, "0.1000001", "0.11", "-0.05", "1") == []
    assert taken(schema, *inside) == inside


def test_nothing_is_read_as_an_excluded_end():
    schema = {"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.3}
    assert taken(schema, "0.1", "0.10000000000000000000001", "0.3", "0.29999999999999999999") == []
    assert taken(schema, "0.10000000000000002", "0.2", "0.29999999999999993")


@pytest.mark.parametrize(
    "schema", [{"type": "number"}, {"minimum": 1}, {}, {"type": "array", "items": {}}]
)
def test_no_number_is_infinite(schema):
    wrap = "[{}]" if schema.get("type") == "array" else "{}"
    finite = [wrap.format(text) for text in ("1e308", "17", "1.5e+300", "9" * 308)]
    assert taken(schema, *finite) == finite
    assert taken(schema, *(wrap.format(text) for text in ("1e309", "2e308", "9" * 309))) == []


def test_no_integer_is_longer_than_python_reads():
    most = sys.int_info.default_max_str_digits
    schema = {"type": "integer", "minimum": 5}
    assert taken(schema, "9" * most, "9" * (most + 1)) == ["9" * most]
    assert json_schema_shape(schema).parse("9" * most) > 0


SMALL = [f"{n}" for n in range(-13, 14)] + [
    f"{n}{f}" for n in ("-2", "-1", "-0", "0", "1", "2", "10") for f in (".0", ".25", ".5", ".50")
]


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("opened", list(itertools.product((False, True), repeat=2)))
def test_small_ranges_are_exact(kind, opened):
    """All ranges over a few ends, all texts."""
    names = (
        ("exclusiveMinimum" if opened[0] else "minimum"),
        ("exclusiveMaximum" if opened[1] else "maximum"),
    )
    texts = [text for text in SMALL if not (text.startswith("-") and not float(text))]
    for low, high in itertools.product((None, -12, -1, 0, 0.25, 10), repeat=2):
        ends = {name: end for name, end in zip(names, (low, high), strict=True) if end is not None}
        schema = {"type": kind, **ends}
        assert taken(schema, *texts) == [text for text in texts if fits(schema, text)], schema


def test_what_the_compiler_gets_is_never_more_than_what_fits():
    """Bounds that it cannot read leave fewer numbers, or none."""
    narrow = narrowed({"type": "integer", "minimum": -INT64, "maximum": INT64})
    assert (narrow["minimum"], narrow["maximum"]) == (-(10**15), 10**15)
    assert narrowed({"type": "integer", "minimum": INT64}) is False
    assert narrowed({"enum": [1, INT64]}) == {"enum": [1]}
    assert narrowed({"items": {"const": -INT64}}) == {"items": False}


def test_verdicts_near_the_ends_are_right():
    """A short round; `test_verdicts_of_a_long_round` is the long one."""
    wrong, fitting = wrong_verdicts(seed=7, pairs=3_000)
    assert wrong == []
    assert fitting > 300


@pytest.mark.slow
def test_verdicts_of_a_long_round():
    wrong, fitting = wrong_verdicts(seed=11, pairs=100_000)
    assert wrong == []
    assert fitting > 10_000


def test_a_range_without_numbers_is_refused():
    for schema in ({"minimum": 3, "maximum": 2}, {"exclusiveMinimum": 1, "exclusiveMaximum": 2}):
        with pytest.raises(ConstraintError):
            json_schema_shape({"type": "integer", **schema})


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": INT64}, str(INT64 - 1)),
        ({"type": "number", "exclusiveMinimum": 0}, "1e-400"),
        ({"type": "number", "exclusiveMaximum": 0.1}, "0.09999999999999999999999"),
        ({"type": "number", "multipleOf": 0.1}, "0.35"),
        ({"type": "number"}, "1e999"),
        ({"type": "object"}, '{"a":[1e999]}'),
        ({"type": "object", "required": ["a"]}, "{}"),
    ],
)
def test_a_finished_value_is_checked_again(schema, text):
    """Whatever let it through, a wrong value is an error."""
    with pytest.raises(ValueError, match=r".+: .+|too large"):
        json_schema_shape(schema).parse(text)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "number", "multipleOf": 0.1}, "0.3", 0.3),
        ({"type": "integer", "maximum": INT64 - 1}, str(INT64 - 1), INT64 - 1),
        ({"type": "string", "pattern": r"^\W$"}, '"é"', "é"),
        ({"type": "number", "maximum": 0.1}, "0.1", 0.1),
    ],
)
def test_a_right_value_passes_the_check(schema, text, value):
    assert json_schema_shape(schema).parse(text) == value


TYPES = [
    (Annotated[int, Field(gt=2**60)], [2**60 + 1, 2**61], [2**60, 5]),
    (Literal[1234567890123456789], [1234567890123456789], [1234567890123456768]),
    (Annotated[float, Field(gt=0, le=0.1)], [0.1, 1e-9], [0, 0.2]),
    (Annotated[float, Field(ge=-FLOAT64, le=FLOAT64)], [1.5, -3], []),
    (Annotated[int, Field(ge=-INT64, le=INT64 - 1)], [-INT64, INT64 - 1], [INT64]),
]


@pytest.mark.parametrize(("form", "inside", "outside"), TYPES)
def test_types_take_exactly_their_numbers(form, inside, outside):
    adapter = TypeAdapter(form)
    schema = schema_of(form, adapter, {})
    texts = [format(Decimal(repr(value)), "f") for value in inside]
    assert taken(schema, *texts) == texts
    assert [adapter.validate_json(text) for text in texts] == inside
    assert taken(schema, *(format(Decimal(repr(value)), "f") for value in outside)) == []


DECIMALS = [
    ({"max_digits": 5, "decimal_places": 2, "ge": 0, "lt": 100}, ["0", "99.99"], ["100", "0.123"]),
    ({"gt": 0, "le": Decimal("0.1")}, ["0.1", "0.000000001"], ["0", "0.0", "0.11"]),
    ({"max_digits": 5}, ["12345", "1.2345", "-0.5"], ["123456"]),
    ({"multiple_of": Decimal("0.25"), "ge": -1}, ["0.5", "-0.75", "3"], ["0.3", "-1.25"]),
    ({"multiple_of": Decimal("0.07"), "ge": 0, "le": 9}, ["0.07", "7"], ["0.08", "-0.07"]),
    ({"gt": Decimal("1e20")}, ["100000000000000000001"], ["100000000000000000000", "7"]),
]


@pytest.mark.parametrize(("limits", "inside", "outside"), DECIMALS)
def test_decimals_with_limits_are_read_as_written(limits, inside, outside):
    form = Annotated[Decimal, Field(**limits)]
    shape = shape_of(form)
    texts = [json.dumps(text) for text in inside]
    assert taken(shape.schema, *texts) == texts
    assert [shape.parse(text) for text in texts] == list(map(Decimal, inside))
    assert taken(shape.schema, *map(json.dumps, outside)) == []
    short = shortest_instance(shape.schema)
    assert short is not None
    assert taken(shape.schema, short) == [short]


MULTIPLES = [
    ({"multiple_of": Decimal("0.07")}, ["0.07", "-1.4", "7"], ["0.1", f"{7 * 10**14}"]),
    ({"multiple_of": 7, "max_digits": 4, "ge": 0}, ["7", "9996"], ["10003", "8", "-7"]),
    ({"multiple_of": Decimal("0.07"), "decimal_places": 1}, ["0.7", "7"], ["0.07", "0.1"]),
    ({"multiple_of": 7, "max_digits": 4, "decimal_places": 2}, ["98"], ["105", "0.07"]),
]


@pytest.mark.parametrize(("limits", "inside", "outside"), MULTIPLES)
def test_decimals_that_are_many_multiples_are_short_numbers(limits, inside, outside):
    shape = shape_of(Annotated[Decimal, Field(**limits)])
    assert taken(shape.schema, *inside, *outside) == inside
    assert [shape.parse(text) for text in inside] == list(map(Decimal, inside))


NUMBER = {"type": "number", "exclusiveMinimum": 0}
TREE = {
    "type": "object",
    "properties": {"v": NUMBER, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "required": ["v"],
    "additionalProperties": False,
}
PLACES = [
    ({"type": "array", "items": NUMBER}, ["[]", "[1]", "[1,0.5]"], ["[0]", "[1,]", "[,1]"]),
    ({"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 3}, ["[1,2]"], ["[1]", "[]"]),
    (
        {"type": "array", "prefixItems": [NUMBER, {"type": "string"}], "items": False},
        ["[]", "[1]", '[1,"a"]'],
        ["[0]", '["a"]', '[1,"a",2]'],
    ),
    (
        {"type": "array", "prefixItems": [{"type": "null"}], "items": NUMBER, "minItems": 2},
        ["[null,1]", "[null,1,2]"],
        ["[null]", "[null,0]", "[1,1]"],
    ),
    (
        {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["b"]},
        ['{"b":1}', '{"a":1,"b":1}', '{"b":1,"c":null}'],
        ["{}", '{"a":1}', '{"a":0,"b":1}', '{"b":1,"b":1}', '{,"b":1}'],
    ),
    (
        {"type": "object", "properties": {"a": NUMBER}, "additionalProperties": False},
        ["{}", '{"a":1}'],
        ['{"c":1}', '{"a":0}', '{"a":1,}'],
    ),
    (
        {"type": "object", "additionalProperties": NUMBER, "minProperties": 1, "maxProperties": 2},
        ['{"x":1}', '{"x":1,"y":2}'],
        ["{}", '{"x":0}', '{"x":1,"y":1,"z":1}'],
    ),
    (
        {"$ref": "#/$defs/tree", "$defs": {"tree": TREE}},
        ['{"v":1}', '{"v":1,"kids":[{"v":2,"kids":[]}]}'],
        ['{"v":0}', '{"v":1,"kids":[{"v":0}]}', "{}"],
    ),
    (
        {"anyOf": [NUMBER, {"type": "string", "maxLength": 1}, {"type": "null"}]},
        ["1", '"a"', "null"],
        ["0", '"ab"', "true"],
    ),
    (
        {"type": ["number", "string", "null"], "minimum": 3, "maxLength": 1},
        ["3", '"a"', "null"],
        ["2", '"ab"', "true"],
    ),
    ({"minimum": 3}, ["3", '"a"', "null", "[1]", '{"a":1}', "true"], ["2"]),
    ({"allOf": [{"type": "number"}, {"minimum": 1}, {"exclusiveMaximum": 5}]}, ["1", "4.9"], ["5"]),
    (
        {
            "allOf": [
                {"type": "object", "properties": {"a": NUMBER}, "required": ["a"]},
                {"properties": {"a": {"maximum": 5}, "b": {"type": "null"}}},
            ],
            "type": "object",
        },
        ['{"a":5}', '{"a":1,"b":null}'],
        ['{"a":0}', '{"a":6}', "{}", '{"a":1,"b":1}'],
    ),
    ({"enum": [1.0, 2**60, None]}, ["1", "1.0", str(2**60), "null"], ["2", str(2**60 + 1)]),
    ({"enum": [1, 2**60], "maximum": 5}, ["1"], [str(2**60)]),
]


@pytest.mark.parametrize(("schema", "inside", "outside"), PLACES)
def test_exact_numbers_stand_anywhere(schema, inside, outside):
    assert has_rules(normalize(schema))
    assert taken(schema, *inside) == inside
    assert taken(schema, *outside) == []


@pytest.mark.parametrize(("schema", "inside", "outside"), PLACES)
def test_a_short_text_of_exact_numbers_is_found(schema, inside, outside):
    text = shortest_instance(normalize(schema))
    assert text is not None
    assert taken(schema, text) == [text]


@pytest.mark.parametrize("most", ["1e19", "25e17", "1.5e300"])
@pytest.mark.parametrize("is_open", [False, True])
def test_the_same_end_on_both_sides_is_one_regex(most, is_open):
    end = Bound(Fraction(Decimal(most)), is_open)
    [term] = number_terms(DecimalRange(False, end.negated(), end, is_wide=True))
    near = (Decimal(most) * factor for factor in map(Decimal, ("1", "0.999", "1.001", "0.1", "10")))
    written = [text for one in near for text in (f"{one:f}", f"{one:.9e}", str(int(one)))]
    for text in [*written, "0", "0.5", "1e5", "3.25e-7", "00", "1.", ".5", "1e", "01e5"]:
        try:
            number = abs(json.loads(text, parse_float=Decimal, parse_int=Decimal))
        except ValueError:
            fits = False
        else:
            fits = number < end.at or (number == end.at and not is_open)
        for signed in (text, f"-{text}"):
            assert bool(re.fullmatch(term, signed)) == fits, signed
