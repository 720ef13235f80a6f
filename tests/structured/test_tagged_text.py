"""Free text with triggered parts: the grammar takes exactly the texts that can be read."""

from __future__ import annotations

import itertools
import re

import pytest
from llguidance import LLMatcher, LLTokenizer

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.lark_text import LarkPart
from agentrt.structured.tagged_text import TriggeredPart, tagged_text

BYTES = LLTokenizer("byte")


def grammar(parts, **counts):
    found = tagged_text(parts, **counts)
    return "\n".join([f"start: {found.expression}", *found.rules, ""])


def part(*trigger, body):
    return TriggeredPart(trigger, LarkPart(body))


def takes(lark, text):
    matcher = LLMatcher(BYTES, LLMatcher.grammar_from_lark(lark), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    wanted = list(text.encode())
    return matcher.try_consume_tokens(wanted) == len(wanted) and matcher.is_accepting()


CASES = {
    "one": ([part("ab", body='"1"')], {}, r"(ab1|(?!ab).)*", 7),
    "overlap": ([part("ab", body='"1"'), part("ba", body='"1"')], {}, r"(ab1|ba1|(?!ab|ba).)*", 7),
    "one trigger": ([part("a", body='"1"'), part("a", body='"b"')], {}, r"(a1|ab|[^a])*", 7),
    "counts": (
        [part("ab", body='"1"?')],
        {"min_parts": 1, "max_parts": 2},
        r"((?!ab).)*(ab1?((?!ab).)*){1,2}",
        8,
    ),
    "none": ([part("b", body='"1"')], {"max_parts": 0}, r"[^b]*", 6),
}


@pytest.mark.parametrize("case", CASES)
def test_exactly_these_texts(case):
    """Exhaustive over a small alphabet, judged by a regex of the same language."""
    parts, counts, oracle, length = CASES[case]
    lark, judge = grammar(parts, **counts), re.compile(oracle)
    matcher = LLMatcher(BYTES, LLMatcher.grammar_from_lark(lark), log_level=0)
    for size in range(length + 1):
        for letters in itertools.product(b"ab1", repeat=size):
            here = matcher.deep_copy()
            taken = here.try_consume_tokens(list(letters)) == size and here.is_accepting()
            assert taken == (judge.fullmatch(bytes(letters).decode()) is not None), letters


def test_a_text_that_begins_like_a_trigger_stays_text():
    lark = grammar([part("<calc>", body='"2"')])
    assert takes(lark, "a < b, <cal, é <calc")
    assert takes(lark, "<<calc>2<ca")
    assert not takes(lark, "<calc>3")


def test_special_tokens_begin_parts(accepts):
    """The token begins a part, its letters are text."""
    special = "<|call|>"
    found = tagged_text([part(6, body='"1"'), part("b", body='"2"'), part("f", 7, body='"3"')])
    lark = "\n".join([f"start: {found.expression}", *found.rules, ""])
    spec = ConstraintSpec("grammar", source=lark)
    assert accepts(spec, f"a {special}1 b2 f<|/call|>3 f")
    assert not accepts(spec, f"a {special}2")
    assert not accepts(spec, f"a {special}1 b1")
    assert not accepts(spec, "a <|/call|>3")
    assert accepts(spec, "a < |call|>2")


WRONG = [
    ([], "no trigger"),
    ([part("", body='"1"')], "no trigger"),
    ([part(body='"1"')], "no trigger"),
    ([part("ab", body='"1"'), part("cabd", body='"1"')], "'ab' is within the trigger 'cabd'"),
]


@pytest.mark.parametrize(("parts", "said"), WRONG)
def test_unclear_triggers_are_refused(parts, said):
    with pytest.raises(ConstraintError, match=said):
        tagged_text(parts)
