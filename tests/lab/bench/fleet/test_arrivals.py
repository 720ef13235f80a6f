"""Programs arrive as a fleet puts out tokens, at our arm and at peers alike."""

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.lab.arms import program_arrivals
from agentrt.lab.bench.fleet.arrival_bell import ArrivalBell
from agentrt.lab.bench.fleet.arrival_schedule import ArrivalSchedule

PEERS = Path(program_arrivals.__file__).parent / "peers" / "program_arrivals.py"


def of_peers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("peers_arrivals", PEERS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ARRIVALS = [program_arrivals.ProgramArrivals, of_peers().PeerArrivals]


def test_programs_arrive_once_so_many_tokens_were_served() -> None:
    schedule = ArrivalSchedule([0.0, 100.0, 200.0])
    assert [schedule.look(at) for at in (0.0, 99.0, 250.0, 300.0)] == [[0], [], [1, 2], []]


def test_an_idle_fleet_waits_for_none() -> None:
    schedule = ArrivalSchedule([50.0, 100.0, 130.0])
    assert schedule.look(0.0) == [0]
    schedule.end()
    assert schedule.look(20.0) == [1], "30 tokens before it was due, as nothing is under way"
    assert schedule.look(49.0) == []
    assert schedule.look(50.0) == [2], "as long after the one before as was drawn"


@given(st.lists(st.floats(0, 1e4), max_size=30).map(sorted), st.data())
def test_all_arrive_in_their_order_and_none_twice(due: list[float], data: st.DataObject) -> None:
    schedule, served, found, running = ArrivalSchedule(due), 0.0, list[int](), 0
    for _ in range(len(due) + 1):
        came = schedule.look(served)
        found += came
        running += len(came)
        assert running or len(found) == len(due), "it waits though nothing is under way"
        for _ in range(running):
            schedule.end()
        running = 0
        served += data.draw(st.floats(0, 100))
    assert found == list(range(len(due)))


@pytest.mark.parametrize("made", ARRIVALS, ids=["ours", "peers"])
def test_an_arm_follows_the_bell(made: Any) -> None:
    """Instants are those at which the bench rang, and ends let the next ones come."""

    async def main() -> list[str]:
        order = list[str]()
        ticks = iter(range(100))
        arrivals = made([7.0, 8.0, 9.0], lambda: float(next(ticks)))

        async def one(number: int) -> None:
            at_s = await arrivals.wait(number)
            order.append(f"{number} at {at_s:g}")
            arrivals.end(number)

        with ArrivalBell([10.0, 500.0, 900.0]) as bell:
            async with arrivals.followed(bell.address):
                playing = asyncio.gather(*map(one, range(3)))
                while not playing.done():
                    bell.look(0.0)
                    await asyncio.sleep(0)
                await playing
        return order

    assert asyncio.run(main()) == ["0 at 0", "1 at 1", "2 at 2"]


@pytest.mark.parametrize("made", ARRIVALS, ids=["ours", "peers"])
def test_an_arm_ends_if_the_bench_rings_no_more(made: Any) -> None:
    async def main() -> None:
        arrivals = made([1.0], lambda: 0.0)
        with ArrivalBell([10.0]) as bell:
            connection = arrivals.followed(bell.address)
            await connection.__aenter__()
        with pytest.raises(ConnectionError, match="no more"):
            await arrivals.wait(0)

    asyncio.run(main())


@pytest.mark.parametrize("made", ARRIVALS, ids=["ours", "peers"])
def test_without_a_bench_programs_arrive_by_their_seconds(made: Any) -> None:
    async def main() -> float:
        arrivals = made([0.5], lambda: 1.0)
        async with arrivals.followed(""):
            at_s: float = await arrivals.wait(0)
            arrivals.end(0)
            return at_s

    assert asyncio.run(main()) == 0.5
