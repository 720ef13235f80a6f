"""Many options that are declared: written when they are needed, and as few ones are elsewhere."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import BaseModel, Field, model_serializer

from agentrt import tag, typed
from agentrt.base.errors import ConstraintError
from agentrt.base.held_place import FEW, texts_by_hole
from agentrt.base.one_of import LARGE_OPTIONS, OneOf
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.program.output_types import description_for
from agentrt.structured import (
    Shape,
    array_shape,
    checked_shape_of,
    compile_constraint,
    json_shape_of,
    shape_of,
    written_out,
)
from agentrt.structured.vocabulary import alphabet_of

COUNT = 3 * LARGE_OPTIONS
NAMES = [f"n{at}" for at in range(COUNT)]


class Fact(BaseModel):
    """A record that notes when it is written."""

    written: ClassVar[list[int]] = []
    at: int

    @model_serializer
    def plain(self) -> dict[str, int]:
        self.written.append(self.at)
        return {"at": self.at}


def facts(count: int = COUNT) -> list[Fact]:
    Fact.written.clear()
    return [Fact(at=at) for at in range(count)]


def accepts(shape: Shape, text: str, vocab: Any) -> bool:
    assert shape.spec is not None
    filled = shape.spec.filled(texts_by_hole(shape.late))
    state = compile_constraint(filled, vocab, JSON_ARRAY_FRAME).start()
    tokens = alphabet_of(vocab).tokenize(text.encode())
    return state.advance(tokens) == len(tokens) and state.can_stop()


@pytest.mark.parametrize("count", [LARGE_OPTIONS + 1, 40 * LARGE_OPTIONS])
def test_to_declare_many_options_writes_as_few_for_any_number(count: int) -> None:
    shape = shape_of(list[Annotated[Fact, OneOf(facts(count))]])
    assert shape.spec is not None
    assert shape.spec.holes
    assert max(Fact.written) < FEW
    assert len(shape.late["options:0"].texts) == count


def test_many_options_are_held_as_few_are(vocab: Any) -> None:
    shape = shape_of(list[Annotated[Fact, OneOf(facts())]])
    assert accepts(shape, f'[{{"at":0}},{{"at":{COUNT - 1}}}]', vocab)
    assert not accepts(shape, f'[{{"at":{COUNT}}}]', vocab)
    assert shape.parse(f'[{{"at":{COUNT - 1}}}]') == [Fact(at=COUNT - 1)]
    with pytest.raises(ValueError, match="none of the options"):
        shape.parse(f'[{{"at":{COUNT}}}]')


def test_bare_texts_bounds_and_arrays_of_many_options(vocab: Any) -> None:
    bare = shape_of(Annotated[str, OneOf(NAMES)])
    assert accepts(bare, NAMES[-1], vocab)
    assert not accepts(bare, "x", vocab)
    short = json_shape_of(Annotated[str, OneOf(NAMES), Field(max_length=3)])
    assert accepts(short, '"n99"', vocab)
    assert not accepts(short, '"n100"', vocab)
    two = array_shape(Annotated[str, OneOf(NAMES)], min_items=2, max_items=2)
    assert accepts(two, '["n0","n1"]', vocab)
    assert not accepts(two, '["n0"]', vocab)


def test_names_of_fields_and_checked_types_have_their_options_at_once(vocab: Any) -> None:
    by_name = shape_of(dict[Annotated[str, OneOf(NAMES)], Annotated[Fact, OneOf(facts())]])
    assert list(by_name.late) == ["options:0"]
    assert accepts(by_name, '{"n7":{"at":1}}', vocab)
    assert not accepts(by_name, '{"x":{"at":1}}', vocab)
    bounded = Annotated[set[Annotated[float, Field(le=9)]], Field(min_length=2)]
    partly = checked_shape_of(tuple[Annotated[str, OneOf(NAMES)], bounded])
    assert not partly.late
    assert accepts(partly, '["n7",[1,2]]', vocab)


def test_parts_of_a_larger_text_have_their_options_written_out() -> None:
    many = typed(Annotated[str, OneOf(NAMES)]).shape.spec
    assert many is not None
    assert many.options == tuple(NAMES)
    assert tag("name", Annotated[str, OneOf(NAMES)]).shapes[0].content.spec == many
    assert NAMES[-1] in description_for(Annotated[str, OneOf(NAMES)], "alone")
    shape = written_out(shape_of(list[Annotated[Fact, OneOf(facts())]]))
    assert shape.spec is not None
    assert shape.schema == json.loads(shape.spec.source)
    assert shape.schema == {
        "type": "array",
        "items": {"enum": [{"at": at} for at in range(COUNT)]},
    }


@pytest.mark.parametrize(
    ("kind", "options", "match"),
    [
        (int, NAMES, 'the option "n0" of OneOf is none of its type'),
        (Annotated[int, Field(le=9)], range(5, COUNT), "the option 10 of OneOf"),
    ],
)
def test_what_is_wrong_with_the_first_options_is_refused_where_it_is_written(
    kind: Any, options: Any, match: str
) -> None:
    with pytest.raises(ConstraintError, match=match):
        shape_of(list[Annotated[kind, OneOf(options)]])


@pytest.mark.parametrize("options", [[object()] * COUNT, [*NAMES, float("nan")]])
def test_an_option_without_a_json_form_is_refused(options: list[Any]) -> None:
    with pytest.raises(ConstraintError, match="no JSON form"):
        texts_by_hole(shape_of(list[Annotated[Any, OneOf(options)]]).late)


def test_equal_texts_make_equal_types_and_true_is_not_one() -> None:
    one, other = OneOf(NAMES), OneOf(iter(NAMES))
    assert one == other
    assert hash(one) == hash(other)
    assert one != OneOf(NAMES[1:])
    assert OneOf([1] * COUNT) != OneOf([True] * COUNT)
    records = facts()
    assert OneOf(records) != OneOf(records)  # which may change


def test_a_reader_that_refuses_other_parts_is_found_with_the_first_options() -> None:
    class Odd(BaseModel, strict=True):
        name: Annotated[str, OneOf(NAMES)]
        share: Annotated[tuple[int, int], Field(json_schema_extra={"minItems": 1})]

    with pytest.raises(ConstraintError, match="fits its grammar and is not read"):
        shape_of(Odd)
