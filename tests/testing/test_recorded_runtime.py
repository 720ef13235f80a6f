"""A recorded run is the same run again: its values, its times, and nothing else."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import (
    DeadlineExceeded,
    ToolFailed,
    UsageError,
    chat,
    choice,
    gather,
    limits,
    program,
    race,
    tool,
)
from agentrt.recording import RunRecording, read_recording
from agentrt.testing import (
    LoopClock,
    PlayedRun,
    RecordedRuntime,
    RecordingMismatch,
    Reply,
    ScriptedRuntime,
    call,
    in_order,
)

Record = Callable[..., PlayedRun]
MADE: list[str] = []


@tool(effects="read", retries=1)
async def price(symbol: str) -> dict[str, float]:
    """The price of a symbol."""
    MADE.append(symbol)
    await anyio.sleep(3.0)
    if symbol == "no":
        raise ValueError("no such symbol")
    return {symbol: 12.5}


@tool(effects="pure")
async def words(text: str) -> int:
    """How many words a text has."""
    MADE.append("words")
    await anyio.sleep(0.5)
    return len(text.split())


@program
async def worth(symbol: str, wish: str = "Report.") -> str:
    """What a symbol is worth."""
    plan = chat("Be brief.").user("What is it worth? ", symbol).calls(price, words, name="plan")
    facts = [one.start() async for one in plan]
    return await plan.ctx.results(facts).user(wish).generate(name="report", max_tokens=50)


@program
async def price_of(symbol: str) -> float:
    """The price of a symbol, or 0 if there is none."""
    try:
        return (await price(symbol))[symbol]
    except ToolFailed:
        return 0.0


SCRIPT = {
    "plan": Reply(
        calls=(call("price", symbol="IBM"), call("words", text="a b c")),
        queue_s=0.25,
        prefill_s=0.5,
        decode_s=1.0,
    ),
    "report": Reply("It is worth 12.5.", prefill_s=1.0, decode_s=1.0),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.fixture
def record(path: Path) -> Record:
    """Records a run on a script."""

    def play(script: Any, of: Any, *args: Any, **settings: Any) -> PlayedRun:
        recording = RunRecording(path, LoopClock())
        run = ScriptedRuntime(script, observers=[recording], **settings).run(of, *args)
        MADE.clear()
        return run

    return play


def test_a_replay_has_the_values_and_the_times(record: Record, path: Path) -> None:
    before = record(SCRIPT, worth, "IBM")
    engine = RecordedRuntime(path)
    after = engine.run(worth, "IBM")
    assert after.value == before.value
    assert after.critical_path == before.critical_path == ["plan", "price", "report"]
    assert after.compound_s == pytest.approx(before.compound_s, abs=1e-5)
    old, new = before.split.parts(), after.split.parts()
    assert new == pytest.approx(old, abs=1e-5)
    assert [one.ledger.output_tokens for one in after.generations] == [
        one.ledger.output_tokens for one in before.generations
    ]
    assert MADE == ["words"], "pure tools are computed again, no others are called"
    assert engine.unused == []


def test_a_replay_has_the_ends_of_tool_calls(record: Record, path: Path) -> None:
    @program
    async def first_of(symbols: list[str]) -> float:
        async with race([price(one) for one in symbols], errors="skip") as finished:
            async for found in finished:
                return found["IBM"] - await words("a b")
        return 0.0

    @program
    async def outer() -> float:
        slow = price("no")
        try:
            return await first_of(["no", "IBM", "IBM"])
        finally:
            slow.cancel()

    before, after = record([], outer), RecordedRuntime(path).run(outer)
    ends = [(one.outcome, one.result, one.error, one.attempts) for one in before.tool_calls]
    assert sorted({end[0] for end in ends}) == ["cancelled", "ok"]
    assert [(one.outcome, one.result, one.error, one.attempts) for one in after.tool_calls] == ends

    failing = record([], price_of, "no")
    assert [one.outcome for one in failing.tool_calls] == ["failed"]
    again = RecordedRuntime(path).run(price_of, "no")
    assert again.tool_calls[0] == failing.tool_calls[0]


def test_a_call_that_was_cancelled_must_be_cancelled_again(record: Record, path: Path) -> None:
    @program
    async def patient(seconds: float) -> float:
        try:
            async with limits(seconds=seconds):
                return await price_of("IBM")
        except DeadlineExceeded:
            return 0.0

    record([], patient, 1.0)
    assert RecordedRuntime(path).run(patient, 1.0).value == 0.0
    with pytest.raises(RecordingMismatch, match=r"cancelled in the recording after 1\.000 s"):
        RecordedRuntime(path).run(patient, 100.0)


def test_a_recording_is_private_json_with_a_schema(record: Record, path: Path) -> None:
    record(SCRIPT, worth, "IBM")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert lines[0]["schema"] == "agentrt.recording/1"
    assert [line["type"] for line in lines[1:]] == ["generate", "tool", "tool", "generate", "run"]
    assert lines[-1]["outcome"] == "ok"
    found = read_recording(path)
    assert found.generations[-1].attempts[0].text == "It is worth 12.5."
    assert found.tool_calls[-1].result == '{"IBM":12.5}'


def test_a_changed_prompt_is_one_clear_difference(record: Record, path: Path) -> None:
    record(SCRIPT, worth, "IBM")
    with pytest.raises(RecordingMismatch) as raised:
        RecordedRuntime(path).run(worth, "IBM", "Advise.")
    lines = str(raised.value).splitlines()
    assert "worth#0/report#0" in lines[0]
    assert [line for line in lines if line[0] in "-+"] == ["-<user> Report.", "+<user> Advise."]
    assert "pytest --agentrt-record" in lines[-1]


def test_no_program_hides_a_changed_prompt(record: Record, path: Path) -> None:
    @program
    async def calm(question: str) -> str:
        try:
            return await chat().user(question).generate(name="answer")
        except Exception:
            return "calm"

    record(["Nile"], calm, "A river?")
    with pytest.raises(RecordingMismatch, match="A lake"):
        RecordedRuntime(path).run(calm, "A lake?")


def test_a_changed_tool_is_told(record: Record, path: Path) -> None:
    def plan_with(description: str) -> Any:
        def one(a: int) -> int:
            return a

        one.__doc__ = description
        offered = tool(effects="pure")(one)

        @program
        async def plan() -> list[int]:
            calls = chat().user("x").calls(offered, name="plan")
            return [await each.start() async for each in calls]

        return plan

    record([call("one", a=1)], plan_with("A number."))
    with pytest.raises(RecordingMismatch, match="tool one: changed"):
        RecordedRuntime(path).run(plan_with("Another one."))


def test_values_of_nodes_in_a_prompt_are_part_of_its_text(record: Record, path: Path) -> None:
    """However a prompt is put together, and whatever the nodes in it are called."""

    @program
    async def known(text: str) -> str:
        count = words(text)
        return await chat().user("There are ", count, " words.").generate(name="answer")

    record(["Three."], known, "a b c")
    assert RecordedRuntime(path).run(known, "a b c").value == "Three."
    with pytest.raises(RecordingMismatch, match="There are 2 words"):
        RecordedRuntime(path).run(known, "a b")

    @program
    async def other() -> str:
        return await chat().user("There are 3 words.").generate(name="renamed")

    assert RecordedRuntime(path).run(other).value == "Three."


def test_a_prompt_is_answered_as_often_as_it_was_recorded(record: Record, path: Path) -> None:
    @program
    async def twice(times: int) -> list[str]:
        return [await chat().user("Roll.").generate(name="roll") for _ in range(times)]

    record(["4", "2"], twice, 2)
    assert RecordedRuntime(path).run(twice, 2).value == ["4", "2"]
    engine = RecordedRuntime(path)
    assert len(engine.unused) == 2
    assert engine.run(twice, 1).value == ["4"]
    assert [one.node for one in engine.unused] == ["twice#0/roll#1"]
    with pytest.raises(RecordingMismatch, match="in the recording 2 times, and is asked once more"):
        RecordedRuntime(path).run(twice, 3)


def test_failed_tools_fail_again_and_are_tried_again(record: Record, path: Path) -> None:
    @program
    async def failing() -> str:
        try:
            await price("no")
        except ToolFailed as error:
            return str(error)
        return "no failure"

    before = record([], failing)
    after = RecordedRuntime(path).run(failing)
    assert after.value == before.value, "with the type of the error"
    assert after.compound_s == pytest.approx(before.compound_s)
    assert before.compound_s > 6
    assert MADE == []


def test_a_call_that_was_not_recorded(record: Record, path: Path) -> None:
    @program
    async def one(symbol: str) -> Any:
        return await price(symbol)

    record([], one, "IBM")
    message = r'(?s)not called with {"symbol":"AAPL"}.*{"symbol":"IBM"}'
    with pytest.raises(RecordingMismatch, match=message):
        RecordedRuntime(path).run(one, "AAPL")


def test_losers_of_a_race_are_cancelled_again(record: Record, path: Path) -> None:
    @program
    async def first(all_of_them: bool) -> str:
        runners = [chat().user(text).generate(name=text) for text in ("slow", "fast")]
        async with race(runners) as finished:
            async for value in finished:
                if not all_of_them:
                    return value
        return "all"

    script = {"slow": Reply("tortoise", decode_s=9.0), "fast": Reply("hare", decode_s=1.0)}
    before = record(script, first, False)
    after = RecordedRuntime(path).run(first, False)
    assert after.value == "hare"
    assert after.compound_s == pytest.approx(before.compound_s)
    with pytest.raises(RecordingMismatch, match=r"first#0/slow#0 was cancelled .* goes on now"):
        RecordedRuntime(path).run(first, True)


def test_scores_logprobs_and_thoughts_come_back(record: Record, path: Path) -> None:
    @program
    async def sure() -> tuple[Any, ...]:
        kind = chat().user("Which?").generate(choice("a", "b"), scored=True, name="kind")
        text = chat().user("Text?").generate(name="text", logprobs=1)
        deep = (
            chat()
            .user("Sure?")
            .generate(choice("yes", "no"), thinking=20, max_tokens=60, name="deep")
        )
        values = await gather(kind, text, deep)
        logprobs = [one.logprob for one in text.meta.logprobs]
        return (*values, [one.probability for one in kind.scores], logprobs, deep.thinking)

    script = {
        "kind": Reply("b", scores={"a": 0.25, "b": 0.75}),
        "text": Reply("a river", logprobs=-0.5),
        "deep": Reply("no", thinking="Hm."),
    }
    before = record(script, sure)
    assert before.value[-1] == "Hm."
    after = RecordedRuntime(path).run(sure)
    assert after.value[0:3] == before.value[0:3]
    assert after.value[3] == pytest.approx(before.value[3])
    assert after.value[4:] == before.value[4:]


def test_answers_that_failed_their_check_come_again(record: Record, path: Path) -> None:
    from pydantic import BaseModel, model_validator

    class Even(BaseModel):
        value: int

        @model_validator(mode="after")
        def even(self) -> "Even":
            """Odd numbers are refused."""
            if self.value % 2:
                raise ValueError("odd")
            return self

    @program
    async def number() -> int:
        gen = chat().user("A number.").generate(Even, check=True, retries=2, name="number")
        return (await gen).value

    before = record({"number": in_order({"value": 3}, {"value": 4})}, number)
    found = read_recording(path).generations
    assert [one.text for one in found[0].attempts] == ['{"value":3}', '{"value":4}']
    assert RecordedRuntime(path).run(number).value == before.value == 4


def test_equal_generations_in_flight_are_recorded_each(record: Record, path: Path) -> None:
    @program
    async def joined() -> tuple[str, str]:
        first, second = (chat().user("x").generate(name="x") for _ in range(2))
        return await gather(first, second)

    record({"x": Reply("y", decode_s=1.0)}, joined)
    found = read_recording(path).generations
    assert [one.attempts[0].text for one in found] == ["y", "y"]
    assert RecordedRuntime(path).run(joined).value == ("y", "y")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "cannot be read"),
        ("", "no recording of this release"),
        ('{"schema":"agentrt.recording/9"}', "'agentrt.recording/9', not 'agentrt.recording/1'"),
        ("[]", "no recording of this release"),
        ('{"schema":"agentrt.recording/1","engines":{}}\n{"type":"x"}', r"run.jsonl:2 is no line"),
    ],
)
def test_a_file_that_is_none(path: Path, text: str | None, complaint: str) -> None:
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=complaint):
        RecordedRuntime(path)


def test_a_file_that_cannot_be_written_is_told_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    for path in (tmp_path, tmp_path / "file" / "run.jsonl"):
        with pytest.raises(UsageError, match="cannot be written"):
            RunRecording(path, LoopClock())


def test_other_files_are_left_alone_and_recordings_replaced(record: Record, path: Path) -> None:
    record(SCRIPT, worth, "IBM")
    before = path.read_text("utf-8")
    record(SCRIPT, worth, "IBM")
    assert path.read_text("utf-8").count("\n") == before.count("\n")
    path.write_text("my notes", "utf-8")
    with pytest.raises(UsageError, match="is no recording, and is left alone"):
        RunRecording(path, LoopClock())
