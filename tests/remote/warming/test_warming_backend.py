"""Warm-ups over HTTP: what is sent while a prompt waits for a hole, and when nothing is."""

from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from agentrt import RemoteEngineConfig
from agentrt.base.engines.remote_engine_config import Fallbacks
from agentrt.base.ids import RequestId
from agentrt.base.prices import Prices
from agentrt.prompt import Codec
from agentrt.protocol.step_output import End
from agentrt.remote.admission.request_pacer import RequestPacer
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.fleet.fleet_placement import FleetPlacement
from agentrt.remote.fleet.fleet_route import FleetRoute
from agentrt.remote.fleet.fleet_worker import FleetWorker
from tests.remote.hostile_server import head, serving
from tests.remote.warming.prefix_server import PrefixServer, is_warm_up, playing, request


@pytest.fixture(scope="module")
def codec(tiny):
    return Codec.load(tiny.model_path)


async def settled(play, number=90):
    """Play a request of its own to its end: what was sent before has arrived then."""
    play.submit(number, range(5), complete=True)
    return await play.end_of(number)


def test_the_known_part_is_sent_before_the_rest_is_known(portal, codec):
    async def main():
        server = PrefixServer()
        async with playing(codec, server) as play:
            assert play.backend.capabilities.holes
            play.submit(1, range(1000))
            await server.until_came(1)
            assert len(server.bodies) == 1
            await play.idle()
            play.fill(1, range(1000, 1100), complete=True)
            end = await play.end_of(1)
        return server.bodies, end

    (warm_up, real), end = portal.call(main)
    assert warm_up["prompt"] == list(range(960))  # whole blocks of 64
    assert warm_up["max_tokens"] == 1
    assert warm_up["session_id"] == real["session_id"] == "r" * 16
    assert warm_up["priority"] > 10_000 > real["priority"]
    assert real["prompt"] == list(range(1100))
    assert real["max_tokens"] == 8
    ledger = end.ledger
    assert (ledger.warmed_tokens, ledger.cached_tokens, ledger.ahead_tokens) == (960, 960, 960)
    assert ledger.late_tokens == 140
    assert end.not_warmed == ""


def test_only_a_longer_prefix_is_worth_another_warm_up(portal, codec):
    async def main():
        server = PrefixServer()
        async with playing(codec, server) as play:
            play.submit(1, range(300))
            await server.until_came(1)
            await play.idle()
            for start in range(300, 900, 32):  # as streamed fills come
                play.fill(1, range(start, min(900, start + 32)))
                await play.idle()
            play.fill(1, range(900, 910), complete=True)
            await play.end_of(1)
        return [len(body["prompt"]) for body in server.bodies]

    assert portal.call(main) == [256, 512, 768, 910]


def test_a_short_prompt_and_a_known_one_are_not_warmed(portal, codec):
    async def main():
        server = PrefixServer()
        async with playing(codec, server) as play:
            play.submit(1, range(100))
            play.fill(1, range(100, 110), complete=True)
            await play.end_of(1)
            play.submit(2, range(800), complete=True)
            await play.end_of(2)
            play.submit(3, range(900))
            play.fill(3, range(900, 910), complete=True)
            await play.end_of(3)
        return server.warm_ups

    assert portal.call(main) == []


def test_a_warm_up_ends_at_once_with_the_last_fill(portal, codec):
    async def main():
        server = PrefixServer()
        server.gate.clear()
        async with playing(codec, server) as play:
            play.submit(1, range(1000))
            await server.until_came(1)
            play.fill(1, range(1000, 1001), complete=True)
            end = await play.end_of(1)
            await play.idle()
        return server.bodies, end

    bodies, end = portal.call(main)
    assert [is_warm_up(body) for body in bodies] == [True, False]
    assert end.reason == "length"
    assert end.ledger.warmed_tokens == 0


def test_a_cancelled_request_takes_its_warm_up_along(portal, codec):
    async def main():
        server = PrefixServer()
        server.gate.clear()
        async with playing(codec, server) as play:
            play.submit(1, range(1000))
            await server.until_came(1)
            play.cancel(1)
            end = await play.end_of(1)
            await play.idle()
        return server.bodies, end

    bodies, end = portal.call(main)
    assert end.reason == "cancelled"
    assert [is_warm_up(body) for body in bodies] == [True]


