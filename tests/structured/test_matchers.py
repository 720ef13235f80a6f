"""What every state promises, whichever library is beneath."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import ToolSchema
from agentrt.structured import (
    ConstraintState,
    MaskPool,
    bitmask_words,
    calls_spec,
    cfg_shape,
    choice_shape,
    fill_bitmasks,
    json_schema_shape,
    regex_shape,
    shape_of,
)
from agentrt.structured.matcher import allowed_ids
from agentrt.structured.vocabulary import alphabet_of

DATA = Path(__file__).parent / "data"
TOOL = ToolSchema("price", "", {"type": "object", "properties": {"n": {"type": "integer"}}})

CASES = [
    ("json", shape_of(dict[str, list[int]]).spec, '{"price":[1,22]}', "llguidance"),
    ("enum", json_schema_shape({"enum": ["total", 7]}).spec, '"total"', "llguidance"),
    ("choice", choice_shape("report", "return value", "7").spec, "return value", "outlines-core"),
    ("regex", regex_shape(r"[a-c]{2,4}-\d+").spec, "abc-12", "outlines-core"),
    ("broad", regex_shape(r'"[^"]*"').spec, '"price é"', "llguidance"),
    ("grammar", cfg_shape('start: "f(" start ")" | "x"').spec, "f(f(x))", "llguidance"),
    (
        "calls",
        calls_spec((TOOL,)),
        '<|call|>{"name":"price","arguments":{"n":4}}<|/call|>',
        "llguidance",
    ),
]


@pytest.fixture(params=CASES, ids=[case[0] for case in CASES])
def case(request, compiled, vocab):
    _, spec, text, backend = request.param
    constraint = compiled(spec)
    assert constraint.backend == backend
    ids = alphabet_of(vocab).tokenizer.tokenize_str(text, parse_special=True)
    return constraint, ids


@pytest.fixture
def mask_of(vocab):
    def fill(state):
        row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
        state.fill_bitmask(row)
        return set(allowed_ids(row))

    return fill


def test_masks_name_what_advance_takes(case, mask_of, vocab):
    """Every single token: what the mask allows is taken, and what is taken is allowed.

    Where text is forced, the mask may hold just the spelling that the tokenizer would give it.
    """
    constraint, ids = case
    for length in range(len(ids) + 1):
        state = constraint.start()
        assert state.advance(ids[:length]) == length
        taken = {t for t in range(vocab.logits_size) if state.fork().advance([t]) == 1}
        forced = state.forced_tokens(1)
        assert mask_of(state) <= taken
        assert mask_of(state) == (set(forced) if forced else taken) or mask_of(state) == taken


def test_the_end_token_is_taken_where_the_text_is_whole(case, mask_of):
    constraint, ids = case
    eos = constraint.eos_ids[0]
    state = constraint.start()
    for token in ids:
        assert (eos in mask_of(state)) == state.can_stop()
        state.advance([token])
    assert state.can_stop()
    assert state.advance([eos]) == 1
    assert state.must_stop()
    assert state.advance([ids[0]]) == 0
    state.rollback(1)
    assert eos in mask_of(state)


def test_advance_stops_at_the_first_refusal(case):
    constraint, ids = case
    special = 0
    state = constraint.start()
    assert state.advance([*ids[:-1], special, *ids]) == len(ids) - 1
    assert state.advance(ids[-1:]) == 1, "a refusal does no harm"


def test_rollback_undoes(case, mask_of):
    constraint, ids = case
    state = constraint.start()
    masks = []
    for token in ids:
        masks.append(mask_of(state))
        state.advance([token])
    for count in range(1, len(ids) + 1):
        state.rollback(count)
        assert mask_of(state) == masks[len(ids) - count]
        assert state.advance(ids[len(ids) - count :]) == count


def test_forks_are_independent(case, mask_of):
    constraint, ids = case
    state = constraint.start()
    state.advance(ids[:1])
    before = mask_of(state)
    twin = state.fork()
    twin.advance(ids[1:])
    assert mask_of(state) == before
    assert twin.can_stop()


def test_completions_are_taken(case):
    constraint, ids = case
    for length in range(len(ids) + 1):
        state = constraint.start()
        state.advance(ids[:length])
        way = state.completion(64)
        assert way is not None
        assert state.reaches_end(way)
        assert not state.reaches_end([*way, *way[:1], 0])
        assert state.reaches_end(ids[length:])
        assert state.advance(way) == len(way)
        assert state.can_stop()
    shortest = constraint.shortest
    assert shortest is not None
    assert constraint.min_tokens == len(shortest) <= len(ids)


def test_forced_tokens_are_how_the_tokenizer_writes_them(case):
    """Where the text goes on as the model would write it, forced tokens are those very tokens."""
    constraint, ids = case
    state = constraint.start()
    seen = 0
    for at, token in enumerate(ids):
        forced = state.forced_tokens(16)
        assert forced == ids[at : at + len(forced)]
        seen += len(forced)
        assert state.forced_tokens(1) == forced[:1]
        state.advance([token])
    assert state.forced_tokens(16) == []


def test_much_is_forced(compiled, vocab):
    """A record with fixed keys: its keys need no model."""
    schema = {
        "type": "object",
        "properties": {"price": {"type": "integer"}, "return": {"type": "boolean"}},
        "required": ["price", "return"],
        "additionalProperties": False,
    }
    state = compiled(json_schema_shape(schema).spec).start()
    forced = state.forced_tokens(99)
    assert alphabet_of(vocab).bytes_of(forced) in (b'{"price', b'{"price":')
    choice = compiled(choice_shape("Growth", "Value stock").spec).start()
    choice.advance(alphabet_of(vocab).tokenize(b"V"))
    assert alphabet_of(vocab).bytes_of(choice.forced_tokens(99)) == b"alue stock"


@pytest.mark.parametrize(
    "pool", [None, MaskPool(2), MaskPool(2, now_s=lambda: 0.0)], ids=["alone", "both", "threads"]
)
def test_many_rows_in_one_call(compiled, vocab, mask_of, pool):
    """Rows of different libraries at different places, filled at once as one by one."""
    words = bitmask_words(vocab.logits_size)
    states: list[ConstraintState] = []
    for _, spec, text, _ in CASES * 3:
        ids = alphabet_of(vocab).tokenizer.tokenize_str(text, parse_special=True)
        state = compiled(spec).start()
        state.advance(ids[: len(states) % len(ids)])
        states.append(state)
    mask = np.zeros((len(states) + 1, words), dtype=np.int32)
    failed = fill_bitmasks([(s, at + 1) for at, s in enumerate(states)], mask, pool)
    assert failed == {}
    assert not mask[0].any(), "rows that are not named stay as they are"
    assert [set(allowed_ids(row)) for row in mask[1:]] == [mask_of(s) for s in states]


def test_threads_fill_masks_for_as_long_as_they_are_quicker():
    """Both ways are tried; the slower one again only now and then."""
    pool = MaskPool(2)
    assert not pool.should_use_threads(7), "a few rows are not worth it"

    def chosen(calls, alone_s, threaded_s):
        found = []
        for _ in range(calls):
            found.append(pool.should_use_threads(8))
            pool.record_time(8, threaded_s if found[-1] else alone_s, threaded=found[-1])
        return found

    assert chosen(3, alone_s=1.0, threaded_s=9.0) == [False, True, False]
    assert sum(chosen(128, alone_s=1.0, threaded_s=9.0)) == 2
    late = chosen(64 * 30, alone_s=1.0, threaded_s=0.1)
    assert all(late[-60:-4])
    assert not MaskPool(1).should_use_threads(64)


def regex_rows():
    lines = (DATA / "regex_cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_regex_cases(compiled, vocab):
    """The whole text matches, or the constraint refuses it, spelled by token and by byte."""
    alphabet = alphabet_of(vocab)
    for row in regex_rows():
        constraint = compiled(ConstraintSpec("regex", source=row["pattern"]))
        for ids in (
            alphabet.tokenize(row["text"].encode()),
            [alphabet.byte_ids[byte] for byte in row["text"].encode()],
        ):
            state = constraint.start()
            got = state.advance(ids) == len(ids) and state.can_stop()
            assert got == row["match"], row


@pytest.mark.parametrize("name", ["own_cases.jsonl", "suite_cases.jsonl"])
def test_schema_cases_are_never_accepted_wrongly(accepts, name):
    """What compiles lets nothing through that the schema forbids; refusals are told."""
    refused, right = 0, 0
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        if row["id"].startswith("optional/format/"):  # judged as if formats were asserted
            row["schema"].pop("$schema")
        try:
            spec = json_schema_shape(row["schema"]).spec
        except ConstraintError:
            refused += 1
            continue
        text = json.dumps(row["instance"], ensure_ascii=False, separators=(",", ":"))
        got = accepts(spec, text)
        assert row["valid"] or not got, row
        right += got == row["valid"]
    assert right >= 0.93 * (len(lines) - refused)
    assert refused <= {"own_cases.jsonl": 0.01, "suite_cases.jsonl": 0.15}[name] * len(lines)


def test_a_choice_among_thousands_can_be_followed(accepts):
    """More options than a rule of a grammar may have."""
    options = tuple(f"item {number * 7919 % 100_003}" for number in range(5_000))
    spec = choice_shape(*options).spec
    assert all(accepts(spec, options[at]) for at in (0, 1, 2_500, 4_999))
    assert not accepts(spec, "item 100004")
    assert not accepts(spec, options[7] + "x")
