"""A fleet in fluid time: every engine has rates, and all move on together.

A tick is a few steps long. At its beginning each engine's rates follow from what runs there: a
step gives every decoding sequence a token and computes prompts up to the budget, first come first
served, and takes what the costs say. Within a tick rates hold; what ends inside of it ends at its
own instant, and what follows begins there. What is lost of an idle program's context while memory
is short is computed again. Not modelled: single pages, order inside an engine, preemption.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.fluid.gate import FleetGate, FleetOrder
from agentrt.lab.sim.fluid.library import Floats, Ints, ProgramLibrary
from agentrt.lab.sim.fluid.routing import Router, Routing, routing_named
from agentrt.lab.sim.fluid.slots import ReadyNodes, Slots
from agentrt.lab.sim.fluid.tasks import FluidTasks, before_in_group, move_on, rates_of, sums

_TICK_STEPS = 4.0
_TYPICAL_BATCH = 8


@dataclass(frozen=True, slots=True)
class FleetSetup:
    """What is simulated.

    Attributes:
        costs: Of steps and of the runtime.
        kv_tokens: KV memory of each engine.
        engines: How many.
        routing: Which engine gets what.
        gate_share: Of the memory, what programs that began may need together; 0 lets all in.
        order: Who of those that wait at the gate goes first.
        step_tokens: Most tokens of a step.
        max_running: Most sequences that run at once.
        prefill_chunk_tokens: Most prompt tokens of one sequence in a step.
        tick_s: Length of a tick; 0 takes a few steps.
        seed: Of random choices of the routing.
    """

    costs: SimCosts
    kv_tokens: int
    engines: int
    routing: Routing = "program-two-choices"
    gate_share: float = 0.0
    order: FleetOrder = "fcfs"
    step_tokens: int = 2048
    max_running: int = 64
    prefill_chunk_tokens: int = 512
    tick_s: float = 0.0
    seed: int = 0

    @property
    def tick(self) -> float:
        """Length of a tick in seconds."""
        step = self.costs.step
        typical_s = step.base_s + _TYPICAL_BATCH * step.decode_s
        return self.tick_s or _TICK_STEPS * typical_s


@dataclass(slots=True)
class FleetOutcome:
    """What became of a fleet's programs.

    Attributes:
        latency_s: `[programs]` compound latency, in the order of arrival.
        shape: `[programs]` kind of each.
        held_s: `[programs]` time at the gate.
        again_tokens: Prompt tokens computed again because they had been given up.
        prompt_tokens: Computed in all.
        output_tokens: Produced.
        busy_s: `[engines]` time in which an engine had something to do.
        span_s: Until the last program ended.
        ticks: How many.
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
    peaks: dict[str, float] = field(default_factory=dict)


