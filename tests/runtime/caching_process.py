"""A process that asks one question through a response cache: `caching_process.py FILE`.

It says `ready`, waits for a line, and then prints its answer and how often its engine was asked.
With `FILE crash` it takes the lease, says so, and waits.
"""

import sys
from pathlib import Path

import anyio

from agentrt import chat, program
from agentrt.base.clock import MonotonicClock
from agentrt.runtime import Runtime
from agentrt.runtime.response_cache.cache import ResponseCache
from agentrt.runtime.response_cache.sqlite_store import SqliteStore
from agentrt.testing import ScriptedBackend


@program
async def ask() -> str:
    return await chat().user("Why is the sky blue?").generate(cache=True)


async def main(path: Path) -> None:
    clock = MonotonicClock()
    backend = ScriptedBackend(["it scatters"], clock=clock, decode_tokens_per_s=50.0)
    cache = ResponseCache(SqliteStore(path), {"default": "engine"})
    async with Runtime({"default": (backend, None)}, clock=clock, responses=cache) as runtime:
        print("ready", flush=True)
        sys.stdin.readline()
        answer: str = await runtime.run(ask)
        print(answer, len(backend.seen.requests))
    await cache.aclose()


if __name__ == "__main__":
    if sys.argv[2:] == ["crash"]:
        print(SqliteStore(Path(sys.argv[1])).find("k", "crashed", 15.0), flush=True)
        sys.stdin.readline()
    else:
        anyio.run(main, Path(sys.argv[1]))
