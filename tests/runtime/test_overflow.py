"""Prompts that leave too little room: the program makes them fit, and the run goes on."""

import json
from bisect import bisect_left
from graphlib import TopologicalSorter
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agentrt import Chat, ContextOverflow, Overflow, chat, gather, program, tool, trim
from agentrt.analysis import Causes, RunRecord, critical_path, split
from agentrt.base.segments import Open, Text
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.events import (
    NodeDeclared,
    NodeFinished,
    PrefixLost,
    PromptRevised,
    RequestSent,
)
from agentrt.runtime.requests.overflow import ContextWindows
from agentrt.testing import Reply, calls_text
from tests.runtime.long_chats import ASK, fetch, talk


@tool(effects="read")
async def digits(count: int) -> str:
    """Fetches many digits, each a token: more than fit, and yet no large text."""
    await anyio.sleep(1.0)
    return "7" * count


def codec_ids(codec: Any, text: str) -> Any:
    return codec.encode((), [Open("user"), Text(text)]).token_ids


def prompts(rig: Any) -> list[str]:
    """What the engine was asked, in order."""
    return list(rig.backend.seen.prompts.values())


def test_the_oldest_exchanges_go(bench: Any, codec: Any) -> None:
    """Without a hook the same prompt does not fit at all."""

    @program
    async def talks(hook: bool) -> tuple[str, Chat]:
        c = talk(60).user("And now?")
        gen = c.generate(max_tokens=40, on_overflow=trim) if hook else c.generate(max_tokens=40)
        return await gen, gen.ctx

    rig = bench(["fine"], codec=codec)
    with pytest.raises(ContextOverflow, match="on_overflow=trim"):
        bench([], codec=codec).run(talks, False)
    said, ctx = rig.run(talks, True)
    assert said == "fine"
    (prompt,) = prompts(rig)
    kept = [index for index in range(60) if f"question {index} " in prompt]
    assert kept == list(range(kept[0], 60)), "the newest stay"
    assert kept[0] > 0
    (request,) = rig.backend.seen.requests
    shorter, longer = (len(codec.encode((), prompt_segments(talk(n))).token_ids) for n in (20, 21))
    room = (codec.window_tokens - 40) * 3 // 4 - len(request.prompt.token_ids)
    assert 0 <= room < longer - shorter, "one more would have been too many"
    assert ctx.messages()[0] == {"role": "system", "content": "Be brief."}
    assert ctx.messages()[-1] == {"role": "assistant", "content": "fine"}
    assert len(ctx.messages()) == 1 + 2 * len(kept) + 2
    assert [e.node_id for e in rig.recorder.of(PromptRevised)] == ["talks#0/str#0"]


def test_it_is_asked_when_the_output_would_get_less_than_its_tokens(bench: Any, codec: Any) -> None:
    """Long before the smallest output does not fit, and it may decline."""
    asked: list[Overflow] = []

    def decline(overflow: Overflow) -> None:
        asked.append(overflow)

    window = codec.window_tokens

    @program
    async def asks(fill: int, max_tokens: int) -> str:
        c = ASK.user("word " * fill)
        return await c.generate(max_tokens=max_tokens, on_overflow=decline)

    def tokens(fill: int) -> int:
        return len(codec.encode((), prompt_segments(ASK.user("word " * fill))).token_ids)

    fill = bisect_left(range(window), True, key=lambda n: tokens(n) > window - 50)
    assert tokens(fill - 1) == window - 50
    assert bench(["a"], codec=codec).run(asks, fill - 1, 50) == "a"
    assert not asked
    assert bench(["b"], codec=codec).run(asks, fill, 50) == "b"
    (overflow,) = asked
    assert overflow.prompt_tokens == tokens(fill)
    assert overflow.target_tokens == window - 50
    assert overflow.least_tokens == 1
    assert not overflow.fits(overflow.chat)
    assert overflow.holds(overflow.chat)
    assert overflow.parts[0].name.startswith("user 'word word")
    assert sum(part.tokens for part in overflow.parts) <= overflow.prompt_tokens
    long = bench(["c" * 200], codec=codec).run(asks, fill, window)
    assert len(codec_ids(codec, long)) - 2 == window - tokens(fill), (
        "declined: what is left has to do"
    )


