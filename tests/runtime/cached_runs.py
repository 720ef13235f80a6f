"""Runs that share one response cache, as processes do one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentrt import Prices, chat, program
from agentrt.analysis import RunRecord
from agentrt.base.config import RunConfig, SchedulerConfig
from agentrt.protocol.events import Scheduled
from agentrt.protocol.priced_backend import PricedBackend
from agentrt.runtime import RunOptions, Runtime
from agentrt.runtime.response_cache.cache import ResponseCache
from agentrt.runtime.response_cache.sqlite_store import SqliteStore
from agentrt.runtime.response_cache.store import ResponseStore
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual
from tests.runtime.conftest import Recorder

ANSWER = "it scatters"
ASK = chat(system="Be brief.").user("Why is the sky blue?")


@program
async def ask(temperature: float = 0.0) -> str:
    return await ASK.generate(cache=True, temperature=temperature)


class Cached:
    """Runs of several processes, one after the other, that share one file of answers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recorder = Recorder()
        self.requests: list[Any] = []

    def run(
        self,
        program: Any,
        *args: Any,
        script: Any = None,
        engine: str = "engine",
        prices: Prices | None = None,
        options: RunOptions | None = None,
        config: RunConfig | None = None,
        scheduler: SchedulerConfig | None = None,
        default_roles: frozenset[str] = frozenset(),
        store: ResponseStore | None = None,
        cache: ResponseCache | None = None,
        **speeds: Any,
    ) -> Any:
        self.recorder = Recorder()

        async def main() -> Any:
            clock = LoopClock()
            script_ = script or (lambda request, prompt: ANSWER)
            scripted = ScriptedBackend(script_, clock=clock, **speeds)
            backend: Any = scripted
            if prices is not None:
                backend = PricedBackend(scripted, prices, clock)
            own = store or SqliteStore(self.path)
            responses = cache or ResponseCache(own, {"default": engine}, default_roles)
            runtime = Runtime(
                {"default": (backend, speeds.get("codec"))},
                clock=clock,
                observers=[self.recorder],
                config=config,
                scheduler=scheduler,
                responses=responses,
            )
            try:
                async with runtime:
                    configured = runtime.with_options(options or RunOptions())
                    return await configured.run(program, *args)
            finally:
                self.requests = scripted.seen.requests
                await responses.aclose()

        return run_virtual(main)

    @property
    def record(self) -> RunRecord:
        record = RunRecord()
        record.on_events(self.recorder.events)
        return record

    def decisions(self) -> list[str]:
        return [one.decision for one in self.recorder.of(Scheduled)]
