"""An output is whole within its budget, whatever is drawn, and nothing of it is repaired."""

from __future__ import annotations

import itertools
import json
import random
import time
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import ConstraintError
from agentrt.base.segments import ToolSchema
from agentrt.structured import (
    Budgeted,
    CompileCache,
    array_shape,
    bitmask_words,
    calls_spec,
    cfg_shape,
    choice_shape,
    compile_constraint,
    json_schema_shape,
    regex_shape,
    shape_of,
)
from agentrt.structured.backends.llguidance_closing import MASKS_ON_THE_WAY, find_completion
from agentrt.structured.closing.budget import MAX_PATHS, MAX_VAIN_SEARCHES, EndPaths
from agentrt.structured.json_schema.exact_check import Unmet
from agentrt.structured.matcher import allowed_ids
from agentrt.structured.vocabulary import alphabet_of

DATA = Path(__file__).parent / "data"
NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["v", "kids"],
    "additionalProperties": False,
}
TOOL = ToolSchema("price", "", {"type": "object", "properties": {"n": {"type": "string"}}})


def schema_cases():
    """Every schema of the sample that compiles: its shape, and the schema as it was written."""
    seen = {}
    for name in ("own_cases.jsonl", "suite_cases.jsonl"):
        for line in (DATA / name).read_text(encoding="utf-8").splitlines():
            schema = json.loads(line)["schema"]
            try:
                shape = json_schema_shape(schema)
            except ConstraintError:
                continue
            assert shape.spec is not None
            seen[shape.spec.source] = (shape, schema)
    return list(seen.values())


CASES = schema_cases()
SHAPES = [
    *(shape for shape, _ in CASES),
    shape_of(int),
    shape_of(float),
    shape_of(bool),
    shape_of(dict[str, list[float]]),
    array_shape(str),
    json_schema_shape(NODE),
    choice_shape("yes", "yes please", "certainly not"),
    regex_shape(r"[A-Z]{2}-\d{1,4}(?: [a-z]+)*"),
    regex_shape(r'"(?:[^"\\]|\\.)*"'),
    cfg_shape('start: item ("," item)*\nitem: /[0-9]+/ | "(" start ")"'),
    cfg_shape('start: "SELECT " NAME (", " NAME)* " FROM " NAME\nNAME: /[a-z_]{1,30}/'),
]


def draw(constraint, most, dice, logits_size):
    """Write an output, each token drawn evenly from what the mask allows."""
    state = Budgeted.start(constraint, most)
    row = np.zeros(bitmask_words(logits_size), dtype=np.int32)
    out: list[int] = []
    while len(out) < most:
        state.fill_bitmask(row)
        token = dice.choice(allowed_ids(row))
        if state.advance([token]) == 0:
            token = state.fallback()
            assert state.advance([token]) == 1
        if token in constraint.eos_ids:
            break
        out.append(token)
        assert state.left_tokens == most - len(out)
    assert state.can_stop()
    return out


def replays(constraint, out):
    """The very tokens lead a fresh matcher to a whole text."""
    fresh = constraint.start()
    return fresh.advance(out) == len(out) and fresh.can_stop()


@pytest.mark.parametrize("more", [0, 1, 8, 40])
def test_every_constraint_closes_in_every_budget(compiled, vocab, tokenizer, more):
    """All compiled schemas of the sample, regexes, choices, grammars; parsed by their type."""
    dice = random.Random(more)
    for shape in SHAPES:
        constraint = compiled(shape.spec)
        assert constraint.min_tokens is not None, shape.spec
        out = draw(constraint, constraint.min_tokens + more, dice, vocab.logits_size)
        assert replays(constraint, out), shape.spec
        text = b"".join(vocab.token_bytes[token] for token in out).decode()
        try:
            shape.parse(text)
        except Unmet as beyond:  # beside patterns of names the compiler writes any exponent
            assert "too large for a float" in str(beyond)  # noqa: PT017
            assert "patternProperties" in shape.spec.source


def test_what_is_written_satisfies_the_schema(compiled, vocab):
    """Judged by an independent validator, on the schema before we touched it."""
    dice = random.Random(9)
    for shape, schema in CASES:
        if "\\p{" in json.dumps(schema) or "time" in str(schema.get("format")):
            continue  # the validator's own regexes and clocks know less
        constraint = compiled(shape.spec)
        assert constraint.min_tokens is not None
        out = draw(constraint, constraint.min_tokens + 12, dice, vocab.logits_size)
        value = json.loads(b"".join(vocab.token_bytes[token] for token in out))
        checker = jsonschema.FormatChecker()
        jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)


