"""Whatever is given as a schema, pattern or grammar: a shape or a `ConstraintError`, no crash."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.base.errors import ConstraintError
from agentrt.structured import (
    Budgeted,
    cfg_shape,
    compile_constraint,
    json_schema_shape,
    regex_shape,
)
from agentrt.structured.closing.shortest import shortest_match
from agentrt.structured.json_schema.regex_text import anywhere, whole_match
from agentrt.structured.sandbox.compiled import fits_table

TEXT = (
    "type properties required items prefixItems additionalProperties patternProperties enum const "
    "anyOf oneOf allOf $ref $defs minItems maxItems minLength maxLength pattern format minimum "
    "maximum exclusiveMinimum multipleOf minProperties maxProperties uniqueItems propertyNames "
    "dependentRequired unevaluatedProperties unevaluatedItems not if then contains title default"
)
KEYWORDS = tuple(TEXT.split())
VALUES = ["string", "object", "array", "integer", "#", "#/$defs/a", "^a+$", "(", "date", "a", ""]

plain = st.one_of(
    st.sampled_from(VALUES),
    st.integers(-3, 3),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
)
junk = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*KEYWORDS, "a", "b"]), inner, max_size=4),
    ),
    max_leaves=14,
)
schemas = st.dictionaries(st.sampled_from(KEYWORDS), junk, min_size=1, max_size=4)
quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@settings(max_examples=250, derandomize=True, deadline=None, suppress_health_check=quiet)
@given(schemas)
def test_any_dict_is_a_shape_or_an_error(vocab, frame, schema):
    try:
        shape = json_schema_shape(schema)
        assert shape.spec is not None
        constraint = compile_constraint(shape.spec, vocab, frame)
    except ConstraintError as error:
        assert error.message  # noqa: PT017
        return
    if constraint.shortest is not None:
        state = constraint.start()
        assert state.advance(constraint.shortest) == len(constraint.shortest)
        assert state.can_stop()


@settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=quiet)
@given(st.text("ab01(|)[]{},^$*+?\\dws.-", max_size=12))
def test_any_text_is_a_regex_or_an_error(vocab, frame, pattern):
    try:
        shape = regex_shape(pattern)
        assert shape.spec is not None
        constraint = compile_constraint(shape.spec, vocab, frame)
    except ConstraintError:
        return
    if constraint.shortest is not None:
        assert Budgeted.start(constraint, len(constraint.shortest)).closes


@pytest.mark.parametrize(
    "pattern",
    ["a{" + "9" * 5_000 + "}", "a{1," + "9" * 5_000 + "}", "(" * 99 + "a" + "{999999999})" * 99],
    ids=["count", "second count", "product"],
)
def test_counts_beyond_what_python_reads_are_refused(pattern):
    with pytest.raises(ConstraintError, match="too large"):
        regex_shape(pattern)


def test_other_digits_are_no_count():
    with pytest.raises(ConstraintError):
        regex_shape("a{\u00b2}")


DEAR = [
    r"[ab][abc]{0,40}x",
    r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?",
    r"[ab]{0,30}a[ab]{30}",
    "(a|b)*a" + "(a|b)" * 30,
    r"(?:[a-z0-9](?:-?[a-z0-9]){0,60}\.){0,30}[a-z]{2,60}",
    r".*a.{18}",
    r"\w{1,400}@\w{1,400}",
    r"\p{L}{200}",
]


@pytest.mark.parametrize("pattern", DEAR)
def test_automata_that_would_explode_are_not_built(vocab, frame, pattern):
    """Each of these doubles with a count somewhere; none may take long or much memory."""
    whole = whole_match(pattern)
    shortest_match(whole)
    spec = regex_shape(pattern).spec
    assert spec is not None
    constraint = compile_constraint(spec, vocab, frame)
    assert constraint.size_bytes < 50_000_000
    assert (constraint.backend == "outlines-core") == fits_table(whole, vocab)


def test_grammars_that_recurse_without_end_are_told(vocab, frame):
    """No text fits; that is an error, or a constraint that is known not to close."""
    try:
        spec = cfg_shape('start: "a" start').spec
        assert spec is not None
        constraint = compile_constraint(spec, vocab, frame)
    except ConstraintError:
        return
    assert constraint.min_tokens is None
    with pytest.raises(ConstraintError, match="no text fits it"):
        Budgeted.start(constraint, 10)


@pytest.mark.parametrize(
    ("pattern", "found"), [("b", ["b", "abc"]), ("^b", ["bc"]), ("b$|^c", ["ab", "cd"])]
)
def test_anywhere_is_how_json_schema_reads_a_pattern(vocab, frame, pattern, found):
    from agentrt.base.constraint_spec import ConstraintSpec
    from agentrt.structured.vocabulary import alphabet_of

    spec = ConstraintSpec("regex", source=anywhere(pattern))
    constraint = compile_constraint(spec, vocab, frame)
    for text in found:
        ids = alphabet_of(vocab).tokenize(text.encode())
        state = constraint.start()
        assert state.advance(ids) == len(ids)
        assert state.can_stop()
