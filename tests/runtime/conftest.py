"""Runs on a scripted engine with virtual time, and everything that observers saw."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from agentrt import Prices, Program, embedded
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, RunConfig, SchedulerConfig
from agentrt.prompt import Codec
from agentrt.protocol.backend import Backend
from agentrt.protocol.events import Event
from agentrt.protocol.priced_backend import PricedBackend
from agentrt.runtime import RunOptions, Runtime
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual
from tests.runtime.watched_threads import WATCH, Watch


class Recorder:
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.batches: list[tuple[Event, ...]] = []

    def on_events(self, events: Sequence[Event]) -> None:
        self.events += events
        self.batches.append(tuple(events))

    def of(self, kind: type, name: str = "") -> list[Any]:
        """Events of one kind, of the nodes whose id ends with `name#...`."""
        found: list[Any] = [event for event in self.events if isinstance(event, kind)]
        return [e for e in found if not name or f"{name}#" in e.node_id.rpartition("/")[2]]


class Bench:
    """One scripted engine and the runs on it."""

    def __init__(
        self,
        script: Any,
        *,
        codec: Codec | None = None,
        scheduler: SchedulerConfig | None = None,
        prices: Prices | None = None,
        **speeds: Any,
    ) -> None:
        self.clock = LoopClock()
        self.backend = ScriptedBackend(script, clock=self.clock, codec=codec, **speeds)
        self.codec = codec
        self.scheduler = scheduler
        self.prices = prices
        self.recorder = Recorder()

    def runtime(self, config: RunConfig | None = None) -> Runtime:
        backend: Backend = self.backend
        if self.prices is not None:
            backend = PricedBackend(backend, self.prices, self.clock)
        return Runtime(
            {"default": (backend, self.codec)},
            clock=self.clock,
            observers=[self.recorder],
            config=config,
            scheduler=self.scheduler,
        )

    def run(
        self,
        program: Program[Any, Any],
        *args: Any,
        options: RunOptions | None = None,
        config: RunConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """The program's result, on virtual time."""

        async def main() -> Any:
            async with self.runtime(config) as runtime:
                configured = runtime.with_options(options or RunOptions())
                return await configured.run(program, *args, **kwargs)

        return run_virtual(main)

    def main(self, body: Callable[[Runtime], Any]) -> Any:
        """What `body(runtime)` gives, on virtual time."""

        async def main() -> Any:
            async with self.runtime() as runtime:
                return await body(runtime)

        assert inspect.iscoroutinefunction(body)
        return run_virtual(main)


@pytest.fixture(scope="session")
def codec() -> Codec:
    return Codec.load(Path(embedded.path()))


@pytest.fixture
def bench() -> type[Bench]:
    return Bench


class EmbeddedEngine:
    """One open runtime on the embedded engine, which runs in a thread of the test's process."""

    def __init__(self, portal: BlockingPortal, runtime: Runtime, recorder: Recorder) -> None:
        self.portal = portal
        self.runtime = runtime
        self.recorder = recorder
        self.of = recorder.of

    def run(self, program: Any, *args: Any, options: RunOptions | None = None) -> Any:
        """The program's result; what was recorded of runs before it is forgotten."""
        self.recorder.events.clear()
        configured = self.runtime.with_options(options or RunOptions())
        return self.portal.call(configured.run, program, *args)


@pytest.fixture(scope="module")
def engine() -> Iterator[EmbeddedEngine]:
    recorder = Recorder()
    config = EngineConfig(Path(embedded.path()), threads=1, kv_bytes=32_000_000)
    opened = open_runtime(
        engine=config, observers=[recorder], place="thread", config=RunConfig(seed=7)
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened) as runtime,
    ):
        yield EmbeddedEngine(portal, runtime, recorder)


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    token = WATCH.set(made)
    yield made
    made.gate.set()
    WATCH.reset(token)
