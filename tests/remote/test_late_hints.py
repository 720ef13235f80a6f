"""Hints of a request that was held back are those of the moment at which it is sent."""

import asyncio
import json

from anyio import wait_all_tasks_blocked

from agentrt import RemoteEngineConfig
from agentrt.base.clock import MonotonicClock
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Close, Open, Text
from agentrt.protocol.backend import GenerateRequest, MessagePrompt, SchedulingInfo
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.admission.request_rates import pacer_of
from agentrt.remote.backend import RemoteBackend
from agentrt.scheduler import Order, policy
from tests.remote.hostile_server import DONE, content, event, head, serving


def info_of(number, priority):
    return SchedulingInfo(
        RequestId(number), demanded=True, rest_s=1.0, run_id=RunId("r"), priority=priority
    )


def request(number):
    return GenerateRequest(
        RequestId(number),
        RunId("r"),
        NodeId(f"node{number}"),
        "",
        MessagePrompt((Open("user"), Text("hi"), Close())),
        SamplingParams(max_tokens=8),
        info=info_of(number, 0),
    )


def test_the_priority_of_a_request_that_waits_may_change(portal):
    """The first request holds the one place; the second one's run becomes important meanwhile."""
    came, gate, bodies = asyncio.Event(), asyncio.Event(), []

    async def server(path, body, writer):
        if path.endswith("/chat/completions"):
            bodies.append(json.loads(body))
            came.set()
            await gate.wait()
            writer.write(head() + event(content("hi")) + event(content("", "stop")) + DONE)
        else:
            writer.write(head("404 Not Found", more="Content-Length: 0\r\n"))
        await writer.drain()

    async def main():
        clock = MonotonicClock()
        async with serving(server) as url:
            engine = RemoteEngineConfig(kind="vllm", address=url, model="m", concurrency=1)
            queue = AdmissionQueue(pacer_of(engine), Order(policy("rwa")), clock)
            backend = RemoteBackend(engine, clock=clock, queue=queue)
            await backend.start()
            backend.submit(request(1))
            await came.wait()
            backend.submit(request(2))
            await wait_all_tasks_blocked()
            backend.update((info_of(2, 3),))
            gate.set()
            while len(bodies) < 2:
                came.clear()
                await came.wait()
            await backend.aclose()

    portal.call(main)
    first, second = (one["priority"] for one in bodies)
    assert second < first, "vLLM takes the smallest number first"
