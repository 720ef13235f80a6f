"""Generations that take the answers of equal requests from the response cache."""

import logging
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from annotated_types import Predicate

from agentrt import (
    BudgetExceeded,
    CheckFailed,
    NodeCancelled,
    Prices,
    UsageError,
    chat,
    gather,
    json_schema,
    limits,
    program,
    tool,
)
from agentrt.analysis import RunRecord, latency_line, split, summary
from agentrt.base.config import RunConfig, SchedulerConfig
from agentrt.protocol.events import Event, ItemClosed, NodeFinished, RequestSent, Scheduled
from agentrt.runtime import RunOptions
from agentrt.runtime.response_cache.sqlite_store import SqliteStore
from agentrt.runtime.response_cache.store import Found
from tests.runtime.cached_runs import ANSWER, ASK, Cached, ask


@pytest.fixture
def cached(tmp_path: Path) -> Cached:
    return Cached(tmp_path / "responses.sqlite")


def test_a_later_run_gets_the_answer_without_its_engine(cached: Cached) -> None:
    assert cached.run(ask) == ANSWER
    assert cached.decisions() == ["missed"]
    assert cached.run(ask, script=lambda request, prompt: "something else") == ANSWER
    assert cached.requests == []
    assert not cached.recorder.of(RequestSent)
    assert cached.decisions() == ["cached"]


def test_nodes_that_do_not_say_so_are_not_cached(cached: Cached) -> None:
    @program
    async def plain(cache: bool | None) -> str:
        return await (ASK.generate() if cache is None else ASK.generate(cache=cache))

    for given, roles, sent in (
        (None, frozenset[str](), 1),
        (None, frozenset({"default"}), 0),
        (False, frozenset({"default"}), 1),
    ):
        cached.run(ask)
        cached.run(plain, given, default_roles=roles)
        assert len(cached.requests) == sent
    with pytest.raises(UsageError, match="cache=1 is no bool"):
        cached.run(plain, 1)


def test_a_hit_costs_nothing_and_what_it_saved_is_shown(cached: Cached) -> None:
    prices = Prices.of(input=1, output=10)
    cached.run(ask, prices=prices)
    first = summary(cached.record)
    cached.run(ask, prices=prices)
    (end,) = [one for one in cached.recorder.of(NodeFinished) if one.ledger is not None]
    assert end.ledger.is_cached
    assert end.ledger.cost_pico == 0
    assert end.ledger.output_tokens == len(ANSWER)
    assert end.ledger.device_s == 0
    found = summary(cached.record)
    assert found["usage"]["cost"] == "0"
    assert found["usage"]["output_tokens"] == found["usage"]["input_tokens"] == 0
    assert found["spared"]["cached_responses"] == 1
    assert found["spared"]["cached_response_cost"] == first["usage"]["cost"]
    used = first["usage"]["input_tokens"] + first["usage"]["output_tokens"]
    assert found["spared"]["cached_response_tokens"] == used
    assert "cached 1 (saved 0.000" in latency_line(cached.record)


def test_the_time_of_look_ups_has_a_label_of_its_own() -> None:
    """Also where another process had to be waited for."""
    times = {"looked_s": 0.25}
    record = RunRecord()
    from agentrt.base.ids import NodeId, RunId
    from agentrt.protocol.events import NodeDeclared, RunFinished, RunStarted

    run_id, root, node = RunId("0" * 16), NodeId("job#0"), NodeId("job#0/generate#0")
    events: list[Event] = [
        RunStarted(run_id, "job", "job.py:job", 10.0, 0),
        NodeDeclared(run_id, root, "program", "job", None, (), "job.py:1", 10.0),
        NodeDeclared(run_id, node, "generate", "generate", root, (), "job.py:2", 10.0),
        Scheduled(run_id, node, 10.25, "cached", "", terms=tuple(times.items())),
        NodeFinished(run_id, node, "ok", 10.25),
        NodeFinished(run_id, root, "ok", 10.25, after=node),
        RunFinished(run_id, "ok", 10.25),
    ]
    record.on_events(events)
    assert split(record).cache == pytest.approx(0.25)


