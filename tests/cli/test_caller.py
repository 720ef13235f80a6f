"""The command line joins the trace that `TRACEPARENT` names."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Told

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"
PROGRAM = """
from agentrt import program

@program
async def hello() -> str:
    return "hi"
"""


@pytest.mark.parametrize("given", [CALLER, "nonsense"])
def test_runs_join_the_caller_in_the_environment(
    served: Callable[..., Told],
    program: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    given: str,
) -> None:
    monkeypatch.setenv("TRACEPARENT", given)
    done = served(f"{program(PROGRAM)}:hello", "--json")
    told = json.loads(done.out)
    assert (told["trace_id"] == TRACE) == (given == CALLER)
    assert (f"TRACEPARENT={given!r} is malformed" in done.err) == (given != CALLER)
    file = Path(told["trace"]["file"])
    assert json.loads(file.read_text("utf-8"))["data"][0]["traceID"] == told["trace_id"]


def test_an_engine_that_does_not_start_fails_in_the_trace_of_the_caller(
    inside: Callable[..., Told], program: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", CALLER)
    engine = "http://127.0.0.1:9"
    done = inside("run", f"{program(PROGRAM)}:hello", "--json", "--engine", engine)
    told = json.loads(done.out)
    assert not told["ok"]
    assert told["trace_id"] == TRACE