@settings(max_examples=25, derandomize=True, deadline=None)
@given(seed=st.integers(0, 10**6), more=st.integers(0, 60), which=st.integers(0, 10**6))
def test_any_draw_replays(compiled, vocab, seed, more, which):
    constraint = compiled(SHAPES[which % len(SHAPES)].spec)
    assert constraint.min_tokens is not None
    budget = constraint.min_tokens + more
    out = draw(constraint, budget, random.Random(seed), vocab.logits_size)
    assert len(out) <= budget
    assert replays(constraint, out)


def test_calls_close_too(compiled, vocab):
    constraint = compiled(calls_spec((TOOL,), None, 2, 5))
    dice = random.Random(1)
    for more in (0, 3, 40):
        assert constraint.min_tokens is not None
        out = draw(constraint, constraint.min_tokens + more, dice, vocab.logits_size)
        assert replays(constraint, out)
        assert out.count(vocab.special_ids["<|/call|>"]) >= 2


def test_too_small_a_budget_is_refused_with_the_number(vocab, frame):
    spec = shape_of(tuple[int, int, int]).spec
    assert spec is not None
    constraint = CompileCache().start_compile(spec, vocab, frame, within_tokens=1).result(60)
    least = constraint.least_tokens
    assert constraint.min_tokens == least
    with pytest.raises(
        ConstraintError, match=f"at least {least} tokens, max_tokens is {least - 1}"
    ):
        Budgeted.start(constraint, least - 1)
    assert Budgeted.start(constraint, least).closes


def test_the_witness_always_fits(compiled, vocab):
    """After every token the held way to the end is real and fits what is left."""
    constraint = compiled(json_schema_shape(NODE).spec)
    dice = random.Random(4)
    state = Budgeted.start(constraint, 40)
    row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    while not state.must_stop() and state.left_tokens:
        state.fill_bitmask(row)
        if not state.advance([dice.choice(allowed_ids(row))]):
            state.advance([state.fallback()])
        way = state.witness
        assert way is not None
        assert len(way) <= state.left_tokens
        there = state.state.fork()
        assert there.advance(way) == len(way)
        assert there.can_stop()
        if state.can_stop():
            break


def test_rollback_restores_budget_and_witness(compiled, vocab):
    constraint = compiled(array_shape(str, min_items=3).spec)
    state = Budgeted.start(constraint, 30)
    seen = []
    row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    dice = random.Random(2)
    for _ in range(6):
        seen.append((state.left_tokens, state.witness))
        state.fill_bitmask(row)
        options = [t for t in allowed_ids(row) if t not in constraint.eos_ids]
        assert state.advance([dice.choice(options)]) == 1
    state.rollback(4)
    assert (state.left_tokens, state.witness) == seen[2]
    run = state.completion(20)
    assert run is not None
    before = (state.left_tokens, state.witness)
    assert state.advance(run) == len(run), "several at once"
    state.rollback(len(run) - 1)
    assert state.witness is not None
    assert state.fork().advance(state.witness) == len(state.witness)
    state.rollback(1)
    assert (state.left_tokens, state.witness) == before


def test_close_goes_straight_to_the_end(compiled):
    """A deadline is near: from here on only the shortest way that is held."""
    constraint = compiled(shape_of(list[dict[str, int]]).spec)
    state = Budgeted.start(constraint, 500)
    state.advance(constraint.start().completion(9)[:0])
    state.close()
    taken = 0
    while not state.can_stop():
        assert state.advance([state.fallback()]) == 1
        taken += 1
    assert taken == constraint.min_tokens
    assert state.steered or state.left_tokens == 0


def test_regex_masks_hold_only_what_still_reaches_the_end(compiled, vocab):
    """Distances are exact there: nothing that is allowed is refused."""
    constraint = compiled(regex_shape(r"(?:[a-z]+,)?[0-9]{4}").spec)
    assert constraint.backend == "outlines-core"
    row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    state = Budgeted.start(constraint, constraint.min_tokens + 2)
    dice = random.Random(0)
    while not state.can_stop():
        state.fill_bitmask(row)
        allowed = allowed_ids(row)
        assert all(state.fork().advance([token]) == 1 for token in allowed)
        state.advance([dice.choice(allowed)])


