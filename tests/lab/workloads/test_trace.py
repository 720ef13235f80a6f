"""A trace is a graph that can be walked in its own order."""

from collections.abc import Callable

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.trace import (
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceResult,
    TraceThink,
    needs,
    prompt_tokens,
)

ASK = TraceCall("ask", (("user", (Piece("q", 5),)),), 7, site="ask")
LOOK = ToolUse("look", 0.5, plan="ask", at_token=3, result_tokens=4, site="look")
TELL = TraceCall(
    "tell",
    (
        ("user", (Piece("q", 5),)),
        ("assistant", (OutputOf("ask"),)),
        ("user", (TraceResult("look", 4), Piece("go on", 2))),
    ),
    9,
    after=("wait",),
    site="tell",
)
WAIT = TraceThink("wait", 1.0, after=("ask",))


def test_a_trace_tells_what_waits_for_what() -> None:
    program = ProgramTrace("shape", 3, (ASK, LOOK, WAIT, TELL), ("tell",))
    assert needs(TELL) == ("wait", "ask", "look")
    assert needs(LOOK) == ("ask",)
    assert prompt_tokens(program) == {"ask": 5, "tell": 5 + 7 + 4 + 2}
    assert [call.name for call in program.calls()] == ["ask", "tell"]
    assert program.tools() == (LOOK,)


def call(
    name: str, part: Piece | OutputOf | TraceResult, output: int = 1, forced: int = 0
) -> TraceCall:
    return TraceCall(name, (("user", (part,)),), output, site=name, forced_tokens=forced)


BROKEN: dict[str, Callable[[], ProgramTrace]] = {
    "not before it": lambda: ProgramTrace("s", 0, (LOOK, ASK), ("ask",)),
    "two of that name": lambda: ProgramTrace("s", 0, (ASK, ASK), ("ask",)),
    "nothing ends": lambda: ProgramTrace("s", 0, (ASK,), ()),
    "no node 'tell'": lambda: ProgramTrace("s", 0, (ASK,), ("tell",)),
    "puts nothing out": lambda: ProgramTrace(
        "s", 0, (ASK, LOOK, call("x", OutputOf("look"))), ("x",)
    ),
    "has no result": lambda: ProgramTrace("s", 0, (ASK, call("x", TraceResult("ask", 2))), ("x",)),
    "a part of 0 tokens": lambda: ProgramTrace("s", 0, (call("x", Piece("k", 0)),), ("x",)),
    "2 of 1 tokens": lambda: ProgramTrace("s", 0, (call("x", Piece("k", 1), 1, 2),), ("x",)),
    "0 of 0 tokens": lambda: ProgramTrace("s", 0, (call("x", Piece("k", 1), 0),), ("x",)),
    "prompt is empty": lambda: ProgramTrace("s", 0, (TraceCall("x", (), 1, site="x"),), ("x",)),
    "no token 8": lambda: ProgramTrace(
        "s", 0, (ASK, ToolUse("t", 1, plan="ask", at_token=8, result_tokens=1, site="t")), ("t",)
    ),
    "is no call": lambda: ProgramTrace(
        "s", 0, (ASK, LOOK, ToolUse("t", 1, plan="look", result_tokens=1, site="t")), ("t",)
    ),
    "it takes nan s": lambda: ProgramTrace("s", 0, (ASK, TraceThink("t", float("nan"))), ("t",)),
    "not all of it are calls": lambda: ProgramTrace("s", 0, (ASK, LOOK), ("look",), (("look",), 1)),
    "2 of 1": lambda: ProgramTrace("s", 0, (ASK,), ("ask",), (("ask",), 2)),
    "may be given up": lambda: ProgramTrace("s", 0, (ASK, LOOK), ("look",), (("ask",), 1)),
}


@pytest.mark.parametrize("complaint", BROKEN)
def test_a_broken_trace_says_what_is_wrong(complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        BROKEN[complaint]()