def test_a_hook_may_generate(bench: Any, codec: Any) -> None:
    """A summary takes the place of the talk; its node belongs to the generation it was made for."""

    async def summarise(overflow: Overflow) -> Chat:
        old = json.dumps(overflow.chat.messages()[1:-1])[-2000:]
        told = await chat("Summarise.").user(old).generate(max_tokens=30, name="summary")
        last = overflow.chat.messages()[-1]["content"]
        return ASK.user(f"Known: {told}\n", last)

    @program
    async def talks() -> tuple[str, Chat]:
        gen = talk(60).user("And now?").generate(max_tokens=40, on_overflow=summarise, name="say")
        return await gen, gen.ctx

    def script(request: GenerateRequest, prompt: str) -> str:
        return "sixty words" if "summary" in request.node_id else "fine"

    rig = bench(script, codec=codec, decode_tokens_per_s=10.0)
    said, ctx = rig.run(talks)
    assert said == "fine"
    assert ctx.messages()[1]["content"] == "Known: sixty words\nAnd now?"
    (declared,) = rig.recorder.of(NodeDeclared, "summary")
    assert declared.node_id == "talks#0/say#0/summary#0"
    assert declared.parent == "talks#0"

    record = RunRecord()
    record.on_events(rig.recorder.events)
    path = [step.node_id for step in critical_path(record) if step.part == "work"]
    assert path == ["talks#0/say#0/summary#0", "talks#0/say#0"]
    causes, nodes = Causes(record), record.nodes.values()
    sources = {node.node_id: {one.node.node_id for one in causes.inputs(node)} for node in nodes}
    assert list(TopologicalSorter(sources).static_order()) == ["talks#0", *path]
    parts = split(record)
    assert parts.unattributed == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("turns", [60, 30])
def test_a_chat_that_was_continued_early_continues_the_shorter_one(
    bench: Any, codec: Any, turns: int
) -> None:
    """`ctx` was used before the answer existed: that request starts anew with the shorter chat."""

    @program
    async def talks() -> list[str]:
        first = talk(turns).user("Now?").generate(max_tokens=200, on_overflow=trim, name="one")
        more = first.ctx.user("Then?").generate(max_tokens=20, name="two")
        last = more.ctx.user("And then?").generate(max_tokens=20, name="three")
        return list(await gather(first, more, last))

    rig = bench(["fine", "good", "end"], codec=codec)
    assert rig.run(talks) == ["fine", "good", "end"]
    one, two, three = prompts(rig)
    assert "question 0 " not in one
    assert two.startswith(one + "fine")
    assert three.startswith(two + "good")
    sent = [e.node_id for e in rig.recorder.of(RequestSent)]
    early = codec.window_tokens > len(codec.encode((), prompt_segments(talk(turns))).token_ids)
    assert (sent.count("talks#0/two#0") > 1) == early, "it had begun, and began anew"


def test_what_continues_a_prompt_waits_until_that_was_made_to_fit(bench: Any, codec: Any) -> None:
    """Its beginning is too long when a result comes, and the answer before that is being cut."""

    async def slowly(overflow: Overflow) -> Chat | None:
        await anyio.sleep(5.0)
        return trim(overflow)

    @program
    async def talks() -> list[str]:
        one = talk(24).user("Now?").generate(max_tokens=60, name="one")
        longer = one.ctx.user("word " * 2000)
        two = longer.user("Then?").generate(max_tokens=60, on_overflow=slowly, name="two")
        more = two.ctx.user("And then? ", fetch(1, 3.0))
        three = more.generate(max_tokens=60, name="three")
        return list(await gather(one, two, three))

    rig = bench(["fine", "good", "end"], codec=codec, decode_tokens_per_s=10.0)
    assert rig.run(talks) == ["fine", "good", "end"]
    _, two, three = prompts(rig)
    assert "question 0 " not in two
    assert three.startswith(two + "good")
    sent = [e.node_id for e in rig.recorder.of(RequestSent)]
    assert sent.count("talks#0/three#0") == 2, "it had begun, and began anew"


def test_a_part_that_arrives_late_is_too_long(bench: Any, codec: Any) -> None:
    """The engine has the beginning already: that request ends, and a new one is sent."""
    seen: list[Overflow] = []

    def cut(overflow: Overflow) -> Chat:
        seen.append(overflow)
        return ASK.user("Data: none\nSummarise.")

    @program
    async def late() -> str:
        c = ASK.user("Data: ", digits(codec.window_tokens), "\nSummarise.")
        return await c.generate(max_tokens=20, on_overflow=cut)

    rig = bench(["short"], codec=codec, decode_tokens_per_s=10.0)
    assert rig.run(late) == "short"
    (overflow,) = seen
    assert overflow.parts[0].name == "digits#0"
    assert overflow.prompt_tokens > codec.window_tokens
    first, second = (e.request_id for e in rig.recorder.of(RequestSent))
    assert rig.backend.seen.cancels == {first: "its prompt is too long"}
    assert list(rig.backend.seen.prompts) == [second]
    assert "Data: none" in prompts(rig)[0]
    assert [e.outcome for e in rig.recorder.of(NodeFinished, "str")] == ["ok"]


