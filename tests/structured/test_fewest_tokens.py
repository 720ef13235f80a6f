"""The fewest tokens of any output, against an exhaustive search; every budget from there closes."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from agentrt.base.errors import ConstraintError
from agentrt.structured import (
    Budgeted,
    CompileCache,
    cfg_shape,
    compile_constraint,
    json_schema_shape,
    regex_shape,
)
from agentrt.structured.closing.shortest import shortest_match
from agentrt.structured.sandbox.service import CompileService
from tests.structured.closing_cases import (
    FRAME,
    KINDS,
    SearchTooLong,
    drawn,
    shapes,
    tiny_vocabulary,
    true_min_tokens,
)

MORE = (0, 1, 8, 40)
LONG = 150
PROVED = {"regex": 0.98, "lark": 0.75, "json": 0.75, "choice": 1.0, "calls": 0.9, "mixed": 0.7}
"""Smallest share of the constraints of a kind whose fewest tokens are proved to be that."""


@pytest.fixture(scope="module")
def tiny():
    return tiny_vocabulary()


@pytest.fixture(scope="module")
def fewest(tiny):
    """Compile a constraint by the parser, and search for its fewest tokens."""
    service = CompileService()

    def compile_one(spec):
        constraint = compile_constraint(spec, tiny, FRAME, method="parser")
        service.fit(constraint, spec, tiny, FRAME, within_tokens=0)
        return constraint

    return compile_one


def check(kind, seed, count, most_texts, fewest, tiny):
    proved = compiled = 0
    for number, shape in enumerate(shapes(kind, seed, count)):
        try:
            constraint = fewest(shape.spec)
        except ConstraintError:
            continue
        compiled += 1
        least, known = constraint.least_tokens, constraint.min_tokens
        try:
            true = true_min_tokens(constraint, tiny, most_texts)
        except SearchTooLong:
            true = None
        except AssertionError:
            assert known is None
            continue
        if known is None:
            assert constraint.why_open
            with pytest.raises(ConstraintError, match="no end is known"):
                Budgeted.start(constraint, 1000)
            continue
        proved += least == known
        assert true is None or least <= true <= known, shape.spec
        for more in MORE:
            try:
                out = drawn(constraint, known + more, random.Random(number), tiny)
            except ConstraintError as wrong:  # as the engine would end it
                if kind != "lark" or "cannot be followed any further" not in wrong.message:
                    raise
                continue
            assert out is not None, shape.spec
            fresh = constraint.start()
            assert fresh.advance(out) == len(out), shape.spec
            assert fresh.can_stop(), shape.spec
    assert proved / compiled >= PROVED[kind], f"{proved} of {compiled}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_fewest_tokens_are_true_and_every_budget_closes(kind, fewest, tiny):
    check(kind, 3, 14, 200, fewest, tiny)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_fewest_tokens_are_true_at_length(kind, fewest, tiny):
    check(kind, 4, LONG, 3000, fewest, tiny)


@pytest.mark.parametrize(
    ("shape", "tokens"),
    [
        (regex_shape("(?:ab){2,500}|xy"), 1),
        (cfg_shape('start: "(" start ")" | /a{7,9}/ | "ab" "ab"'), 1),
        (cfg_shape('start: w "." w\nw: WORD\nWORD: /[ab]+/ & ~("a" | "b" | "aa")'), 3),
        (cfg_shape("start: %lark {\nstart: inner\ninner: /[0-9]{3}/\n} inner\ninner: /x/"), 2),
        (json_schema_shape({"enum": ["xbyaxa", "a", 100]}), 1),
        (json_schema_shape({"type": "string", "minLength": 4, "pattern": "^[ab]*$"}), 3),
        (json_schema_shape({"type": "array", "items": {"type": "null"}, "minItems": 3}), 7),
        (json_schema_shape({"type": "integer", "minimum": 7, "multipleOf": 25}), 1),
    ],
)
def test_the_fewest_tokens_need_not_spell_the_shortest_text(shape, tokens, fewest):
    constraint = fewest(shape.spec)
    assert constraint.min_tokens == constraint.least_tokens == tokens


def test_nothing_is_searched_while_a_known_output_fits(tiny):
    cache = CompileCache()
    spec = json_schema_shape({"enum": ["bx", "abab"]}).spec
    assert spec is not None
    roomy = cache.start_compile(spec, tiny, FRAME, within_tokens=9).result(30)
    assert roomy.least_tokens == 0
    with pytest.raises(ConstraintError, match=r"the shortest output found has \d tokens"):
        Budgeted.start(roomy, 0)
    tight = cache.start_compile(spec, tiny, FRAME, within_tokens=2).result(30)
    assert tight is roomy
    assert tight.least_tokens == tight.min_tokens
    with pytest.raises(ConstraintError, match=f"at least {tight.least_tokens} tokens"):
        Budgeted.start(tight, tight.least_tokens - 1)
    cache.close()


@pytest.mark.parametrize(
    ("lark", "why"),
    [
        ('start: "a" start', "no text fits it|does not compile"),
        ("start: /[0-9]+/ /[0-9]+/", "its terminals take the text of those that follow"),
    ],
)
def test_a_grammar_without_a_known_end_says_why(lark, why, tiny):
    spec = cfg_shape(lark).spec
    assert spec is not None
    with pytest.raises(ConstraintError, match=why):
        Budgeted.start(compile_constraint(spec, tiny, FRAME), 100)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?:ab|a){3,4000}c?", "aaa"),
        (r"\w{1,400}@\w{1,400}", "a@a"),
        (r"[^\x00-\x7f]{2}", None),
        ("(?i:AB)[0-9]+?", None),
        (r"\p{L}{200}", "a" * 200),
    ],
)
def test_the_shortest_match_has_counts_of_any_size(pattern, text):
    found = shortest_match(pattern)
    assert found is not None
    assert text is None or found == text


def test_no_clock_ends_a_search(monkeypatch):
    """The clock of a thread jumps by tenths of a second where a machine is shared."""
    jumps = itertools.count()
    monkeypatch.setattr(time, "thread_time", lambda: 10.0 * next(jumps))
    assert shortest_match(r"\p{L}{200}") == "a" * 200
