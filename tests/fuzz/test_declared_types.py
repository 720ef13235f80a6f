"""Random types of all kinds: refused with a message, or each text of the grammar is read."""

import warnings
from random import Random

import pytest
from pydantic import TypeAdapter

from tests.fuzz.declared_types import Walker, table_of
from tests.fuzz.impossible_types import IMPOSSIBLE
from tests.fuzz.rounds import SEED, cases
from tests.fuzz.type_draw import KINDS, TIMES, draw_types, impossible, kinds_in
from tests.fuzz.type_features import FEATURES

TYPES = 200


@pytest.fixture(scope="module")
def walker():
    made = Walker(walks=6)
    yield made
    made.close()


@pytest.fixture(scope="module")
def drawn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(draw_types(TYPES, Random(SEED)))


def test_each_feature_and_kind_is_drawn_or_named_as_impossible(drawn):
    times = dict.fromkeys(FEATURES, 0)
    kinds = dict.fromkeys(KINDS - IMPOSSIBLE.keys(), 0)
    for one in drawn:
        for kind in kinds_in(TypeAdapter(one.form).core_schema) & kinds.keys():
            kinds[kind] += 1
        for name in one.features:
            times[name] += 1
    assert min(times.values()) >= TIMES
    assert min(kinds.values()) >= TIMES, kinds


def test_a_few_types_are_read_or_refused(walker, drawn):
    table = table_of(drawn[::8], walker)
    assert table.faults == []
    assert table.plain["read"] > table.plain.total() // 2


def test_types_that_no_text_can_be_of_are_refused(walker):
    table = table_of(impossible(), walker)
    assert table.faults == []
    assert table.plain.keys() == {"refused"}, table


@pytest.mark.slow
@pytest.mark.parametrize("round_number", cases(2))
def test_all_types_are_read_or_refused(round_number):
    walker = Walker()
    try:
        table = table_of(draw_types(TYPES, Random(SEED + round_number)), walker, round_number)
    finally:
        walker.close()
    assert table.faults == []
    assert table.plain["read"] >= 0.85 * TYPES, table.refused
    assert table.checked["read"] >= 0.95 * TYPES, table.refused
