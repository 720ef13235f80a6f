"""A simulated engine as a `Backend`, with the time of the runtime around it.

The production runtime takes no time on a virtual clock. Its time on a real clock is added here, by
the calibrated costs: its one thread is busy with each request and each delivery, the messages of a
turn reach the engine together and later, and a value arrives some time after its step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.engine.core import EngineCore
from agentrt.engine.step.step_runner import InFlightStep
from agentrt.lab.sim.executor import SimulatedExecutor
from agentrt.lab.sim.memory_account import MemoryAccount
from agentrt.lab.sim.outputs import GivenOutput, one_token_a_step
from agentrt.lab.sim.player import TracePlayer
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import BackendEvent, StepDone


class SimulatedBackend:
    """Serves the requests of players.

    Args:
        core: The engine.
        executor: Computes its steps.
        capabilities: Capabilities as the runtime sees them.
        players: Players of the runs in progress.
        most_steps: Most equal decode steps that are computed at once.
        spare_pages: Free pages below which the runtime acts on each change of them.
        foresees: Whether the engine is given the true lengths of outputs, too.
        account: Account of the memory, or None.

    Attributes:
        joined: Calls that are read while they write, and joined the request of another call.
    """

    def __init__(
        self,
        core: EngineCore,
        executor: SimulatedExecutor,
        capabilities: Capabilities,
        players: Mapping[RunId, TracePlayer],
        most_steps: int,
        spare_pages: int,
        *,
        foresees: bool = False,
        account: MemoryAccount | None = None,
    ) -> None:
        self.capabilities = capabilities
        self.joined: set[tuple[RunId, NodeId]] = set()
        self._core = core
        self._executor = executor
        self._players = players
        self._most_steps = most_steps
        self._spare_pages = spare_pages
        self._loop = asyncio.get_running_loop()
        self._queue = EventQueue()
        self._marked: dict[RequestId, tuple[int, ...]] = {}
        self._foresees = foresees
        self._account = account
        self._lengths: dict[RequestId, float] = {}
        self._messages: list[Callable[[], None]] = []
        self._unreceived_turns = 0
        self._step: InFlightStep | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._failed = False
        self._free_at_s = 0.0
        self._undelivered: deque[StepDone] = deque()
        self._delivered_at_s = 0.0

    async def start(self) -> None:
        """There is nothing to load."""

    async def aclose(self) -> None:
        """End the deliveries."""
        self._queue.close()

    def fail(self) -> None:
        """Serve nothing more, as an engine that is gone: what is under way fails."""
        self._failed = True
        self._idle.set()
        self._queue.close()

    async def idle(self) -> None:
        """Wait for the end of the current step, and until the engine has all messages."""
        await self._idle.wait()

    def events(self) -> AsyncIterator[BackendEvent]:
        """All deliveries, in order."""
        return self._queue.read()

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """There is nothing to compile."""

    def submit(self, request: GenerateRequest) -> None:
        """Submit a request; its trace has the output."""
        player, costs = self._players[request.run_id], self._executor.costs
        call = player.call_of(request.node_id)
        self._busy(costs.call_s + costs.call_token_s * player.encode(call))
        marks = player.stops(call)
        output = GivenOutput(
            player.output(call),
            round(call.forced_tokens * costs.jump_share),
            marks,
            formed=call.forced_tokens > 0,
        )
        if self._foresees:
            self._lengths[request.request_id] = float(call.output_tokens)
        info = request.info and self._known(request.info)
        request = replace(request, info=info, replayed_tokens=call.output_tokens)
        self._executor.expect(request.request_id, output)
        if marks:
            self._marked[request.request_id] = marks
        self._send(lambda: self._core.submit(request))

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Append to a prompt."""
        costs = self._executor.costs
        self._busy(costs.call_s + costs.call_token_s * len(fill.token_ids))
        self._send(lambda: self._core.fill_hole(request_id, fill))

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Update the scheduling info of requests."""
        known = tuple(map(self._known, updates))
        self._send(lambda: self._core.update(known))

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """Stop a request."""

        def cancel() -> None:
            self._core.cancel(request_id, reason)
            self._deliver_ends()

        self._send(cancel)

    def hint(self, hint: PrefixHint) -> None:
        """Give a hint about a prefix."""

        def give() -> None:
            self._core.hint(hint)
            self._executor.hinted(self._loop.time())

        self._send(give)

    def go(self, until_s: float) -> bool:
        """Start the engine's next step; returns False if there is nothing to do.

        Args:
            until_s: Instant of the next event.
        """
        if self._step is not None or self._failed:
            return False
        self._executor.until_s = until_s
        most_steps = 1 if self.joined else self._most_steps
        step = self._step = self._core.begin_step(most_steps, self._spare_pages)
        if step is None:
            return self._deliver_ends()
        if self._account is not None:
            core = self._core
            self._account.note_step(step, core.scheduler.running.values(), core.allocator)
        self._idle.clear()
        self._loop.call_at(step.batch.spans[-1].ended_s, self._land)
        return True

    def _known(self, info: SchedulingInfo) -> SchedulingInfo:
        """The scheduling info of a request, with the true service of its run."""
        player = self._players.get(info.run_id)
        if player is None:
            return info
        length = self._lengths.get(info.request_id, info.output_tokens)
        return replace(info, true_rest_s=player.rest_s, output_tokens=length)

    def _send(self, message: Callable[[], None]) -> None:
        """Send a message; those of a turn reach the engine together after the thread's work."""
        if self._failed:
            return
        if not self._messages:
            self._idle.clear()
            self._unreceived_turns += 1
            self._loop.call_soon(self._flush)
        self._messages.append(message)

    def _flush(self) -> None:
        messages, self._messages = self._messages, []

        def receive() -> None:
            for message in messages:
                message()
            self._unreceived_turns -= 1
            self._note_idle()

        free_at_s = max(self._loop.time(), self._free_at_s)
        self._loop.call_at(free_at_s + self._executor.costs.submit_s, receive)

    def _land(self) -> None:
        step, self._step = self._step, None
        assert step is not None
        costs, spans, now_s = self._executor.costs, step.batch.spans, self._loop.time()
        steps = self._core.end_step(step)
        is_awaited = self._is_awaited(steps[-1])  # counts the tokens of steps with ends, too
        *before, last = one_token_a_step(steps, self._marked)
        self._note_idle()
        for done in before:
            self._deliver(done)
        reads_s = costs.tell_s + costs.delta_s * len(step.scheduled.sequences)
        for span in spans[:-1]:
            self._busy(reads_s, span.ended_s)
        if is_awaited or last.ends:
            self._deliver_after_work(last, reads_s)
        else:
            self._busy(reads_s, now_s)
            self._deliver(last)

    def _note_idle(self) -> None:
        if self._step is None and not self._unreceived_turns:
            self._idle.set()

    def _is_awaited(self, done: StepDone) -> bool:
        """Whether a program waits for a token of the step: the last of the arguments of a tool."""
        if self.joined:
            return True
        found = False
        for delta in done.deltas if self._marked else ():
            marks = self._marked.get(delta.request_id)
            if marks is not None:
                left = tuple(mark - len(delta.token_ids) for mark in marks)
                self._marked[delta.request_id] = tuple(mark for mark in left if mark > 0)
                found = found or any(mark <= 0 for mark in left)
        return found

    def _deliver_ends(self) -> bool:
        """Deliver ends outside a step; returns False without any."""
        done = self._core.take_ends()
        if done is not None:
            self._deliver_after_work(done)
        return done is not None

    def _deliver_after_work(self, done: StepDone, reads_s: float = 0.0) -> None:
        """Deliver the output of a step after the earlier work of the runtime's thread."""
        costs = self._executor.costs
        begins_s = self._loop.time() + max(0.0, costs.deliver_s - reads_s)
        at_s = self._busy(reads_s + costs.close_s * len(done.ends), begins_s)
        for end in done.ends:
            self._marked.pop(end.request_id, None)
            self._lengths.pop(end.request_id, None)
        self._deliver(done, at_s)

    def _deliver(self, done: StepDone, at_s: float = 0.0) -> None:
        """Deliver the output of a step, after all earlier deliveries."""
        self._delivered_at_s = max(at_s, self._delivered_at_s, self._loop.time())
        self._undelivered.append(done)
        self._loop.call_at(self._delivered_at_s, self._put)

    def _put(self) -> None:
        self._queue.put(self._undelivered.popleft())

    def _busy(self, seconds: float, now_s: float | None = None) -> float:
        """Add work of the runtime's one thread; returns the instant of its end."""
        now_s = self._loop.time() if now_s is None else now_s
        self._free_at_s = max(now_s, self._free_at_s) + seconds
        return self._free_at_s
