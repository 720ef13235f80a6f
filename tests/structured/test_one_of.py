"""Values held to options: a mask allows their texts and no others."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from typing_extensions import TypedDict

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError, UsageError
from agentrt.base.held_place import texts_by_hole
from agentrt.base.one_of import OneOf
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.structured import (
    bitmask_words,
    checked_shape_of,
    compile_constraint,
    json_shape_of,
    shape_of,
)
from agentrt.structured.matcher import allowed_ids
from agentrt.structured.vocabulary import alphabet_of
from tests.structured.done_node import DoneNode


class Fact(BaseModel):
    symbol: str
    metric: str
    value: float


@dataclass(frozen=True)
class Point:
    x: int
    y: int


class Row(TypedDict):
    name: str
    size: float


class Pending:
    """A node whose result is not there yet."""

    done = False

    def held_options(self) -> tuple[Any, ...]:
        raise AssertionError("nobody may ask yet")


FACTS = [
    Fact(symbol="IBM", metric="return", value=1.5),
    Fact(symbol="IBM", metric="risk", value=0.1 + 0.2),
    Fact(symbol="IBMX", metric="return", value=-1e22),
    Fact(symbol='a"b\\c\x7f', metric="größe", value=2.0),
]
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())
RECORDS = st.dictionaries(st.sampled_from(["s", "metric", "at", "v"]), VALUES, max_size=4)


def compiled(spec: ConstraintSpec | None, vocab: Any) -> Any:
    assert spec is not None
    return compile_constraint(spec, vocab, JSON_ARRAY_FRAME)


def written(constraint: Any, vocab: Any, dice: random.Random, most: int = 400) -> str | None:
    """A text by tokens drawn evenly from the masks; None if it is too long."""
    state, row, text = constraint.start(), np.zeros(bitmask_words(vocab.logits_size), np.int32), b""
    for _ in range(most):
        if state.must_stop():
            return text.decode()
        state.fill_bitmask(row)
        allowed = [token for token in allowed_ids(row) if token not in vocab.eos_ids]
        if state.can_stop() and (not allowed or dice.random() < 0.5):
            return text.decode()
        token = dice.choice(allowed)
        assert state.advance([token]) == 1
        text += vocab.token_bytes[token]
    return None


def accepts(constraint: Any, text: str, vocab: Any) -> bool:
    tokens = alphabet_of(vocab).tokenize(text.encode())
    state = constraint.start()
    return bool(state.advance(tokens) == len(tokens) and state.can_stop())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(options=st.lists(st.one_of(RECORDS, VALUES), min_size=1, max_size=12), seed=st.integers())
def test_the_mask_holds_a_list_to_its_options(options: list[Any], seed: int, vocab: Any) -> None:
    """Alone, and as an item of a list in an object, whatever the options are."""
    dice, held = random.Random(seed), OneOf(options)
    texts = set(held.texts)
    alone = compiled(json_shape_of(Annotated[Any, held]).spec, vocab)
    for text in texts:
        assert accepts(alone, text, vocab)
    for _ in range(4):
        found = written(alone, vocab, dice)
        assert found is not None
        floats = [option for option in options if isinstance(option, float)]
        assert found in texts or float(found) in floats  # 2.0 alone may be written 2, too
    inside = compiled(json_shape_of(dict[str, list[Annotated[Any, held]]]).spec, vocab)
    assert accepts(inside, f'{{"a":[{",".join(sorted(texts))}]}}', vocab)
    assert not accepts(inside, '{"a":["no option of these"]}', vocab)


def test_a_record_is_held_as_a_whole(vocab: Any) -> None:
    shape = shape_of(Annotated[Fact, OneOf(FACTS)])
    constraint, dice = compiled(shape.spec, vocab), random.Random(0)
    seen = {written(constraint, vocab, dice) for _ in range(60)}
    assert seen == set(OneOf(FACTS).texts)
    assert [shape.parse(text) for text in OneOf(FACTS).texts] == FACTS
    mixed = '{"symbol":"IBM","metric":"risk","value":1.5}'
    assert not accepts(constraint, mixed, vocab)
    with pytest.raises(ValidationError, match="none of the options"):
        shape.parse(mixed)


def test_a_float_is_written_as_the_record_prints(vocab: Any) -> None:
    constraint = compiled(shape_of(Annotated[Fact, OneOf(FACTS)]).spec, vocab)
    assert accepts(
        constraint, '{"symbol":"IBM","metric":"risk","value":0.30000000000000004}', vocab
    )
    assert not accepts(constraint, '{"symbol":"IBM","metric":"risk","value":0.3}', vocab)


@pytest.mark.parametrize(
    ("form", "options", "text"),
    [
        (Point, [Point(1, 2), Point(3, 4)], '{"x":3,"y":4}'),
        (Row, [{"name": "a", "size": 1.5}], '{"name":"a","size":1.5}'),
        (int, [2**63, 7], str(2**63)),
        (tuple[int, str], [(1, "a"), (2, "b")], '[2,"b"]'),
        (Fact | None, [FACTS[0], None], "null"),
    ],
)
def test_any_type_can_be_held(form: Any, options: list[Any], text: str, vocab: Any) -> None:
    shape = shape_of(Annotated[form, OneOf(options)])
    assert accepts(compiled(shape.spec, vocab), text, vocab)
    assert shape.parse(text) in options


def test_texts_that_stand_alone_are_bare(vocab: Any) -> None:
    shape = shape_of(Annotated[str, OneOf(["IBM", "BRK.B", "IBM"])])
    assert shape.spec == ConstraintSpec("choice", options=("IBM", "BRK.B"))
    assert shape.parse("BRK.B") == "BRK.B"


def test_a_bound_beside_the_options_holds_too(vocab: Any) -> None:
    shape = json_shape_of(Annotated[str, OneOf(["a", "abc"]), Field(max_length=2)])
    assert accepts(compiled(shape.spec, vocab), '"a"', vocab)
    with pytest.raises(ValidationError):
        shape.parse('"abc"')


@pytest.mark.parametrize(
    ("kind", "bound", "options", "left"),
    [
        (str, Field(max_length=2), ["a", "abc"], ['"a"']),
        (str, Field(pattern="^a"), ["a", "b"], ['"a"']),
        (int, Field(le=2), [1, 5], ["1"]),
        (int, Field(multiple_of=2), [1, 4], ["4"]),
        (list[int], Field(min_length=2), [[1], [1, 2]], ["[1,2]"]),
    ],
)
@pytest.mark.parametrize("late", [True, False])
def test_a_bound_behind_the_options_leaves_out_what_breaks_it(
    kind: Any, bound: Any, options: list[Any], left: list[str], late: bool, vocab: Any
) -> None:
    held = OneOf(DoneNode(options)) if late else OneOf(options)
    shape = json_shape_of(Annotated[kind, held, bound])
    assert shape.spec is not None
    filled = shape.spec.filled(texts_by_hole(shape.late))
    constraint = compiled(filled, vocab)
    allowed = [text for text in OneOf(options).texts if accepts(constraint, text, vocab)]
    assert allowed == left
    for text in left:
        shape.parse(text)


def test_a_bound_that_no_option_can_have_is_refused() -> None:
    with pytest.raises(ConstraintError, match="does not apply to the option 1"):
        shape_of(Annotated[int, OneOf([1]), Field(max_length=2)])


class Tree(BaseModel):
    name: str
    below: list[Tree]


@pytest.mark.parametrize("kind", [Tree, int, str])
@pytest.mark.parametrize("late", [True, False])
def test_options_of_a_type_that_refers_to_itself_are_read(kind: Any, late: bool) -> None:
    """The definitions of a type stand at its root, not where they are used."""
    fits = Tree(name="a", below=[Tree(name="b", below=[])]) if kind is Tree else kind("1")
    options = [fits, {"name": "a"}]
    held = list[Annotated[kind, OneOf(DoneNode(options) if late else options)]]
    with pytest.raises(ConstraintError, match=r"the option .* of OneOf is none of its type"):
        texts_by_hole(shape_of(held).late)


def test_validators_of_an_author_do_not_see_options() -> None:
    def refuse(value: str) -> str:
        raise AssertionError("called for no answer")

    held = Annotated[str, AfterValidator(refuse), OneOf(DoneNode(["a"]))]
    assert texts_by_hole(checked_shape_of(list[held]).late) == {"options:0": ('"a"',)}


def test_pending_options_become_a_hole_each(vocab: Any) -> None:
    one, other = Pending(), Pending()
    first = OneOf(one)

    class Two(BaseModel):
        a: Annotated[str, first]
        b: list[Annotated[str, OneOf([other])]]
        c: Annotated[str, first]

    shape = shape_of(Two)
    assert shape.spec is not None
    assert shape.spec.holes == ("options:0", "options:1")
    assert [place.one_of.sources for place in shape.late.values()] == [(one,), (other,)]
    filled = shape.spec.filled({"options:0": ('"x"',), "options:1": ('"y"', '"z"')})
    constraint = compiled(filled, vocab)
    assert accepts(constraint, '{"a":"x","b":["y","z"],"c":"x"}', vocab)
    assert not accepts(constraint, '{"a":"y","b":[],"c":"x"}', vocab)


def test_nothing_to_choose_from_leaves_out_what_can_be_left_out(vocab: Any) -> None:
    spec = shape_of(list[Annotated[str, OneOf(Pending())]]).spec
    assert spec is not None
    constraint = compiled(spec.filled({"options:0": ()}), vocab)
    assert accepts(constraint, "[]", vocab)
    assert not accepts(constraint, '["a"]', vocab)
    needed = shape_of(tuple[Annotated[str, OneOf(Pending())]]).spec
    assert needed is not None
    with pytest.raises(ConstraintError, match="no text fits"):
        compiled(needed.filled({"options:0": ()}), vocab)


def test_without_options_another_variant_is_left(vocab: Any) -> None:
    """A report of figures that no tool has computed cannot be written; that there are none can."""

    class Held(BaseModel):
        figures: Annotated[list[Annotated[Fact, OneOf(Pending())]], Field(min_length=1)]

    class Unanswerable(BaseModel):
        reason: Annotated[str, Field(max_length=3)]

    spec = shape_of(Held | Unanswerable).spec
    assert spec is not None
    none = compiled(spec.filled({"options:0": ()}), vocab)
    assert accepts(none, '{"reason":"no"}', vocab)
    assert written(none, vocab, random.Random(0)) is not None
    state = none.start()
    assert state.advance(alphabet_of(vocab).tokenize(b'{"figures":[')) < 4
    some = compiled(spec.filled({"options:0": OneOf(FACTS).texts}), vocab)
    assert accepts(some, f'{{"figures":[{OneOf(FACTS).texts[0]}]}}', vocab)
    assert accepts(some, '{"reason":"no"}', vocab)


@pytest.mark.parametrize(
    "form",
    [
        dict[Annotated[str, OneOf(Pending())], int],
        dict[str, dict[Annotated[str, OneOf(Pending())], int]],
    ],
)
def test_places_that_need_their_options_early_say_so(form: Any) -> None:
    with pytest.raises(ConstraintError):
        shape_of(form)


def test_late_options_are_not_only_checked() -> None:
    class Odd(BaseModel):
        a: Annotated[str, OneOf(Pending())]
        b: Annotated[set[Annotated[float, Field(le=9)]], Field(min_length=2)]

    with pytest.raises(ConstraintError, match="late options"):
        checked_shape_of(Odd)


@pytest.mark.parametrize("options", [[float("nan")], [object()], [Enum]])
def test_options_without_a_json_form_are_refused_where_they_are_written(options: Any) -> None:
    with pytest.raises(ConstraintError, match="no JSON form"):
        OneOf(options)


def test_one_text_is_no_list_of_options() -> None:
    with pytest.raises(UsageError, match="letters"):
        OneOf("abc")


@pytest.mark.parametrize("source", [3, None, {"a": 1}])
def test_one_value_is_no_list_of_options(source: Any) -> None:
    with pytest.raises(UsageError, match="one value of the type"):
        OneOf(source)


def test_no_options_at_all_leave_a_list_empty(vocab: Any) -> None:
    constraint = compiled(shape_of(list[Annotated[str, OneOf([])]]).spec, vocab)
    assert accepts(constraint, "[]", vocab)
    assert not accepts(constraint, '["a"]', vocab)
    with pytest.raises(ConstraintError, match="Unsatisfiable"):
        shape_of(Annotated[str, OneOf([])])


@pytest.mark.parametrize(("value", "option"), [(True, 1), (1, True), (True, 1.0), ([False], [0])])
def test_true_is_not_one(value: Any, option: Any) -> None:
    with pytest.raises(ValueError, match="none of the options"):
        OneOf([option]).check(value)
    assert OneOf([option, value]).check(value) is value


@pytest.mark.parametrize(
    ("value", "option"),
    [(2, 2.0), ({"a": [1.0]}, {"a": [1]}), (2**63 + 1, float(2**63)), (2**63 + 1, 2**63 + 1)],
)
def test_numbers_are_equal_however_they_are_written(value: Any, option: Any) -> None:
    assert OneOf([option, "x"]).check(value) == value


@pytest.mark.parametrize(("value", "option"), [(2**63, 2**63 + 1), ({"a": 1}, [1]), ("1", 1)])
def test_other_values_are_not_equal(value: Any, option: Any) -> None:
    with pytest.raises(ValueError, match="none of the options"):
        OneOf([option]).check(value)


def test_options_that_their_type_refuses_are_named() -> None:
    """One among thousands, too, which no walk of the grammar meets."""
    options = [*range(5_000), 12_000]
    with pytest.raises(ConstraintError, match="the option 12000 of OneOf is none of its type"):
        texts_by_hole(shape_of(list[Annotated[int, Field(le=10_000), OneOf(options)]]).late)
    with pytest.raises(ConstraintError, match='the option "a" of OneOf'):
        shape_of(Annotated[int, OneOf(["a", 5])])


def test_equal_options_make_equal_types() -> None:
    one, other = OneOf(["a", "b"]), OneOf(iter(("a", "b", "a")))
    assert one == other
    assert hash(one) == hash(other)
    assert OneOf(["a"]) != one
    assert json.loads(OneOf([{"a": 1}]).texts[0]) == {"a": 1}
