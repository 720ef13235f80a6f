"""check=True: an answer that does not pass is told to the model, which answers again; bounded."""

from dataclasses import replace
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator

from agentrt import CheckFailed, Constraint, chat, choice, json_schema, limits, program, tool
from agentrt.analysis import Causes, RunRecord, critical_path, split
from agentrt.analysis.usage import usage
from agentrt.base.errors import BudgetExceeded, ConstraintError, Unsupported, UsageError
from agentrt.prompt import Codec
from agentrt.protocol.events import AttemptFailed, NodeFinished, RequestSent
from agentrt.telemetry import build
from agentrt.telemetry.content import Capture

HAS_TWO = {
    "type": "array",
    "items": {"type": "number"},
    "contains": {"const": 2},
    "maxItems": 99,
}
ASK = chat(system="Be brief.").user("Three numbers.")


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


@tool(effects="pure")
def look(at: str) -> str:
    """Look."""
    return at


def step_to(final: Any) -> Any:
    return ASK.step(tools=[look], final=final)


@program
async def numbers(retries: int = 2) -> list[int]:
    gen = ASK.generate(json_schema(HAS_TWO, check=True), retries=retries, max_tokens=40)
    value: list[int] = await gen
    seen = [piece async for piece in gen.stream()]
    assert "".join(seen) == gen.text
    again = await gen.ctx.user("And?").generate(max_tokens=20)
    assert again == "done"
    return value


def script(*texts: str) -> Any:
    left = [*texts, "done"]

    def answer(request: Any, prompt: str) -> str:
        return left.pop(0)

    return answer


def record_of(rig: Any) -> RunRecord:
    record = RunRecord()
    record.on_events(rig.recorder.events)
    return record


def test_the_complaint_is_told_and_the_next_answer_taken(bench: Any, codec: Codec) -> None:
    rig = bench(script("[1,1]", "[4,4]", "[1,2]"), codec=codec)
    assert rig.run(numbers) == [1, 2]
    prompts = list(rig.backend.seen.prompts.values())
    assert (
        "not valid: the whole: [1, 1] does not contain items matching the given schema.\n"
        in prompts[1]
    )
    assert "[1,1]" in prompts[1]
    assert "[4,4]" in prompts[2]
    assert "[1,1]" not in prompts[2]  # each attempt goes on from the prompt and the last answer
    assert "does not contain" not in prompts[3]  # failed answers stay out of the chat
    assert "[1,2]" in prompts[3]
    first, second, third, _ = rig.backend.seen.requests
    assert second.prompt.token_ids[: len(first.prompt.token_ids)] == first.prompt.token_ids
    assert len({first.sampling.seed, second.sampling.seed, third.sampling.seed}) == 3


def test_attempts_are_events_and_their_tokens_are_counted(bench: Any, codec: Codec) -> None:
    rig = bench(
        script("[1,1]", "[4,4]", "[1,2]"),
        codec=codec,
        prefill_tokens_per_s=1000,
        decode_tokens_per_s=50,
    )
    rig.run(numbers)
    failed = rig.recorder.of(AttemptFailed)
    assert [(one.attempt, one.reason) for one in failed] == [
        (0, "the whole: [1, 1] does not contain items matching the given schema"),
        (1, "the whole: [4, 4] does not contain items matching the given schema"),
    ]
    sent = rig.recorder.of(RequestSent)
    assert [one.node_id for one in sent[:3]] == [failed[0].node_id] * 3
    record = record_of(rig)
    told = usage(record)
    assert told.retried_tokens == sum(one.ledger.output_tokens for one in failed) > 0
    assert told.output_tokens > told.retried_tokens
    causes = Causes(record)
    parts = split(record, critical_path(record, causes), causes).parts()
    assert parts["unattributed"] < 0.02 * record.compound_s
    assert sum(parts.values()) == pytest.approx(record.compound_s)


def test_attempts_stand_in_the_trace(bench: Any, codec: Codec) -> None:
    rig = bench(script("[1,1]", "[1,2]"), codec=codec, decode_tokens_per_s=50)
    rig.run(numbers)
    record = record_of(rig)
    captures: tuple[tuple[Capture, bool], ...] = (("NO_CONTENT", False), ("SPAN_AND_EVENT", True))
    for capture, shown in captures:
        spans = build(record, capture).spans
        [span] = [one for one in spans if "agentrt.check.retried_tokens" in one.attributes]
        assert span.attributes["agentrt.attempt"] == 2
        assert span.attributes["agentrt.check.retries"] == 2
        [event] = [one for one in span.events if one.name == "agentrt.check.failed"]
        assert event.attributes["agentrt.attempt"] == 1
        assert ("agentrt.check.reason" in event.attributes) == shown  # it quotes the answer
        [root] = [one for one in spans if one.parent_id is None]
        assert root.attributes["agentrt.retries"] == 1