def test_what_was_computed_for_the_longer_chat_is_told_as_lost(bench: Any, codec: Any) -> None:
    @program
    async def talks() -> str:
        c = talk(1).user("One?")
        for index in range(80):
            asked = c.user(f"question {index} " + "word " * 60)
            gen = asked.generate(max_tokens=30, on_overflow=trim, name=f"n{index}")
            await gen
            c = gen.ctx
        return await c.user("End?").generate(max_tokens=30, on_overflow=trim)

    rig = bench(lambda request, prompt: "fine", codec=codec)
    assert rig.run(talks) == "fine"
    revised = [e.node_id for e in rig.recorder.of(PromptRevised)]
    lost = [e for e in rig.recorder.of(PrefixLost) if e.reason == "overflow"]
    assert 2 <= len(revised) < 8, "again as the talk goes on, and not at each turn"
    assert [e.node_id for e in lost] == revised
    assert all(codec.window_tokens / 2 < e.lost_tokens < codec.window_tokens for e in lost)
    sent = [len(r.prompt.token_ids) for r in rig.backend.seen.requests]
    assert max(sent) <= codec.window_tokens - 30


def test_rounds_of_a_loop_go_and_the_question_stays(bench: Any, codec: Any) -> None:
    @program
    async def loops() -> str:
        c = ASK.user("The question?")
        for index in range(12):
            turn = await c.step(
                tools=[fetch], final=int, max_tokens=60, on_overflow=trim, name=f"n{index}"
            )
            if not hasattr(turn, "run"):
                return "final"
            c = turn.run()
        return "no end"

    def script(request: GenerateRequest, prompt: str) -> str:
        if "#0/n11#" in request.node_id:
            return "7"
        return calls_text(("fetch", {"words": 300}), frame=codec.call_frame)

    rig = bench(script, codec=codec, decode_tokens_per_s=1000.0)
    assert rig.run(loops) == "final"
    assert rig.recorder.of(PromptRevised)
    assert all("The question?" in prompt for prompt in prompts(rig))
    assert all("fetch" in prompt for prompt in prompts(rig)), "the tools are offered still"


def test_an_engine_that_counts_by_itself(bench: Any) -> None:
    """It refuses; half goes, until it takes what is left."""
    tried: list[int] = []

    def script(request: GenerateRequest, prompt: str) -> Any:
        count = prompt.count("question")
        tried.append(count)
        return "fine" if count < 10 else Reply(error=ContextOverflow("too long"))

    @program
    async def talks() -> tuple[str, Chat]:
        gen = talk(60).user("And now?").generate(max_tokens=40, on_overflow=trim)
        return await gen, gen.ctx

    said, ctx = bench(script).run(talks)
    assert said == "fine"
    assert tried == [60, 29, 14, 6]
    assert len(ctx.messages()) == 1 + 2 * 6 + 2
    tried.clear()

    @program
    async def short() -> str:
        return await ASK.user("question " * 10).generate(on_overflow=trim)

    with pytest.raises(ContextOverflow, match="too long"):
        bench(script).run(short)
    assert tried == [10], "there is nothing to leave out"


def test_the_tools_stand_in_the_table(bench: Any, codec: Any) -> None:
    @program
    async def plans() -> Any:
        return await ASK.user("word " * codec.window_tokens).calls(fetch, max_tokens=40)

    with pytest.raises(ContextOverflow) as e:
        bench([], codec=codec).run(plans)
    names = [part.name for part in e.value.parts]
    assert "description of the tools fetch" in names
    total = len(codec.encode((fetch.spec.schema,), prompt_segments(ASK)).token_ids)
    assert e.value.parts[names.index("description of the tools fetch")].tokens < total + 5


def test_the_smallest_output_is_compiled_once(codec: Any, bench: Any) -> None:
    class Report(BaseModel):
        text: str

    @program
    async def tight() -> None:
        words = "word " * (codec.window_tokens - 40)
        for _ in range(3):
            with pytest.raises(ContextOverflow):
                await ASK.user(words).generate(Report, max_tokens=64)

    seen: list[ContextWindows] = []
    init = ContextWindows.__init__

    def noted(self: ContextWindows) -> None:
        seen.append(self)
        init(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ContextWindows, "__init__", noted)
        bench([], codec=codec).run(tight)
    (rooms,) = seen
    assert rooms._compiled is not None
    assert rooms._compiled.counts.compiled == 1
    assert rooms._compiled.counts.hits == 2
