"""A fleet in fluid time: every engine has rates, and all advance together.

A tick is a few steps long. At its beginning each engine's rates follow from the requests that run
there: a step gives every decoding sequence a token, computes prompts up to the token budget in the
order of arrival, and takes the time that the costs give. Rates are constant within a tick; a node
that ends inside of it ends at its own instant, and its successors begin there. KV of idle programs
that is lost while memory is short is computed again. Not modelled: single pages, the order inside
an engine, preemption.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentrt.analysis.statistics import Floats
from agentrt.lab.sim.fluid.gate import FleetGate
from agentrt.lab.sim.fluid.library import Ints, ProgramLibrary
from agentrt.lab.sim.fluid.routing import Router, routing_named
from agentrt.lab.sim.fluid.slots import ReadyNodes, Slots
from agentrt.lab.sim.fluid.tasks import FluidTasks, before_in_group, move_on, rates_of, sums
from agentrt.lab.sim.simulation import Setup

_TICK_STEPS = 4.0
_TYPICAL_BATCH = 8


@dataclass(slots=True)
class FleetOutcome:
    """Latencies and figures of a fleet's programs.

    Attributes:
        latency_s: `[programs]` compound latency, in the order of arrival.
        shape: `[programs]` index of the shape of each.
        held_s: `[programs]` time at the gate.
        busy_s: `[engines]` time in which an engine had a request.
        again_tokens: Prompt tokens computed again because their KV was lost.
        prompt_tokens: Prompt tokens computed, those computed again included.
        output_tokens: Tokens produced.
        span_s: End of the last program.
        ticks: Number of ticks.
    """

    latency_s: Floats
    shape: Ints
    held_s: Floats
    busy_s: Floats
    again_tokens: float = 0.0
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0
    span_s: float = 0.0
    ticks: int = 0


class Fleet:
    """Engines that serve one workload.

    Args:
        setup: Settings of the engines; of the scheduler, the policies `fcfs` and `rwa` order the
            programs at the gate, and a gate share of 0 admits all.
        library: Programs to draw from.
        routing: Rule that assigns programs or requests to engines.
        seed: Seed of random choices of the routing.

    Raises:
        UsageError: There is no such routing.
    """

    def __init__(
        self,
        setup: Setup,
        library: ProgramLibrary,
        routing: str = "program-two-choices",
        seed: int = 0,
    ) -> None:
        self._setup = setup
        self._library = library
        self._keeps, choice = routing_named(routing)
        self._router = Router(choice, setup.engines, seed)
        self._slots = Slots(library)
        scheduler, base_s = setup.scheduler, setup.costs.step.base_s
        limit = scheduler.gate_share * setup.kv_tokens if scheduler.gate_share else np.inf
        self._gate = FleetGate(setup.engines, limit, scheduler.policy)
        self._tasks = FluidTasks.none()
        nothing = np.zeros(0, dtype=np.int64)
        self._pauses = ReadyNodes(nothing, nothing, np.zeros(0))
        self._tick_s = _TICK_STEPS * (base_s + _TYPICAL_BATCH * setup.costs.step.decode_s)
        self._step_s = np.full(setup.engines, base_s)
        self._closed = np.zeros(setup.engines, dtype=np.bool_)
        self._lost = np.zeros(setup.engines)
        kinds = len(library.shapes)
        count = np.maximum(1, np.bincount(library.shape, minlength=kinds))
        # Peaks and sizes are means over the programs of a shape, like learned estimates.
        peaks = np.bincount(library.shape, library.footprint_tokens, kinds) / count
        sizes = np.bincount(library.shape, library.service_tokens, kinds) / count
        self._peak = peaks[library.shape]
        self._size_s = sizes[library.shape] * base_s

    def run(self, arrived_s: Floats, program: Ints) -> FleetOutcome:
        """Serve programs to their end.

        Args:
            arrived_s: `[programs]` instant of each arrival, in order.
            program: `[programs]` index of each in the library.
        """
        count = len(program)
        outcome = FleetOutcome(
            np.full(count, np.inf),
            self._library.shape[program],
            np.zeros(count),
            np.zeros(self._setup.engines),
        )
        self._outcome = outcome
        tick_s = self._tick_s
        now_s, at, open_ = 0.0, 0, count
        while open_:
            until_s = now_s + tick_s
            end = int(np.searchsorted(arrived_s, until_s))
            if end > at:
                self._arrive(arrived_s[at:end], program[at:end], np.arange(at, end))
                at = end
            elif not len(self._tasks) and not len(self._pauses) and not self._gate.waiting:
                now_s = float(arrived_s[at])
                continue
            open_ -= self._tick(now_s, until_s)
            outcome.ticks += 1
            now_s = until_s
            if not len(self._tasks) and len(self._pauses):
                next_s = float(self._pauses.at_s.min())
                if at < count:
                    next_s = min(next_s, float(arrived_s[at]))
                now_s = max(now_s, next_s - tick_s / 2)
        outcome.span_s = now_s
        return outcome

    def _arrive(self, at_s: Floats, program: Ints, number: Ints) -> None:
        engines = self._router.choose(len(program), self._load())
        slots = self._slots.take(program, number, engines, at_s)
        self._gate.come(slots, engines, self._peak[program], self._size_s[program], at_s)
        self._begin(engines, float(at_s[-1]), at_s[0])

    def _begin(self, engines: Ints, now_s: float, least_s: float) -> None:
        """Start the programs that the gates of these engines admit."""
        slots = self._gate.let_in(engines, now_s)
        if not len(slots):
            return
        slots = np.sort(slots)
        came_s = self._slots.arrived_s[slots]
        began_s = np.where(came_s >= least_s, came_s, now_s)
        self._outcome.held_s[self._slots.number[slots]] = began_s - came_s
        self._start(self._slots.begin(slots, began_s + self._setup.costs.run_s))

    def _load(self) -> Ints:
        return np.bincount(self._tasks.engine, minlength=self._setup.engines)

    def _tick(self, now_s: float, until_s: float) -> int:
        """Advance to `until_s`; returns the number of programs that ended."""
        setup, tasks = self._setup, self._tasks
        self._admit()
        rates = rates_of(tasks, setup, until_s - now_s)
        self._step_s, self._closed = rates.step_s, rates.closed
        busy = np.bincount(tasks.engine, minlength=setup.engines) > 0
        self._outcome.busy_s += busy * (until_s - now_s)
        ended_s = move_on(tasks, rates, until_s)
        over = np.isfinite(ended_s)
        due = self._pauses.at_s <= until_s
        answers_s = ended_s[over] + setup.costs.deliver_s
        answers = ReadyNodes(tasks.slot[over], tasks.node[over], answers_s)
        ended = answers.followed_by(self._pauses.where(due))
        if not len(ended):
            return 0
        self._tasks = tasks.where(~over)
        self._pauses = self._pauses.where(~due)
        return self._settle(ended.where(np.argsort(ended.at_s, kind="stable")), until_s)

    def _settle(self, ended: ReadyNodes, until_s: float) -> int:
        """Start the successors of ended nodes; returns the number of programs that ended."""
        library, slots = self._library, self._slots
        slot, node, at_s = ended.slot, ended.node, ended.at_s
        new = np.where(library.is_call[node], library.fresh_tokens[node], 0.0)
        np.add.at(slots.kept_tokens, slot, new + library.output_tokens[node])
        self._outcome.output_tokens += float(library.output_tokens[node].sum())
        over, over_s = slots.results(slot, node, at_s)
        self._start(slots.ended(slot, node, at_s))
        if not len(over):
            return 0
        numbers = slots.number[over]
        self._outcome.latency_s[numbers] = over_s - slots.arrived_s[over]
        gone = np.zeros(len(slots.live), dtype=np.bool_)
        gone[over] = True
        self._tasks = self._tasks.where(~gone[self._tasks.slot])
        self._pauses = self._pauses.where(~gone[self._pauses.slot])
        engines = slots.engine[over]
        self._gate.left(engines, self._peak[slots.program[over]])
        slots.give_back(over)
        if self._gate.waiting:
            self._begin(engines, until_s, np.inf)
        return len(over)

    def _start(self, ready: ReadyNodes) -> None:
        """Begin nodes whose inputs are there."""
        is_call = self._library.is_call[ready.node]
        if is_call.any():
            self._send(ready.where(is_call))
        pauses = ready.where(~is_call)
        steps_s = self._step_s[self._slots.engine[pauses.slot]]
        early_s = self._library.lead_tokens[pauses.node] * steps_s
        pauses.at_s += np.maximum(0.0, self._library.seconds[pauses.node] - early_s)
        self._pauses = self._pauses.followed_by(pauses)

    def _send(self, calls: ReadyNodes) -> None:
        """Send generations to their engines."""
        library, slots, slot, node = self._library, self._slots, calls.slot, calls.node
        engine = slots.engine[slot]
        fresh, prompt = library.fresh_tokens[node], library.prompt_tokens[node]
        if not self._keeps:
            engine = self._router.choose(len(slot), self._load())
            cold = engine != slots.engine[slot]
            slots.engine[slot] = engine
            lost = np.where(cold, library.own_tokens[node] - fresh, 0.0)
        else:
            lost = np.zeros(len(slot))
        known = np.maximum(0.0, library.own_tokens[node] - fresh - lost)
        lost = lost + known * self._lost[engine]
        work = fresh + lost
        self._outcome.again_tokens += float(lost.sum())
        self._outcome.prompt_tokens += float(work.sum())
        # A request joins at the next step, on average half a step from now. If the current step
        # lasts longer than the tick, the rates contain the wait.
        since_s = calls.at_s + self._setup.costs.submit_s + self._setup.costs.call_s
        waits = (self._load()[engine] > 0) & ~self._closed[engine]
        since_s = since_s + np.where(waits, self._step_s[engine] / 2, 0.0)
        self._tasks = self._tasks.followed_by(
            FluidTasks(
                slot,
                node,
                engine,
                since_s,
                np.maximum(work, 1.0),
                library.output_tokens[node] - 1.0,
                prompt - work,
                np.zeros(len(slot), dtype=np.bool_),
                np.zeros(len(slot)),
                np.zeros(len(slot)),
            )
        )

    def _admit(self) -> None:
        """Admit tasks to the batches, the oldest first, and note the share of idle KV lost."""
        setup, tasks, slots = self._setup, self._tasks, self._slots
        engines, kv_tokens = setup.engines, float(setup.kv_tokens)
        need = tasks.prefill + tasks.decode
        active = np.zeros(len(slots.live), dtype=np.bool_)
        active[tasks.slot[tasks.runs]] = True
        kept = sums(slots.engine[slots.live], slots.kept_tokens[slots.live], engines)
        used = sums(slots.engine[active], slots.kept_tokens[active], engines)
        idle = np.maximum(0.0, kept - used)
        used += sums(tasks.engine, np.where(tasks.runs, need, 0.0), engines)
        short = np.maximum(0.0, used + idle - kv_tokens)
        self._lost = np.minimum(1.0, np.divide(short, idle, out=np.zeros(engines), where=idle > 0))
        waits = np.flatnonzero(~tasks.runs)
        if not len(waits):
            return
        waits = waits[np.argsort(tasks.engine[waits], kind="stable")]
        engine = tasks.engine[waits]
        ones = np.ones(len(waits))
        running = np.bincount(tasks.engine[tasks.runs], minlength=engines)
        room = kv_tokens - used
        wanted = need[waits] + slots.kept_tokens[tasks.slot[waits]]
        fits = before_in_group(engine, wanted) + wanted <= room[engine]
        fits |= (running[engine] == 0) & (before_in_group(engine, ones) == 0)
        fits &= before_in_group(engine, ones) + running[engine] < setup.max_running
        tasks.runs[waits[fits]] = True