def test_equal_generations_of_a_run_are_computed_once(cached: Cached) -> None:
    @program
    async def fan() -> list[str]:
        return list(await gather(*(ASK.generate(cache=True) for _ in range(3))))

    scheduler = SchedulerConfig(share_nodes=False)
    assert cached.run(fan, seeds=False, scheduler=scheduler) == [ANSWER] * 3
    assert len(cached.requests) == 1, "even if coalescing is off"
    assert cached.run(fan) == [ANSWER] * 3
    assert cached.requests == []


def test_only_cached_generations_are_joined_if_coalescing_is_off(cached: Cached) -> None:
    @program
    async def behind() -> list[list[int]]:
        first = ASK.each(int, cache=True)
        async for _ in first:
            return list(await gather(first, ASK.each(int)))
        return []

    scheduler = SchedulerConfig(share_nodes=False)
    speeds: Any = {"scheduler": scheduler, "decode_tokens_per_s": 10.0, "seeds": True}
    assert cached.run(behind, script=lambda request, prompt: "[1,2,3]", **speeds)
    assert len(cached.requests) == 2


@program
async def draw(times: int) -> list[str]:
    gens = [ASK.generate(cache=True, temperature=1.0) for _ in range(times)]
    return list(await gather(*gens))


def test_samples_of_one_run_stay_different_and_repeat_in_the_next(cached: Cached) -> None:
    answers = iter("abcdef")

    def script(request: Any, prompt: str) -> str:
        return next(answers)

    first = cached.run(draw, 3, script=script)
    assert sorted(first) == ["a", "b", "c"]
    assert cached.run(draw, 3, script=script) == first
    assert cached.requests == []
    assert set(cached.run(draw, 3, script=script, config=RunConfig(seed=1))) == set("def")


@pytest.mark.parametrize(
    "other",
    [
        {"engine": "another"},
        {"options": RunOptions(tenant="acme")},
    ],
)
def test_other_engines_and_tenants_compute_their_own(cached: Cached, other: Any) -> None:
    cached.run(ask)
    cached.run(ask, **other)
    assert len(cached.requests) == 1


def test_items_of_a_stream_come_back_one_by_one(cached: Cached) -> None:
    @program
    async def items() -> tuple[list[int], int]:
        gen = ASK.each(int, cache=True)
        return [item async for item in gen], gen.meta.ledger.output_tokens

    first = cached.run(items, script=lambda request, prompt: "[1,2,3]")
    closed = len(cached.recorder.of(ItemClosed))
    assert cached.run(items) == first == ([1, 2, 3], first[1])
    assert len(cached.recorder.of(ItemClosed)) == closed == 3
    assert cached.requests == []


def test_the_tokens_of_an_answer_are_kept(cached: Cached, codec: Any) -> None:
    @program
    async def continued() -> tuple[str, tuple[int, ...]]:
        gen = ASK.generate(cache=True)
        await gen
        after = await gen.ctx.user("Really?").generate(cache=True)
        return after, gen.written.generated.token_ids

    first = cached.run(continued, codec=codec)
    assert first[1]
    assert cached.run(continued, codec=codec) == first
    assert cached.requests == []


def test_a_prompt_with_pending_parts_is_looked_up_once_it_is_whole(
    cached: Cached, codec: Any
) -> None:
    @program
    async def chained() -> str:
        first = ASK.generate(cache=True)
        return await chat().user("Shorter: ", first).generate(cache=True)

    assert cached.run(chained, codec=codec) == ANSWER
    assert len(cached.requests) == 2
    assert cached.run(chained, codec=codec) == ANSWER
    assert cached.requests == []


@program
async def even(retries: int) -> Any:
    even = json_schema({"type": "array", "contains": {"const": 7}, "minItems": 2}, check=True)
    return await ASK.generate(even, cache=True, retries=retries)


