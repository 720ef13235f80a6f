"""A runtime for tests: virtual time in any test, and no fault of a script that a program hides."""

import traceback
from typing import Any

import anyio
import pytest

from agentrt import Prices, UsageError, ask, chat, emit, program, race, tool
from agentrt.runtime import Runtime
from agentrt.testing import Reply, ScriptedRuntime, call, run_virtual


@program
async def river(country: str) -> str:
    """A river."""
    return await chat().user("Name a river of ", country).generate(name="river")


def test_a_run_has_its_value_prompts_and_times() -> None:
    engine = ScriptedRuntime(["Nile"], decode_tokens_per_s=1.0)
    run = engine.run(river, "Egypt")
    assert run.value == "Nile"
    assert engine.runs == [run]
    generation = run.generation("river")
    assert generation.prompt == "<user> Name a river of Egypt\n"
    assert generation.text == "Nile"
    assert run.tokens == generation.ledger.prompt_tokens + generation.ledger.output_tokens
    assert run.compound_s == generation.ledger.output_tokens > 0
    with pytest.raises(LookupError, match=r"0 generations are called 'lake': river#0/river#0"):
        run.generation("lake")


def test_the_script_goes_on_over_runs() -> None:
    engine = ScriptedRuntime(["Nile", "Rhine"])
    assert [engine.run(river, "x").value for _ in range(2)] == ["Nile", "Rhine"]


def test_a_failed_run_is_kept_and_its_traceback_is_of_the_program() -> None:
    @program
    async def broken() -> None:
        await river("Egypt")
        raise ValueError("mine")

    engine = ScriptedRuntime({"river": "Nile"})
    with pytest.raises(ValueError, match="mine") as raised:
        engine.run(broken)
    assert engine.runs[-1].error is raised.value
    assert engine.runs[-1].generation("river").text == "Nile"
    files = {frame.filename for frame in traceback.extract_tb(raised.tb)}
    assert not [name for name in files if "anyio" in name or "agentrt/runtime" in name]


def test_no_program_hides_a_fault_of_the_script() -> None:
    @program
    async def calm() -> str:
        try:
            return await river("Egypt")
        except UsageError:
            return "no river"

    with pytest.raises(UsageError, match="no answer for 'river'"):
        ScriptedRuntime({}).run(calm)


def test_no_body_hides_a_fault_of_the_script() -> None:
    async def body(runtime: Runtime) -> str:
        try:
            return await runtime.run(river, "Egypt")
        except UsageError:
            return "no river"

    async def own_loop() -> None:
        async with ScriptedRuntime({}).open() as runtime:
            await body(runtime)

    for play in (lambda: ScriptedRuntime({}).play(body), lambda: run_virtual(own_loop)):
        with pytest.raises(UsageError, match="no answer for 'river'"):
            play()


def test_several_runs_at_once_share_an_engine() -> None:
    async def body(runtime: Runtime) -> list[str]:
        found: list[str] = []

        async def one(country: str) -> None:
            found.append(await runtime.run(river, country))

        async with anyio.create_task_group() as tasks:
            for country in ("Egypt", "Sudan"):
                tasks.start_soon(one, country)
        return found

    engine = ScriptedRuntime({"river": Reply("Nile", decode_s=3.0)})
    assert engine.play(body) == ["Nile", "Nile"]
    assert [run.compound_s for run in engine.runs] == [3.0, 3.0]


def test_a_run_inside_a_running_loop() -> None:
    async def main() -> Any:
        return ScriptedRuntime({"river": Reply("Nile", decode_s=3600.0)}).run(river, "Egypt")

    assert anyio.run(main).compound_s == 3600.0
    assert run_virtual(main).compound_s == 3600.0


def test_the_code_under_test_runs_on_the_script() -> None:
    with ScriptedRuntime({"river": "Nile"}).as_default():
        assert river.run("Egypt") == "Nile"


def test_engines_by_role() -> None:
    @program
    async def judged() -> tuple[str, str]:
        draft = chat().user("Draft.").generate(name="draft")
        judge = draft.ctx.user("Good?").generate(name="judge", model="judge")
        return await draft, await judge

    engine = ScriptedRuntime({"draft": "A"}, models={"judge": {"judge": "yes"}})
    assert engine.run(judged).value == ("A", "yes")
    with pytest.raises(UsageError, match="no answer for 'judge'"):
        ScriptedRuntime({"draft": "A"}, models={"judge": {}}).run(judged)


def test_cost_questions_and_emitted_text() -> None:
    @program
    async def told() -> str:
        answer = chat().user("x").generate(name="answer")
        await emit(answer)
        return await ask(str, "Send it?")

    engine = ScriptedRuntime(
        {"answer": "done"},
        prices=Prices.of(input=0, output=1_000_000),
        on_ask=lambda question: "yes",
    )
    run = engine.run(told)
    assert (run.value, run.emitted) == ("yes", "done")
    assert run.cost == run.generation("answer").ledger.output_tokens
    assert ScriptedRuntime({"river": "Nile"}).run(river, "x").cost is None


def test_tool_calls_have_arguments_results_and_errors() -> None:
    @tool(effects="read")
    def price(symbol: str) -> float:
        """The price of a symbol."""
        if symbol == "no":
            raise ValueError("no such symbol")
        return 12.5

    @program
    async def plan() -> None:
        calls = chat().user("x").calls(price, name="plan")
        started = [one.start() async for one in calls]
        async with race(started, errors="skip") as finished:
            async for _ in finished:
                pass

    calls = [call("price", symbol="IBM"), call("price", symbol="no")]
    first, second = ScriptedRuntime([calls]).run(plan).tool_calls
    assert (first.name, first.arguments, first.result) == ("price", {"symbol": "IBM"}, 12.5)
    assert (first.outcome, second.outcome) == ("ok", "failed")
    assert second.result is None
    assert "no such symbol" in second.error


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="missing"):
        ScriptedRuntime([]).run(river)  # type: ignore[call-arg]
