"""The same language on the engine that ships with the package: real tokens, real constraints.

What a model answers is its own affair; these tests hold what must be true of any model. The engine
runs in a thread of the test's process.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import anyio.from_thread
import pytest
from pydantic import BaseModel, Field

from agentrt import (
    Calls,
    ConstraintError,
    ContextOverflow,
    DeadlineExceeded,
    NodeCancelled,
    OneOf,
    ToolFailed,
    Truncated,
    chat,
    choice,
    embedded,
    gather,
    limits,
    program,
    race,
    regex,
    tool,
    trim,
)
from agentrt.base.ids import RunId
from agentrt.prompt import Codec
from agentrt.protocol.events import HoleFilled, NodeFinished, RequestSent
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import RunOptions

pytestmark = pytest.mark.model
ASK = chat(system="Be brief.")
HOT: Any = {"temperature": 1.0, "on_limit": "close"}
LONG = Annotated[list[int], Field(min_length=400)]
"""What no model can end early: hundreds of tokens whatever it would rather write."""


class Report(BaseModel):
    answer: Annotated[str, Field(max_length=40)]
    risk: Annotated[int, Field(ge=1, le=5)]


@tool(effects="pure")
def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@tool(effects="read")
async def fetch(seconds: float) -> str:
    """Fetches."""
    await anyio.sleep(seconds)
    return "fetched"


@tool(effects="read")
async def broken() -> str:
    """Fails."""
    raise ValueError("broken")


def test_outputs_are_of_their_types(engine: Any) -> None:
    @program
    async def outputs() -> list[Any]:
        c = ASK.user("Say something.")
        return list(
            await gather(
                c.generate(max_tokens=12),
                c.generate(Literal["yes", "no"]),
                c.generate(Annotated[int, Field(ge=0, le=99)]),
                c.generate(Report, max_tokens=60, on_limit="close"),
                c.generate(regex("[a-f]{3}-[0-9]{2}")),
                c.generate(choice(1, 2, 3)),
                c.generate(list[bool], max_tokens=24, on_limit="close"),
            )
        )

    text, guard, number, report, code, picked, flags = engine.run(outputs)
    assert isinstance(text, str)
    assert guard in ("yes", "no")
    assert 0 <= number <= 99
    assert 1 <= report.risk <= 5
    assert len(code) == 6
    assert code[3] == "-"
    assert picked in (1, 2, 3)
    assert all(flag in (True, False) for flag in flags)


def test_what_a_stop_string_cut_goes_on_by_its_text(engine: Any) -> None:
    @program
    async def cut() -> tuple[str, Any]:
        whole = await ASK.user("Say something.").generate(max_tokens=12)
        node = ASK.user("Say something.").generate(max_tokens=12, stop=whole[3:5])
        await node
        return whole, node.written.generated

    whole, kept = engine.run(cut)
    assert kept.text == whole[: whole.index(whole[3:5])]
    assert (kept.token_ids, kept.codec) == ((), "")


def test_a_plan_its_tools_and_a_report(engine: Any) -> None:
    @program
    async def plans() -> tuple[int, Report]:
        plan = ASK.user("Double 3 and 4.").calls(
            double, max_tokens=200, on_limit="close", name="calls"
        )
        data = [call.start() async for call in plan]
        answer = plan.ctx.results(data).user("Report.")
        return len(data), await answer.generate(Report, max_tokens=60, on_limit="close")

    count, report = engine.run(plans)
    assert count >= 1
    assert isinstance(report, Report)
    plan, last = engine.of(NodeFinished, "calls")[0], engine.of(NodeFinished, "Report")[0]
    whole = plan.ledger.prompt_tokens + plan.ledger.output_tokens
    assert last.ledger.cached_tokens >= whole - 17, "the report goes on from the plan's own pages"


def test_holes_are_prefilled_before_they_are_filled(engine: Any) -> None:
    @program
    async def waits() -> str:
        ask = ASK.user("A long beginning, known at once. " * 8, fetch(1.0), "\nWhat follows?")
        return await ask.generate(max_tokens=4, name="gen")

    engine.run(waits)
    sent, filled = engine.of(RequestSent, "gen")[0], engine.of(HoleFilled, "gen")[0]
    assert not sent.complete
    assert sent.at_s + 0.9 < filled.at_s
    steps = [e.step for e in engine.of(StepDone) if e.step is not None]
    early = sum(s.prefill_tokens for s in steps if s.ended_at_s < filled.at_s)
    assert early > 40


def test_a_text_is_prefilled_in_another_prompt_while_it_is_written(engine: Any) -> None:
    """When the draft ends, the verdict's prompt lacks no more than the last tokens of it."""

    @program
    async def joins() -> str:
        draft = ASK.user("x").generate(temperature=8.0, max_tokens=200, name="draft")
        return await ASK.user("Of ", draft, "\nWhich?").generate(max_tokens=4, name="verdict")

    engine.run(joins)
    draft, verdict = (engine.of(NodeFinished, name)[0] for name in ("draft", "verdict"))
    assert verdict.ledger.prompt_tokens > 200
    steps = [e.step for e in engine.of(StepDone) if e.step is not None]
    assert sum(s.prefill_tokens for s in steps if s.ended_at_s > draft.at_s) < 120


