"""Sets of texts by their regexes: the regex of a result matches the texts of that result."""

import itertools
import re

import pytest

from agentrt.structured import json_schema_shape
from agentrt.structured.json_schema.text_language import ANY_TEXT, TooComplex, matching, these

PATTERNS = ["a", "^b", "c$", r"\.\.", "^[^,]+$", "^(a|bc)*$", "^.{2}$", "", "é", "^[à-ü]?a*$"]
TEXTS = ["".join(text) for n in range(4) for text in itertools.product("abc.é", repeat=n)]


def found(language):
    """The texts by the regex of a set, read by Python."""
    if language.is_empty:
        return set()
    regex = re.sub(r"\\x\{(\w+)\}", lambda at: re.escape(chr(int(at[1], 16))), language.pattern())
    return {text for text in TEXTS if re.search(regex, text)}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_set_has_the_texts_of_its_pattern(pattern):
    language = matching(pattern)
    inside = {text for text in TEXTS if re.search(pattern, text)}
    assert found(language) == inside
    assert found(ANY_TEXT.without(language)) == set(TEXTS) - inside
    assert {text for text in TEXTS[:40] if language.holds(text)} == inside & set(TEXTS[:40])


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(PATTERNS[:6], 2)))
def test_two_sets_are_combined(one, other):
    here, there = matching(one), matching(other)
    some, others = found(here), found(there)
    assert found(here.both(there)) == some & others
    assert found(here.either(there)) == some | others
    assert found(here.without(there)) == some - others


def test_listed_texts_are_literal():
    assert these(["a.b", "c"]).holds("a.b")
    assert not these(["a.b", "c"]).holds("axb")
    assert these([]).is_empty


def test_what_is_too_large_has_no_answer():
    with pytest.raises(TooComplex):
        matching("^.{0,400}a.{400}$")


def test_patterns_of_any_characters_are_combined_quickly():
    short = matching("^.{0,40}$")
    assert ANY_TEXT.without(short).holds("é" * 41)
    schema = {"type": "object", "propertyNames": {"minLength": 1, "maxLength": 40}}
    assert json_schema_shape(schema).spec is not None  # declared within the time for it
