"""Like generations under way are computed once, and every node has its own story."""

from typing import Any

import anyio
import pytest

from agentrt import NodeCancelled, chat, gather, program, tool
from agentrt.analysis import RunRecord, split
from agentrt.base.ids import RunId
from agentrt.program.node import wait_until_done
from agentrt.protocol.events import FirstToken, ItemClosed, NodeFinished, RequestSent, Scheduled
from agentrt.runtime import RunOptions

ASK = chat(system="Be brief.")
QUESTION = ASK.user("Why is the sky blue?")
ANSWER = "it scatters"  # eleven bytes are eleven tokens, ten a second


@tool(effects="read")
async def nap(seconds: float) -> str:
    """Sleeps."""
    await anyio.sleep(seconds)
    return "slept"


def rig_of(bench: Any, script: Any = None, **more: Any) -> Any:
    speeds = {"decode_tokens_per_s": 10.0, "seeds": True} | more
    return bench(script or (lambda request, prompt: ANSWER), **speeds)


def ledgers(rig: Any) -> list[Any]:
    ended = [e for e in rig.recorder.of(NodeFinished) if e.ledger is not None]
    return [e.ledger for e in sorted(ended, key=lambda e: e.node_id)]


@program
async def twice(after_s: float) -> list[str]:
    first = QUESTION.generate(name="a")
    await nap(after_s)
    second = QUESTION.generate(name="b")
    return list(await gather(first, second))


@pytest.mark.parametrize("after_s", [0.0, 0.55])
def test_the_second_gets_what_the_first_gets(bench: Any, after_s: float) -> None:
    rig = rig_of(bench)
    assert rig.run(twice, after_s) == [ANSWER, ANSWER]
    assert len(rig.backend.seen.requests) == 1
    one, other = ledgers(rig)
    assert (other.steps, other.prefill_chunks, other.batch_size_sum) == (0, 0, 0)
    assert other.cached_tokens == other.prompt_tokens == one.prompt_tokens
    assert other.output_tokens == one.output_tokens == len(ANSWER)
    (joined,) = rig.recorder.of(Scheduled)
    assert joined.decision == "joined"
    assert "generate:a#0" in joined.reason
    assert dict(joined.terms)["behind_s"] == pytest.approx(after_s)
    assert dict(joined.terms)["tokens_so_far"] == (5 if after_s else 0)
    sent = rig.recorder.of(RequestSent)
    assert sent[0].request_id != sent[1].request_id
    assert [e.node_id[-3:] for e in rig.recorder.of(FirstToken)] == ["a#0", "b#0"]
    assert not rig.backend._ongoing


@pytest.mark.parametrize("after_s", [0.0, 0.35, 0.95])
def test_the_split_still_sums(bench: Any, after_s: float) -> None:
    """What a node had of a request that others began is measured from when it joined."""
    rig = rig_of(bench, prefill_tokens_per_s=100.0)
    rig.run(twice, after_s)
    record = RunRecord()
    record.on_events(rig.recorder.events)
    found = split(record)
    assert sum(found.parts().values()) == pytest.approx(record.compound_s)
    assert found.unattributed == pytest.approx(0.0, abs=1e-9)
    for ledger in ledgers(rig):
        parts = (ledger.queue_s, ledger.prefill_s, ledger.decode_s, ledger.constraint_s)
        assert sum(parts) == pytest.approx(ledger.finished_at_s - ledger.completed_at_s)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ({}, {}, True),
        ({"max_tokens": 20}, {"max_tokens": 21}, False),
        ({"temperature": 1.0}, {"temperature": 1.0}, False),  # their seeds differ
        ({"temperature": 1.0, "seed": 3}, {"temperature": 1.0, "seed": 3}, True),
        ({"temperature": 1.0, "seed": 3}, {"temperature": 1.0, "seed": 4}, False),
        ({"seed": 3}, {"seed": 4}, True),  # greedy: a seed changes nothing
        ({"stop": "t"}, {}, False),
        ({"deadline": 9.0}, {}, True),
        ({"deadline": 9.0, "on_limit": "close"}, {"on_limit": "close"}, False),
        ({"on_limit": "close"}, {"on_limit": "close"}, True),
        ({"on_limit": "close"}, {"on_limit": "raise"}, False),
    ],
)
def test_what_counts_as_alike(bench: Any, one: Any, other: Any, shared: bool) -> None:
    @program
    async def both() -> list[str]:
        return list(await gather(QUESTION.generate(**one), QUESTION.generate(**other)))

    rig = rig_of(bench)
    rig.run(both)
    assert len(rig.backend.seen.requests) == 2 - shared


def test_an_engine_that_promises_nothing_is_asked_twice(bench: Any) -> None:
    rig = rig_of(bench, seeds=False)
    rig.run(twice, 0.0)
    assert len(rig.backend.seen.requests) == 2


def test_another_text_or_type_is_not_alike(bench: Any) -> None:
    @program
    async def both() -> Any:
        other = ASK.user("Why is the sky red?").generate()
        return await gather(QUESTION.generate(), QUESTION.generate(list[int]), other)

    rig = rig_of(bench, lambda request, prompt: "[1]")
    rig.run(both)
    assert len(rig.backend.seen.requests) == 3


@pytest.mark.parametrize("victim", ["a", "b"])
def test_cancelling_one_leaves_the_other(bench: Any, victim: str) -> None:
    @program
    async def cancels() -> str:
        nodes = {name: QUESTION.generate(name=name) for name in "ab"}
        await nap(0.55)
        nodes.pop(victim).cancel("enough")
        (left,) = nodes.values()
        return await left

    rig = rig_of(bench)
    assert rig.run(cancels) == ANSWER
    assert not rig.backend.seen.cancels
    (gone,) = rig.recorder.of(NodeFinished, victim)
    assert (gone.outcome, gone.at_s) == ("cancelled", rig.recorder.events[0].at_s + 0.55)
    assert gone.ledger.output_tokens == 5


