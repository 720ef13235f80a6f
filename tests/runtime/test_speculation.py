"""Tools called ahead, where past runs say what comes next; off unless it is asked for."""

from typing import Any

import anyio
import pytest

from agentrt import ToolFailed, chat, gather, program, tool
from agentrt.analysis import RunRecord, split
from agentrt.base.config import SchedulerConfig
from agentrt.protocol.events import NodeFinished, Scheduled, ToolEnded, ToolStarted
from agentrt.runtime import Runtime
from agentrt.testing import run_virtual

ASK = chat(system="Be brief.")
CALLS: list[tuple[str, Any]] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


@tool(effects="read")
async def search(query: str) -> dict[str, Any]:
    """Searches."""
    await anyio.sleep(1.0)
    return {"hits": [{"id": f"{query}-1"}, {"id": f"{query}-2"}]}


@tool(effects="pure")
async def fetch(page: str, size: int = 1) -> str:
    """Fetches."""
    CALLS.append(("fetch", page))
    await anyio.sleep(2.0)
    return f"text of {page}"


@tool(effects="read", stable_for=0.5)
async def price(page: str) -> str:
    """Reads what stays true for a moment."""
    CALLS.append(("price", page))
    await anyio.sleep(0.2)
    return f"price of {page}"


@tool(effects="read")
async def unstable(page: str) -> str:
    """Reads what may change."""
    CALLS.append(("unstable", page))
    await anyio.sleep(2.0)
    return page


@tool(effects="write")
async def store(page: str) -> str:
    """Writes."""
    CALLS.append(("store", page))
    await anyio.sleep(2.0)
    return page


@tool(effects="pure")
async def fails(page: str) -> str:
    """Fails."""
    CALLS.append(("fails", page))
    await anyio.sleep(0.5)
    raise ValueError("broken")


THEN: dict[str, Any] = {
    "fetch": fetch,
    "price": price,
    "unstable": unstable,
    "store": store,
    "fails": fails,
}


@program
async def looks_up(query: str, then: str, think_s: float) -> str:
    """Searches, thinks, and calls a tool with what it found."""
    found = await search(query)
    await anyio.sleep(think_s)
    return str(await THEN[then](found["hits"][0]["id"]))


def speculating(rig: Any, **config: Any) -> Runtime:
    """A runtime on the scripted engine that calls tools ahead."""
    return Runtime(
        {"default": (rig.backend, None)},
        clock=rig.clock,
        observers=[rig.recorder],
        scheduler=SchedulerConfig(**({"speculate": True} | config)),
    )


def play(
    bench: Any, queries: list[str], then: str = "fetch", think_s: float = 1.5, **config: Any
) -> Any:
    """Runs one after the other; the recorder has the events of the last one only."""
    rig = bench([])

    async def main() -> list[Any]:
        runtime = speculating(rig, **config)
        told: list[Any] = []
        async with runtime:
            for query in queries:
                rig.recorder.events.clear()
                CALLS.clear()
                try:
                    told.append(await runtime.run(looks_up, query, then, think_s))
                except ToolFailed as error:
                    told.append(error)
        return told

    rig.told = run_virtual(main)
    record = RunRecord()
    record.on_events(rig.recorder.events)
    rig.took_s = record.compound_s
    found = split(record)
    assert sum(found.parts().values()) == pytest.approx(record.compound_s)
    return rig


def said(rig: Any) -> list[str]:
    return [e.reason for e in rig.recorder.of(Scheduled) if e.decision == "speculated"]


def term(rig: Any, name: str) -> float:
    found = [dict(e.terms)[name] for e in rig.recorder.of(Scheduled) if name in dict(e.terms)]
    (value,) = found
    return float(value)


def test_a_call_that_was_made_ahead_is_taken(bench: Any) -> None:
    """The argument comes from the result of the search, another one in every run."""
    rig = play(bench, ["a", "b", "c", "d"], think_s=3.0)
    assert rig.told[-1] == "text of d-1"
    assert CALLS == [("fetch", "d-1")], "once"
    assert rig.took_s == pytest.approx(1.0 + 3.0)
    assert said(rig) == ['fetch({"page":"d-1"}) is likely next', "fetch was called ahead"]
    assert (term(rig, "probability"), term(rig, "saved_s")) == (1.0, 2.0)


def test_a_call_that_is_under_way_is_joined(bench: Any) -> None:
    rig = play(bench, ["a", "b", "c", "d"], think_s=0.5)
    assert rig.told[-1] == "text of d-1"
    assert CALLS == [("fetch", "d-1")]
    assert rig.took_s == pytest.approx(1.0 + 2.0)
    assert term(rig, "saved_s") == pytest.approx(0.5)
    (ended,) = [e for e in rig.recorder.of(ToolEnded) if "fetch" in e.node_id]
    (started,) = [e for e in rig.recorder.of(ToolStarted) if "fetch" in e.node_id]
    assert ended.at_s - started.at_s == pytest.approx(1.5), "what is left of it"


def test_nothing_is_called_ahead_unless_asked_for(bench: Any) -> None:
    rig = play(bench, ["a"] * 6, speculate=False)
    assert not said(rig)
    assert not SchedulerConfig().speculate


def test_two_runs_prove_nothing(bench: Any) -> None:
    rig = play(bench, ["a", "b", "c"])
    assert not said(rig), "foreseen once is no pattern yet"


