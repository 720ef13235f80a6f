"""Runs on a remote engine that takes one request at a time: their order, and why."""

import asyncio
import json

import anyio
import pytest

from agentrt import DeadlineExceeded, RemoteEngineConfig, chat, program
from agentrt.app import open_runtime
from agentrt.base.config import SchedulerConfig
from agentrt.protocol.events import RequestSent, Scheduled
from agentrt.runtime import RunOptions
from tests.remote.hostile_server import DONE, content, event, head, serving


@program
async def say(what: str) -> str:
    return await chat().user(what).generate(max_tokens=8)


class GatedServer:
    """Serves nothing until the gate is open, and notes the order of requests."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.order = []

    async def __call__(self, path, body, writer):
        said = json.loads(body)["messages"][-1]["content"]
        self.order.append(said)
        await self.gate.wait()
        writer.write(head() + event(content(said)) + event(content("", "stop")) + DONE)
        await writer.drain()


class Watcher:
    """Notes the decisions about requests, and counts those that are sent."""

    def __init__(self):
        self.placed = []
        self.sent = 0
        self.changed = anyio.Event()

    def on_events(self, events):
        self.placed += [one for one in events if isinstance(one, Scheduled)]
        self.sent += sum(isinstance(one, RequestSent) for one in events)
        self.changed.set()
        self.changed = anyio.Event()

    async def until_sent(self, count):
        while self.sent < count:
            await self.changed.wait()


def played(portal, runs, **scheduler):
    """The order at the server of runs by (text, options) behind a first one, and decisions."""

    async def main():
        server, watcher = GatedServer(), Watcher()
        async with serving(server) as url:
            engine = RemoteEngineConfig(kind="openai", address=url, model="m", concurrency=1)
            opening = open_runtime(
                engine=engine,
                models={},
                observers=[watcher],
                scheduler=SchedulerConfig(**scheduler),
            )
            async with opening as runtime, anyio.create_task_group() as tasks:

                async def run(what, options):
                    await runtime.with_options(options).run(say, what)

                tasks.start_soon(run, "first", RunOptions())
                await watcher.until_sent(1)
                for number, (what, options) in enumerate(runs, 2):
                    tasks.start_soon(run, what, options)
                    await watcher.until_sent(number)
                server.gate.set()
        return server.order, watcher.placed

    return portal.call(main)


def test_a_run_of_a_higher_priority_overtakes_what_is_held_back(portal):
    runs = [
        ("plain", RunOptions()),
        ("low", RunOptions(priority=-1)),
        ("urgent", RunOptions(priority=1)),
    ]
    order, decisions = played(portal, runs)
    assert order == ["first", "urgent", "plain", "low"]
    first, urgent, plain, low = decisions
    assert {one.decision for one in decisions} == {"placed"}
    assert {one.policy for one in decisions} == {"rwa"}
    assert first.reason == "at once"
    held = "as many requests with the engine as it serves at once in"
    assert urgent.reason.startswith(f"{held} 1 round")
    assert plain.reason.startswith(f"{held} 2 rounds; before it: {urgent.node_id} of run")
    assert low.reason.startswith(f"{held} 3 rounds; before it: ")
    assert dict(low.terms)["priority"] == -1.0


def test_the_policy_of_the_runtime_orders(portal):
    runs = [(f"run {number}", RunOptions()) for number in range(4)]
    order, decisions = played(portal, runs, policy="fcfs")
    assert order == ["first", *(f"run {number}" for number in range(4))]
    assert {one.policy for one in decisions} == {"fcfs"}


def test_a_deadline_ends_a_request_that_is_held_back(portal):
    """The server never answers: nothing but the deadline can end the second run."""

    async def main():
        server, watcher = GatedServer(), Watcher()
        async with serving(server) as url:
            engine = RemoteEngineConfig(kind="openai", address=url, model="m", concurrency=1)
            opening = open_runtime(engine=engine, models={}, observers=[watcher])
            async with opening as runtime, anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.run, say, "first")
                await watcher.until_sent(1)
                with pytest.raises(DeadlineExceeded):
                    await runtime.with_options(RunOptions(deadline_s=0.02)).run(say, "second")
                tasks.cancel_scope.cancel()
        return len(watcher.placed)

    assert portal.call(main) == 1, "the second one was never sent"