def test_a_prompt_is_prefilled_before_the_options_of_its_output_are_known(engine: Any) -> None:
    """Figures are copied from what a tool gives later; the prompt is computed by then."""
    reports = [Report(answer=f"answer {at}", risk=at) for at in range(1, 6)]

    @tool(effects="read")
    async def known() -> list[Report]:
        """Gives reports."""
        await anyio.sleep(1.0)
        return reports

    @program
    async def waits() -> list[Report]:
        held = list[Annotated[Report, OneOf(known())]]
        ask = ASK.user("Reports to choose from come later. " * 8)
        return await ask.generate(held, max_tokens=120, on_limit="close", name="gen")

    assert all(one in reports for one in engine.run(waits))
    sent, filled = engine.of(RequestSent, "gen")[0], engine.of(HoleFilled, "gen")[0]
    assert not sent.complete
    steps = [e.step for e in engine.of(StepDone) if e.step is not None]
    assert sum(s.prefill_tokens for s in steps if s.ended_at_s < filled.at_s) > 40
    assert all(s.decode_tokens == 0 for s in steps if s.ended_at_s < filled.at_s)


def test_options_that_cannot_be_are_errors_of_their_generation(engine: Any) -> None:
    @tool(effects="pure")
    def none() -> list[str]:
        """Gives nothing."""
        return []

    @tool(effects="pure")
    def long() -> list[str]:
        """Gives one that is long."""
        return ["long " * 200]

    @tool(effects="pure")
    def many() -> list[str]:
        """Gives too many."""
        return [str(at) for at in range(20_001)]

    @program
    async def wrong(source: Any) -> str:
        held = Annotated[str, OneOf(source())]
        return await ASK.user("x").generate(held, max_tokens=20, on_limit="close")

    for source, reason in ((none, "choose from"), (long, "max_tokens"), (many, "20000")):
        with pytest.raises(ConstraintError, match=reason) as caught:
            engine.run(wrong, source)
        assert caught.value.where.startswith("tests/runtime/test_on_embedded.py:")


def test_the_same_seed_gives_the_same_answer(engine: Any) -> None:
    @program
    async def samples() -> list[str]:
        made = [ASK.user("x").generate(temperature=8.0, max_tokens=12) for _ in range(4)]
        return list(await gather(*made))

    one, other = engine.run(samples), engine.run(samples)
    assert one == other
    assert len(set(one)) > 1
    assert engine.run(samples, options=RunOptions(seed=8)) != one


def test_branches_share_their_prefix_and_their_steps(engine: Any) -> None:
    @program
    async def forks() -> int:
        base = ASK.user("The same beginning for everybody. " * 12)
        votes = [base.generate(temperature=8.0, max_tokens=8, name="vote") for _ in range(6)]
        return len(await gather(*votes))

    assert engine.run(forks) == 6
    ledgers = [e.ledger for e in engine.of(NodeFinished, "vote")]
    computed = sum(x.prompt_tokens - x.cached_tokens for x in ledgers)
    assert computed <= ledgers[0].prompt_tokens + 6 * 16
    most = max(e.step.decode_tokens for e in engine.of(StepDone) if e.step is not None)
    assert most == 6


def test_a_race_frees_the_batch(engine: Any) -> None:
    @program
    async def races() -> int:
        ask = ASK.user("x")
        quick = ask.generate(regex("[a-f]"), name="quick")
        made: list[Any] = [quick, *(ask.generate(LONG, max_tokens=400) for _ in range(2))]
        async with race(made) as finished:
            await anext(finished)
        return len(finished.cancelled)

    assert engine.run(races) == 2
    cancelled = [e for e in engine.of(NodeFinished) if e.outcome == "cancelled"]
    assert {e.reason for e in cancelled} == {"lost the race"}
    assert all(e.ledger.output_tokens < 200 for e in cancelled)


def test_context_overflow(engine: Any) -> None:
    @program
    async def long() -> str:
        return await ASK.user("word " * 5000, "\nSummarise.").generate()

    with pytest.raises(ContextOverflow, match="<- largest") as e:
        engine.run(long)
    window = Codec.load(Path(embedded.path())).window_tokens
    assert e.value.window_tokens == window
    assert not engine.of(StepDone)


