"""`agentrt trace diff`: the table, the lists below it, and the exit code."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrt.analysis import RunRecord
from agentrt.base.errors import ErrorRecord, UsageError
from agentrt.base.ids import RunId
from agentrt.cli.trace_diff import lines_of, percent_of
from agentrt.cli.trace_files import find
from agentrt.protocol.events import NodeFinished, RunFinished
from agentrt.telemetry import JaegerFile, build
from agentrt.telemetry.reading import read
from agentrt.telemetry.trace_diff import trace_diff
from tests.oracles.random_runs import play
from tests.oracles.statements import Statement, WaitStatement, Work

SLOW: tuple[Statement, ...] = (
    Work("generate", queue_s=0.2, prefill_s=0.1, decode_s=0.4),
    WaitStatement(0),
    Work("tool", deps=(0,), decode_s=0.5),
    WaitStatement(1),
)
FAST: tuple[Statement, ...] = (
    Work("generate", prefill_s=0.1, decode_s=0.4),
    WaitStatement(0),
    Work("tool", deps=(0,), decode_s=0.5),
    WaitStatement(1),
    Work("tool", deps=(1,), decode_s=0.0005),
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Traces of two runs, `a1` and `b2`, and of one that failed, `c3`."""
    error = ErrorRecord("ValueError", "no such page")
    for run_id, body in (("a1", SLOW), ("b2", FAST), ("c3", FAST)):
        record = RunRecord()
        for event in play(body, run_id=RunId(run_id)):
            if run_id == "c3":
                match event:
                    case RunFinished():
                        event = replace(event, outcome="failed", error=error)
                    case NodeFinished(node_id="root/tool1"):
                        event = replace(event, outcome="failed", error=error)
            record.add_event(event)
        JaegerFile(tmp_path / "runs").export([build(record)])
    return tmp_path / "runs"


@pytest.fixture
def diff(inside: Callable[..., Any], runs: Path) -> Callable[..., Any]:
    return lambda *words: inside("trace", "diff", *words, "--folder", str(runs))


def test_each_node_has_a_row_and_the_sums_stand_below(diff: Callable[..., Any]) -> None:
    told = diff("a1", "b2")
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[0] == "A  a1  made_up.py:root  1200.0 ms  ok"
    assert lines[3].split() == [
        *("node", "kind", "A", "ms", "B", "ms", "diff", "queue", "grammar", "prefill", "decode"),
        *("tool", "in", "cached", "out"),
    ]
    rows = {line.split()[0]: line.split()[1:] for line in lines[4:8]}
    assert rows["generate0"] == ["*", "generate", "700.0", "500.0", "-200.0", "-200.0"]
    assert rows["tool2"] == [">", "tool", "-", "0.5"] or rows["tool2"] == ["tool", "-", "0.5"]
    assert "faster: generate0 -200.0 ms (queue -200.0)" in lines
    assert "slower: nothing" in lines
    assert "only in B: tool2" in lines


def test_it_fits_the_terminal(runs: Path) -> None:
    found = trace_diff(*(read(find(run, runs))[0] for run in ("a1", "c3")))
    assert max(map(len, lines_of(found))) > 80
    narrow = list(lines_of(found, 80))
    assert max(map(len, narrow)) <= 80
    row = next(line for line in narrow if "generate0" in line)
    assert row.split()[-4:] == ["700.0", "500.0", "-200.0", "-200.0"]


def test_the_same_as_data(diff: Callable[..., Any]) -> None:
    told = diff("a1", "b2", "--json").json
    assert told["schema"] == "agentrt.diff/1"
    assert (told["a"]["run_id"], told["b"]["run_id"]) == ("a1", "b2")
    assert told["faster"] == ["root/generate0"]
    assert [one["a"] and one["a"]["id"] for one in told["nodes"]][-1] is None
    assert told["a"]["total"]["queue_ms"] == pytest.approx(200.0)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("a1", "b2", "--max-slowdown", "0"), 0),
        (("b2", "a1"), 0),
        (("b2", "a1", "--max-slowdown", "10%"), 5),
        (("b2", "a1", "--max-slowdown", "25"), 0),
        (("a1", "c3"), 0),
        (("a1", "c3", "--max-slowdown", "10"), 1),
        (("c3", "c3", "--max-slowdown", "10"), 0),
    ],
)
def test_the_exit_code_is_that_of_the_limit(
    diff: Callable[..., Any], words: tuple[str, ...], code: int
) -> None:
    assert diff(*words).code == code


def test_a_failed_run_and_its_nodes_are_told(diff: Callable[..., Any]) -> None:
    assert "failed in B: root, tool1" in diff("a1", "c3").out.splitlines()
    assert "failed in" not in diff("a1", "b2").out
    assert "failed: ValueError" in diff("a1", "c3").out
    assert json.loads(diff("a1", "c3", "--json").out)["b"]["ok"] is False


@pytest.mark.parametrize("text", ["fast", "-1", "10 %%", "inf", "nan"])
def test_a_limit_that_is_no_percentage(text: str) -> None:
    with pytest.raises(UsageError, match="is no percentage"):
        percent_of(text)
