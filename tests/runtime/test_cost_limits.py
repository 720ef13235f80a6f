"""Limits of cost: calls are sent once their highest cost is set aside, and never exceed a limit."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt import (
    BudgetExceeded,
    Prices,
    RunConfig,
    Unsupported,
    UsageError,
    chat,
    gather,
    limits,
    program,
    tool,
)
from agentrt.analysis import RunRecord, usage
from agentrt.base.money import decimal_of
from agentrt.program.scope import Scope, current_scope
from agentrt.protocol.backend import TokenPrompt
from agentrt.runtime import RunOptions
from tests.runtime.conftest import Bench

PRICES = Prices.of(input="0.000001", output=1)
"""A pico a prompt token and 10^6 an output token: outputs decide."""

ANSWER = "12345"
CALL = Decimal("0.0000111")
"""A little more than the highest cost of a call with ten tokens."""


def rig_of(script: Any = None, **more: Any) -> Bench:
    speeds: dict[str, Any] = {"decode_tokens_per_s": 10.0, "prices": PRICES} | more
    return Bench(script or (lambda request, prompt: ANSWER), **speeds)


@tool(effects="read")
async def nap(seconds: float) -> str:
    """Sleeps."""
    await anyio.sleep(seconds)
    return ""


@program
async def asks_in_turn(times: int) -> int:
    for at in range(times):
        await chat().user(f"{at}").generate(max_tokens=10, temperature=1.0)
    return times


def cost_of(rig: Bench) -> Decimal:
    record = RunRecord()
    record.on_events(rig.recorder.events)
    return decimal_of(usage(record).cost_pico)


@program
async def fan_out(cost: Decimal, width: int) -> list[str]:
    async with limits(cost=cost):
        gens = [chat().user(f"{n}").generate(max_tokens=10) for n in range(width)]
        return list(await gather(*gens))


@pytest.mark.parametrize(("calls", "at_once"), [(8, 8), (4, 4), (3, 3)])
def test_calls_that_do_not_fit_beside_others_wait_for_them(calls: int, at_once: int) -> None:
    """Eight calls cost 5 tokens each, and 10 are set aside for each."""
    rig = rig_of()
    if calls == 3:  # 8 * 5 tokens do not fit in 33
        with pytest.raises(BudgetExceeded):
            rig.run(fan_out, CALL * calls, 8)
    else:
        answers = 8 if calls == 8 else 6
        assert rig.run(fan_out, CALL * calls, answers) == [ANSWER] * answers
    assert max(len(step.requests) for step in rig.backend.seen.steps) == at_once
    assert cost_of(rig) <= CALL * calls


def test_a_call_that_cannot_fit_ends_the_block_with_one_error() -> None:
    rig = rig_of()
    with pytest.raises(BudgetExceeded) as caught:
        rig.run(fan_out, CALL / 2, 3)
    assert "may cost 0.000011" in caught.value.message
    assert "test_cost_limits.py" in caught.value.where
    assert "max_tokens" in caught.value.hint
    assert not rig.backend.seen.requests, "nothing was sent"


def test_a_block_that_was_too_dear_can_be_done_with_less() -> None:
    @program
    async def frugal() -> str:
        try:
            async with limits(cost=CALL):
                return await chat().user("Hi").generate(max_tokens=100)
        except BudgetExceeded:
            return await chat().user("Hi").generate(max_tokens=5)

    assert rig_of().run(frugal) == ANSWER


def test_limits_inside_limits_all_hold() -> None:
    @program
    async def nested() -> list[str]:
        async with limits(cost=CALL * 3):
            first = chat().user("a").generate(max_tokens=10)
            async with limits(cost=CALL):
                inner = [chat().user(f"{n}").generate(max_tokens=10) for n in range(1)]
                found = list(await gather(*inner))
            return [await first, *found]

    assert rig_of().run(nested) == [ANSWER] * 2


def test_attempts_that_failed_their_check_are_reserved_and_counted() -> None:
    from agentrt import json_schema

    two = json_schema({"type": "array", "contains": {"const": 7}, "minItems": 2}, check=True)

    @program
    async def checked() -> Any:
        async with limits(cost=CALL * Decimal("1.7")):
            return await chat().user("Hi").generate(two, max_tokens=10, retries=5)

    rig = rig_of(["[1,2,3]", "[1,2,3]", "[1,7]"])
    with pytest.raises(BudgetExceeded):
        rig.run(checked)
    assert len(rig.backend.seen.requests) == 2
    assert cost_of(rig) <= CALL * Decimal("1.7")


def test_a_cancelled_wait_gives_its_place_to_the_next() -> None:
    @program
    async def impatient() -> list[str]:
        async with limits(cost=CALL):
            first = chat().user("a").generate(max_tokens=9)
            second = chat().user("b").generate(max_tokens=9)
            third = chat().user("c").generate(max_tokens=1)
            second.cancel("not needed")
            return [await first, await third]

    assert rig_of(lambda request, prompt: ANSWER[: request.sampling.max_tokens]).run(impatient) == [
        ANSWER,
        "1",
    ]


def test_a_call_behind_a_cancelled_wait_goes_at_once() -> None:
    """The third fits beside the first, and only the second was before it."""

    @program
    async def impatient() -> list[str]:
        async with limits(cost=CALL):
            first = chat().user("a").generate(max_tokens=7)
            second = chat().user("b").generate(max_tokens=9)
            third = chat().user("c").generate(max_tokens=1)
            await nap(0.2)
            second.cancel("not needed")
            return [await first, await third]

    rig = rig_of(lambda request, prompt: ANSWER[: request.sampling.max_tokens])
    assert rig.run(impatient) == [ANSWER, "1"]
    assert max(len(step.requests) for step in rig.backend.seen.steps) == 2


@pytest.mark.parametrize("where", ["config", "options"])
def test_a_run_has_a_limit_of_its_own(where: str) -> None:
    def run(rig: Bench, cost: Decimal) -> Any:
        config, options = RunConfig(seed=3), RunOptions()
        if where == "config":
            config = replace(config, max_cost=cost)
        else:
            options = replace(options, max_cost=cost)
        return rig.run(asks_in_turn, 3, config=config, options=options)

    rig, without = rig_of(), rig_of()
    assert run(rig, CALL * 3) == without.run(asks_in_turn, 3, config=RunConfig(seed=3)) == 3
    sent, plain = rig.backend.seen.requests, without.backend.seen.requests
    assert [one.sampling for one in sent] == [one.sampling for one in plain], "the same seeds"
    assert [one.node_id for one in sent] == [one.node_id for one in plain]
    rig = rig_of()
    with pytest.raises(BudgetExceeded, match="may cost"):
        run(rig, CALL)
    assert len(rig.backend.seen.requests) == 1
    assert cost_of(rig) <= CALL
    with pytest.raises(UsageError, match="max_cost=0"):
        run(rig_of(), Decimal(0))


def test_a_program_cannot_go_on_past_the_limit_of_its_run() -> None:
    @program
    async def stubborn() -> str:
        try:
            return await chat().user("Hi").generate(max_tokens=100)
        except BudgetExceeded:
            return await chat().user("Hi").generate(max_tokens=5)

    with pytest.raises(BudgetExceeded):
        rig_of().run(stubborn, options=RunOptions(max_cost=CALL))


def test_an_engine_without_prices_is_refused_where_the_call_is_made() -> None:
    with pytest.raises(Unsupported, match="has no prices") as caught:
        rig_of(prices=None).run(fan_out, CALL, 1)
    assert "agentrt.toml" in caught.value.hint


def test_an_engine_priced_by_time_needs_a_deadline() -> None:
    @program
    async def timed(seconds: float | None) -> str:
        async with limits(cost="0.5", seconds=seconds):
            return await chat().user("Hi").generate(max_tokens=10)

    prices = Prices.of(device_second="0.1")
    with pytest.raises(Unsupported, match="priced by the second"):
        rig_of(prices=prices).run(timed, None)
    assert rig_of(prices=prices).run(timed, 2.0) == ANSWER
    with pytest.raises(BudgetExceeded):
        rig_of(prices=prices).run(timed, 60.0)


@pytest.mark.parametrize("cost", [0, -1, "a", True])
def test_a_cost_that_is_no_amount_is_refused(cost: Any) -> None:
    with pytest.raises(UsageError, match="cost="):
        limits(cost=cost)


@program
async def waits_for_its_prompt() -> str:
    async with limits(cost=CALL * 4):
        first = chat().user("Name one.").generate(max_tokens=10)
        return await chat().user("More of ", first).generate(max_tokens=10)


def test_a_prompt_with_holes_is_sent_whole(codec: Any) -> None:
    rig = rig_of(codec=codec, prices=PRICES)
    assert rig.run(waits_for_its_prompt) == ANSWER
    prompts = [one.prompt for one in rig.backend.seen.requests]
    assert all(isinstance(one, TokenPrompt) and one.complete for one in prompts)


def test_another_attempt_after_a_lost_engine_is_reserved_too() -> None:
    for factor, passes in ((Decimal(2), True), (Decimal(1), False)):
        rig = rig_of()

        async def body(runtime: Any, rig: Bench = rig, factor: Decimal = factor) -> Any:
            async with anyio.create_task_group() as tasks:

                async def lose() -> None:
                    await anyio.sleep(0.25)
                    rig.backend.lose_engine()

                tasks.start_soon(lose)
                try:
                    return await runtime.run(fan_out, CALL * factor, 1)
                except BudgetExceeded as error:
                    return error.message

        told = rig.main(body)
        assert (told == [ANSWER]) is passes
        assert passes or "its answer broke off" in told


spans = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=8)


@settings(max_examples=30, derandomize=True, deadline=None)
@given(spans, st.integers(1, 40))
def test_whatever_the_order_of_ends_the_limit_holds(
    spans: list[tuple[int, int]], tokens: int
) -> None:
    """Outputs of any length, in any mix of limits of theirs: nothing hangs, nothing is left."""
    scopes: list[Scope] = []

    @program
    async def mixed() -> None:
        async with limits(cost=Decimal(tokens) / 10**6):
            scopes.append(current_scope("test"))
            for at, (most, _) in enumerate(spans):
                chat().user(f"{at}").generate(max_tokens=most)

    def script(request: Any, prompt: str) -> str:
        at = int(prompt.rsplit("\n", 1)[-1].strip() or 0) if prompt.strip().isdigit() else 0
        most: int = request.sampling.max_tokens
        return "x" * min(spans[at][1], most)

    rig = rig_of(script)
    try:
        rig.run(mixed)
    except BudgetExceeded:
        assert sum(min(pair) for pair in spans) + max(most for most, _ in spans) > tokens - 2
    (budget,) = scopes[0].cost_budgets
    assert budget.reserved_pico == 0
    assert budget.spent_pico <= budget.limit_pico
    assert decimal_of(budget.spent_pico) >= cost_of(rig)
