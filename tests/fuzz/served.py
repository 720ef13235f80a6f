"""Our server over the embedded model, as a process of its own: `python tests/fuzz/served.py`.

One line says its address and the engine's process; after SIGTERM a second one says how many KV
pages are neither free nor evictable.
"""

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from agentrt import embedded
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.protocol.events import Event
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import Runtime
from agentrt.serve import ServeConfig
from agentrt.serve.listener import serve

PAGE_TOKENS = 16
KV_BYTES = 256_000_000
"""For a whole window of each client: a client in order never waits for memory."""


class Pages:
    """The last step's free and evictable pages."""

    last: StepDone | None = None

    def on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, StepDone) and event.step is not None:
                self.last = event


async def main() -> None:
    pages = Pages()
    opened: list[Runtime] = []

    @asynccontextmanager
    async def opening() -> AsyncIterator[Runtime]:
        engine = EngineConfig(embedded.path(), threads=1, kv_bytes=KV_BYTES)
        scheduler = SchedulerConfig(policy="fcfs")
        async with open_runtime(engine=engine, scheduler=scheduler, observers=[pages]) as runtime:
            opened.append(runtime)
            yield runtime

    def engine_pid() -> int | None:
        backend = opened[0].engines["default"].backend
        assert isinstance(backend, EmbeddedBackend)
        return backend.pid

    def tell(url: str) -> None:
        say(url=url, engine_pid=engine_pid())

    await serve(ServeConfig("tiny", port=0), opening(), tell=tell)
    assert pages.last is not None
    capacity = opened[0].engines["default"].capabilities.kv_tokens // PAGE_TOKENS
    say(leaked_pages=capacity - pages.last.free_pages - pages.last.evictable_pages)


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(main)