def test_forks_share_nothing(compiled):
    constraint = compiled(shape_of(list[int]).spec)
    state = Budgeted.start(constraint, 20)
    twin = state.fork()
    twin.advance([twin.fallback()])
    assert state.left_tokens == 20
    assert twin.left_tokens == 19


class Counted:
    """A constraint, or a state of it, that counts searches for a way to the end."""

    def __init__(self, inner, searches):
        self.inner, self.searches = inner, searches

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def start(self):
        return Counted(self.inner.start(), self.searches)

    def fork(self):
        return Counted(self.inner.fork(), self.searches)

    def completion(self, limit):
        self.searches.append(limit)
        return self.inner.completion(limit)


def test_a_way_out_is_searched_for_once(compiled, vocab):
    """What one output found the next guesses; a guess is checked from where it stands."""
    searches: list[object] = []
    constraint = Counted(compiled(json_schema_shape(NODE).spec), searches)
    counts = []
    for _ in range(3):
        searches.clear()
        out = draw(constraint, 300, random.Random(5), vocab.logits_size)
        assert replays(constraint, out)
        counts.append(len(searches))
    assert counts[0] > 0
    assert counts[1:] == [0, 0]


class CountedMasks:
    """A state that counts the masks of all its copies."""

    def __init__(self, state, counts):
        self._state = state
        self._counts = counts

    def fork(self):
        return CountedMasks(self._state.fork(), self._counts)

    def fill_bitmask(self, row):
        self._counts.append(row.nbytes)
        return self._state.fill_bitmask(row)

    def __getattr__(self, name):
        return getattr(self._state, name)


def test_a_search_on_the_way_has_a_bound(vocab, frame):
    """An end is 400 letters away, whatever the order in which letters are tried."""
    spec = regex_shape("(?:[a-c][d-f]){200}").spec
    assert spec is not None
    constraint = compile_constraint(spec, vocab, frame, method="parser", searches=False)
    masks: list[int] = []
    state = CountedMasks(constraint.start(), masks)
    assert find_completion(state, 100_000, alphabet_of(vocab)) is None
    assert 0 < len(masks) <= MASKS_ON_THE_WAY


def test_a_clock_that_jumps_under_load_changes_no_end(compiled, monkeypatch):
    """A search in vain refuses a token, so the output would depend on the load of the machine."""
    constraint = compiled(json_schema_shape(NODE).spec)
    end = constraint.start().completion(1000)
    assert end is not None
    jumps = itertools.chain([0.0, 0.5], itertools.repeat(1.0))
    monkeypatch.setattr(time, "thread_time", lambda: next(jumps))
    assert constraint.start().completion(1000) == end


class CountedSearches:
    """A state that counts its searches for an end."""

    def __init__(self, state):
        self._state = state
        self.searches = 0

    def completion(self, limit):
        self.searches += 1
        return self._state.completion(limit)

    def __getattr__(self, name):
        return getattr(self._state, name)


def test_searches_in_vain_are_counted_behind_each_text(vocab, frame):
    """However many tokens are drawn, and from the next text on there are new ones."""
    spec = regex_shape("x{1,9}|x{0,3}[a-h]z{200}").spec
    assert spec is not None
    constraint = compile_constraint(spec, vocab, frame, method="parser")
    budgeted = Budgeted.start(constraint, 8)
    state = budgeted.state = CountedSearches(budgeted.state)
    letters = {letter: vocab.token_bytes.index(letter.encode()) for letter in "abcdefghx"}
    for text in range(2):
        before = state.searches
        for letter in "abcdefgh":
            assert budgeted.advance([letters[letter]]) == 0
        assert state.searches - before == MAX_VAIN_SEARCHES
        assert budgeted.advance([letters["x"]]) == 1, text


def test_ways_are_kept_within_bounds():
    ways = EndPaths()
    for token in range(MAX_PATHS + 1):
        ways.add((9,), (token,), (token, 9))
    assert ways.find((9,), (0,)) is None
    assert ways.find((9,), (1,)) == (1, 9)
    assert ways.find((9,), (MAX_PATHS,)) == (MAX_PATHS, 9)
