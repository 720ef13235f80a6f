"""Multiples are exact: every multiple that fits a schema can be written, and no other number."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from agentrt import ConstraintError
from agentrt.structured import checked_schema_shape, json_schema_shape
from agentrt.structured.closing.example_text import shortest_instance
from agentrt.structured.json_schema.normalize import normalize
from tests.structured.number_judge import Grammar, fits

INT64 = 2**63


def taken(schema, *texts):
    grammar = Grammar(normalize(schema))
    return [text for text in texts if grammar.takes(text)]


STEPS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 25, 60, 100, 300, 1000, 0.01, 0.05, 0.1, 0.25, 0.3, 0.5]


@pytest.mark.parametrize("step", [*STEPS, 0.75, 1.5, 2.5, 0.125, 1e-6])
@pytest.mark.parametrize("bounds", [{}, {"minimum": -7, "exclusiveMaximum": 130}])
def test_multiples_are_exact(step, bounds):
    """All integers of three digits and their halves, quarters, tenths, in several notations."""
    schema = {"type": "number", "multipleOf": step, **bounds}
    numbers = [Fraction(n, d) for n in range(-40, 700, 7) for d in (1, 2, 4, 8, 10, 100)]
    texts = {str(number.numerator) for number in numbers if number.denominator == 1}
    for number in numbers:
        plain = format(Decimal(number.numerator) / number.denominator, "f")
        texts |= {plain, f"{plain}0" if "." in plain else f"{plain}.0"}
    texts -= {"-0", "-0.0"}
    ordered = sorted(texts)
    assert taken(schema, *ordered) == [text for text in ordered if fits(schema, text)]


@pytest.mark.parametrize("step", [7, 9, 11, 13, 17, 97, 101, 999])
@pytest.mark.parametrize("bounds", [{"minimum": 0}, {"minimum": -5, "maximum": 5000}])
def test_multiples_of_any_integer_are_exact(step, bounds):
    schema = {"type": "integer", "multipleOf": step, **bounds}
    texts = [str(n) for n in range(-20, 2500)]
    assert taken(schema, *texts) == [text for text in texts if fits(schema, text)]


def test_multiples_beyond_the_exact_floats():
    schema = {"type": "integer", "multipleOf": 15, "minimum": INT64}
    texts = [str(INT64 + n) for n in range(40)]
    assert taken(schema, *texts) == [text for text in texts if int(text) % 15 == 0]


INT64_RANGE = {"minimum": -INT64, "maximum": INT64 - 1}


SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in range(1, 61) if n not in (7, 18, 32, 49)]


@pytest.mark.parametrize("factor", [7, 18, 32, 49, *SLOW])
def test_multiples_of_each_small_factor_are_exact(factor):
    """Integers of 64 bits, all numbers, and hundredths: near zero and near the ends."""
    texts = [str(n) for n in (*range(-70, 0), *range(1, 200), *range(INT64 - 60, INT64 + 2))]
    texts += [f"-{text}" for text in texts[-62:]]
    for schema in ({"type": "integer", **INT64_RANGE}, {"type": "number"}):
        multiples = {**schema, "multipleOf": factor}
        assert taken(multiples, *texts) == [text for text in texts if fits(multiples, text)]
    hundredths = {"type": "number", "multipleOf": factor / 100, "minimum": -9, "maximum": 10**15}
    cents = (*range(-904, -900 + 60), *range(1, 200), *range(10**17 - 60, 10**17 + 2))
    texts = [f"{Decimal(n) / 100:f}" for n in cents]
    texts += [f"{text}00" for text in texts[::3] if "." in text]
    assert taken(hundredths, *texts) == [text for text in texts if fits(hundredths, text)]


@pytest.mark.parametrize(
    ("step", "bounds"),
    [
        (365, INT64_RANGE),
        (127, INT64_RANGE),
        (77, {}),
        (9_450, {"maximum": INT64}),
        (0.7, INT64_RANGE),
        (256, INT64_RANGE),
        (1_000_003, {"minimum": INT64, "maximum": INT64 + 10**9}),
        (2**40 + 15, {"minimum": 0, "maximum": 2**49}),
        (10_007, {"minimum": 0}),
    ],
)
def test_multiples_of_larger_factors_are_exact(step, bounds):
    schema = {"type": "integer", "multipleOf": step, **bounds}
    near = {n // step * step for n in (0, 10**6, 10**15, INT64 - 1, INT64 + 10**7, -INT64, 2**48)}
    numbers = {int(n + m * step) + d for n in near for m in (0, 1, 2) for d in (-1, 0, 1)}
    texts = [str(n) for n in sorted(numbers)]
    fitting = [text for text in texts if fits(schema, text)]
    assert taken(schema, *texts) == fitting
    assert fitting


@pytest.mark.parametrize("step", [0.07, 87.5, 0.365, 1.1, 0.0013, 2.5e-7])
@pytest.mark.parametrize("bounds", [{}, {"minimum": 0.5}, {"exclusiveMinimum": -9, "maximum": 5e6}])
def test_multiples_of_decimals_are_exact(step, bounds):
    schema = {"type": "number", "multipleOf": step, **bounds}
    unit = Decimal(repr(step))
    numbers = [unit * n for n in (*range(-60, 300, 7), 10**6, 10**9 + 1)]
    numbers += [number + off for number in numbers for off in (unit / 10, -unit / 2, unit * 10)]
    texts = sorted({f"{number:f}" for number in numbers if number} | {"0", "0.0", "0.00000000"})
    fitting = [text for text in texts if fits(schema, text)]
    assert taken(schema, *texts) == fitting
    assert fitting


def test_a_step_stands_beside_other_numbers():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "integer", "multipleOf": 7, "minimum": INT64}},
            "b": {"anyOf": [{"type": "number", "multipleOf": 0.07}, {"type": "null"}]},
            "c": {"type": "number", "multipleOf": 0.07, "minimum": 0},
        },
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    }
    seven = INT64 + -INT64 % 7
    short = shortest_instance(normalize(schema))
    assert short is not None
    right = [f'{{"a":[{seven},{seven + 7}],"b":0.21,"c":7}}', '{"a":[],"b":null,"c":0.07}']
    wrong = [f'{{"a":[{seven + 1}],"b":0.21,"c":7}}', '{"a":[],"b":0.2,"c":7}']
    assert taken(schema, *right, short, *wrong) == [*right, short]


def test_multiples_that_no_grammar_holds_are_refused_by_name():
    schema = {"type": "integer", "multipleOf": 1_000_003, "minimum": INT64}
    with pytest.raises(ConstraintError, match="check=True") as refused:
        json_schema_shape({"type": "array", "items": schema})
    assert (refused.value.pointer, refused.value.keyword) == ("/items/multipleOf", "multipleOf")
    checked = checked_schema_shape(schema)
    fitting = INT64 + -INT64 % 1_000_003
    assert checked.parse(str(fitting)) == fitting
    with pytest.raises(ValueError, match="not a multiple of 1000003"):
        checked.parse(str(fitting + 1))


@pytest.mark.parametrize("step", [2**32 - 5, 2**33 + 9, 10**9 + 7, 1.000000007])
def test_a_factor_that_the_compiler_would_not_bear_is_refused(step):
    """It visits all remainders, which have 32 bits."""
    with pytest.raises(ConstraintError, match="multipleOf"):
        json_schema_shape({"type": "number", "multipleOf": step})


def test_a_range_without_multiples_is_refused():
    for bounds in ({"minimum": 1, "maximum": 6}, {"exclusiveMinimum": 0, "exclusiveMaximum": 7}):
        with pytest.raises(ConstraintError):
            json_schema_shape({"type": "number", "multipleOf": 7, **bounds})
