"""Cancelling: what stops, what is kept, what is never interrupted."""

import json
from typing import Any

import anyio
import pytest

from agentrt import (
    DeadlineExceeded,
    NodeCancelled,
    OutcomeUnknown,
    UsageError,
    chat,
    emit,
    program,
    race,
    tool,
)
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.events import NodeFinished, ToolStarted
from agentrt.testing import calls_text

ASK = chat(system="Be brief.")


def test_a_cancelled_generation_keeps_its_text(bench: Any) -> None:
    @program
    async def outer() -> tuple[str, str, int]:
        draft = ASK.user("x").generate(name="draft")
        await anyio.sleep(1.05)
        draft.cancel("guard")
        with pytest.raises(NodeCancelled):
            await draft
        return draft.text, draft.meta.finish_reason, draft.meta.ledger.output_tokens

    rig = bench(["a" * 100], decode_tokens_per_s=10.0)
    text, reason, tokens = rig.run(outer)
    assert text == "a" * tokens
    assert tokens in (10, 11)
    assert reason == "cancelled"
    end = rig.recorder.of(NodeFinished, "draft")[0]
    assert (end.outcome, end.reason, end.finish_reason) == ("cancelled", "guard", "cancelled")
    assert end.ledger.output_tokens == tokens
    assert end.error is None


def test_cancelling_twice_or_late_does_nothing(bench: Any) -> None:
    @program
    async def outer() -> str:
        draft = ASK.user("x").generate(name="draft")
        text = await draft
        draft.cancel("too late")
        return text + await draft

    assert bench(["ab"]).run(outer) == "abab"


def test_a_node_that_was_not_sent_yet(bench: Any) -> None:
    @program
    async def outer() -> str:
        draft = ASK.user("x").generate(name="draft")
        draft.cancel("at once")
        draft.cancel("again")
        return "done"

    rig = bench([])
    assert rig.run(outer) == "done"
    assert rig.recorder.of(NodeFinished, "draft")[0].reason == "at once"
    assert not rig.backend.seen.requests


def test_leaving_a_race_cancels_the_rest(bench: Any) -> None:
    texts = {"s0": "a" * 5, "s1": "b" * 50, "s2": "c" * 10}

    def script(request: GenerateRequest, prompt: str) -> str:
        return texts[request.node_id.rpartition("/")[2].partition("#")[0]]

    @program
    async def outer() -> tuple[list[str], list[str], int]:
        samples = [ASK.user("x").generate(name=f"s{i}") for i in range(3)]
        async with race(samples) as finished:
            won = [await anext(finished), await anext(finished)]
        return won, [node.name for node in finished.cancelled], finished.pending

    rig = bench(script, decode_tokens_per_s=10.0)
    won, cancelled, pending = rig.run(outer)
    assert won == ["a" * 5, "c" * 10]
    assert cancelled == ["s1"]
    assert pending == 1
    assert rig.recorder.of(NodeFinished, "s1")[0].reason == "lost the race"


@tool(effects="read")
async def broken(after_s: float) -> str:
    """Fails after a while."""
    await anyio.sleep(after_s)
    raise ValueError("broken")


@tool(effects="read")
async def works(after_s: float) -> str:
    """Works after a while."""
    await anyio.sleep(after_s)
    return "works"


def test_a_race_may_skip_errors(bench: Any) -> None:
    @program
    async def outer() -> list[str]:
        async with race([broken(1.0), works(2.0), broken(3.0)], errors="skip") as finished:
            return [value async for value in finished]

    assert bench([]).run(outer) == ["works"]


def test_a_race_raises_by_default(bench: Any) -> None:
    @program
    async def outer() -> list[str]:
        async with race([broken(1.0), works(2.0)]) as finished:
            return [value async for value in finished]

    rig = bench([])
    with pytest.raises(Exception, match="broken"):
        rig.run(outer)
    assert rig.recorder.of(NodeFinished, "works")[0].outcome == "cancelled"


def test_nodes_made_inside_a_race_end_with_it(bench: Any) -> None:
    @program
    async def outer() -> str:
        async with race([works(1.0)]) as finished:
            async for _ in finished:
                works(5.0)
        return "ended"

    rig = bench([])
    assert rig.run(outer) == "ended"
    inner = rig.recorder.of(NodeFinished)[1]
    assert (inner.node_id, inner.outcome) == ("outer#0/race#0/works#0", "ok")


def writer(log: list[str]) -> Any:
    @tool(effects="write")
    async def save(text: str) -> str:
        """Saves."""
        log.append(f"begin {text}")
        await anyio.sleep(5.0)
        log.append(f"end {text}")
        return "saved"

    return save


def test_a_write_that_has_started_is_not_interrupted(bench: Any) -> None:
    log: list[str] = []
    save = writer(log)

    @program
    async def outer() -> str:
        node = save("x")
        await anyio.sleep(1.0)
        node.cancel("changed my mind")
        with pytest.raises(OutcomeUnknown, match="save goes on") as unknown:
            await node
        assert log == ["begin x"], "only the wait for it has ended"
        return unknown.value.tool

    rig = bench([])
    assert rig.run(outer) == "save"
    assert log == ["begin x", "end x"]
    end = rig.recorder.of(NodeFinished, "save")[0]
    assert (end.outcome, end.error.type) == ("failed", "OutcomeUnknown")


def test_a_write_that_has_not_started_never_starts(bench: Any) -> None:
    log: list[str] = []
    save = writer(log)

    @program
    async def outer() -> str:
        save("x").cancel("changed my mind")
        return "done"

    bench([]).run(outer)
    assert log == []


