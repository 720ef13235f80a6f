"""Thought, checks and scores on the engine that ships with the package: real tokens, real masks."""

import gc
import sys
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field, PlainValidator, field_validator

from agentrt import (
    Calls,
    CheckFailed,
    OutputUnreadable,
    chat,
    choice,
    gather,
    json_schema,
    program,
    tool,
)
from agentrt.analysis import RunRecord
from agentrt.analysis.usage import usage
from agentrt.protocol.events import AttemptFailed, NodeFinished

pytestmark = pytest.mark.model
ASK = chat(system="Be brief.").user("Should we buy?")


class Report(BaseModel):
    answer: Annotated[str, Field(max_length=40)]
    risk: Annotated[int, Field(ge=1, le=5)]


@tool(effects="pure")
def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@tool(effects="pure")
def half(x: int) -> int:
    """Half of x."""
    return x // 2


class Odd(BaseModel):
    number: Annotated[int, Field(ge=1, le=3)]
    tried: ClassVar[int] = 0

    @field_validator("number")
    @classmethod
    def is_odd(cls, number: int) -> int:
        cls.tried += 1
        if cls.tried < 3 or number % 2 == 0:
            raise ValueError("must be odd, and not so quick")
        return number


def test_thought_goes_before_every_kind_of_output(engine: Any) -> None:
    run, recorder = engine.run, engine.recorder

    @program
    async def thinks() -> list[Any]:
        how: Any = {"thinking": 16, "max_tokens": 160, "on_limit": "close"}
        gens = [
            ASK.generate(Report, **how),
            ASK.generate(Literal["yes", "no"], **how),
            ASK.generate(**how),
            ASK.each(bool, **how),
            ASK.calls(double, half, **how),
        ]
        values = list(await gather(*gens))
        assert all(gen.meta.ledger.thinking_tokens > 0 for gen in gens)
        assert all("<think>" not in gen.text for gen in gens)
        assert all(gen.written.generated.text.startswith("<think>\n") for gen in gens)
        assert all(gen.written.generated.text.endswith(gen.text) for gen in gens)
        again = gens[1].ctx.user("Why?").generate(max_tokens=4, name="again")
        await again
        return values

    report, word, text, flags, calls = run(thinks)
    assert 1 <= report.risk <= 5
    assert word in ("yes", "no")
    assert isinstance(text, str)
    assert all(isinstance(flag, bool) for flag in flags)
    assert {call.name for call in calls} <= {"double", "half"}
    [last] = [e for e in recorder.events if isinstance(e, NodeFinished) and "again" in e.node_id]
    assert last.ledger is not None
    assert last.ledger.cached_tokens > 16  # the template keeps the thought, so its pages serve


def test_a_scored_choice_tells_probabilities_and_is_gone_on_from(engine: Any) -> None:
    run, recorder = engine.run, engine.recorder

    @program
    async def scores() -> tuple[Any, Any, Any]:
        gen = ASK.generate(choice("buy", "hold", "sell everything"), scored=True)
        word = ASK.generate(Literal["yes", "no"], scored=True, temperature=1.0)
        number = ASK.generate(choice(1, 22, 333), scored=True)
        value = await gen
        await gen.ctx.user("Why?").generate(max_tokens=4, name="why")
        return (value, gen.scores), (await word, word.scores), (await number, number.scores)

    for value, told in run(scores):
        assert sum(one.probability for one in told) == pytest.approx(1.0)
        assert value in [one.value for one in told]
    (value, told), (word, words), (_, numbers) = run(scores)
    assert value == max(told, key=lambda one: one.logprob).value
    assert word in ("yes", "no")
    assert [one.value for one in words] == ["yes", "no"]
    assert [one.value for one in numbers] == [1, 22, 333]
    finished = {e.node_id: e for e in recorder.events if isinstance(e, NodeFinished)}
    [why] = [e for node, e in finished.items() if "why" in node]
    assert why.ledger is not None
    assert why.ledger.cached_tokens >= 16


def test_what_does_not_pass_is_asked_for_again(engine: Any) -> None:
    run, recorder = engine.run, engine.recorder
    never = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": 9},
        "maxItems": 3,
        "contains": {"const": 77},
        "minContains": 2,
    }

    @program
    async def fails() -> Any:
        asked = ASK.generate(json_schema(never, check=True), retries=1, max_tokens=40, name="no")
        return await asked

    with pytest.raises(CheckFailed) as raised:
        run(fails)
    assert len(raised.value.attempts) == 2
    [failed] = [e for e in recorder.events if isinstance(e, AttemptFailed)]
    [ended] = [e for e in recorder.events if isinstance(e, NodeFinished) and "no#" in e.node_id]
    assert ended.ledger is not None
    asked = failed.ledger.prompt_tokens + failed.ledger.output_tokens
    assert ended.ledger.cached_tokens >= asked - 17, "the retry goes on from what was computed"
    record = RunRecord()
    record.on_events(recorder.events)
    assert usage(record).retried_tokens == failed.ledger.output_tokens


def test_attempts_leave_nothing_behind(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their prompts are nobody's to go on from: what becomes of prefixes is told without them."""
    run = engine.run
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)

    @program
    async def checked() -> Any:
        ask = chat(system="Be brief. " * 12).user("Choose. " * 40)
        return await ask.generate(Odd, check=True, retries=10, max_tokens=20, temperature=4.0)

    assert run(checked).number % 2 == 1
    gc.collect()
    assert lost == []


def test_a_step_is_held_to_some_of_the_tools_the_prompt_knows(engine: Any) -> None:
    """The prompt, and so its pages, stay; only the mask differs."""
    run, recorder = engine.run, engine.recorder

    @program
    async def steps() -> list[str]:
        names = []
        ask = chat(system="Use tools.", tools=[double, half]).user("Double or halve 8.")
        for only in (double, half):
            how: Any = {"max_tokens": 200, "on_limit": "close", "name": "some"}
            names += [call.name for call in await ask.calls(only, **how)]
            match await ask.step(tools=[only], final=int, **how):
                case Calls(calls):
                    names += [call.name for call in calls]
        return names

    names = run(steps)
    assert set(names) == {"double", "half"}
    some = [e for e in recorder.events if isinstance(e, NodeFinished) and "some#" in e.node_id]
    assert len(some) == 4
    for one in some[1:]:
        assert one.ledger is not None
        assert one.ledger.cached_tokens >= one.ledger.prompt_tokens - 17


READABLE: dict[str, int] = {}
Looked = Annotated[
    int, PlainValidator(READABLE.__getitem__, json_schema_input_type=Literal["a", "b"])
]


def test_what_a_grammar_allows_and_its_reader_refuses_is_answered_again(engine: Any) -> None:
    """A type is tried when it is declared; a reader that changes later is met at the answer."""

    @program
    async def looked() -> int:
        READABLE.update(a=1, b=2)
        gen = ASK.generate(tuple[Looked], max_tokens=40)
        READABLE.clear()
        return (await gen)[0]

    with pytest.raises(OutputUnreadable, match=r"none of 3 answers .* can be read") as failed:
        engine.run(looked)
    assert len(failed.value.attempts) == 3
