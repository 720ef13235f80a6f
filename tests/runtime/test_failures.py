"""Wrong use is told at once, and failures reach whoever should see them."""

import asyncio
import subprocess
import sys
from typing import Any

import anyio
import pytest

from agentrt import (
    BudgetExceeded,
    NodeCancelled,
    NoRun,
    ToolFailed,
    Unsupported,
    UsageError,
    chat,
    choice,
    gather,
    limits,
    program,
    tool,
)
from agentrt.protocol.events import NodeFinished, RequestSent, RunFinished

ASK = chat(system="Be brief.")


@tool(effects="read")
async def filings(form: str) -> str:
    """Text of a filing."""
    await anyio.sleep(1.0)
    raise ValueError(f"no {form}")


@tool(effects="read")
async def slow(seconds: float) -> str:
    """Takes its time."""
    await anyio.sleep(seconds)
    return "done"


def nothing() -> dict[str, Any]:
    return {}


def pending() -> Any:
    return filings("x")


def wrong_word() -> Any:
    return "x"


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: ASK.user("x").generate(model="large"), "no engine has the role 'large'.*default"),
        (lambda: ASK.user("x").generate(temperature=-1), "temperature=-1"),
        (lambda: ASK.user("x").generate(name="a/b"), "no name of a node"),
        (lambda: ASK.user("x").calls(), "cannot be offered"),
        (lambda: ASK.user("x").calls(slow, slow), "cannot be offered"),
        (lambda: slow(**nothing()), "missing a required argument"),
        (lambda: slow.bind(colour=3), "no parameter"),
        (lambda: filings(pending()), "pending node.*await it first"),
        (lambda: limits(seconds=0), "seconds=0"),
        (lambda: limits(on_limit=wrong_word()), "on_limit='x'"),
        (lambda: ASK.user("x").generate(logprobs=2), "no logprobs"),
        (lambda: ASK.user("x").generate(choice("a", "b"), scored=True), "does not score choices"),
        (lambda: ASK.user("x").generate(bool, ignore_eos=True), "goes on where bool ends"),
    ],
)
def test_wrong_use_is_told_at_once(bench: Any, make: Any, complaint: str) -> None:
    @program
    async def wrong() -> None:
        make()

    with pytest.raises((UsageError, Unsupported), match=complaint):
        bench(["x", "x"], scores=False, logprobs=False).run(wrong)


def test_wrong_arguments_of_a_program(bench: Any) -> None:
    @program
    async def takes(n: int) -> int:
        return n

    @program
    async def calls() -> int:
        return await takes()  # type: ignore[call-arg]

    with pytest.raises(UsageError, match=r"program takes: missing.*takes\(n: int\)"):
        bench([]).run(calls)
    with pytest.raises(UsageError, match="program takes: missing"):
        bench([]).run(takes)


def test_a_program_that_forgets_to_await(bench: Any) -> None:
    @program
    async def forgets() -> Any:
        return ASK.user("x").generate()

    with pytest.raises(UsageError, match=r"returned the node 'str'.*return await"):
        bench(["x"]).run(forgets)


def test_the_budget_of_a_block(bench: Any) -> None:
    @program
    async def spends() -> str:
        async with limits(tokens=10):
            return await ASK.user("x").generate(max_tokens=100)

    rig = bench(["a" * 50], decode_tokens_per_s=10.0)
    with pytest.raises(BudgetExceeded, match="used 11 of 10 tokens") as e:
        rig.run(spends)
    assert "test_failures.py:" in e.value.where


def test_awaiting_a_cancelled_node(bench: Any) -> None:
    @program
    async def cancels() -> str:
        gen = ASK.user("x").generate(name="draft")
        gen.cancel("the guard said so")
        return await gen

    with pytest.raises(NodeCancelled, match="generate:draft#0 was cancelled: the guard") as e:
        bench(["x"]).run(cancels)
    assert e.value.reason == "the guard said so"


def test_one_failure_nobody_awaited_is_raised_as_itself(bench: Any) -> None:
    @program
    async def forgets() -> int:
        filings("10-K")
        return 1

    with pytest.raises(ToolFailed, match="no 10-K"):
        bench([]).run(forgets)


def test_a_dependent_does_not_hide_or_double_a_failure(bench: Any) -> None:
    @program
    async def forgets() -> int:
        data = filings("10-K")
        ASK.user("Data: ", data).generate().ctx.user("more").generate()
        return 1

    with pytest.raises(ToolFailed, match="no 10-K"):
        bench([]).run(forgets)


def test_several_failures_nobody_awaited_are_a_group(bench: Any) -> None:
    @program
    async def forgets() -> int:
        filings("10-K")
        filings("10-Q")
        return 1

    with pytest.raises(ExceptionGroup, match="never awaited") as e:
        bench([]).run(forgets)
    assert sorted(str(x.__cause__) for x in e.value.exceptions) == ["no 10-K", "no 10-Q"]


def test_the_bodys_error_wins(bench: Any) -> None:
    @program
    async def breaks() -> None:
        filings("10-K")
        slow(60.0)
        await anyio.sleep(2.0)
        raise LookupError("mine")

    rig = bench([])
    with pytest.raises(LookupError, match="mine") as e:
        rig.run(breaks)
    assert "in node program:breaks#0" in notes(e.value)
    outcomes = {f.node_id: f.outcome for f in rig.recorder.of(NodeFinished)}
    assert outcomes["breaks#0/slow#0"] == "cancelled"


