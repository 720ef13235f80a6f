"""Composed constraints: the language is that of the parts, and captures are spans of the text."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
import pytest
from annotated_types import Ge
from llguidance import LLMatcher
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from agentrt import capture, cfg, choice, json_schema, regex, typed
from agentrt.base.errors import ConstraintError
from agentrt.structured import (
    Captured,
    Joined,
    Leaf,
    Part,
    bitmask_words,
    compile_constraint,
    composed_shape,
    literal_part,
    regex_shape,
)
from agentrt.structured.composition import BYTES
from agentrt.structured.json_schema.native import lark_grammar, regex_grammar
from agentrt.structured.matcher import allowed_ids
from agentrt.structured.parts import MAX_NESTED, Repeated, fields_of
from agentrt.structured.spans import spans_of
from agentrt.structured.types.shape import json_shape_of


class Point(BaseModel):
    x: int
    text: str


def matcher_of(constraint):
    spec = constraint.shape.spec
    grammar = regex_grammar(spec.source) if spec.kind == "regex" else lark_grammar(spec.source)
    matcher = LLMatcher(BYTES, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


LETTERS = "ab1[]"
REGULAR = regex("a+") + (regex("[ab]") | "1").repeat(1, 2)
CASES = {
    "regular": (REGULAR, r"a+[ab1]{1,2}", 5),
    "greedy neighbours": (regex("[ab]*") + "b" + regex("b?"), r"[ab]*bb?", 5),
    "around a list": ("a" + typed(list[Literal[1]]) + "b", r"a\[(1(,1)*)?\]b", 6),
    "repeated lists": (
        ("a" + typed(list[None])).repeat(1, 2) + ("b" | typed(list[None])),
        r"(a\[\]){1,2}(b|\[\])",
        7,
    ),
    "optional": (typed(list[None]).repeat(0, 1) + regex("a*"), r"(\[\])?a*", 5),
    "a grammar inside": ("b" + cfg('start: "a" start "1" | "1"') + "]", r"b(1|a1{2}|aa1{3})\]", 7),
    "alternatives": (
        (regex("a+") + typed(list[None])) | regex("[ab]{2}"),
        r"a+\[\]|[ab]{2}",
        5,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_language_is_that_of_the_parts(case):
    """Exhaustive over a small alphabet, judged by a regex; the reader takes the same texts."""
    constraint, oracle, length = CASES[case]
    base, judge = matcher_of(constraint), re.compile(oracle)
    for size in range(length + 1):
        for letters in itertools.product(LETTERS, repeat=size):
            text = "".join(letters)
            here = base.deep_copy()
            taken = here.try_consume_tokens(list(text.encode())) == size and here.is_accepting()
            fits = judge.fullmatch(text) is not None
            assert taken == fits, text
            assert reads(constraint, text) == fits, text


def reads(constraint, text):
    try:
        spans_of(constraint.part, text)
    except ValueError:
        return False
    return True


class Line(TypedDict):
    name: str
    count: int
    tags: list[str]
    point: NotRequired[Point]
    size: Literal["small", "large"]


LINE: Any = (
    "Name: "
    + capture("name", regex("[a-z é]+"))
    + ", "
    + capture("count", int)
    + " "
    + capture("size", Literal["small", "large"])
    + (" #" + capture("tags", regex("[a-z]{1,3}"))).repeat(0, 3)
    + (" at " + capture("point", Point)).repeat(0, 1)
)
GRAMMAR_LINE: Any = capture("sum", cfg('start: N ("+" N)*\nN: /[0-9]+/')) + (
    "=" + capture("value", float)
)


class SumLine(TypedDict):
    sum: str
    value: float


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("line", "form"), [(LINE, Line), (GRAMMAR_LINE, SumLine)])
def test_what_masks_allow_is_read(vocab, frame, line, form, seed):
    """Uniform walks over the vocabulary: every text is read, captures equal their spans."""
    constraint = line.into(form)
    dice = random.Random(seed)
    state = compile_constraint(constraint.shape.spec, vocab, frame, searches=False).start()
    row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    text = b""
    for _ in range(400):
        state.fill_bitmask(row)
        allowed = allowed_ids(row)
        if state.can_stop() and (len(text) > 60 or dice.random() < 0.3):
            break
        shortest = sorted(allowed, key=lambda one: len(vocab.token_bytes[one]) or 99)
        token = dice.choice(allowed if len(text) < 60 else shortest[:6])
        if token in vocab.eos_ids:
            break
        assert state.advance([token]) == 1
        text += vocab.token_bytes[token]
    if not state.can_stop():
        pytest.skip("the walk did not end")
    whole = text.decode()
    value = constraint.shape.parse(whole)
    spans = spans_of(constraint.part, whole)
    for span in spans:
        assert text[span.start : span.end].decode() == span.text
        read = span.capture.shape.parse(span.text)
        held = value[span.capture.name]
        assert read in held if span.capture.name == "tags" else read == held
    always = {"tags"} if form is Line else set()
    assert value.keys() == always | {span.capture.name for span in spans}


def test_free_text_ends_behind_any_character():
    pair = capture("a", str) + capture("b", regex("[^a]*"))
    assert pair.into(dict[str, Any]).shape.parse("aé€😀") == {"a": "aé€😀", "b": ""}
    pair = capture("a", str) + capture("b", regex("€?")) + capture("c", regex("😀+"))
    assert pair.into(dict[str, Any]).shape.parse("aé€😀😀") == {"a": "aé€😀", "b": "", "c": "😀"}


def test_earlier_parts_take_as_much_as_they_can():
    pair = capture("a", regex("[ab]*")) + capture("b", regex("b*a?"))
    assert pair.into(dict[str, Any]).shape.parse("abba") == {"a": "abba", "b": ""}
    pair = capture("a", regex("[ab]*")) + capture("b", regex("ba?"))
    assert pair.into(dict[str, Any]).shape.parse("abba") == {"a": "ab", "b": "ba"}
    rest = (capture("a", regex("b*")) + capture("b", regex("b?"))).repeat(2, 4)
    assert rest.into(dict[str, Any]).shape.parse("bbb") == {"a": ["bbb", ""], "b": ["", ""]}


@dataclass
class Named:
    a: str
    b: int = 0


class Checked(BaseModel):
    a: str

    @field_validator("a")
    @classmethod
    def known(cls, a: str) -> str:
        if a != "x":
            raise ValueError("only x")
        return a


def test_captures_become_a_record():
    one = "a=" + capture("a", regex("[a-z]")) + (" b=" + capture("b", int)).repeat(0, 1)
    shape = one.into(Named).shape
    assert shape.parse("a=q b=12") == Named("q", 12)
    assert shape.parse("a=q") == Named("q")
    bounded = "a=" + capture("a", str) + "\n" + capture("b", Annotated[int, Ge(3)])
    assert bounded.into(Named).shape.parse("a=q\n12") == Named("q", 12)
    assert not shape.checked
    checked = capture("a", regex("[a-z]")).into(Checked).shape
    assert checked.checked
    assert checked.parse("x").a == "x"
    with pytest.raises(ValueError, match="only x"):
        checked.parse("y")


@dataclass
class Small:
    n: int

    def __post_init__(self) -> None:
        if self.n > 3:
            raise ValueError("too large")


class Bounded(BaseModel):
    n: int = Field(le=3)


@dataclass
class BoundedToo:
    n: int = Field(le=3)


@pytest.mark.parametrize("form", [Small, Bounded, BoundedToo])
def test_a_record_that_may_refuse_its_captures_is_checked(form):
    shape = capture("n", int).into(form).shape
    assert shape.checked
    assert shape.parse("3").n == 3
    with pytest.raises(ValueError, match=r"too large|less than or equal to 3"):
        shape.parse("7")


class Walked(tuple[Any, ...]):
    """Parts that count how often they are walked."""

    walks = 0

    def __iter__(self):
        Walked.walks += 1
        return super().__iter__()


def test_captures_of_many_parts_are_found_once():
    whole = part = Joined(Walked([capture("a", regex("a")).part]))
    for _ in range(12):
        whole = Joined((whole, literal_part("b")))
    assert fields_of(whole).keys() == {"a"}
    assert (Walked.walks, len(part.parts)) == (1, 1)


class Wrong(TypedDict):
    a: int


class Short(TypedDict):
    b: str


A = capture("a", regex("[a-z]"))
NO_RECORD = [
    (lambda: A.into(Wrong), "'a' is str, the field is int"),
    (lambda: A.into(Short), "Short needs 'b'"),
    (lambda: (A + " " + capture("b", int)).into(Named | None), "has no fields"),
    (lambda: (A + capture("c", int)).into(Named), "no field 'c'"),
    (lambda: (A | "-").into(Named), "needs 'a', which not every text has"),
    (lambda: A + "-" + A, "two captures are named 'a'"),
    (lambda: A.repeat(0, 2).into(Named), r"'a' is list\[str\]"),
    (lambda: A.repeat(2, 1), "2 to 1 times"),
    (lambda: A.repeat(0, 0), "0 to 0 times"),
    (lambda: regex(r"[a-z\[]+") + typed(list[int]), "may go on where the next part begins"),
    (lambda: typed(str) + typed(Point), "may go on where the next part begins"),
    (lambda: typed(int | list[int]) + regex("[0-9]"), "may go on where the next part begins"),
    (lambda: json_schema({"uniqueItems": True}, check=True) + "a", "checked at the end"),
    (lambda: A + "\x00", "NUL"),
]


@pytest.mark.parametrize(("make", "said"), NO_RECORD)
def test_what_cannot_be_composed_is_refused(make, said):
    with pytest.raises(ConstraintError, match=said):
        make()


def test_text_choices_and_regexes_stay_a_regex():
    """Such a constraint has a table, and servers without grammars take it."""
    made = "a" + choice("b", "(c)") + regex(r"\d|x").repeat(2)
    assert made.shape.spec is not None
    assert made.shape.spec.kind == "regex"
    assert matcher_of(made).try_consume_tokens(list(b"a(c)1x9")) == 7


def nested(levels: int) -> Part:
    """A chain as `+` builds it, of as many levels as parts."""
    shape = json_shape_of(list[int])
    part: Part = Captured("first", Leaf(shape.spec, shape.schema), shape, list[int])
    for _ in range(levels - 2):
        part = Joined((part, literal_part("x")))
    return part


def test_many_levels_are_written_and_read():
    part = nested(MAX_NESTED)
    composed_shape(part)
    (span,) = spans_of(part, "[1,2]" + "x" * (MAX_NESTED - 2))
    assert span.text == "[1,2]"


@pytest.mark.parametrize("levels", [MAX_NESTED + 1, 900, 5_000])
def test_too_many_levels_are_refused(levels):
    with pytest.raises(ConstraintError, match="more than 128 levels of parts"):
        composed_shape(nested(levels))


def test_bounds_of_repetitions_count_in_long_texts():
    """Places are left once only, yet the number of repetitions to them counts."""
    part = Repeated(Captured("one", literal_part("a"), regex_shape("a"), str), 2, 300)
    assert len(spans_of(part, "a" * 300)) == 300
    for text in ("a", "a" * 301):
        with pytest.raises(ValueError, match="does not fit"):
            spans_of(part, text)