def test_nothing_is_warmed_while_requests_wait_at_the_server(portal, codec):
    async def main():
        server = PrefixServer()
        server.waiting, server.running = 3, 4
        async with playing(codec, server) as play:
            play.submit(1, range(1000))
            await play.idle()
            looks = server.looks
            play.fill(1, range(1000, 1001), complete=True)
            return server.warm_ups, looks, await play.end_of(1)

    warm_ups, looks, end = portal.call(main)
    assert warm_ups == []
    assert looks == 1
    assert end.not_warmed == "requests wait at the server"


def test_nothing_is_warmed_if_the_server_is_full_or_requests_wait_here(portal, codec):
    """One place: an answer has it, and later another request waits for it."""

    async def main():
        server = PrefixServer()
        async with playing(codec, server, concurrency=1) as play:
            play.submit(1, range(700), complete=True)
            await anyio.wait_all_tasks_blocked()
            play.submit(2, range(5000, 6000))
            play.submit(3, range(30), complete=True)
            await play.idle()
            first = len(server.warm_ups)
            await play.end_of(1)
            await play.end_of(3)
            await play.idle()
            play.fill(2, range(10), complete=True)
            await play.end_of(2)
        return first, [len(one["prompt"]) for one in server.warm_ups]

    first, later = portal.call(main)
    assert first == 0
    assert later == [960]  # tried again once there was room


def test_requests_take_the_room_of_warm_ups(portal, codec):
    async def main():
        server = PrefixServer()
        server.gate.clear()
        async with playing(codec, server, concurrency=1) as play:
            play.submit(1, range(1000))
            await server.until_came(1)
            play.submit(2, range(50), complete=True)
            end = await play.end_of(2)
            await server.until_came(3)
            server.gate.set()
            await play.idle()
        return server.bodies, end

    bodies, end = portal.call(main)
    assert end.reason == "length"
    # It is sent again behind the request, since it may not have been computed.
    assert [len(one["prompt"]) for one in bodies] == [960, 50, 960]


def test_a_server_that_refuses_one_gets_no_more(portal, codec):
    async def main():
        server = PrefixServer(lambda body: "no such thing" if is_warm_up(body) else None)
        async with playing(codec, server) as play:
            ends = []
            for number in (1, 2):
                play.submit(number, range(number * 10_000, number * 10_000 + 1000))
                await play.idle()
                play.fill(number, range(3), complete=True)
                ends.append(await play.end_of(number))
        return server.warm_ups, ends

    warm_ups, ends = portal.call(main)
    assert len(warm_ups) == 1
    assert [end.reason for end in ends] == ["length", "length"]
    assert all("no such thing" in end.not_warmed for end in ends)


def test_a_refused_priority_is_left_out(portal, codec):
    def refuses(body):
        return "Got priority 5 but Priority scheduling is off" if body.get("priority") else None

    async def main():
        server = PrefixServer(refuses)
        async with playing(codec, server) as play:
            play.submit(1, range(1000))
            await server.until_came(2)
            await play.idle()
            play.fill(1, range(3), complete=True)
            return server.bodies, await play.end_of(1)

    bodies, end = portal.call(main)
    assert ["priority" in body for body in bodies] == [True, False, False]
    assert end.ledger.warmed_tokens == 960


def test_at_most_two_are_at_a_server_at_once(portal, codec):
    async def main():
        server = PrefixServer()
        server.gate.clear()
        async with playing(codec, server) as play:
            for number in range(5):
                play.submit(number, range(number * 5000, number * 5000 + 600))
            await server.until_came(2)
            await settled(play)
            most = len(server.warm_ups)
            server.gate.set()
            await play.idle()
            for number in range(5):
                play.fill(number, range(4), complete=True)
                await play.end_of(number)
        return most, len(server.warm_ups)

    most, all_in_all = portal.call(main)
    assert most == 2
    assert all_in_all == 5


def test_prompts_with_the_same_beginning_are_warmed_once(portal, codec):
    async def main():
        server = PrefixServer()
        async with playing(codec, server) as play:
            for number in range(4):
                play.submit(number, range(1000))
            await server.until_came(1)
            await play.idle()
            for number in range(4):
                play.fill(number, range(number, number + 4), complete=True)
            ends = [await play.end_of(number) for number in range(4)]
        return server.warm_ups, [end.ledger.cached_tokens for end in ends]

    warm_ups, cached = portal.call(main)
    assert len(warm_ups) == 1
    assert min(cached) >= 960