def test_an_overflow_is_trimmed_and_the_talk_goes_on(engine: Any) -> None:
    """What went on before the answer was known goes on from the shorter chat."""

    @program
    async def talks() -> tuple[int, int, int]:
        c = ASK
        for index in range(40):
            c = c.user(f"question {index} " + "word " * 60).assistant("fine")
        one = c.user("And now?").generate(max_tokens=8, on_overflow=trim, name="one")
        two = one.ctx.user("Then?").generate(max_tokens=8, name="two")
        await gather(one, two)
        return len(c.messages()), len(one.prompt.messages()), two.meta.ledger.cached_tokens

    before, after, cached = engine.run(talks)
    assert after < before
    (sent,) = engine.of(RequestSent, "one")
    assert sent.complete
    done = engine.of(NodeFinished, "one")[0].ledger
    assert cached >= (done.prompt_tokens + done.output_tokens) // 16 * 16 - 16, "all was shared"


def test_a_limit_truncates_or_closes(engine: Any) -> None:
    @program
    async def short(on_limit: Literal["raise", "close"]) -> Any:
        form = Annotated[list[int], Field(min_length=3)]
        gen = ASK.user("x").generate(form, max_tokens=12, on_limit=on_limit)
        return await gen, gen.meta.ledger.output_tokens

    values, tokens = engine.run(short, "close")
    assert len(values) >= 3
    assert tokens <= 12

    @program
    async def far() -> Any:
        form = Annotated[list[int], Field(min_length=30)]
        return await ASK.user("x").generate(form, max_tokens=12)

    with pytest.raises(Truncated) as e:
        engine.run(far)
    assert e.value.partial_text.startswith("[")
    assert e.value.partial is None or all(isinstance(n, int) for n in e.value.partial)


def test_a_deadline_ends_a_generation(engine: Any) -> None:
    @program(deadline=0.3)
    async def late() -> Any:
        fetch(60.0)
        # Drawn hot, as a model that repeats itself for long is stopped.
        return await ASK.user("x").generate(LONG, max_tokens=1500, temperature=1.0, name="gen")

    for _ in range(5):  # a busy machine may hold the program up before it has asked
        with pytest.raises(DeadlineExceeded, match=r"passed its deadline of 0\.3 s: ") as e:
            engine.run(late)
        (gen,) = e.value.progress.path
        if gen.name == "gen":
            break
    assert (gen.live, gen.max_tokens) == (True, 1500)
    assert (gen.slack_s or -1.0) < 0, "unknown, or it would have been late"
    assert [branch.name for branch in e.value.progress.branches] == ["fetch"]
    assert engine.of(NodeFinished, "gen")[-1].outcome == "cancelled"


def test_a_block_with_a_deadline(engine: Any) -> None:
    @program
    async def block() -> str:
        try:
            async with limits(seconds=0.2):
                await fetch(30.0)
        except DeadlineExceeded:
            return "late"
        return "in time"

    assert engine.run(block) == "late"


def test_tools_that_fail(engine: Any) -> None:
    @program
    async def calls() -> str:
        return await ASK.user("Data: ", broken()).generate(max_tokens=4)

    with pytest.raises(ToolFailed, match="broken"):
        engine.run(calls)
    assert not [e for e in engine.of(NodeFinished, "str") if e.outcome == "ok"]


def test_a_cancelled_draft(engine: Any) -> None:
    @program
    async def drafts() -> str:
        draft = ASK.user("x").generate(LONG, max_tokens=400, name="draft")
        async for _ in draft.stream():
            break
        draft.cancel("enough")
        with pytest.raises(NodeCancelled, match="enough"):
            await draft
        return draft.text

    assert engine.run(drafts)
    assert engine.of(NodeFinished, "draft")[0].ledger.output_tokens < 400


def test_runs_at_once_share_steps(engine: Any) -> None:
    @program
    async def one() -> str:
        return await ASK.user("x").generate(max_tokens=30, temperature=8.0)

    async def both() -> None:
        async with anyio.create_task_group() as tasks:
            for n in range(2):
                options = RunOptions(run_id=RunId(f"{n:016x}"), seed=n)  # else they are one
                tasks.start_soon(engine.runtime.with_options(options).run, one)

    engine.recorder.events.clear()
    engine.portal.call(both)
    sent = {e.request_id: e.run_id for e in engine.of(RequestSent)}
    steps = [e.step for e in engine.of(StepDone) if e.step is not None]
    assert any(len({sent[r] for r in step.requests if r in sent}) == 2 for step in steps)


def test_numbers_of_items_and_calls_are_enforced(engine: Any) -> None:
    @program
    async def outer() -> tuple[list[bool], list[Any], Any]:
        c = ASK.user("Say something.")
        flags = c.each(bool, min_items=2, max_items=3, max_tokens=40, **HOT)
        calls = c.calls(double, min_calls=2, max_calls=2, max_tokens=200, **HOT)
        step = c.step(tools=[double], final=str, min_calls=2, max_calls=2, max_tokens=200, **HOT)
        said = c.step(tools=[double], final=str, text=True, max_tokens=200, **HOT)
        answer = await said
        assert isinstance(answer, Calls) or answer.value == said.text
        return await gather(flags, calls, step)

    flags, calls, step = engine.run(outer)
    assert 2 <= len(flags) <= 3
    assert len(calls) == 2
    assert len(getattr(step, "calls", (1, 2))) == 2
