"""Scorers: what each holds equal, and which tables describe none."""

from typing import Any

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.evaluation.scorer import CaseScorer, read_scorer

ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}
STOP: dict[str, Any] = {"name": "stop", "arguments": {}}


def scorer(**table: Any) -> CaseScorer:
    return read_scorer(table, lambda _: lambda got, wanted: got == wanted, where="suite.toml")


@pytest.mark.parametrize(
    ("table", "result", "expected", "score"),
    [
        ({"kind": "exact"}, {"a": 1.0}, {"a": 1}, 1),
        ({"kind": "exact"}, True, 1, 0),
        ({"kind": "exact"}, "Oslo", "oslo", 0),
        ({"kind": "exact", "ignore_case": True}, " Oslo", "oslo", 1),
        ({"kind": "exact", "field": "a.b"}, {"a": {"b": 2}}, {"a": {"b": 2}}, 1),
        ({"kind": "exact", "field": "a.b"}, {"a": 2}, {"a": {"b": 2}}, 0),
        ({"kind": "tolerance", "absolute": 0.5}, 10.5, 10, 1),
        ({"kind": "tolerance", "relative": 0.01}, 101.5, 100, 0),
        ({"kind": "tolerance"}, "1,234", 1234, 1),
        ({"kind": "tolerance"}, "many", 3, 0),
        ({"kind": "set"}, ["b", "a", "a"], ["a", "b"], 1),
        ({"kind": "set"}, ["a"], ["a", "b"], 0),
        ({"kind": "set"}, "ab", ["a", "b"], 0),
        ({"kind": "schema", "schema": {"type": "integer"}}, 3, None, 1),
        ({"kind": "schema", "schema": {"type": "integer"}}, "3", None, 0),
        ({"kind": "function", "function": "own.py:same"}, 3, 3, 1),
        ({"kind": "calls"}, [ADD, STOP], [STOP, ADD], 1),
        ({"kind": "calls", "ordered": True}, [ADD, STOP], [STOP, ADD], 0),
        ({"kind": "calls", "ordered": True}, [ADD, STOP], [ADD, STOP], 1),
        ({"kind": "calls"}, [ADD, ADD], [ADD], 2 / 3),
        ({"kind": "calls"}, [{"name": "add", "arguments": {"b": 2.0, "a": 1}}], [ADD], 1),
        ({"kind": "calls"}, [{"name": "add", "arguments": {"a": 1}}], [ADD], 0),
        ({"kind": "calls", "part": "names"}, [{"name": "add", "arguments": {}}], [ADD], 1),
        ({"kind": "calls", "part": "names"}, [{"name": "add"}], [ADD, STOP], 2 / 3),
        ({"kind": "calls"}, [], [], 1),
        ({"kind": "calls"}, [], [ADD], 0),
        ({"kind": "calls"}, "add", [ADD], 0),
        ({"kind": "calls"}, [{"name": "add", "arguments": [1]}], [ADD], 0),
        ({"kind": "calls", "field": "plan"}, {"plan": [ADD]}, {"plan": [ADD]}, 1),
    ],
)
def test_scores(table: dict[str, Any], result: Any, expected: Any, score: float) -> None:
    assert scorer(**table).score(result, expected) == score


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ({"kind": "exactly"}, "of the kind 'exactly'"),
        ({}, "of the kind None"),
        ({"kind": "set", "absolute": 1}, "'absolute' is no key"),
        ({"kind": "tolerance", "absolute": -1}, "is no tolerance"),
        ({"kind": "tolerance", "relative": "1%"}, "is no tolerance"),
        ({"kind": "schema"}, "needs 'schema'"),
        ({"kind": "schema", "schema": {"type": "whole"}}, "is no JSON Schema"),
        ({"kind": "function"}, "needs 'function'"),
        ({"kind": "exact", "field": 3}, "is no text"),
        ({"kind": "exact", "ignore_case": 1}, "is no bool"),
        ({"kind": "calls", "ordered": "yes"}, "ordered is no bool"),
        ({"kind": "calls", "part": "arguments"}, "part='arguments' is no part of calls"),
    ],
)
def test_refuses_tables(table: dict[str, Any], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        scorer(**table)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"kind": "exact", "field": "a"}, {"b": 1}),
        ({"kind": "tolerance"}, "many"),
        ({"kind": "set"}, "ab"),
        ({"kind": "calls"}, {"name": "add"}),
    ],
)
def test_an_expected_value_that_cannot_be_met_is_an_error(
    table: dict[str, Any], expected: Any
) -> None:
    with pytest.raises(UsageError, match="expected value"):
        scorer(**table).score({"a": 1}, expected)


def test_a_function_gives_a_score() -> None:
    odd = CaseScorer("function", function=lambda got, wanted: got + wanted)
    assert odd.score(0.25, 0.25) == 0.5
    with pytest.raises(UsageError, match="gave 3"):
        odd.score(1, 2)
