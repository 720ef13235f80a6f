"""`runtime.map`: runs of one program over many inputs."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from agentrt import MapProgress, RunOptions, Runtime, UsageError, chat, program, tool
from agentrt.protocol.events import RunFinished, RunStarted


@tool(effects="read")
async def nap(seconds: float) -> float:
    """Sleeps."""
    await anyio.sleep(seconds)
    if seconds == 4:
        raise ValueError("four")
    return seconds


@program
async def rest(seconds: float) -> float:
    return 2 * await nap(seconds)


@program
async def named(kind: str, language: str = "English", *, loud: bool = False) -> str:
    name = await chat().user("Name a ", kind, " in ", language).generate()
    return name.upper() if loud else name


def test_results_come_in_the_order_of_the_inputs(bench: Any) -> None:
    rig = bench([])
    found = rig.main(awaiting(lambda runtime: runtime.map(rest, [3.0, 1.0, 2.0], concurrency=2)))
    assert found == [6.0, 2.0, 4.0]
    assert len(rig.recorder.of(RunStarted)) == 3


def test_a_block_gives_results_as_runs_end(bench: Any) -> None:
    async def main(runtime: Runtime) -> list[float]:
        async with runtime.map(rest, [3.0, 1.0, 2.0], order="ends") as results:
            return [result async for result in results]

    assert bench([]).main(main) == [2.0, 4.0, 6.0]


def test_a_slow_first_run_holds_no_others_back_if_all_are_awaited(bench: Any) -> None:
    async def main(runtime: Runtime) -> float:
        began_s = anyio.current_time()
        await runtime.map(rest, [10.0] + [1.0] * 9, concurrency=2)
        return anyio.current_time() - began_s

    assert round(bench([]).main(main), 3) == 10


def test_errors_end_all_runs_or_are_results(bench: Any) -> None:
    async def main(runtime: Runtime) -> list[Any]:
        with pytest.raises(Exception, match="four") as raised:
            await runtime.map(rest, [9.0, 4.0, 9.0], concurrency=3)
        assert "in input 1 of map" in raised.value.__notes__
        results = await runtime.map(rest, [9.0, 4.0], errors="collect")
        with pytest.raises(Exception, match="four"):
            _ = results[1].value
        return [(one.index, one.input, one.output, str(one.error)) for one in results]

    rig = bench([])
    assert rig.main(main) == [
        (0, 9.0, 18.0, "None"),
        (1, 4.0, None, "nap: ValueError: four"),
    ]
    outcomes = [event.outcome for event in rig.recorder.of(RunFinished)]
    assert sorted(outcomes) == ["cancelled", "cancelled", "failed", "failed", "ok"]


def test_a_program_that_exits_ends_its_own_run(bench: Any) -> None:
    @program
    async def leave(code: int) -> int:
        if code:
            raise SystemExit(code)
        return code

    async def main(runtime: Runtime) -> list[Any]:
        results = await runtime.map(leave, [0, 3, 0], errors="collect", concurrency=1)
        return [result.error for result in results]

    errors = bench([]).main(main)
    assert [getattr(error, "code", None) for error in errors] == [None, 3, None]


def test_progress_is_told_at_the_end_of_each_run(bench: Any) -> None:
    told: list[MapProgress] = []

    async def inputs() -> AsyncIterator[float]:
        for seconds in (1.0, 4.0):
            yield seconds

    async def main(runtime: Runtime) -> MapProgress:
        await runtime.map(rest, [1.0, 4.0], errors="collect", on_progress=told.append)
        runs = runtime.map(rest, inputs(), errors="collect")
        await runs
        return runs.progress

    assert bench([]).main(main) == MapProgress(done=1, failed=1)
    assert told == [MapProgress(1, 0, 1, 2), MapProgress(1, 1, 0, 2)]


def test_leaving_a_block_cancels_the_runs_that_go_on(bench: Any) -> None:
    async def main(runtime: Runtime) -> float:
        began_s = anyio.current_time()
        async with runtime.map(rest, [1.0, 9.0, 9.0], concurrency=2) as results:
            assert await anext(results) == 2
        return anyio.current_time() - began_s

    rig = bench([])
    assert round(rig.main(main), 3) == 1
    assert rig.recorder.of(RunFinished)[0].outcome == "ok"
    assert {event.outcome for event in rig.recorder.of(RunFinished)[1:]} == {"cancelled"}


def test_a_bound_program_is_mapped_over_its_free_parameter(bench: Any) -> None:
    async def main(runtime: Runtime) -> list[str]:
        loud = named.bind(loud=True)
        return [
            *await runtime.map(loud.bind(language="Latin"), ["river", "sea"]),
            *await runtime.map(loud.bind(kind="river"), ["Greek"]),
        ]

    rig = bench(lambda request, prompt: "x")
    assert rig.main(main) == ["X"] * 3
    texts = [str(request.prompt) for request in rig.backend.seen.requests]
    assert ["Latin" in text for text in texts] == [True, True, False]
    assert "Greek" in texts[2]


def test_options_of_the_runtime_hold_for_each_run(bench: Any) -> None:
    async def main(runtime: Runtime) -> list[float]:
        configured = runtime.with_options(RunOptions(tenant="night"))
        return await configured.map(rest, [1.0, 2.0])

    rig = bench([])
    assert rig.main(main) == [2.0, 4.0]
    assert {event.tenant for event in rig.recorder.of(RunStarted)} == {"night"}


def test_misuse_is_told_at_once(bench: Any) -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(UsageError, match="nap"):
            runtime.map(nap, [1.0])  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="missing a required argument"):
            runtime.map(program(two), [1])  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="errors='skip'"):
            runtime.map(rest, [1.0], errors="skip")  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="order='any'"):
            runtime.map(rest, [1.0], order="any")  # type: ignore[call-overload]
        with pytest.raises(UsageError, match="inputs of map are str"):
            runtime.map(named, "abc")
        with pytest.raises(UsageError, match="concurrency=0"):
            runtime.map(rest, [1.0], concurrency=0)
        with pytest.raises(UsageError, match="one run_id"):
            runtime.with_options(RunOptions(run_id="0" * 16)).map(rest, [1.0])  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="were not started"):
            await anext(runtime.map(rest, [1.0]))
        runs = runtime.map(rest, [1.0])
        await runs
        with pytest.raises(UsageError, match="were started before"):
            await runs

    bench([]).main(main)


async def two(one: int, other: int) -> int:
    return one + other


def awaiting(make: Any) -> Any:
    async def main(runtime: Runtime) -> Any:
        return await make(runtime)

    return main
