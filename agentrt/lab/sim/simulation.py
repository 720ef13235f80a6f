"""Discrete events: programs arrive, cells serve them, time jumps from one event to the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import cycle
from operator import itemgetter
from pathlib import Path

from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.errors import InternalError
from agentrt.base.ids import RunId
from agentrt.lab.sim.cell import Cell
from agentrt.lab.sim.chats import Hinted
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.engine import VirtualEngine
from agentrt.lab.sim.held import HeldPrograms
from agentrt.lab.sim.host_tier import page_bytes_of
from agentrt.lab.sim.outcome import SimulationOutcome
from agentrt.lab.sim.program_run import MODEL
from agentrt.lab.sim.sending import Act, Said
from agentrt.lab.sim.token_ids import TokenIds
from agentrt.lab.workloads import ProgramTrace, Workload
from agentrt.runtime.kv_hints.retention import ROOM_SHARE
from agentrt.scheduler import State
from agentrt.scheduler.estimates.estimates import Estimates

BEGIN_S = 1_000.0
"""Not 0: a ledger's 0.0 means "never"."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is simulated.

    Attributes:
        costs: Of steps and of the runtime.
        kv_tokens: KV memory of each engine.
        host_kv_tokens: Of its host, for KV that the engine has no room for; 0 keeps none.
        engines: How many; programs go to them in turn.
        step_tokens: Most tokens of a step.
        max_running: Most sequences that run at once.
        prefill_chunk_tokens: Most prompt tokens of one sequence in a step.
        page_tokens: Tokens of a page.
        start_tokens: What the model's template writes before the first message.
        scheduler: How programs share the engine.
        leaps: Whether equal steps are taken at once.
    """

    costs: SimCosts
    kv_tokens: int
    host_kv_tokens: int = 0
    engines: int = 1
    step_tokens: int = 2048
    max_running: int = 64
    prefill_chunk_tokens: int = 512
    page_tokens: int = 16
    start_tokens: int = 0
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    leaps: bool = True

    def engine_config(self) -> EngineConfig:
        """As a real engine would be told.

        Raises:
            UsageError: There is memory of the host, and costs do not tell how much a token takes.
        """
        host_pages = self.host_kv_tokens // self.page_tokens
        return EngineConfig(
            model_path=Path("simulated"),
            page_tokens=self.page_tokens,
            kv_pages=max(1, self.kv_tokens // self.page_tokens),
            step_tokens=self.step_tokens,
            max_running=self.max_running,
            prefill_chunk_tokens=self.prefill_chunk_tokens,
            policy=self.scheduler.policy,
            host_kv_bytes=host_pages and host_pages * page_bytes_of(self.costs, self.page_tokens),
        )


class Simulation:
    """One setup: runtimes with their engines, which may serve one workload after the other.

    Args:
        setup: What is simulated.
        estimates: What past runs told; it goes on learning.
    """

    def __init__(self, setup: Setup, estimates: Estimates | None = None) -> None:
        self._estimates = estimates if estimates is not None else Estimates()
        self._agenda: list[tuple[float, int, Act]] = []
        self._serial = 0
        self._began = 0
        self._now_s = BEGIN_S
        self._ids = ids = TokenIds(setup.start_tokens)
        self._cells = [self._cell(setup, ids) for _ in range(setup.engines)]

    def run(
        self, workload: Workload, costs: Sequence[tuple[float, SimCosts]] = ()
    ) -> SimulationOutcome:
        """Serve all programs to their end, at once after those that were served before.

        The runtimes know what they learned from those, and the engines still hold their texts,
        which nobody quotes any more: every run has text of its own.

        Args:
            workload: Programs, and when they come.
            costs: From so many seconds after the beginning on; else they stay as they are.

        Raises:
            OutOfPages: A request does not fit an engine's memory.
        """
        self._ids.renew()
        before = [replace(cell.totals) for cell in self._cells]
        outcome = SimulationOutcome()
        now_s = self._now_s
        coming = self._coming(workload, costs, outcome, now_s)
        while coming or self._agenda:
            next_s = coming[0][0] if coming else float("inf")
            if self._agenda and self._agenda[0][0] <= next_s:
                now_s, _, act = heappop(self._agenda)
            else:
                now_s, act = coming.popleft()
                next_s = coming[0][0] if coming else float("inf")
            act(now_s)
            if not self._agenda or self._agenda[0][0] > now_s:
                for cell in self._cells:
                    cell.go(now_s, next_s)
        if any(cell.live for cell in self._cells):
            raise InternalError("the simulation stopped with programs that never ended")
        outcome.engines = [
            cell.totals.since(totals) for cell, totals in zip(self._cells, before, strict=True)
        ]
        outcome.ended_at_s = self._now_s = now_s
        return outcome

    def _coming(
        self,
        workload: Workload,
        costs: Sequence[tuple[float, SimCosts]],
        outcome: SimulationOutcome,
        now_s: float,
    ) -> deque[tuple[float, Act]]:
        """What comes from outside, in its order."""

        def arrive(program: ProgramTrace, cell: Cell, at_s: float) -> None:
            run_id = RunId(f"{self._began:016x}")
            self._began += 1
            outcome.programs.append(cell.arrive(program, run_id, at_s))

        def take(costs: SimCosts, at_s: float) -> None:
            for cell in self._cells:
                cell.costs = cell.engine.costs = costs

        found: list[tuple[float, Act]] = [(now_s + at_s, partial(take, one)) for at_s, one in costs]
        arrivals = sorted(workload, key=lambda one: one.at_s)
        for arrival, cell in zip(arrivals, cycle(self._cells), strict=False):
            found.append((now_s + arrival.at_s, partial(arrive, arrival.program, cell)))
        return deque(sorted(found, key=itemgetter(0)))

    def _cell(self, setup: Setup, ids: TokenIds) -> Cell:
        config = setup.engine_config()
        watched_pages = int(ROOM_SHARE * config.kv_pages) if setup.scheduler.retention else 0
        engine = VirtualEngine(config, setup.costs, leaps=setup.leaps, watched_pages=watched_pages)
        state = State(
            incomplete_roles=(MODEL,),
            config=setup.scheduler,
            estimates=self._estimates,
            kv_tokens={MODEL: (setup.kv_tokens, setup.host_kv_tokens)},
        )

        def at(at_s: float, act: Act) -> None:
            self._serial += 1
            heappush(self._agenda, (at_s, self._serial, act))

        said = Said()
        hinted = Hinted(
            lambda *hint: said.say(lambda at_s: engine.hint(*hint, now_s=at_s)),
            setup.start_tokens,
            setup.kv_tokens,
            setup.host_kv_tokens,
        )
        programs = HeldPrograms(hinted.engine, is_on=setup.scheduler.retention)
        return Cell(state, engine, setup.costs, ids, at, said, programs, hinted.engine)
