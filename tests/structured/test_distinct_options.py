"""Lists of options none of which is repeated: records are told apart as options, late ones too."""

from __future__ import annotations

import json
import random
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import BaseModel, Field

from agentrt.base.errors import ConstraintError
from agentrt.base.held_place import texts_by_hole
from agentrt.base.one_of import OneOf
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.structured import bitmask_words, compile_constraint, shape_of
from agentrt.structured.matcher import allowed_ids
from agentrt.structured.vocabulary import alphabet_of
from tests.structured.done_node import DoneNode

UNIQUE: Any = {"uniqueItems": True}


class Fact(BaseModel, frozen=True):
    symbol: str
    value: float


def facts(count: int) -> list[Fact]:
    return [Fact(symbol=f"{'S' * 9}{at}", value=at / 4 - 0.75) for at in range(count)]


def held(options: list[Any], *, late: bool) -> Any:
    return OneOf(DoneNode(options)) if late else OneOf(options)


def started(form: Any, vocab: Any) -> Any:
    shape = shape_of(form)
    assert shape.spec is not None
    filled = shape.spec.filled(texts_by_hole(shape.late))
    return compile_constraint(filled, vocab, JSON_ARRAY_FRAME).start()


def next_texts(state: Any, vocab: Any) -> set[bytes]:
    row = np.zeros(bitmask_words(vocab.logits_size), np.int32)
    state.fill_bitmask(row)
    return {vocab.token_bytes[token] for token in allowed_ids(row)}


def write(state: Any, text: str, vocab: Any) -> None:
    tokens = alphabet_of(vocab).tokenize(text.encode())
    assert state.advance(tokens) == len(tokens)


@pytest.mark.parametrize("late", [True, False])
def test_no_record_is_repeated_and_the_list_ends_when_all_are_used(late: bool, vocab: Any) -> None:
    known = facts(9)
    most = Field(min_length=1, max_length=12, json_schema_extra=UNIQUE)
    form = Annotated[list[Annotated[Fact, held(known, late=late)]], most]
    dice = random.Random(0)
    for _ in range(3):
        state, text = started(form, vocab), b""
        row = np.zeros(bitmask_words(vocab.logits_size), np.int32)
        while not state.must_stop():
            state.fill_bitmask(row)
            allowed = [token for token in allowed_ids(row) if vocab.token_bytes[token]]
            longer = [token for token in allowed if b"]" not in vocab.token_bytes[token]]
            if not longer and state.can_stop():
                break
            token = dice.choice(longer or allowed)
            assert state.advance([token]) == 1
            text += vocab.token_bytes[token]
        written = [Fact(**one) for one in json.loads(text)]
        assert len(written) == len(known)
        assert set(written) == set(known)


def test_one_record_of_many_that_begin_alike_is_left(vocab: Any) -> None:
    """What is left is looked up: no walk passes through hundreds of written ones."""
    known, unique = facts(400), Field(json_schema_extra=UNIQUE)
    state = started(Annotated[list[Annotated[Fact, held(known, late=True)]], unique], vocab)
    *used, last = OneOf(known).texts
    write(state, f"[{','.join(used)}", vocab)
    assert b"," in next_texts(state, vocab)
    write(state, "," + last[:-1], vocab)
    write(state, "}", vocab)
    assert not any(text.startswith(b",") for text in next_texts(state, vocab))
    write(state, "]", vocab)
    assert state.can_stop()


def test_a_set_of_late_options_is_written_without_repetition(vocab: Any) -> None:
    form = Annotated[set[Annotated[Fact, held(facts(3), late=True)]], Field(min_length=2)]
    first, second, _ = OneOf(facts(3)).texts
    state = started(form, vocab)
    write(state, f"[{first},{second}]", vocab)
    state = started(form, vocab)
    again = alphabet_of(vocab).tokenize(f"[{first},{first}]".encode())
    assert state.advance(again) < len(again)


def test_other_items_beside_late_options_are_distinct_too(vocab: Any) -> None:
    class Answer(BaseModel):
        fact: Annotated[Fact, held(facts(3), late=True)]
        names: Annotated[set[str], Field(min_length=2)]

    text = f'{{"fact":{OneOf(facts(3)).texts[1]},"names":["a","b"'
    state = started(Answer, vocab)
    write(state, text, vocab)
    more = alphabet_of(vocab).tokenize(b',"a"]}')
    assert state.fork().advance(more) < len(more)
    write(state, ',"c"]}', vocab)
    assert state.can_stop()


@pytest.mark.parametrize(
    ("kind", "options", "fewest"),
    [(Fact, facts(2), 3), (float, [2.0, 1.5], 0), (list[int], [[1]], 2)],
)
def test_options_that_are_too_few_or_have_two_texts_are_refused(
    kind: Any, options: list[Any], fewest: int, vocab: Any
) -> None:
    bounds = Field(min_length=fewest, json_schema_extra=UNIQUE)
    with pytest.raises(ConstraintError, match="different texts, or run out"):
        started(Annotated[list[Annotated[kind, held(options, late=True)]], bounds], vocab)
