"""Text that a Lark grammar forces: appended without a forward where it is known to end soon."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.structured import bitmask_words, cfg_shape, compile_constraint
from agentrt.structured.closing.forced_text import (
    MAX_FORCED_BYTES,
    is_forced_text_short,
    most_forced_bytes,
)
from agentrt.structured.json_schema.byte_automaton import AutomatonTooLarge, automaton_of
from agentrt.structured.json_schema.compile_cost import forces_short_text, may_take_long
from agentrt.structured.matcher import allowed_ids
from agentrt.structured.vocabulary import alphabet_of
from tests.structured.closing_cases import FRAME, tiny_vocabulary


@pytest.fixture(scope="module")
def tiny():
    return tiny_vocabulary()


def compiled(lark, vocab):
    spec = cfg_shape(lark).spec
    assert spec is not None
    return compile_constraint(spec, vocab, FRAME, searches=False)


@pytest.mark.parametrize(
    "lark",
    [
        'start: /[ab]+/ "x"',
        'start: /(?:ab|b)+/ "xy" /[0-9]{4,9}/',
        'start: ("ab" ",")* WORD\nWORD: "xy"{3} /[ab]/+',
        'start: "x" %json {"type": "object"} "y"',
        "start: /(?:ab){1,400}/ /[ab]/",
        'start: r2+\nr2: /[0-9]?/ | r2 "[" "]"',
    ],
)
def test_lexemes_with_choices_force_short_texts(lark):
    assert is_forced_text_short(lark, {})


@pytest.mark.parametrize(
    "lark",
    [
        'start: /a+/ "a"',
        "start: (/(?:01){2,}/){3,4}",
        "start: /x(?:ab){600}/ /[ab]/",
        'start: WORD "a"\nWORD: ("a" | "a")+',
        'start: "a" " b"\n%ignore / +/',
        'start: /(?s:.+)/ & ~/(?s:.*)b/ "b"',
        'start: %json {"type": "number"} "0"',
        'start: %lark {\nstart: /a+/ "a"\n}',
        'start: r "b"\nr[lazy]: "a"+ "b"',
        'start: @other "a"',
    ],
)
def test_lexemes_that_may_go_on_alone_are_known(lark):
    assert not is_forced_text_short(lark, {})


def test_rules_of_several_lexemes_force_tokens(tiny):
    state = compiled('start: /[0-9]{1,3}/ ":" "abab" "xy" /[ab]/', tiny).start()
    encode = alphabet_of(tiny).tokenize
    assert state.forced_tokens(20) == []
    assert state.advance(encode(b"100")) == 1
    assert state.forced_text() == b":ababxy"
    assert alphabet_of(tiny).bytes_of(state.forced_tokens(20)) == b":ababxy"


@pytest.mark.parametrize(
    ("lark", "text"),
    [
        ("start: /a+/ /a+/", "aaa"),
        ("start: WORD (/(?:01){2,}/){3,4}\nWORD: /[xy]/", "x0101010101"),
        ('start: %lark {\nstart: "b" /a+/ "a"\n}', "baaaa"),
        ('%llguidance {"no_forcing": false}\nstart: /a+/ "a"', "aaaa"),
    ],
)
def test_masks_of_texts_without_an_end_of_their_own_come(lark, text, tiny):
    """The parser would follow such a text forever."""
    spec = ConstraintSpec("grammar", lark)
    state = compile_constraint(spec, tiny, FRAME, searches=False).start()
    row = np.zeros(bitmask_words(tiny.logits_size), dtype=np.int32)
    for byte in text.encode():
        assert state.forced_tokens(20) == []
        state.fill_bitmask(row)
        token = tiny.token_bytes.index(bytes([byte]))
        assert token in allowed_ids(row)
        assert state.advance([token]) == 1


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:, name: [a-z]+; year: [0-9]{4}){900}",
        "(?:name( [a-z]{3}){9} and so on( [a-z]{3}){10}){40}",
        "a{400}[ab]b{400}",
        "(?:ab|cd){2000}",
    ],
)
def test_long_regexes_whose_fields_are_free_force_short_texts(pattern):
    assert most_forced_bytes(pattern) <= MAX_FORCED_BYTES


@pytest.mark.parametrize(
    "pattern",
    [
        "a+b",
        "[ab]a{1500}",
        "(?:[ab]){0}a{1500}",
        "(?:(?:[ab])?a){600}a{1500}",
        "(?:a{1500}|b)(?!c)",
    ],
)
def test_regexes_that_may_force_long_texts_are_known(pattern):
    assert most_forced_bytes(pattern) > MAX_FORCED_BYTES


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "(?:a|b)", "ab", "(?:b|c)", "aa"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda found: f"(?:{'|'.join(found)})"),
        st.tuples(inner, st.sampled_from(["?", "{0}", "{2}", "{1,3}", "{0,2}"])).map(
            lambda found: f"(?:{found[0]}){found[1]}"
        ),
    ),
    max_leaves=8,
)


@given(PATTERNS)
def test_no_regex_forces_more_than_its_bound(pattern):
    try:
        automaton = automaton_of(pattern)
    except AutomatonTooLarge:
        reject()
    longest = 0
    for state in range(len(automaton.steps)):
        run = 0
        while len(steps := automaton.steps[state]) == 1 and not automaton.accepting[state]:
            (byte,) = steps
            if byte not in b"abc":  # the mark behind the text
                break
            state, run = steps[byte], run + 1
        longest = max(longest, run)
    assert longest <= most_forced_bytes(pattern)


def test_a_regex_too_large_for_a_table_forces_tokens(tiny):
    form = "(?:abab([0-9]{3})xy){200}"
    state = compile_constraint(ConstraintSpec("regex", form), tiny, FRAME, searches=False).start()
    tokens = alphabet_of(tiny)
    assert state.forced_text() == b"abab"
    assert state.advance(tokens.tokenize(b"abab123")) == len(tokens.tokenize(b"abab123"))
    assert state.forced_text() == b"xyabab"


def test_a_large_schema_forces_its_names(tiny):
    """References and limits of free strings make a schema costly to compile, not its text long."""
    names = {f"a{at}": {"$ref": "#/$defs/text"} for at in range(70)}
    schema = {
        "type": "object",
        "properties": names,
        "required": list(names),
        "additionalProperties": False,
        "$defs": {"text": {"type": "string", "maxLength": 4000}},
    }
    spec = ConstraintSpec("json", json.dumps(schema))
    assert may_take_long(spec)
    state = compile_constraint(spec, tiny, FRAME, searches=False).start()
    assert state.forced_text() == b'{"a0":"'


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^a{2000}$", "maxLength": 4000},
        {"type": "array", "minItems": 4000, "items": {"const": 1}},
        {"enum": ["x" * 70_000]},
    ],
)
def test_schemas_that_may_force_long_texts_are_known(schema):
    assert not forces_short_text(json.dumps(schema))
