"""Outputs held to many options: written, read and filled in by a worker thread."""

import asyncio
import json
import threading
from functools import partial
from typing import Annotated, Any

import anyio
import pytest
from pydantic import BaseModel, model_serializer

from agentrt import ConstraintError, OneOf, chat, program, tool
from agentrt.base.held_place import FEW
from agentrt.base.one_of import LARGE_OPTIONS
from tests.runtime.watched_threads import WATCH, Watch

ASK = chat(system="Be brief.")


@tool(effects="read")
async def word(text: str, seconds: float) -> str:
    """A word."""
    await anyio.sleep(seconds)
    return text


@tool(effects="pure")
def numbers(count: int) -> list[int]:
    """Numbers."""
    return list(range(count))


class Watched(BaseModel):
    at: int

    @model_serializer
    def written(self) -> dict[str, int]:
        WATCH.get().note()
        return {"at": self.at}


@tool(effects="read")
async def records(count: int) -> list[Watched]:
    """Records."""
    return [Watched(at=at) for at in range(count)]


@pytest.mark.parametrize("takes_holes", [True, False])
@pytest.mark.parametrize("awaited", [True, False])
def test_many_options_are_written_once_and_off_the_loop(
    bench: Any, codec: Any, watch: Watch, takes_holes: bool, awaited: bool
) -> None:
    """Other inputs become known before and after, and each looks at the constraint again."""
    count = LARGE_OPTIONS + 1

    @program
    async def many() -> Any:
        known = records(count)
        if awaited:
            await known
        words = [word("A", 1.0), word("B", 2.0)]
        ask = ASK.user("Data: ", *words, ".")
        return await ask.generate(list[Annotated[Watched, OneOf(known)]], name="which")

    rig = bench(['[{"at":7}]'], codec=codec if takes_holes else None)
    assert rig.run(many) == [Watched(at=7)]
    in_worker = [one for one in watch.threads if one is not threading.main_thread()]
    assert len(in_worker) == 2 * count  # each is read back
    assert len(watch.threads) == 2 * count + 1  # the value of the answer
    [source] = {
        one.constraint.source
        for one in (*rig.backend.seen.requests, *(fill for _, fill in rig.backend.seen.fills))
        if one.constraint is not None and not one.constraint.holes
    }
    options = json.loads(source)["$defs"]["options:0"]["enum"]
    assert options == [{"at": at} for at in range(count)]


def test_many_declared_options_are_written_once_for_all_runs(
    bench: Any, codec: Any, watch: Watch
) -> None:
    """And off the loop, but for the first few, which are tried where they are declared."""
    count = 4 * LARGE_OPTIONS
    held = list[Annotated[Watched, OneOf([Watched(at=at) for at in range(count)])]]

    @program
    async def declared() -> Any:
        return await ASK.user("Which?").generate(held, name="which")

    @program
    async def twice() -> Any:
        return [await declared(), await declared()]

    rig = bench(['[{"at":7}]', '[{"at":8}]'], codec=codec)
    assert rig.run(twice) == [[Watched(at=7)], [Watched(at=8)]]
    in_worker = [one for one in watch.threads if one is not threading.main_thread()]
    assert len(in_worker) == 2 * count  # each is read back
    assert len(watch.threads) == 2 * count + 2 * FEW + 2  # the values of both answers
    last = rig.backend.seen.requests[-1].constraint
    assert last is not None
    assert not last.holes


def test_a_few_options_need_no_thread(bench: Any, codec: Any, watch: Watch) -> None:
    @program
    async def few() -> Any:
        held = list[Annotated[Watched, OneOf(records(LARGE_OPTIONS))]]
        return await ASK.user("Which?").generate(held, name="which")

    assert bench(['[{"at":7}]'], codec=codec).run(few) == [Watched(at=7)]
    assert set(watch.threads) == {threading.main_thread()}


def test_a_generation_may_end_while_its_options_are_written(
    bench: Any, codec: Any, watch: Watch
) -> None:
    watch.gate.clear()

    @program
    async def cut() -> Any:
        begun, loop = asyncio.Event(), asyncio.get_running_loop()
        watch.on_note = partial(loop.call_soon_threadsafe, begun.set)
        known = records(LARGE_OPTIONS + 1)
        await known
        asked = ASK.user("Which?").generate(Annotated[Watched, OneOf(known)], name="which")
        await begun.wait()
        asked.cancel("no longer needed")
        watch.gate.set()  # the run waits for the thread
        return "cut"

    rig = bench(['{"at":7}'], codec=codec)
    assert rig.run(cut) == "cut"
    assert rig.backend.seen.cancels
    assert not rig.backend.seen.fills


@pytest.mark.parametrize("count", [1, LARGE_OPTIONS + 1])
@pytest.mark.parametrize("takes_holes", [True, False])
def test_options_of_another_type_are_refused_when_they_are_known(
    bench: Any, codec: Any, count: int, takes_holes: bool
) -> None:
    """No answer could become right, so the model is not asked again."""

    @program
    async def wrong() -> Any:
        held = list[Annotated[str, OneOf(numbers(count))]]
        return await ASK.user("Which?").generate(held, name="which")

    rig = bench(["[7]"], codec=codec if takes_holes else None)
    with pytest.raises(
        ConstraintError, match="the option 0 of OneOf is none of its type"
    ) as caught:
        rig.run(wrong)
    assert caught.value.where.startswith("tests/runtime/test_large_options.py:")
    assert len(rig.backend.seen.requests) == takes_holes
    assert not rig.backend.seen.fills