def test_the_last_failure_is_an_error_with_every_reason(bench: Any) -> None:
    rig = bench(script("[1,1]", "[4,4]", "[3,3]"))
    with pytest.raises(CheckFailed) as raised:
        rig.run(numbers)
    attempts = raised.value.attempts
    assert [one.text for one in attempts] == ["[1,1]", "[4,4]", "[3,3]"]
    assert all("does not contain" in one.reason for one in attempts)
    assert "none of 3 answers" in str(raised.value)
    assert len(rig.recorder.of(AttemptFailed)) == 2
    [finished] = [e for e in rig.recorder.of(NodeFinished) if e.error and "json" in e.node_id]
    assert finished.error.type == "CheckFailed"


def test_retries_may_be_none(bench: Any) -> None:
    rig = bench(script("[1,1]"))
    with pytest.raises(CheckFailed, match="none of 1 answers"):
        rig.run(numbers, 0)
    assert len(rig.backend.seen.requests) == 1


def test_validators_of_a_type_are_checked(bench: Any) -> None:
    @program
    async def even() -> int:
        return (await ASK.generate(Even, check=True, max_tokens=40)).number

    rig = bench(script('{"number":3}', '{"number":4}'))
    assert rig.run(even) == 4
    [failed] = rig.recorder.of(AttemptFailed)
    assert failed.reason == "number: Value error, must be even"


def test_nobody_reads_what_has_not_passed(bench: Any) -> None:
    seen: list[Any] = []

    @program
    async def watched() -> Any:
        gen = ASK.generate(json_schema(HAS_TWO, check=True), max_tokens=40)
        seen.extend([partial.text async for partial in gen.partials()])
        return await gen

    assert bench(script("[1,1]", "[2]"), decode_tokens_per_s=10).run(watched) == [2]
    assert seen == ["[2]", "[2]"]


def test_attempts_spend_the_budget(bench: Any) -> None:
    @program
    async def spends() -> Any:
        async with limits(tokens=12):
            return await ASK.generate(json_schema(HAS_TWO, check=True), max_tokens=10)

    with pytest.raises(BudgetExceeded):
        bench(script("[1,1]", "[4,4]", "[3,3]")).run(spends)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda: ASK.each(json_schema(HAS_TWO, check=True)), ConstraintError),
        (lambda: ASK.each(int, check=True), UsageError),
        (lambda: step_to(json_schema(HAS_TWO, check=True)), ConstraintError),
        (lambda: ASK.generate(int, retries=1), UsageError),
        (lambda: ASK.generate(int, scored=True), UsageError),
        (lambda: ASK.generate(scored=True), UsageError),
        (lambda: ASK.generate(choice("a", "b"), scored=True), Unsupported),
        (lambda: ASK.generate(Literal["a", "b"], thinking=5, scored=True), UsageError),
    ],
)
def test_what_makes_no_sense_is_refused(bench: Any, ask: Any, error: type[Exception]) -> None:
    @program
    async def refused() -> None:
        await ask()

    with pytest.raises(error):
        bench(script("a"), scores=False).run(refused)


FAULTY = json_schema({"type": "integer"}).shape.spec
SMALL: Constraint[Any] = Constraint(
    replace(json_schema({"type": "integer", "maximum": 3}).shape, spec=FAULTY)
)
"""A grammar that lets through what the schema does not allow."""


def test_a_value_that_an_engine_let_through_is_answered_again(bench: Any) -> None:
    """Without `check=True` too: no value is handed on that the schema does not allow."""

    @program
    async def small() -> Any:
        gen = ASK.generate(SMALL, max_tokens=40)
        return await gen, gen.text

    rig = bench(script("7", "2"))
    assert rig.run(small) == (2, "2")
    [failed] = rig.recorder.of(AttemptFailed)
    assert "greater than the maximum" in failed.reason
    with pytest.raises(CheckFailed, match="none of 3 answers"):
        bench(script("7", "8", "9")).run(small)


def test_text_that_was_read_is_not_taken_back(bench: Any) -> None:
    @program
    async def watched() -> Any:
        gen = ASK.generate(SMALL, max_tokens=40)
        pieces = [piece async for piece in gen.stream()]
        return pieces, await gen

    rig = bench(script("7", "2"))
    with pytest.raises(CheckFailed, match="none of 1 answers"):
        rig.run(watched)
    assert not rig.recorder.of(AttemptFailed)
