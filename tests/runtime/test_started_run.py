"""`runtime.start`: the events of a run for its caller, and its result."""

import gc
import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from agentrt import (
    Calls,
    EventsLost,
    ItemWritten,
    NodeCancelled,
    NodeEnded,
    NodeStarted,
    RunEnded,
    RunEvent,
    RunOptions,
    Runtime,
    StartedRun,
    TextEmitted,
    TextWithdrawn,
    TextWritten,
    ToolCalled,
    ToolFailed,
    ToolReturned,
    UsageError,
    chat,
    emit,
    program,
    tag,
    tool,
)
from agentrt.protocol.events import RunFinished, RunStarted
from agentrt.testing import Reply, call

ASK = chat("Be brief.")


@tool(effects="read", retries=1, backoff=1.0)
async def search(query: str) -> str:
    """Looks things up."""
    await anyio.sleep(2)
    if query == "none":
        raise LookupError(query)
    return f"{query}!"


@program
async def tell(question: str) -> str:
    gen = ASK.user(question, search(question)).generate(name="tell", max_tokens=50)
    await emit(gen)
    return (await gen).upper()


@program
async def slow(seconds: float) -> float:
    await anyio.sleep(seconds)
    return seconds


async def events_of(run: StartedRun[Any]) -> list[RunEvent]:
    return [event async for event in run]


def started(program: Any, *args: Any, options: RunOptions | None = None) -> Callable[..., Any]:
    async def main(runtime: Runtime) -> list[RunEvent]:
        configured = runtime.with_options(options or RunOptions())
        return await events_of(configured.start(program, *args))

    return main


def test_events_come_in_order_and_end_with_the_run(bench: Any) -> None:
    events = bench(["the sea is wide"], decode_tokens_per_s=10.0).main(started(tell, "sea"))
    site = events[0].site
    assert [type(event) for event in events[:3]] == [NodeStarted] * 3
    assert [(event.name, event.kind, event.parent) for event in events[:3]] == [
        ("tell", "program", None),
        ("search", "tool", "tell#0"),
        ("tell", "generate", "tell#0"),
    ]
    assert site.endswith(f"test_started_run.py:{tell.fn.__code__.co_firstlineno}")
    called, returned, ended = events[3:6]
    assert isinstance(called, ToolCalled)
    assert (called.name, called.arguments, called.attempt) == ("search", {"query": "sea"}, 1)
    assert not called.by_model
    assert isinstance(returned, ToolReturned)
    assert (returned.value, returned.error) == ("sea!", None)
    assert round(returned.at_s - called.at_s, 3) == 2
    assert isinstance(ended, NodeEnded)
    texts = [event.text for event in events if isinstance(event, TextWritten)]
    assert "".join(texts) == "the sea is wide"
    assert len(texts) > 2
    assert "".join(e.text for e in events if isinstance(e, TextEmitted)) == "the sea is wide"
    assert events[-1] == RunEnded("THE SEA IS WIDE")
    assert [event.name for event in events if isinstance(event, NodeEnded)] == [
        *("search", "tell", "tell")
    ]


def test_the_result_is_awaited_with_or_without_events(bench: Any) -> None:
    async def main(runtime: Runtime) -> list[str]:
        first = runtime.start(tell, "sea")
        async for event in first:
            if isinstance(event, TextWritten):
                break  # and the run goes on
        second = runtime.start(tell, "sky")
        assert first.run_id != second.run_id
        assert not second.done
        return [await first, await second, await first, str(first.error)]

    rig = bench(["one two three", "four"], decode_tokens_per_s=10.0)
    assert rig.main(main) == ["ONE TWO THREE", "FOUR", "ONE TWO THREE", "None"]


def test_an_error_is_raised_behind_the_events(bench: Any) -> None:
    seen: list[RunEvent] = []

    async def read(run: StartedRun[str]) -> None:
        async for event in run:
            seen.append(event)  # noqa: PERF401  # those before the error count

    async def main(runtime: Runtime) -> None:
        run = runtime.start(tell, "none")
        with pytest.raises(ToolFailed, match="none"):
            await read(run)
        with pytest.raises(ToolFailed, match="none"):
            await run
        assert isinstance(run.error, ToolFailed)

    bench([]).main(main)
    assert [event.attempt for event in seen if isinstance(event, ToolCalled)] == [1, 2]
    (returned,) = (event for event in seen if isinstance(event, ToolReturned))
    assert isinstance(returned.error, ToolFailed)
    assert isinstance(seen[-1], NodeEnded)
    assert seen[-1].outcome == "failed"


def test_streamed_values_come_with_their_types(bench: Any) -> None:
    @program
    async def values() -> int:
        numbers = await ASK.user("a").each(int, name="numbers")
        plan = await ASK.user("b").calls(search, name="plan")
        tagged = await ASK.user("c").tagged(tag("n", int), name="tagged")
        return len(numbers) + len(plan) + len(tagged)

    script = {"numbers": "[3,4]", "plan": call("search", query="x"), "tagged": "a <n>5</n> b"}
    events = bench(script).main(started(values))
    items = [event for event in events if isinstance(event, ItemWritten)]
    assert [(one.name, one.index) for one in items] == [
        *(("numbers", 0), ("numbers", 1), ("plan", 0), ("tagged", 0))
    ]
    assert [one.value for one in items[:2]] == [3, 4]
    assert items[2].value.arguments == {"query": "x"}
    assert items[3].value.value == 5
    assert events[-1] == RunEnded(2 + 1 + 3)


