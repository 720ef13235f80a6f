"""The `agentrt.run/1` object, its line, and errors in three lines."""

import json
from decimal import Decimal
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import RunRecord, error_lines, latency_line, summary
from agentrt.base.errors import ErrorRecord, ToolFailed
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import Statement, WaitStatement, Work

SPLIT_KEYS = [
    "admission",
    "cache",
    "queue",
    "kv_reload",
    "prefill",
    "decode",
    "constraint",
    "tool",
    "orchestration",
    "network",
    "unattributed",
]
quick = settings(max_examples=100, derandomize=True, deadline=None)


def played(*body: Statement) -> RunRecord:
    record = RunRecord()
    record.on_events(play(body, start_s=1234.56789))
    return record


def test_object_has_its_keys_in_order() -> None:
    record = played(Work("generate", prefill_s=0.1, decode_s=0.2))
    told = summary(record, {"answer": 1}, trace_file="t.json")
    assert list(told) == [
        "schema",
        "run_id",
        "trace_id",
        "program",
        "ok",
        "output",
        "latency",
        "usage",
        "spared",
        "trace",
        "error",
    ]
    assert list(told["latency"]) == ["compound_ms", "critical_path", "split_ms"]
    assert list(told["latency"]["split_ms"]) == SPLIT_KEYS
    assert told["usage"] == {
        "input_tokens": 100,
        "cached_tokens": 60,
        "ahead_tokens": 0,
        "warmed_tokens": 0,
        "output_tokens": 20,
        "forced_tokens": 5,
        "cancelled_tokens": 0,
        "retried_tokens": 0,
        "cost": None,
        "discarded_cost": None,
        "currency": None,
    }
    assert told["trace"] == {"file": "t.json", "url": None}
    assert told["schema"] == "agentrt.run/1"
    assert (told["ok"], told["error"], told["output"]) == (True, None, {"answer": 1})
    assert len(told["trace_id"]) == 32
    json.dumps(told, allow_nan=False)


@quick
@given(st.randoms(use_true_random=False))
def test_printed_numbers_sum_to_the_last_digit(rng: Random) -> None:
    told = json.loads(json.dumps(summary(played(*random_body(rng)))), parse_float=Decimal)
    latency = told["latency"]
    compound = Decimal(latency["compound_ms"])
    assert sum(map(Decimal, latency["split_ms"].values())) == compound
    assert sum(Decimal(step["ms"]) for step in latency["critical_path"]) == compound
    assert all(Decimal(value) >= 0 for value in latency["split_ms"].values())


@quick
@given(st.randoms(use_true_random=False))
def test_line_adds_up(rng: Random) -> None:
    line = latency_line(played(*random_body(rng)))
    head, _, parts = line.partition(" | ")[0].partition(" = ")
    total = Decimal(head.split()[1])
    shown = [Decimal(part.split()[1]) for part in parts.split(" + ")] if parts else []
    assert sum(shown) == total


def test_line_of_a_long_run() -> None:
    record = played(
        Work("generate", queue_s=0.04, prefill_s=0.31, decode_s=1.4),
        WaitStatement(0),
        Work("tool", decode_s=0.48),
        Work("tool", decode_s=0.48),
    )
    assert latency_line(record, "traces/x.json") == (
        "compound 2.23 s = queue 0.04 + prefill 0.31 + decode 1.40 + tool 0.48"
        " | parallelism 1.2x | trace 1bf3296 -> traces/x.json"
    )


def test_line_of_a_run_that_did_nothing() -> None:
    assert latency_line(played()) == "compound 0.0 ms | trace 1bf3296"


def test_line_of_a_run_without_a_trace() -> None:
    assert latency_line(played(), None) == "compound 0.0 ms"


def test_failed_run_tells_its_error() -> None:
    record = RunRecord()
    record.on_events(play((Work("tool", decode_s=0.1),), outcome="failed"))
    error = ErrorRecord("ToolFailed", "it broke", "mend it", "p.py:3")
    told = summary(record, error=error)
    assert told["ok"] is False
    assert told["error"] == {
        "type": "ToolFailed",
        "message": "it broke",
        "where": "p.py:3",
        "hint": "mend it",
    }


def test_error_in_three_lines() -> None:
    error = ToolFailed(
        "search timed out\nafter 3 s", tool="search", hint="Raise timeout=", where="p.py:9"
    )
    error.add_note('in node "search#0"')
    assert error_lines(error) == (
        "error: ToolFailed: search timed out after 3 s",
        'where: p.py:9, in node "search#0"',
        "fix:   Raise timeout=",
    )
    assert error_lines(ZeroDivisionError("division by zero"))[0] == (
        "error: ZeroDivisionError: division by zero"
    )
