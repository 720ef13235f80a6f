"""An engine that is asked through `Backend.submit`, without a runtime and without a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.lab.errors import BenchFailed
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import End, StepDone


class DirectEngine:
    """A started backend.

    Args:
        backend: The backend.
    """

    def __init__(self, backend: EmbeddedBackend) -> None:
        self._backend = backend
        self._ends: dict[RequestId, asyncio.Future[End]] = {}

    async def generate_s(self, token_ids: Sequence[int], new_tokens: int) -> float:
        """Seconds from `submit` to the end of a greedy request.

        Raises:
            BenchFailed: The request failed.
        """
        request_id = RequestId(time.monotonic_ns())
        end = self._ends[request_id] = asyncio.get_running_loop().create_future()
        request = GenerateRequest(
            request_id=request_id,
            run_id=RunId(f"{request_id:016x}"),
            node_id=NodeId("direct"),
            site="direct",
            prompt=TokenPrompt(tuple(token_ids)),
            sampling=SamplingParams(max_tokens=new_tokens, ignore_eos=True),
        )
        began_at_s = time.perf_counter()
        self._backend.submit(request)
        found = await end
        took_s = time.perf_counter() - began_at_s
        if found.reason != "length":
            raise BenchFailed(f"a request of the engine ended by {found.reason}: {found.error}")
        return took_s

    async def read_events(self) -> None:
        """Hand ends to those that wait for them, until the engine is closed."""
        async for event in self._backend.events():
            if isinstance(event, StepDone):
                for end in event.ends:
                    self._ends.pop(end.request_id).set_result(end)


@asynccontextmanager
async def direct_engine(config: EngineConfig) -> AsyncIterator[DirectEngine]:
    """An engine in a process of its own, as long as the block lasts."""
    backend = EmbeddedBackend(config, MonotonicClock())
    await backend.start()
    engine = DirectEngine(backend)
    reading = asyncio.create_task(engine.read_events())
    try:
        yield engine
    finally:
        await backend.aclose()
        await reading
