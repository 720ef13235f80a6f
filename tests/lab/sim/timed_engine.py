"""Our runtime and a real engine on virtual time: a model computes, and costs give the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import wait

from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.engine.core import EngineCore
from agentrt.engine.runner.executor import ScheduledBatch, StepSpan
from agentrt.engine.runner.model_executor import ModelBatch, ModelExecutor
from agentrt.engine.step.step_runner import InFlightStep
from agentrt.lab.arms.replay import Play, program_of
from agentrt.lab.arms.runtime_arm import PlayObserver
from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.step_work import work_of
from agentrt.lab.workloads.step_sample import StepSample
from agentrt.protocol.backend import (
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import BackendEvent, StepDone
from agentrt.runtime import Runtime
from agentrt.scheduler import Estimates
from agentrt.testing.clock import LoopClock
from agentrt.testing.loop import VirtualTimeLoop, run_virtual

_COMPILE_S = 30.0


class TimedExecutor(ModelExecutor):
    """Computes steps with a model; the instants are those of costs."""

    def __init__(self, config: EngineConfig, clock: LoopClock, costs: SimCosts) -> None:
        super().__init__(config, clock)
        self._costs = costs
        self._ready_at_s = 0.0

    def launch(self, scheduled: ScheduledBatch) -> ModelBatch:
        costs = self._costs
        work = work_of(scheduled, lambda one: one.request.constraint is not None)
        began_s = max(scheduled.began_s, self._ready_at_s)
        ended_s = began_s + costs.of(work)
        self._ready_at_s = ended_s + costs.gap_of(len(scheduled.sequences))
        batch = super().launch(scheduled)
        batch.spans = (StepSpan(began_s, ended_s),)
        return batch


class TimedBackend:
    """A real engine as a `Backend` without a process, in no time but that of its steps."""

    def __init__(self, core: EngineCore) -> None:
        self.capabilities = core.capabilities
        self._core = core
        self._queue = EventQueue()
        self._loop = asyncio.get_running_loop()
        self._messages: list[Callable[[], None]] = []
        self._step: InFlightStep | None = None

    async def start(self) -> None:
        """There is nothing to load."""

    async def aclose(self) -> None:
        self._queue.close()

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._queue.read()

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Nothing is compiled ahead."""

    def submit(self, request: GenerateRequest) -> None:
        self._send(lambda: self._core.submit(request))

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        self._send(lambda: self._core.fill_hole(request_id, fill))

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        self._send(lambda: self._core.update(updates))

    def cancel(self, request_id: RequestId, reason: str) -> None:
        def cancel() -> None:
            self._core.cancel(request_id, reason)
            self._put_ends()

        self._send(cancel)

    def hint(self, hint: PrefixHint) -> None:
        self._send(lambda: self._core.hint(hint))

    def go(self, until_s: float) -> bool:
        """Start the next step; returns False if there is nothing to do."""
        if self._step is not None:
            return False
        core = self._core
        wait(core.executor.grammars.pending_compiles(core.scheduler), timeout=_COMPILE_S)
        step = self._step = core.begin_step()
        if step is None:
            return self._put_ends()
        self._loop.call_at(step.batch.spans[-1].ended_s, self._land)
        return True

    def _land(self) -> None:
        step, self._step = self._step, None
        assert step is not None
        for done in self._core.end_step(step):
            self._put(done)

    def _put_ends(self) -> bool:
        done = self._core.take_ends()
        if done is not None:
            self._put(done)
        return done is not None

    def _put(self, done: StepDone) -> None:
        self._loop.call_at(self._loop.time(), self._queue.put, done)

    def _send(self, message: Callable[[], None]) -> None:
        if not self._messages:
            self._loop.call_soon(self._flush)
        self._messages.append(message)

    def _flush(self) -> None:
        messages, self._messages = self._messages, []
        self._loop.call_at(self._loop.time(), lambda: [message() for message in messages])


def played_on_costs(
    config: EngineConfig, costs: SimCosts, scheduler: SchedulerConfig, lines: Sequence[ProgramLine]
) -> list[StepSample]:
    """The steps in which a real engine serves programs, each from its arrival on."""
    clock, observer = LoopClock(), PlayObserver()
    executor = TimedExecutor(config, clock, costs)
    core = EngineCore(config, clock, executor)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        clock.follow(loop)
        backend = TimedBackend(core)
        loop.on_idle = backend.go
        began_s = loop.time()
        observer.begin(began_s)
        async with Runtime(
            {"default": (backend, executor.codec)},
            clock=clock,
            observers=[observer],
            scheduler=scheduler,
            estimates=Estimates(),
        ) as runtime:

            async def one(line: ProgramLine) -> None:
                arrived = loop.create_future()
                loop.call_at(began_s + line["at_s"], arrived.set_result, None)
                await arrived
                await runtime.run(program_of(line["shape"]), Play(line))

            await asyncio.gather(*map(one, lines))

    try:
        run_virtual(serve)
    finally:
        core.close()
    return observer.steps