def test_a_write_waits_for_the_end_of_its_plan(bench: Any) -> None:
    """The model may still be writing: a read starts at once, a write only then."""
    log: list[str] = []
    save = writer(log)

    @tool(effects="read")
    async def look(text: str) -> str:
        """Looks."""
        return text

    @program
    async def outer() -> int:
        plan = ASK.user("x").calls(save, look, name="plan")
        nodes = [call.start() async for call in plan]
        return len([await node for node in nodes])

    plan_text = calls_text(
        ("save", {"text": "x"}), ("look", {"text": "y"}), ("look", {"text": "z" * 50})
    )
    rig = bench([plan_text], decode_tokens_per_s=10.0)
    assert rig.run(outer) == 3
    plan_end_s = rig.recorder.of(NodeFinished, "plan")[0].at_s
    started = {e.node_id.rpartition("/")[2]: e.at_s for e in rig.recorder.of(ToolStarted)}
    assert started["save#0"] >= plan_end_s
    assert started["look#0"] < plan_end_s


def test_a_write_whose_plan_fails_never_starts(bench: Any) -> None:
    log: list[str] = []
    save = writer(log)

    @program
    async def outer() -> str:
        plan = ASK.user("x").calls(save, name="plan", max_tokens=60)
        nodes = []
        try:
            async for call in plan:
                nodes.append(call.start())  # noqa: PERF401  (those before the failure are kept)
        except Exception as error:
            with pytest.raises(NodeCancelled, match="never started"):
                await nodes[0]
            return type(error).__name__
        return "no error"

    plan_text = calls_text(("save", {"text": "x"}), ("save", {"text": "y" * 100}))
    assert bench([plan_text], decode_tokens_per_s=10.0).run(outer) == "Truncated"
    assert log == []


def test_dependents_of_a_cancelled_node_are_cancelled(bench: Any) -> None:
    @program
    async def outer() -> str:
        draft = ASK.user("x").generate(name="draft")
        after = draft.ctx.user("more").generate(name="after")
        await anyio.sleep(1.0)
        draft.cancel("guard")
        with pytest.raises(NodeCancelled, match="draft"):
            await after
        return "done"

    rig = bench(["a" * 100], decode_tokens_per_s=10.0)
    assert rig.run(outer) == "done"
    assert rig.recorder.of(NodeFinished, "after")[0].outcome == "cancelled"


def test_advisor_drops_its_draft(bench: Any) -> None:
    """The guard says yes: the draft is cancelled, the decline is emitted and its chat kept."""

    def script(request: GenerateRequest, prompt: str) -> str:
        name = request.node_id.rpartition("/")[2]
        return {"draft#0": "d" * 100, "guard#0": "yes", "decline#0": "no"}[name]

    @program
    async def advisor() -> list[dict[str, Any]]:
        ctx = ASK.user("should I buy?")
        draft = ctx.generate(name="draft")
        if await ctx.user("Advice?").generate(name="guard") == "yes":
            draft.cancel("guard")
            draft = ctx.user("Decline.").generate(name="decline")
        await emit(draft)
        await draft
        return draft.ctx.messages()

    from agentrt.runtime import RunOptions

    heard: list[str] = []
    rig = bench(script, decode_tokens_per_s=10.0)
    messages = rig.run(advisor, options=RunOptions(on_emit=heard.append))
    assert "".join(heard) == "no"
    assert messages[-1] == {"role": "assistant", "content": "no"}
    fork = {
        e.node_id.rpartition("/")[2]: e.fork_of
        for e in rig.recorder.events
        if hasattr(e, "fork_of")
    }
    assert fork["draft#0"] is None
    assert fork["guard#0"] == fork["decline#0"] == "advisor#0/draft#0"


def test_a_cancelled_generation_may_close_its_output(bench: Any, codec: Any) -> None:
    """It is over at once and gives a valid value: the grammar is driven to its shortest end."""

    @program
    async def outer() -> tuple[list[str], bool, str]:
        plan = ASK.user("x").generate(list[str], on_limit="close", max_tokens=400, name="plan")
        await anyio.sleep(1.0)
        plan.cancel("enough", close=True)
        value = await plan
        plan.cancel("too late", close=True)
        return value, plan.meta.closed_early, plan.meta.finish_reason

    answer = json.dumps(["word " * 4] * 20, separators=(",", ":"))
    rig = bench([answer], decode_tokens_per_s=20.0, codec=codec)
    value, closed, reason = rig.run(outer)
    assert (closed, reason) == (True, "length")
    assert 1 <= len(value) < 20
    assert not rig.backend.seen.cancels


def test_only_what_holds_a_way_out_can_be_closed(bench: Any) -> None:
    @program
    async def outer() -> None:
        plan = ASK.user("x").generate(list[str], name="plan")
        with pytest.raises(UsageError, match="on_limit='close'"):
            plan.cancel("enough", close=True)
        await plan

    bench(['["a"]']).run(outer)


def test_a_tool_whose_client_the_deadline_closes_is_cut_off(bench: Any) -> None:
    """The code of a program leaves its blocks before its nodes are cancelled."""

    class Client:
        def __init__(self) -> None:
            self.closed = anyio.Event()

        async def get(self) -> str:
            await self.closed.wait()
            raise ConnectionError("closed")

        async def __aenter__(self) -> "Client":
            return self

        async def __aexit__(self, *reason: object) -> None:
            self.closed.set()
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)

    @tool(effects="read")
    async def fetch(client: Client) -> str:
        return await client.get()

    @program(deadline=1.0)
    async def outer() -> str:
        async with Client() as client:
            return await fetch(client)

    rig = bench([])
    with pytest.raises(DeadlineExceeded):
        rig.run(outer)
    end = rig.recorder.of(NodeFinished, "fetch")[0]
    assert (end.outcome, end.reason) == ("cancelled", "its program was cut off")