def test_salts_have_prefixes_of_their_own(portal, codec):
    async def main():
        server = PrefixServer()
        async with playing(codec, server) as play:
            for number, salt in enumerate(("a", "b")):
                play.submit(number, range(1000), cache_salt=salt)
            await server.until_came(2)
            await play.idle()
            for number in range(2):
                play.fill(number, range(3), complete=True)
                await play.end_of(number)
        return [one["cache_salt"] for one in server.bodies]

    assert portal.call(main) == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    "settings",
    [
        {"warm_ahead": False},
        {"requests_per_minute": 600},
        {"kind": "sglang", "tokenizer": ""},
        {"kind": "transformers", "tokenizer": ""},
    ],
)
def test_without_warm_ups_prompts_are_sent_whole(portal, codec, settings):
    async def main():
        async with playing(codec, PrefixServer(), **settings) as play:
            return play.backend.capabilities

    assert not portal.call(main).holes


def test_a_fleet_sends_the_prompt_where_it_was_warmed(portal, codec):
    async def main():
        servers = [PrefixServer(), PrefixServer()]
        async with playing(codec, *servers) as play:
            for number in range(6):
                begin = number * 3000
                play.submit(number, range(begin, begin + 1000), run_id=f"{number:016}")
                await play.idle()
            for number in range(6):
                play.fill(number, range(4), complete=True)
            ends = [await play.end_of(number) for number in range(6)]
        return servers, ends

    servers, ends = portal.call(main)
    for server in servers:
        assert server.warm_ups
        warmed = {one["prompt"][0] for one in server.warm_ups}
        assert {one["prompt"][0] for one in server.bodies if not is_warm_up(one)} == warmed
    assert [end.ledger.cached_tokens for end in ends] == [960] * 6


def test_a_fleet_forgets_a_prefix_that_was_not_warmed():
    engine = cast(Any, SimpleNamespace(capabilities=SimpleNamespace(prefills_ahead=True)))
    workers = [FleetWorker(name, 1.0, engine, engine, RequestPacer()) for name in "ab"]
    for worker in workers:
        worker.health, worker.is_open = "up", True
    placement = FleetPlacement(workers, gap_s=10.0)
    asked = request(1, range(1000), complete=True)

    def reason():
        route = FleetRoute(asked, RequestTurn(1), cast(Any, None), 0.0, 0.0)
        placed = placement.choose(route, 0.0)
        return placed and (placed.worker, placed.reason)

    def warm(number, end):
        name = placement.begin_warm_up(request(number, range(1000), complete=False), 0.0)
        placement.end_warm_up(End(RequestId(number), end))
        return name

    assert warm(-1, "failed") == "a"
    assert reason() == ("a", "spread")
    assert warm(-2, "cancelled") == "a"
    assert reason() == ("a", "prefix")


class AwayServer(PrefixServer):
    """A server that is not ready."""

    async def __call__(self, path, body, writer):
        writer.write(head("503 Service Unavailable", more="Content-Length: 0\r\n"))


def test_an_engine_that_takes_over_is_not_warmed(portal, codec):
    """It may be one that charges: here it has prices."""

    async def main():
        server = PrefixServer()
        async with serving(server, doors=True) as url:
            other = RemoteEngineConfig(
                kind="vllm",
                address=url,
                model="m",
                tokenizer=str(codec.path),
                prices=Prices.of(input="1", output="1"),
            )
            fallbacks = Fallbacks(down=(other,))
            limits = {"outage_s": 0.0, "attempts": 1}
            away = AwayServer()
            async with playing(codec, away, fallbacks=fallbacks, limits=limits) as play:
                for number in (1, 2):
                    play.submit(number, range(number * 9000, number * 9000 + 1000))
                    await play.idle()
                    play.fill(number, range(3), complete=True)
                    end = await play.end_of(number)
        return server, end

    server, end = portal.call(main)
    assert end.reason == "length"
    assert end.by_fallback
    assert server.bodies
    assert server.warm_ups == []
    assert end.not_warmed == "the engine that takes over is not warmed"