def test_gather_cancels_the_rest_and_raises_the_first(bench: Any) -> None:
    @program
    async def gathers() -> Any:
        return await gather(slow(60.0), filings("10-K"))

    rig = bench([])
    with pytest.raises(ToolFailed, match="no 10-K"):
        rig.run(gathers)
    outcomes = {f.node_id: (f.outcome, f.reason) for f in rig.recorder.of(NodeFinished)}
    assert outcomes["gathers#0/slow#0"] == (
        "cancelled",
        "tool:filings#0 failed in the same gather",
    )


def test_nothing_is_sent_for_a_generation_whose_input_failed(bench: Any) -> None:
    @program
    async def calls() -> str:
        return await ASK.user("Data: ", filings("10-K")).generate()

    rig = bench([])
    with pytest.raises(ToolFailed):
        rig.run(calls)
    assert not rig.recorder.of(RequestSent)


@pytest.mark.parametrize("value", [object(), float("nan")])
def test_a_value_that_cannot_stand_in_a_prompt(bench: Any, value: Any) -> None:
    @tool(effects="pure")
    def odd() -> Any:
        """Gives what has no JSON form."""
        return value

    @program
    async def asks() -> str:
        return await ASK.user("Data: ", odd()).generate()

    with pytest.raises(UsageError, match=r"value of tool:odd#0 cannot stand in a prompt") as told:
        bench([]).run(asks)
    assert "test_failures.py:" in told.value.where


def test_nodes_are_not_made_in_worker_threads(bench: Any) -> None:
    """A synchronous tool runs in a thread, where the run's loop cannot be reached safely."""

    @tool(effects="pure")
    def threaded() -> str:
        """Tries to generate."""
        return str(ASK.user("x").generate())

    @program
    async def outer() -> str:
        return await threaded()

    with pytest.raises(ToolFailed, match="worker thread") as e:
        bench([]).run(outer)
    assert isinstance(e.value.__cause__, NoRun)


def test_a_program_that_leaves_the_process_leaves_nothing_waiting(bench: Any) -> None:
    @program
    async def leaves() -> str:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        bench([]).run(leaves)


def test_a_program_that_leaves_ends_its_run_in_order(bench: Any) -> None:
    """Whatever was under way has ended, and nobody can hold it up; then the caller leaves."""
    ended: list[str] = []

    @program
    async def leaves() -> str:
        await anyio.sleep(1.0)
        raise SystemExit(3)

    @program
    async def stays() -> str:
        try:
            await anyio.sleep(100.0)
        finally:
            ended.append("stays")
        return "never"

    @program
    async def outer() -> str:
        stays()
        ASK.user("x").generate(name="draft")
        try:
            return await leaves()
        except NodeCancelled as error:
            ended.append(error.reason)
            await anyio.sleep(100.0)
            return "held up"

    rig = bench(["a" * 100], decode_tokens_per_s=10.0)

    async def main(runtime: Any) -> float:
        with pytest.raises(SystemExit) as e:
            await runtime.run(outer)
        assert e.value.code == 3
        return anyio.current_time()

    assert rig.main(main) == pytest.approx(1001.1), "the draft leaves the batch with its step"
    assert sorted(ended) == ["stays", "sys.exit(3)"]
    outcomes = {e.node_id: e.outcome for e in rig.recorder.of(NodeFinished)}
    assert set(outcomes.values()) == {"cancelled"}
    assert set(outcomes) == {"outer#0", "outer#0/stays#0", "outer#0/leaves#0", "outer#0/draft#0"}
    (finished,) = rig.recorder.of(RunFinished)
    assert (finished.outcome, finished.error.type) == ("cancelled", "SystemExit")


def test_a_program_that_leaves_prints_no_traceback() -> None:
    """From synchronous code the process ends with its exit code, and nothing else is said."""
    code = """
import sys
from agentrt import program
from agentrt.runtime import Runtime
from agentrt.testing import ScriptedBackend
from agentrt.testing import LoopClock, run_virtual

@program
async def leaves():
    sys.exit(7)

async def main():
    clock = LoopClock()
    async with Runtime({"default": (ScriptedBackend([], clock=clock), None)}, clock=clock) as r:
        await r.run(leaves)

run_virtual(main)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (7, "", "")


@pytest.mark.parametrize("effects", ["read", "write"])
@pytest.mark.parametrize("threaded", [False, True])
def test_a_tool_that_leaves_has_failed(bench: Any, effects: Any, threaded: bool) -> None:
    """A function of a command line, called by a model, does not end the process."""

    def leaves() -> str:
        raise SystemExit("usage: leaves")

    async def leaves_async() -> str:
        raise SystemExit("usage: leaves")

    made = tool(effects=effects)(leaves if threaded else leaves_async)

    @program
    async def calls() -> str:
        return str(await made())

    with pytest.raises(ToolFailed, match=r"SystemExit: usage: leaves.*for programs"):
        bench([]).run(calls)


def test_text_that_only_looks_alike_is_not_degenerate(bench: Any) -> None:
    text = " ".join(str(n) for n in range(700))

    @program
    async def counting() -> str:
        return await ASK.user("x").generate(max_tokens=4000)

    assert bench([text]).run(counting) == text


def test_a_tool_that_cancels_itself_takes_nobody_along(bench: Any) -> None:
    """A task of one node is no concern of the others: the run goes on."""

    @tool(effects="pure")
    async def gone(x: int) -> int:
        """Ends by a cancellation that nobody asked for."""
        raise asyncio.CancelledError

    @program
    async def both() -> str:
        other = slow(1.0)
        with pytest.raises(ToolFailed, match="CancelledError"):
            await gone(1)
        return await other

    assert bench(lambda request, prompt: "y").run(both) == "done"