class Fleet:
    """One setup, to be run once."""

    def __init__(self, setup: FleetSetup, library: ProgramLibrary) -> None:
        self._setup = setup
        self._library = library
        self._keeps, choice = routing_named(setup.routing)
        self._router = Router(choice, setup.engines, setup.seed)
        self._slots = Slots(library)
        limit = setup.gate_share * setup.kv_tokens if setup.gate_share else np.inf
        self._gate = FleetGate(setup.engines, limit, setup.order)
        self._tasks = FluidTasks.none()
        self._pause_s = np.zeros(0)
        self._pause_slot = np.zeros(0, dtype=np.int64)
        self._pause_node = np.zeros(0, dtype=np.int64)
        self._step_s = np.full(setup.engines, setup.costs.step.base_s)
        self._closed = np.zeros(setup.engines, dtype=np.bool_)
        self._lost = np.zeros(setup.engines)
        kinds = len(library.shapes)
        count = np.maximum(1, np.bincount(library.shape, minlength=kinds))
        # Peaks and sizes are those that past programs of a kind had, as learned estimates are.
        peaks = np.bincount(library.shape, library.footprint_tokens, kinds) / count
        sizes = np.bincount(library.shape, library.service_tokens, kinds) / count
        self._peak = peaks[library.shape]
        self._size_s = sizes[library.shape] * setup.costs.step.base_s

    def run(self, arrived_s: Floats, program: Ints) -> FleetOutcome:
        """Serve programs to their end.

        Args:
            arrived_s: `[programs]` when each is wanted, in order.
            program: `[programs]` which of the library each is.
        """
        count = len(program)
        outcome = FleetOutcome(
            np.full(count, np.inf),
            self._library.shape[program],
            np.zeros(count),
            np.zeros(self._setup.engines),
        )
        self._outcome = outcome
        tick_s = self._setup.tick
        now_s, at, open_ = 0.0, 0, count
        while open_:
            until_s = now_s + tick_s
            end = int(np.searchsorted(arrived_s, until_s))
            if end > at:
                self._arrive(arrived_s[at:end], program[at:end], np.arange(at, end))
                at = end
            elif not len(self._tasks) and not len(self._pause_s) and not self._gate.waiting:
                now_s = float(arrived_s[at])
                continue
            open_ -= self._tick(now_s, until_s)
            outcome.ticks += 1
            now_s = until_s
            if not len(self._tasks) and len(self._pause_s):
                next_s = float(self._pause_s.min())
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
        """Let in whoever may begin at these engines."""
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
        """Move on to `until_s`; how many programs ended."""
        setup, tasks = self._setup, self._tasks
        self._place()
        rates = rates_of(
            tasks,
            setup.costs,
            setup.engines,
            step_tokens=setup.step_tokens,
            chunk_tokens=setup.prefill_chunk_tokens,
            tick_s=until_s - now_s,
        )
        self._step_s, self._closed = rates.step_s, rates.closed
        busy = np.bincount(tasks.engine, minlength=setup.engines) > 0
        self._outcome.busy_s += busy * (until_s - now_s)
        ended_s = move_on(tasks, rates, until_s)
        over = np.isfinite(ended_s)
        due = self._pause_s <= until_s
        slot = np.concatenate((tasks.slot[over], self._pause_slot[due]))
        node = np.concatenate((tasks.node[over], self._pause_node[due]))
        at_s = np.concatenate((ended_s[over] + setup.costs.deliver_s, self._pause_s[due]))
        if not len(slot):
            return 0
        tasks.keep(~over)
        self._wake(~due)
        return self._settle(slot, node, at_s, until_s)

    def _settle(self, slot: Ints, node: Ints, at_s: Floats, until_s: float) -> int:
        """Nodes have ended: what follows, and which programs are over."""
        order = np.argsort(at_s, kind="stable")
        slot, node, at_s = slot[order], node[order], at_s[order]
        library, slots = self._library, self._slots
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
        if gone[self._tasks.slot].any():
            self._tasks.keep(~gone[self._tasks.slot])
        if gone[self._pause_slot].any():
            self._wake(~gone[self._pause_slot])
        engines = slots.engine[over]
        self._gate.left(engines, self._peak[slots.program[over]])
        slots.give_back(over)
        if self._gate.waiting:
            self._begin(engines, until_s, np.inf)
        return len(over)

    def _start(self, ready: ReadyNodes) -> None:
        """Nodes whose inputs are there begin."""
        is_call = self._library.is_call[ready.node]
        if is_call.any():
            self._send(ready.slot[is_call], ready.node[is_call], ready.at_s[is_call])
        if not is_call.all():
            slot, node, at_s = (one[~is_call] for one in (ready.slot, ready.node, ready.at_s))
            early_s = self._library.lead_tokens[node] * self._step_s[self._slots.engine[slot]]
            seconds = np.maximum(0.0, self._library.seconds[node] - early_s)
            self._pause_s = np.concatenate((self._pause_s, at_s + seconds))
            self._pause_slot = np.concatenate((self._pause_slot, slot))
            self._pause_node = np.concatenate((self._pause_node, node))

    def _send(self, slot: Ints, node: Ints, at_s: Floats) -> None:
        """Generations go to their engines."""
        library, slots = self._library, self._slots
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
        # A request joins at the next step, on average half a step from now; where that is far
        # away, rates tell.
        since_s = at_s + self._setup.costs.submit_s + self._setup.costs.call_s
        waits = (self._load()[engine] > 0) & ~self._closed[engine]
        since_s = since_s + np.where(waits, self._step_s[engine] / 2, 0.0)
        self._tasks.add(
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

    def _wake(self, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        self._pause_s = self._pause_s[kept]
        self._pause_slot = self._pause_slot[kept]
        self._pause_node = self._pause_node[kept]

    def _place(self) -> None:
        """Give places in the batch, the oldest first, and note what memory is short of."""
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