def test_the_answer_that_passed_is_kept_for_the_question(cached: Cached) -> None:
    assert cached.run(even, 1, script=["[1,2]", "[1,7]"]) == [1, 7]
    assert cached.run(even, 1, script=[]) == [1, 7]
    assert cached.requests == []


def test_failed_answers_are_not_kept(cached: Cached) -> None:
    for _ in range(2):
        with pytest.raises(CheckFailed):
            cached.run(even, 0, script=["[1,2]"])
        assert len(cached.requests) == 1


def test_answers_that_a_limit_has_ended_are_not_kept(cached: Cached) -> None:
    @program
    async def short() -> str:
        return await ASK.generate(cache=True, max_tokens=3)

    for _ in range(2):
        assert cached.run(short) == ANSWER[:3]
        assert len(cached.requests) == 1


def test_cancelled_generations_are_not_kept_and_hold_no_lease(cached: Cached) -> None:
    @program
    async def given_up() -> str:
        gen = ASK.generate(cache=True)
        await nap(0.3)
        gen.cancel("not needed")
        try:
            return await gen
        except NodeCancelled:
            return "cancelled"

    assert cached.run(given_up, decode_tokens_per_s=10.0) == "cancelled"
    assert cached.run(ask) == ANSWER
    assert len(cached.requests) == 1


@tool(effects="read")
async def nap(seconds: float) -> str:
    """Sleeps."""
    await anyio.sleep(seconds)
    return ""


def test_the_rest_goes_on_if_the_first_of_a_flight_is_cancelled(cached: Cached) -> None:
    @program
    async def two() -> str:
        first, second = ASK.generate(cache=True), ASK.generate(cache=True)
        await nap(0.3)
        first.cancel("not needed")
        return await second

    assert cached.run(two, decode_tokens_per_s=10.0) == ANSWER
    assert cached.run(ask) == ANSWER
    assert cached.requests == []


def test_an_answer_that_does_not_fit_its_type_any_more_is_computed_anew(cached: Cached) -> None:
    """The checks of a type are code, which no key knows."""
    limit = 10

    def small(value: int) -> bool:
        return value < limit

    @program
    async def number() -> int:
        return await ASK.generate(Annotated[int, Predicate(small)], cache=True, check=True)

    assert cached.run(number, script=["9"]) == 9
    limit = 5
    assert cached.run(number, script=["3"]) == 3
    assert cached.decisions() == ["cached", "missed"]
    assert cached.run(number, script=[]) == 3


def test_a_hit_needs_no_money(cached: Cached) -> None:
    @program
    async def cheap(cost: str) -> str:
        async with limits(cost=cost):
            return await ASK.generate(cache=True, max_tokens=20)

    prices = Prices.of(input=1, output=10)
    cached.run(cheap, "1", prices=prices)
    assert cached.run(cheap, "0.000001", prices=prices) == ANSWER
    cached.path.unlink()
    with pytest.raises(BudgetExceeded):
        cached.run(cheap, "0.000001", prices=prices)


def test_a_cache_that_cannot_be_used_is_said_once_and_stops_nothing(
    cached: Cached, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is it tried for each node: a dead server costs a timeout."""

    class Counted(SqliteStore):
        looks = 0

        def find(self, key: str, holder: str, lease_s: float) -> Found:
            self.looks += 1
            return super().find(key, holder, lease_s)

    cached.path.mkdir()
    store = Counted(cached.path)
    with caplog.at_level(logging.WARNING):
        assert cached.run(draw, 3, store=store) == [ANSWER] * 3
    assert store.looks == 1
    (line,) = caplog.messages
    assert line.startswith("the response cache is not used: ")
    assert str(cached.path) in line
    assert len(cached.requests) == 3


def test_a_damaged_value_is_computed_anew(cached: Cached) -> None:
    cached.run(ask)
    import sqlite3

    with sqlite3.connect(cached.path) as database:
        database.execute("UPDATE responses SET value = x'00'")
    database.close()
    assert cached.run(ask) == ANSWER
    assert len(cached.requests) == 1
    cached.run(ask)
    assert cached.requests == []
