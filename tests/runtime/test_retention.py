"""What engines are told of prefixes, from what a program still holds and waits for."""

import gc
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from agentrt import ask, chat, gather, program, tool
from agentrt.base.config import SchedulerConfig
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.runtime import RunOptions, Runtime
from agentrt.runtime.kv_hints.retention import ROOM_SHARE
from agentrt.scheduler import Estimates
from agentrt.testing import calls_text, run_virtual

ASK = chat(system="Be brief and tell only what was asked for, in one sentence of plain words. " * 3)
LONG = "A long question about many things that fills more than a page of memory. " * 4


@pytest.fixture(autouse=True)
def _no_cycles() -> Iterator[None]:
    """What goes must go without the collector of cycles."""
    gc.disable()
    yield
    gc.enable()


@tool(effects="read")
async def fetch(seconds: float) -> str:
    """Fetches."""
    await anyio.sleep(seconds)
    return "fetched"


def rig_of(bench: Any, codec: Any, script: Any = None, **more: Any) -> Any:
    script = script or (lambda request, prompt: "fine words here")
    return bench(script, codec=codec, hints=True, **more)


def said(rig: Any, hint: str = "") -> list[Any]:
    return [one for one in rig.backend.seen.hints if not hint or one.hint == hint]


def text_of(codec: Any, token_ids: Any) -> str:
    return str(codec.detokenizer(True).feed_ids(token_ids))


def play(rig: Any, to_run: Any, *args: Any, rounds: int = 1, **config: Any) -> Any:
    """Runs one after the other on one runtime, which learns; hints of the last one only."""

    async def main() -> Any:
        runtime = Runtime(
            {"default": (rig.backend, rig.codec)},
            clock=rig.clock,
            observers=[rig.recorder],
            scheduler=SchedulerConfig(**config),
            estimates=Estimates(),
        )
        async with runtime:
            for _ in range(rounds):
                rig.backend.seen.hints.clear()
                result = await runtime.run(to_run, *args)
        return result

    return run_virtual(main)


@program
async def reacts(seconds: float) -> str:
    """Asks, waits for a tool, goes on."""
    first = ASK.user(LONG).generate(name="first")
    await first
    found = await fetch(seconds)
    return await first.ctx.user(found).generate(name="second")


def test_a_prefix_is_kept_while_a_tool_runs(bench: Any, codec: Any) -> None:
    rig = rig_of(bench, codec)
    play(rig, reacts, 3.0, rounds=4)
    (keep,) = said(rig, "keep")
    first = rig.backend.seen.requests[-2]
    assert keep.token_ids[: len(first.prompt.token_ids)] == first.prompt.token_ids
    assert text_of(codec, keep.token_ids).endswith("fine words here")
    started_s = rig.recorder.events[-1].at_s - 3.0
    assert 3.0 <= keep.until_s - started_s <= 3.0 * 1.43 * 1.25 + 0.1, "three of four, and a margin"


def test_of_a_tool_that_nobody_knows_it_is_kept_a_while(bench: Any, codec: Any) -> None:
    rig = rig_of(bench, codec)
    play(rig, reacts, 30.0)
    (keep,) = said(rig, "keep")
    assert keep.until_s == rig.recorder.events[0].at_s + 2.0


def test_a_chat_that_goes_on_before_the_tool_ends_is_kept_too(bench: Any, codec: Any) -> None:
    @program
    async def declares() -> str:
        first = ASK.user(LONG).generate(name="first")
        await first
        return await first.ctx.user("Data: ", fetch(3.0)).generate(name="second")

    rig = rig_of(bench, codec)
    play(rig, declares, rounds=4)
    keeps = said(rig, "keep")
    second = rig.backend.seen.requests[-1]
    assert keeps[-1].token_ids == second.prompt.token_ids
    assert not second.prompt.complete


def test_for_a_long_gap_slower_memory_has_it(bench: Any, codec: Any) -> None:
    rig = rig_of(bench, codec, host_kv_tokens=1_000_000)
    play(rig, reacts, 3.0, rounds=4)
    hints = said(rig)
    assert [one.hint for one in hints if one.hint != "drop"] == ["demote", "prefetch"]
    demote, fetch_ = [one for one in hints if one.hint != "drop"]
    assert demote.token_ids == fetch_.token_ids


def test_for_a_short_gap_it_stays(bench: Any, codec: Any) -> None:
    rig = rig_of(bench, codec, host_kv_tokens=1_000_000)
    play(rig, reacts, 0.01, rounds=4)
    assert [one.hint for one in said(rig) if one.hint != "drop"] == ["keep"]


