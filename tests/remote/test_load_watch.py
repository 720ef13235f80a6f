"""Looks at a server's load while requests are with it: what they change, and what they do not."""

import asyncio
import json
from contextlib import asynccontextmanager

import anyio

from agentrt import RemoteEngineConfig, chat, fan, gather, program
from agentrt.app import open_runtime
from agentrt.protocol.events import Scheduled
from agentrt.remote.admission.server_room import FIRST_REQUESTS
from tests.remote.hostile_server import DONE, content, event, head, serving

MODELS = json.dumps({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 512}]}).encode()


class BusyServer:
    """A server with so many slots and a queue of its own; it shows its load as vLLM does.

    A request ends when the server is told to go on, after the load was looked at.
    """

    def __init__(self, slots, *, shows=True):
        self.slots, self.shows = slots, shows
        self.inside = self.most = self.looks = 0
        self.order = []
        self.tokens = 8
        self.gate = asyncio.Event()
        self.gate.set()
        self.looked = asyncio.Event()
        self.came = asyncio.Event()

    def metrics(self):
        running = min(self.inside, self.slots)
        return (
            f"vllm:num_requests_running {running}\n"
            + f"vllm:num_requests_waiting {self.inside - running}\n"
            + "vllm:kv_cache_usage_perc 0.5\n"
            + 'vllm:cache_config_info{block_size="16",num_gpu_blocks="64"} 1.0\n'
        )

    async def __call__(self, path, body, writer):
        if path == "/metrics":
            self.looks += 1
            status = "200 OK" if self.shows else "404 Not Found"
            writer.write(head(status, "text/plain") + self.metrics().encode())
            self.looked.set()
        elif path.endswith("/models"):
            writer.write(head(kind="application/json") + MODELS)
        else:
            await self.serve(json.loads(body)["messages"][-1]["content"], writer)
        await writer.drain()

    async def serve(self, said, writer):
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.order.append(said)
        self.came.set()
        self.came = asyncio.Event()
        await self.looked.wait()
        await self.gate.wait()
        await anyio.lowlevel.checkpoint()
        self.inside -= 1
        usage = {"prompt_tokens": self.tokens, "completion_tokens": 2}
        last = event({"choices": [], "usage": usage})
        writer.write(head() + event(content(said)) + event(content("", "stop")) + last + DONE)


class Watcher:
    """Notes the decisions about requests."""

    def __init__(self):
        self.decisions = []
        self.changed = asyncio.Event()

    def on_events(self, events):
        self.decisions += [one for one in events if isinstance(one, Scheduled)]
        self.changed.set()
        self.changed = asyncio.Event()


@program
async def many(count: int) -> list[str]:
    nodes = fan(lambda number: chat().user(f"{number}").generate(max_tokens=8), range(count))
    return list(await gather(*nodes))


@asynccontextmanager
async def opened(server, **settings):
    """A runtime on this server, and what was decided."""
    watcher = Watcher()
    async with serving(server, doors=True) as url:
        engine = RemoteEngineConfig(kind="vllm", address=url, **settings)
        opening = open_runtime(engine=engine, models={}, observers=[watcher])
        async with opening as runtime:
            yield runtime, watcher


def played(portal, server, count, **settings):
    async def main():
        async with opened(server, **settings) as (runtime, watcher):
            answers = await runtime.run(many, count)
        return answers, watcher.decisions

    return portal.call(main)


def test_the_first_looks_come_before_more_than_a_few_are_sent(portal):
    """The server ends none of them before all that are sent are with it, and a look shows them."""

    async def main():
        server = BusyServer(slots=4)
        server.gate.clear()
        async with opened(server) as (runtime, _), anyio.create_task_group() as tasks:
            tasks.start_soon(runtime.run, many, 100)
            while server.inside < FIRST_REQUESTS:
                await server.came.wait()
            server.looked.clear()
            await server.looked.wait()
            most = server.most
            server.gate.set()
        return most, len(server.order)

    assert portal.call(main) == (FIRST_REQUESTS, 100)


def test_a_server_that_shows_nothing_gets_all(portal):
    server = BusyServer(slots=4, shows=False)
    answers, _ = played(portal, server, 100)
    assert len(answers) == 100
    assert server.looks >= 1


def test_a_concurrency_that_is_set_holds_whatever_the_load_says(portal):
    server = BusyServer(slots=64)
    played(portal, server, 100, concurrency=3)
    assert server.most == 3


def test_runs_are_held_back_by_the_memory_that_the_server_shows(portal):
    """Of 1,024 tokens four fifths may be committed, and each run was seen to need 300."""

    async def main():
        server = BusyServer(slots=64)
        async with opened(server) as (runtime, watcher):
            await runtime.run(many, 1)  # the load has been looked at
            assert not [one for one in watcher.decisions if one.decision == "held"]
            server.tokens = 300
            for _ in range(12):
                await runtime.run(many, 1)
            server.gate.clear()
            watcher.decisions.clear()
            async with anyio.create_task_group() as tasks:
                for _ in range(6):
                    tasks.start_soon(runtime.run, many, 1)
                while len(watcher.decisions) < 6:
                    await watcher.changed.wait()
                server.gate.set()
        return watcher.decisions

    decisions = portal.call(main)
    held = [one for one in decisions[:6] if one.decision == "held"]
    assert 3 <= len(held) <= 5
    assert held[0].reason == "the KV memory is set aside for others"
    assert round(dict(held[0].terms)["limit_tokens"]) == round(0.8 * 1024)