def test_text_that_an_engine_took_with_it_is_withdrawn(bench: Any) -> None:
    @program
    async def plain() -> str:
        return await ASK.user("x").generate(name="plain")

    async def main(runtime: Runtime) -> list[RunEvent]:
        run = runtime.start(plain)
        seen: list[RunEvent] = []
        async for event in run:
            seen.append(event)
            texts = [one.text for one in seen if isinstance(one, TextWritten)]
            if "".join(texts) == "one two" and isinstance(event, TextWritten):
                rig.backend.lose_engine(answers_anew=True)
        return seen

    rig = bench(["one two three", "other words"], decode_tokens_per_s=10.0, resumes=False)
    events = [event for event in rig.main(main) if not isinstance(event, NodeStarted | NodeEnded)]
    at = events.index(TextWithdrawn(events[0].node_id, "plain"))
    assert "".join(event.text for event in events[:at]) == "one two"
    assert "".join(event.text for event in events[at + 1 : -1]) == "other words"


def test_calls_of_a_model_are_marked(bench: Any) -> None:
    @program
    async def act() -> str:
        match await ASK.user("x").step(tools=[search], final=str):
            case Calls() as asked:
                return str(await asked.calls[0].start())
            case _:
                return ""

    events = bench([call("search", query="x")]).main(started(act))
    (called,) = (event for event in events if isinstance(event, ToolCalled))
    assert called.by_model


def test_reasoning_is_told_apart(bench: Any) -> None:
    @program
    async def think() -> str:
        return await ASK.user("x").generate(thinking=20, max_tokens=60)

    events = bench([Reply("done", thinking="let me see")]).main(started(think))
    texts = [event for event in events if isinstance(event, TextWritten)]
    assert {event.thinking for event in texts} == {True, False}
    assert "".join(event.text for event in texts if not event.thinking) == "done"


def test_a_reader_that_is_late_gets_joined_texts_and_a_count_of_what_is_lost(bench: Any) -> None:
    async def main(runtime: Runtime) -> list[RunEvent]:
        options = RunOptions(unread_events=4, on_emit=lambda text: None)
        run = runtime.with_options(options).start(tell, "sea")
        await run
        return await events_of(run)

    quiet = bench(["the sea is wide"], decode_tokens_per_s=10.0)
    lost, *events = quiet.main(main)
    assert isinstance(lost, EventsLost)
    assert len(events) == 4
    assert lost.count > 5
    assert events[-1] == RunEnded("THE SEA IS WIDE")


def test_text_that_waits_is_joined(bench: Any) -> None:
    @program
    async def plain() -> str:
        return await ASK.user("x").generate(name="plain")

    async def main(runtime: Runtime) -> list[RunEvent]:
        run = runtime.start(plain)
        await run
        return await events_of(run)

    events = bench(["one two three four"], decode_tokens_per_s=10.0).main(main)
    assert [event.text for event in events if isinstance(event, TextWritten)] == [
        "one two three four"
    ]


def test_leaving_a_block_cancels_the_run(bench: Any) -> None:
    async def main(runtime: Runtime) -> float:
        began_s = anyio.current_time()
        async with runtime.start(slow, 100.0) as run:
            assert isinstance(await anext(run), NodeStarted)
        assert run.done
        with pytest.raises(NodeCancelled, match="its block was left"):
            await run
        async with runtime.start(slow, 1.0) as other:
            assert await other == 1
        assert other.error is None
        return anyio.current_time() - began_s

    rig = bench([])
    assert round(rig.main(main), 3) == 1
    assert [event.outcome for event in rig.recorder.of(RunFinished)] == ["cancelled", "ok"]


def test_a_run_that_has_not_begun_can_be_cancelled(bench: Any) -> None:
    async def main(runtime: Runtime) -> None:
        run = runtime.start(slow, 100.0)
        run.cancel("changed my mind")
        with pytest.raises(NodeCancelled) as raised:
            await events_of(run)
        assert raised.value.reason == "changed my mind"

    bench([]).main(main)


def test_a_cancelled_wait_leaves_the_run_as_it_is(bench: Any) -> None:
    async def main(runtime: Runtime) -> float:
        run = runtime.start(slow, 5.0)
        with anyio.move_on_after(1):
            await run
        assert not run.done
        return await run

    assert bench([]).main(main) == 5


def test_a_program_that_exits_ends_its_own_run(bench: Any) -> None:
    @program
    async def leave() -> None:
        raise SystemExit(3)

    async def main(runtime: Runtime) -> None:
        with pytest.raises(SystemExit):
            await runtime.start(leave)

    bench([]).main(main)


def test_the_end_of_the_runtime_ends_its_runs(bench: Any) -> None:
    async def main(runtime: Runtime) -> StartedRun[float]:
        run = runtime.start(slow, 100.0)
        await anext(run)
        return run

    run = bench([]).main(main)
    assert run.done
    assert isinstance(run.error, UsageError)


def test_a_failure_that_nobody_awaits_is_logged(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: Runtime) -> None:
        runtime.start(tell, "none")
        await anyio.sleep(60)

    with caplog.at_level(logging.ERROR, "agentrt"):
        bench([]).main(main)
        gc.collect()
    assert "the run of tell failed, and nothing has awaited it" in caplog.text


def test_misuse_is_told_at_once(bench: Any) -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(UsageError, match="missing a required argument"):
            runtime.start(tell)  # type: ignore[call-arg]
        with pytest.raises(UsageError, match="unread_events=0"):
            runtime.with_options(RunOptions(unread_events=0)).start(slow, 1.0)

    rig = bench([])
    rig.main(main)
    assert not rig.recorder.of(RunStarted)
