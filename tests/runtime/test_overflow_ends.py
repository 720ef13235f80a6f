"""Prompts that leave too little room, and nothing that makes them fit."""

from typing import Any

import anyio
import pytest

from agentrt import (
    Chat,
    ContextOverflow,
    DeadlineExceeded,
    InternalError,
    Overflow,
    ToolFailed,
    UsageError,
    program,
    tool,
    trim,
)
from agentrt.protocol.events import NodeFinished
from tests.runtime.long_chats import ASK, fetch, talk


@tool(effects="read")
async def broken() -> str:
    """Fails."""
    await anyio.sleep(1.0)
    raise ValueError("broken")


def test_a_hook_that_gives_too_much_again_is_not_asked_again(bench: Any, codec: Any) -> None:
    calls: list[Overflow] = []

    def useless(overflow: Overflow) -> Chat:
        calls.append(overflow)
        return overflow.chat

    @program
    async def talks() -> str:
        return await talk(60).user("And now?").generate(max_tokens=40, on_overflow=useless)

    with pytest.raises(ContextOverflow, match="<- largest") as e:
        bench([], codec=codec).run(talks)
    assert len(calls) == 1
    assert e.value.parts[0].tokens >= e.value.parts[-1].tokens > 0


def test_declining_what_cannot_be_served_raises(bench: Any, codec: Any) -> None:
    @program
    async def talks() -> str:
        return await ASK.user("word " * 5000).generate(max_tokens=40, on_overflow=trim)

    rig = bench([], codec=codec)
    with pytest.raises(ContextOverflow, match="user 'word word"):
        rig.run(talks)
    assert not rig.backend.seen.requests


def test_what_a_hook_raises_is_the_nodes_error(bench: Any, codec: Any) -> None:
    async def fails(overflow: Overflow) -> Chat:
        await broken()
        raise AssertionError("not reached")

    @program
    async def talks() -> str:
        return await talk(60).generate(max_tokens=40, on_overflow=fails, name="say")

    with pytest.raises(ToolFailed, match="broken") as e:
        bench([], codec=codec).run(talks)
    assert "in node tool:broken#0" in str(e.value.__notes__)


def test_a_hook_that_gives_something_else(bench: Any, codec: Any) -> None:
    def wrong(overflow: Overflow) -> Any:
        return "shorter"

    @program
    async def talks() -> str:
        return await talk(60).generate(max_tokens=40, on_overflow=wrong)

    with pytest.raises(UsageError, match="on_overflow of generate:str#0 gave str"):
        bench([], codec=codec).run(talks)


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_a_node_that_ends_while_its_hook_works(bench: Any, codec: Any, how: str) -> None:
    ended: list[str] = []

    async def slow(overflow: Overflow) -> None:
        try:
            await anyio.sleep(100.0)
        finally:
            ended.append("hook")

    @program(deadline=10.0)
    async def talks() -> str:
        gen = talk(60).generate(max_tokens=40, on_overflow=slow, name="say", deadline=4.0)
        if how == "cancel":
            await anyio.sleep(2.0)
            gen.cancel("enough")
        return await gen

    rig = bench([], codec=codec)
    with pytest.raises((DeadlineExceeded, Exception)) as e:
        rig.run(talks)
    assert ended == ["hook"]
    (finished,) = rig.recorder.of(NodeFinished, "say")
    assert (finished.outcome, finished.at_s) == (
        ("cancelled", 1002.0) if how == "cancel" else ("failed", 1004.0)
    )
    assert not rig.backend.seen.requests
    assert ("enough" in str(e.value)) == (how == "cancel")


def test_an_input_that_fails_while_the_hook_waits_for_it(bench: Any, codec: Any) -> None:
    asked: list[Overflow] = []

    @program
    async def talks() -> str:
        c = talk(60).user("Data: ", broken())
        return await c.generate(max_tokens=40, on_overflow=asked.append)

    with pytest.raises(ToolFailed, match="broken"):
        bench([], codec=codec).run(talks)
    assert not asked, "there is no prompt to look at"


def test_on_overflow_has_to_be_callable(bench: Any) -> None:
    @program
    async def wrong() -> str:
        value: Any = "trim"
        return await ASK.user("x").generate(on_overflow=value)

    with pytest.raises(UsageError, match="on_overflow='trim' cannot be called"):
        bench([]).run(wrong)


def test_a_prompt_that_changes_while_it_is_filled_is_our_own_bug(
    bench: Any, codec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an engine was sent stays the beginning of the prompt, or nobody may compute on it."""
    encode = type(codec).encode
    seen: list[int] = []

    def drifting(self: Any, tools: Any, segments: Any, *history: Any) -> Any:
        encoded = encode(self, tools, segments, *history)
        seen.append(len(encoded.token_ids))
        if not encoded.complete:
            object.__setattr__(encoded, "token_ids", (*encoded.token_ids[:-1], 7))
        return encoded

    @program
    async def fills() -> str:
        return await ASK.user("Data: ", fetch(3), "\nSummarise.").generate()

    monkeypatch.setattr(type(codec), "encode", drifting)
    with pytest.raises(InternalError, match="changed while it was being filled"):
        bench(["never"], codec=codec).run(fills)
    assert len(seen) == 2
