"""A fleet: late binding, and nothing lost when a worker dies, hangs, is busy or is drained."""

import anyio
import pytest

from agentrt import EngineUnavailable, chat, program
from agentrt.protocol.events import NodeFinished, Scheduled
from tests.remote.fleet.fleet_servers import FleetServer, fleet_of


@program
async def say(what: str) -> str:
    return await chat().user(what).generate(max_tokens=8)


@program
async def streamed(what: str) -> str:
    text = ""
    async for piece in chat().user(what).generate(max_tokens=8).stream():
        text += piece
    return text


class Watcher:
    """Notes all events."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def on_events(self, events) -> None:
        self.events += events

    def of(self, kind):
        return [one for one in self.events if isinstance(one, kind)]


async def all_of(runtime, words, body=say):
    found = {}

    async def run(word):
        found[word] = await runtime.run(body, word)

    async with anyio.create_task_group() as tasks:
        for word in words:
            tasks.start_soon(run, word)
    return found


WORDS = [f"word {number}" for number in range(6)]
SAME = {word: word for word in WORDS}


def test_requests_have_no_worker_before_one_has_room(portal):
    """Two workers of one request each: what waits is bound to whichever is free first."""

    async def main():
        first, second = FleetServer("waits"), FleetServer("waits")
        async with (
            fleet_of([first, second], concurrency=1) as runtime,
            anyio.create_task_group() as tasks,
        ):
            for word in WORDS:
                tasks.start_soon(runtime.run, say, word)
            await first.until_asked(1)
            await second.until_asked(1)
            assert (len(first.asked), len(second.asked)) == (1, 1)
            second.gate.set()
            await second.until_asked(5)
            first.gate.set()
        return len(first.asked), len(second.asked)

    assert portal.call(main) == (1, 5)


@pytest.mark.parametrize("mode", ["cuts", "away", "busy", "silent"])
@pytest.mark.parametrize("body", [say, streamed])
def test_a_worker_that_fails_loses_no_run(portal, mode, body):
    async def main():
        bad, good = FleetServer(), FleetServer()
        async with fleet_of([bad, good]) as runtime:
            bad.mode = mode
            return await all_of(runtime, WORDS, body), set(good.asked)

    found, asked = portal.call(main)
    assert found == SAME
    assert asked


def test_a_worker_that_hangs_in_the_middle_gives_its_requests_back(portal):
    """It has begun an answer and sends nothing more; its health check does not answer either."""

    async def main():
        hung, good = FleetServer("waits"), FleetServer()
        async with fleet_of([hung, good], drain=()) as runtime:
            good.mode = "busy"
            async with anyio.create_task_group() as tasks:
                found = []

                async def run():
                    found.append(await runtime.run(streamed, "some words"))

                tasks.start_soon(run)
                await hung.until_asked(1)
                hung.mode, good.mode = "silent", "says"
        return found, hung.asked, good.asked

    found, hung, good = portal.call(main)
    assert found == ["some words"]
    assert hung == ["some words"]
    assert good[-1] == "some words"


def test_a_worker_comes_back_by_itself(portal):
    async def main():
        back, other = FleetServer(), FleetServer("away")
        async with fleet_of([back, other]) as runtime:
            other.mode, back.mode = "says", "away"
            found = await all_of(runtime, WORDS)
            back.mode, other.mode = "says", "away"
            count = len(back.asked)
            return found, await all_of(runtime, WORDS), len(back.asked) - count

    first, second, count = portal.call(main)
    assert first == second == SAME
    assert count == len(WORDS)


def test_without_any_worker_requests_end_by_one_error(portal):
    async def main():
        servers = [FleetServer(), FleetServer()]
        async with fleet_of(servers, limits={"outage_s": 0.1}) as runtime:
            for one in servers:
                one.mode = "silent"
            with pytest.raises(
                EngineUnavailable, match="no worker of the fleet is in service"
            ) as e:
                await runtime.run(say, "x")
            for one in servers:
                one.mode = "says"
            while True:
                try:
                    return str(e.value), await runtime.run(say, "y")
                except EngineUnavailable:
                    await anyio.sleep(0.01)

    message, again = portal.call(main)
    assert message.count("gave no answer within") == 2
    assert again == "y"


def test_a_fleet_opens_without_some_of_its_workers(portal):
    async def main():
        gone, good = FleetServer("silent"), FleetServer()
        async with fleet_of([gone, good]) as runtime:
            first = await all_of(runtime, WORDS)
            gone.mode = "says"
            while not gone.asked:
                assert await all_of(runtime, WORDS) == SAME
            return first

    assert portal.call(main) == SAME


def test_a_fleet_without_any_worker_does_not_open(portal):
    async def main():
        async with fleet_of([FleetServer("away"), FleetServer("away")]):
            pass

    with pytest.raises(EngineUnavailable, match=r"no worker of .* is in service: .*503.*; .*503"):
        portal.call(main)


def test_a_drained_worker_gets_no_new_request(portal):
    async def main():
        from agentrt import RemoteEngineConfig
        from tests.remote.fleet.fleet_servers import runtime_on
        from tests.remote.hostile_server import serving

        drained, other = FleetServer(), FleetServer()
        async with serving(drained, doors=True) as a, serving(other, doors=True) as b:
            engine = RemoteEngineConfig(kind="vllm", addresses=(a, b), model="m", drain=(a,))
            async with runtime_on(engine) as runtime:
                found = await all_of(runtime, WORDS)
        return found, drained.asked, sorted(other.asked)

    assert portal.call(main) == (SAME, [], sorted(WORDS))


def test_the_trace_names_the_worker_of_each_attempt(portal):
    watcher = Watcher()

    async def main():
        bad, good = FleetServer(), FleetServer()
        async with fleet_of([bad, good], [watcher]) as runtime:
            bad.mode = "cuts"
            return await all_of(runtime, WORDS)

    assert portal.call(main) == SAME
    placed = [one for one in watcher.of(Scheduled) if one.decision == "placed"]
    assert all(one.worker.startswith("http://127.0.0.1:") for one in placed)
    assert len({one.worker for one in placed}) == 2
    ends = [one for one in watcher.of(NodeFinished) if "server.address" in one.attributes]
    ports = {one.attributes["server.port"] for one in ends}
    assert {one.attributes["server.address"] for one in ends} == {"127.0.0.1"}
    assert len(ends) == len(WORDS)
    assert len(ports) == 1, "all answers are from the worker that lives"