def test_when_all_are_cancelled_the_engine_stops(bench: Any) -> None:
    @program
    async def cancels() -> int:
        nodes = [QUESTION.generate() for _ in range(3)]
        await nap(0.5)
        for node in nodes:
            node.cancel("enough")
        return sum([isinstance(node.error, NodeCancelled) for node in nodes if await done(node)])

    async def done(node: Any) -> bool:
        await wait_until_done(node)
        return True

    rig = rig_of(bench)
    assert rig.run(cancels) == 3
    assert len(rig.backend.seen.cancels) == 1


def test_a_deadline_of_one_ends_only_that_one(bench: Any) -> None:
    with_error: list[Any] = []

    @program
    async def outer() -> str:
        patient = QUESTION.generate(name="patient")
        hasty = QUESTION.generate(name="hasty", deadline=0.45)
        try:
            await hasty
        except Exception as error:
            with_error.append(error)
        return await patient

    rig = rig_of(bench)
    assert rig.run(outer) == ANSWER
    assert type(with_error[0]).__name__ == "DeadlineExceeded"
    (late,) = rig.recorder.of(NodeFinished, "hasty")
    assert late.at_s == pytest.approx(rig.recorder.events[0].at_s + 0.45)
    assert not rig.backend.seen.cancels


def test_items_reach_everybody_who_streams(bench: Any) -> None:
    @program
    async def streams() -> list[list[int]]:
        first = QUESTION.each(int, name="a")
        await nap(0.45)
        second = QUESTION.each(int, name="b")
        return [[item async for item in one] for one in (second, first)]

    rig = rig_of(bench, lambda request, prompt: "[1,2,3]")
    assert rig.run(streams) == [[1, 2, 3], [1, 2, 3]]
    assert len(rig.backend.seen.requests) == 1
    assert len(rig.recorder.of(ItemClosed)) == 6


def test_a_prompt_with_holes_joins_once_it_is_complete(bench: Any, codec: Any) -> None:
    @program
    async def holes() -> list[str]:
        slow = [nap(0.2), nap(0.4)]
        return list(await gather(*(ASK.user("Data: ", one).generate() for one in slow)))

    rig = rig_of(bench, codec=codec)
    assert rig.run(holes) == [ANSWER, ANSWER]
    seen = rig.backend.seen
    assert len(seen.requests) == 2, "nobody knew yet that they are alike"
    assert list(seen.cancels.values()) == ["a like one is under way"]
    assert len(rig.recorder.of(Scheduled)) == 1
    steps = [e.steps for e in ledgers(rig)]
    assert sorted(steps)[0] == 0


def test_runs_join_each_other(bench: Any) -> None:
    async def main(runtime: Any) -> list[str]:
        found: list[str] = []

        async def run(number: int) -> None:
            options = RunOptions(run_id=RunId(f"{number:016x}"))
            found.append(await runtime.with_options(options).run(once))

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(run, number)
        return found

    @program
    async def once() -> str:
        return await QUESTION.generate()

    rig = rig_of(bench)
    assert rig.main(main) == [ANSWER] * 3
    assert len(rig.backend.seen.requests) == 1


def test_demand_of_any_counts(bench: Any) -> None:
    """The first is sent in advance; when somebody waits for its like, the engine hears of it."""

    @program
    async def ahead() -> str:
        QUESTION.generate(name="ahead")
        await nap(0.2)
        return await QUESTION.generate(name="wanted")

    rig = rig_of(bench)
    rig.run(ahead)
    (request,) = rig.backend.seen.requests
    assert not request.demanded
    told = [fact for fact in rig.backend.seen.updates if fact.request_id == request.request_id]
    assert told[0].demanded
    assert all(fact.request_id == request.request_id for fact in rig.backend.seen.updates)


def test_an_engine_that_dies_and_cannot_resume_answers_all_anew(bench: Any) -> None:
    rig = rig_of(bench, resumes=False)

    @program
    async def dies() -> list[str]:
        nodes = [QUESTION.generate() for _ in range(2)]
        await nap(0.3)
        rig.backend.lose_engine()
        return list(await gather(*nodes))

    assert rig.run(dies) == [ANSWER] * 2


def test_an_output_is_closed_when_all_want_it_closed(bench: Any) -> None:
    """Closing one must not cut off the other, which goes on to the end of the answer."""

    @program
    async def closes(both: bool) -> list[str]:
        nodes = [QUESTION.generate(on_limit="close", max_tokens=40) for _ in range(2)]
        await nap(0.35)
        for node in nodes[: 1 + both]:
            node.cancel(close=True)
        return list(await gather(*nodes))

    whole = rig_of(bench)
    assert whole.run(closes, False) == [ANSWER, ANSWER]
    cut = rig_of(bench)
    assert cut.run(closes, True) == [ANSWER[:4]] * 2


def test_who_wants_it_closed_has_it_closed_once_the_others_are_gone(bench: Any) -> None:
    @program
    async def closes() -> str:
        one, other = [QUESTION.generate(on_limit="close", max_tokens=40) for _ in range(2)]
        await nap(0.35)
        one.cancel(close=True)
        await nap(0.2)
        other.cancel("enough")
        return await one

    rig = rig_of(bench)
    assert rig.run(closes) == ANSWER[:6]
