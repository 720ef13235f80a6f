"""Priorities and sessions of requests, from their bodies to the order of the engine."""

from functools import partial
from typing import Any

import anyio

from agentrt.serve.shares import OLDEST_EVERY, Owner, RequestShares
from tests.serve.test_through_runtime import Client, Rig

MANY = 40


def test_the_smallest_priority_of_a_client_is_served_first():
    """Few fit the memory at once; the urgent one comes last."""
    rig = Rig(kv_tokens=70)

    async def body(client: Client) -> list[str]:
        async with anyio.create_task_group() as tasks:
            for number, priority in enumerate([0, 5, 5, 5, 5, 0, 5, -3]):
                tasks.start_soon(partial(client.ask, text=f"text {number}", priority=priority))
                await anyio.sleep(0.01)
        return client.ended

    ended = rig.main(body)
    assert ended[:2] == ["text 0", "text 7"], "the first one runs alone, as nothing is learned yet"
    infos = [request.info for request in rig.backend.seen.requests]
    assert [info.priority for info in infos[:2] if info is not None] == [0, 3]


def test_the_requests_of_a_session_are_of_one_program():
    rig = Rig()

    async def body(client: Client) -> Any:
        for session in ("one", "one", "two"):
            await client.ask(text=f"of {session}", session_id=session)
        return None

    rig.main(body)
    infos = [request.info for request in rig.backend.seen.requests]
    assert None not in infos
    starts = [info.run_started_at_s for info in infos if info is not None]
    attained = [info.attained_s for info in infos if info is not None]
    assert starts[0] == starts[1] < starts[2]
    assert attained[0] == attained[2] == 0.0
    assert attained[1] > 0.0


def test_a_turn_goes_to_the_most_urgent_and_now_and_then_to_the_oldest():
    shares = RequestShares[str](MANY, most_turns=1)
    owner = Owner("a")
    for number in range(MANY // 2):
        shares.enter(f"late {number}", owner)
        shares.wait(f"late {number}", 5)
    for number in range(MANY // 2):
        shares.enter(f"soon {number}", owner)
        shares.wait(f"soon {number}", -5)
    given = []
    for _ in range(2 * OLDEST_EVERY):
        (turn,) = shares.next_turns()
        shares.leave(turn)
        given.append(turn)
    late = [turn for turn in given if turn.startswith("late")]
    assert late == ["late 0", "late 1"]
    assert [given.index(turn) for turn in late] == [OLDEST_EVERY - 1, 2 * OLDEST_EVERY - 1]
    assert given[0] == "soon 0"


def test_priority_reaches_no_further_than_its_client():
    shares = RequestShares[str](MANY, most_turns=1)
    for name, owner, priority in (("first", Owner("a"), 9), ("eager", Owner("b"), -9)):
        shares.enter(name, owner)
        shares.wait(name, priority)
    assert shares.next_turns() == ["first", "eager"]


def test_of_requests_that_wait_the_least_urgent_makes_room():
    shares = RequestShares[str](3, most_turns=1)
    for number, priority in enumerate((0, 9, 1)):
        shares.enter(f"{number}", Owner("a"))
        shares.wait(f"{number}", priority)
    shares.next_turns()
    assert shares.enter("other", Owner("b")) == "1"