def test_nothing_is_fetched_for_a_tool_that_has_ended(bench: Any, codec: Any) -> None:
    """It took much less than expected: by then the next request is there and brings it itself."""
    slow = [3.0, 3.0, 3.0, 0.2]

    @program
    async def faster() -> str:
        first = ASK.user(LONG).generate(name="first")
        await first
        found = await fetch(slow.pop(0))
        return await first.ctx.user(found).generate(name="second")

    rig = rig_of(bench, codec, host_kv_tokens=1_000_000)
    play(rig, faster, rounds=4)
    assert [one.hint for one in said(rig) if one.hint != "drop"] == ["demote"]


def test_what_nobody_holds_is_dropped_from_where_others_go_on(bench: Any, codec: Any) -> None:
    @program
    async def forgets() -> str:
        base = ASK.user(LONG)
        await base.generate(name="gone")
        await fetch(0.1)
        assert not said(rig, "drop"), "an answer of few tokens is not worth it"
        longer = base.assistant("yes").user("Or rather: " + LONG)
        await longer.generate(name="long")
        del longer
        await fetch(0.1)
        (drop,) = said(rig, "drop")
        asked = rig.backend.seen.requests[1].prompt.token_ids
        assert drop.token_ids[: len(asked)] == asked
        base_tokens = len(rig.backend.seen.requests[0].prompt.token_ids)
        assert drop.from_tokens == base_tokens, "`base` can still be gone on from"
        return await base.generate(name="again", max_tokens=4)

    rig = rig_of(bench, codec)
    play(rig, forgets)


def test_at_the_end_all_but_what_modules_hold_is_dropped(bench: Any, codec: Any) -> None:
    @program
    async def deep() -> str:
        talk = ASK
        for _ in range(3):
            answer = talk.user(LONG).generate()
            await answer
            talk = answer.ctx
        return "done"

    @program
    async def next_one() -> str:
        return await ASK.user("x").generate(max_tokens=4)

    rig = rig_of(bench, codec)

    async def main(runtime: Any) -> None:
        await runtime.run(deep)
        await runtime.run(next_one)

    rig.main(main)
    longest = max(said(rig, "drop"), key=lambda one: len(one.token_ids))
    assert len(said(rig, "drop")) <= 2, "one for the whole talk, one for the last run"
    system = len(codec.encode((), prompt_segments(ASK)).token_ids)
    assert longest.from_tokens == system


def test_what_a_node_under_way_needs_is_not_dropped(bench: Any, codec: Any) -> None:
    @program
    async def lets_go() -> str:
        first = ASK.user(LONG).generate(name="first")
        second = first.ctx.user(fetch(1.0)).generate(name="second")
        del first
        await fetch(0.5)
        assert not said(rig, "drop")
        return await second

    rig = rig_of(bench, codec)
    play(rig, lets_go)


@pytest.mark.parametrize("how", ["engine", "config"])
def test_nothing_is_said_where_nobody_listens(bench: Any, codec: Any, how: str) -> None:
    rig = bench(lambda request, prompt: "fine", codec=codec, hints=how == "config")
    play(rig, reacts, 1.0, retention=how != "config")
    assert not said(rig)


def test_nothing_is_said_while_there_is_room(bench: Any, codec: Any) -> None:
    """And when room runs out, what became unreachable before is dropped first."""
    rig = rig_of(bench, codec)
    rig.backend.pages = (100, 0)
    play(rig, reacts, 1.0, rounds=2)
    assert not said(rig)

    @program
    async def fills() -> str:
        await ASK.user("x").generate(max_tokens=3)
        rig.backend.pages = (int(100 * ROOM_SHARE), 75)
        return await ASK.user("y").generate(max_tokens=3)

    async def main(runtime: Any) -> None:
        await runtime.run(reacts, 1.0)
        assert not said(rig)
        await runtime.run(fills)

    rig = rig_of(bench, codec)
    rig.backend.pages = (100, 0)
    rig.main(main)
    assert said(rig, "drop")


def test_a_person_is_waited_for_like_a_tool(bench: Any, codec: Any) -> None:
    @program
    async def asks() -> str:
        first = ASK.user(LONG).generate(name="first")
        await first
        said_ = await ask(str, "Go on?")
        return await first.ctx.user(said_).generate(name="second")

    rig = rig_of(bench, codec)
    rig.run(asks, options=RunOptions(on_ask=lambda question: "yes"))
    assert len(said(rig, "keep")) == 1


def test_calls_of_a_plan_keep_the_plan(bench: Any, codec: Any) -> None:
    @program
    async def plans() -> str:
        plan = ASK.user(LONG).calls(fetch, name="plan")
        data = [call.start() async for call in plan]
        await gather(*data)
        return await plan.ctx.results(data).generate(name="report", max_tokens=4)

    def script(request: Any, prompt: str) -> str:
        if request.constraint is None:
            return "done"
        return calls_text(("fetch", {"seconds": 2.0}), frame=codec.call_frame)

    rig = rig_of(bench, codec, script)
    play(rig, plans)
    keeps = said(rig, "keep")
    assert keeps
    assert text_of(codec, keeps[-1].token_ids).count("fetch") >= 1
