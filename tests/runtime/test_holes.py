"""Prompts with pending parts: sent at once, filled in the declared order."""

from typing import Any

import anyio
import pytest

from agentrt import chat, program, tool
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.protocol.events import HoleFilled, NodeFinished, PrefixLost, RequestSent
from agentrt.testing import calls_text

ASK = chat(system="Be brief.")


@tool(effects="read")
async def fetch(name: str, seconds: float) -> dict[str, str]:
    """Fetches."""
    await anyio.sleep(seconds)
    return {"name": name}


@program
async def report() -> str:
    slow, quick = fetch("slow", 3.0), fetch("quick", 1.0)
    ask = ASK.user("Data: ", slow, " and ", quick, "\nWhat follows?")
    return await ask.generate(name="report")


def test_an_incomplete_prompt_is_sent_and_grows_in_order(bench: Any, codec: Any) -> None:
    """The order is the declared one, not that of arrival: the prompt depends on neither tool."""
    rig = bench(["ok"], codec=codec)
    assert rig.run(report) == "ok"
    sent = rig.recorder.of(RequestSent, "report")[0]
    began_s = rig.recorder.events[0].at_s
    assert not sent.complete
    assert sent.at_s == began_s
    seen = rig.backend.seen
    assert [fill.complete for _, fill in seen.fills] == [True], "quick alone cannot be put in yet"
    filled = rig.recorder.of(HoleFilled, "report")[0]
    assert filled.at_s == began_s + 3.0
    ids = seen.requests[0].prompt.token_ids + seen.fills[0][1].token_ids
    whole = ASK.user("Data: ", '{"name":"slow"}', " and ", '{"name":"quick"}', "\nWhat follows?")
    assert ids == codec.encode((), prompt_segments(whole)).token_ids
    assert len(seen.requests[0].prompt.token_ids) > 5, "what was known was sent"


def test_each_part_is_filled_as_it_arrives_in_order(bench: Any, codec: Any) -> None:
    @program
    async def ordered() -> str:
        quick, slow = fetch("quick", 1.0), fetch("slow", 3.0)
        ask = ASK.user("One: ", quick).user("Two: ", slow, "\nWhat follows?")
        return await ask.generate(name="report")

    rig = bench(["ok"], codec=codec)
    assert rig.run(ordered) == "ok"
    assert [fill.complete for _, fill in rig.backend.seen.fills] == [False, True]


def test_without_holes_the_runtime_waits(bench: Any) -> None:
    rig = bench(["ok"])
    assert rig.run(report) == "ok"
    sent = rig.recorder.of(RequestSent, "report")[0]
    assert sent.complete
    assert sent.at_s == rig.recorder.events[0].at_s + 3.0
    assert len(rig.recorder.of(HoleFilled, "report")) == 1
    assert not rig.backend.seen.fills


def test_a_complete_prompt_has_no_hole_to_fill(bench: Any) -> None:
    @program
    async def plain() -> str:
        return await ASK.user("x").generate()

    rig = bench(["ok"])
    rig.run(plain)
    assert not rig.recorder.of(HoleFilled)


@pytest.mark.parametrize("tokens", [True, False])
def test_a_chat_goes_on_before_its_answer_exists(bench: Any, codec: Any, tokens: bool) -> None:
    @program
    async def goes_on() -> str:
        first = ASK.user("Name a city.").generate(name="first")
        second = first.ctx.user("And its country?").generate(name="second")
        return await second

    rig = bench(["Oslo", "Norway"], codec=codec if tokens else None, decode_tokens_per_s=10.0)
    assert rig.run(goes_on) == "Norway"
    seen = rig.backend.seen
    prompts = [seen.prompts[request.request_id] for request in seen.requests]
    assert "Oslo" in prompts[1]
    sent = rig.recorder.of(RequestSent)
    ended = rig.recorder.of(NodeFinished, "first")[0]
    assert (sent[1].at_s < ended.at_s) == tokens


def test_generated_ids_are_kept(bench: Any, codec: Any) -> None:
    """The answer stands in the next prompt with the ids that were generated, not encoded again."""

    @program
    async def goes_on() -> str:
        first = ASK.user("Name a city.").generate(name="first")
        await first
        kept.extend(first.written.generated.token_ids)
        return await first.ctx.user("And its country?").generate(name="second")

    kept: list[int] = []
    rig = bench(["Oslo Oslo", "Norway"], codec=codec)
    rig.run(goes_on)
    prompt = rig.backend.seen.requests[1].prompt.token_ids
    spots = [i for i in range(len(prompt)) if prompt[i : i + len(kept)] == tuple(kept)]
    assert kept
    assert spots


def test_tools_stay_in_the_prompt_of_what_follows(bench: Any, codec: Any) -> None:
    """The plan's prefix is the report's prefix, the tools' part included."""

    @program
    async def plans() -> str:
        plan = ASK.user("x").calls(fetch, name="calls")
        data = [call.start() async for call in plan]
        return await plan.ctx.results(data).user("Report.").generate(name="report")

    call = calls_text(("fetch", {"name": "a", "seconds": 1.0}), frame=codec.call_frame)
    rig = bench([call, "ok"], codec=codec)
    assert rig.run(plans) == "ok"
    first, second = rig.backend.seen.requests
    shared = first.prompt.token_ids
    assert second.prompt.token_ids[: len(shared)] == shared


def test_a_prefix_lost_to_new_tools_is_told(bench: Any, codec: Any) -> None:
    @program
    async def adds_tools() -> int:
        first = ASK.user("x").generate(name="first")
        await first
        return len(await first.ctx.user("y").calls(fetch, name="second"))

    call = calls_text(("fetch", {"name": "a", "seconds": 1.0}), frame=codec.call_frame)
    rig = bench(["Oslo", call], codec=codec)
    assert rig.run(adds_tools) == 1
    lost = rig.recorder.of(PrefixLost)
    assert [(e.node_id, e.reason) for e in lost] == [("adds_tools#0/second#0", "tools_changed")]
    ledger = rig.recorder.of(NodeFinished, "first")[0].ledger
    assert lost[0].lost_tokens == ledger.prompt_tokens + ledger.output_tokens