@pytest.mark.parametrize("then", ["unstable", "store"])
def test_what_may_change_or_changes_is_never_called_ahead(bench: Any, then: str) -> None:
    rig = play(bench, ["a"] * 6, then=then)
    assert len(CALLS) == 1
    assert not said(rig)


def test_a_result_is_true_for_so_long(bench: Any) -> None:
    fresh = play(bench, ["a"] * 5, then="price", think_s=0.6)
    assert said(fresh)[-1] == "price was called ahead"
    assert len(CALLS) == 1
    stale = play(bench, ["a"] * 5, then="price", think_s=3.0)
    assert said(stale)[-1] == "price was called ahead in vain: its result is too old"
    assert len(CALLS) == 2
    assert term(stale, "wasted_s") == pytest.approx(0.2)


def test_a_guess_that_failed_is_made_again_for_real(bench: Any) -> None:
    rig = play(bench, ["a"] * 5, then="fails", think_s=3.0)
    assert isinstance(rig.told[-1], ToolFailed)
    assert len(CALLS) == 2
    assert said(rig)[-1] == "fails was called ahead in vain: it failed"


def test_what_nobody_calls_is_reported(bench: Any) -> None:
    rig = bench([])

    @program
    async def may_stop(query: str, *, stop: bool) -> str:
        found = await search(query)
        await anyio.sleep(0.7)
        return "" if stop else str(await fetch(found["hits"][1]["id"]))

    async def main() -> None:
        runtime = speculating(rig)
        async with runtime:
            for number in range(4):
                await runtime.run(may_stop, f"q{number}", stop=False)
            rig.recorder.events.clear()
            await runtime.run(may_stop, "last", stop=True)

    run_virtual(main)
    assert said(rig)[-1] == "fetch was called ahead in vain: it was never called"
    assert term(rig, "wasted_s") == pytest.approx(0.7), "it was ended with the run"
    assert CALLS[-1] == ("fetch", "last-2")


def test_a_guess_may_make_no_nodes(bench: Any) -> None:
    """A tool that makes nodes is none to call ahead: its nodes would be nobody's."""
    rig = bench([])

    @tool(effects="pure")
    async def nested(page: str) -> str:
        """Calls another tool."""
        return await fetch(page)

    @program
    async def nests(query: str) -> str:
        found = await search(query)
        await anyio.sleep(0.5)
        return await nested(found["hits"][0]["id"])

    async def main() -> list[str]:
        runtime = speculating(rig)
        async with runtime:
            told = [await runtime.run(nests, f"q{number}") for number in range(5)]
        return told

    assert run_virtual(main)[-1] == "text of q4-1"
    assert len(rig.recorder.of(NodeFinished, "fetch")) == 5


def test_parallel_calls_are_foreseen_one_by_one(bench: Any) -> None:
    rig = bench([])

    @program
    async def both(query: str) -> int:
        found = await search(query)
        await anyio.sleep(3.0)
        return len(await gather(*(fetch(hit["id"]) for hit in found["hits"])))

    async def main() -> None:
        runtime = speculating(rig)
        async with runtime:
            for number in range(4):
                rig.recorder.events.clear()
                await runtime.run(both, f"q{number}")

    run_virtual(main)
    likely = [one for one in said(rig) if one.endswith("is likely next")]
    assert likely == [f'fetch({{"page":"q3-{n}"}}) is likely next' for n in (1, 2)]
    record = RunRecord()
    record.on_events(rig.recorder.events)
    assert record.compound_s == pytest.approx(4.0)


@program
async def guarded(message: str) -> str:
    """Calls a tool if a guard allows it."""
    if await ASK.user(message).generate(name="guard") == "yes":
        return str(await fetch(message, size=3))
    return "no"


def ask_guard(bench: Any, answers: list[str]) -> Any:
    """Runs one after the other; the recorder has the events of the last one only."""
    rig = bench(list(answers), decode_tokens_per_s=2.0)

    async def main() -> None:
        runtime = speculating(rig)
        async with runtime:
            for number in range(len(answers)):
                rig.recorder.events.clear()
                CALLS.clear()
                await runtime.run(guarded, f"message {number}")

    run_virtual(main)
    record = RunRecord()
    record.on_events(rig.recorder.events)
    rig.took_s = record.compound_s
    return rig


def test_the_likely_branch_begins_while_the_guard_is_written(bench: Any) -> None:
    """Its argument is that of the program."""
    slow = ask_guard(bench, ["yes"])
    rig = ask_guard(bench, ["yes"] * 4)
    assert said(rig)[0] == 'fetch({"page":"message 3","size":3}) is likely next'
    assert CALLS == [("fetch", "message 3")], "once"
    assert term(rig, "saved_s") > 1.0
    assert rig.took_s == pytest.approx(slow.took_s - term(rig, "saved_s"))


def test_the_other_branch_is_never_late(bench: Any) -> None:
    slow, rig = ask_guard(bench, ["no"]), ask_guard(bench, ["yes"] * 4 + ["no"])
    assert said(rig)[-1] == "fetch was called ahead in vain: it was never called"
    assert rig.took_s == pytest.approx(slow.took_s)


def test_a_branch_that_is_seldom_taken_is_not_begun(bench: Any) -> None:
    rig = ask_guard(bench, ["yes"] * 4 + ["no"] * 6)
    assert not said(rig)
    assert not CALLS
