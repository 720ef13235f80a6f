"""Discrete events: programs arrive, cells serve them, time jumps from one event to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from pathlib import Path

from agentrt.config import EngineConfig, SchedulerConfig
from agentrt.errors import InternalError
from agentrt.ids import RunId
from agentrt.runtime.retention import ROOM_SHARE
from agentrt.scheduler import State
from agentrt.scheduler.estimates import Estimates
from agentrt.sim.cell import Cell
from agentrt.sim.chats import Hinted
from agentrt.sim.costs import Costs
from agentrt.sim.engine import VirtualEngine
from agentrt.sim.held import HeldPrograms
from agentrt.sim.outcome import SimulationOutcome
from agentrt.sim.program_run import MODEL
from agentrt.sim.sending import Said
from agentrt.sim.token_ids import TokenIds
from agentrt.workloads import Workload

BEGIN_S = 1_000.0
"""Not 0: a ledger's 0.0 means "never"."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is simulated.

    Attributes:
        costs: Of steps and of the runtime.
        kv_tokens: KV memory of each engine.
        engines: How many; programs go to them in turn.
        step_tokens: Most tokens of a step.
        max_running: Most sequences that run at once.
        prefill_chunk_tokens: Most prompt tokens of one sequence in a step.
        page_tokens: Tokens of a page.
        start_tokens: What the model's template writes before the first message.
        scheduler: How programs share the engine.
        leaps: Whether equal steps are taken at once.
    """

    costs: Costs
    kv_tokens: int
    engines: int = 1
    step_tokens: int = 2048
    max_running: int = 64
    prefill_chunk_tokens: int = 512
    page_tokens: int = 16
    start_tokens: int = 0
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    leaps: bool = True

    def engine_config(self) -> EngineConfig:
        """As a real engine would be told."""
        return EngineConfig(
            model_path=Path("simulated"),
            page_tokens=self.page_tokens,
            kv_pages=max(1, self.kv_tokens // self.page_tokens),
            step_tokens=self.step_tokens,
            max_running=self.max_running,
            prefill_chunk_tokens=self.prefill_chunk_tokens,
            policy=self.scheduler.policy,
        )


class Simulation:
    """One setup: runtimes with their engines, which may serve one workload after the other.

    Args:
        setup: What is simulated.
        estimates: What past runs told; it goes on learning.
    """

    def __init__(self, setup: Setup, estimates: Estimates | None = None) -> None:
        self._estimates = estimates if estimates is not None else Estimates()
        self._agenda: list[tuple[float, int, int, Callable[[float], None]]] = []
        self._serial = 0
        self._began = 0
        self._now_s = BEGIN_S
        self._ids = ids = TokenIds(setup.start_tokens)
        self._cells = [self._cell(setup, ids, at) for at in range(setup.engines)]

    def run(self, workload: Workload, costs: Costs | None = None) -> SimulationOutcome:
        """Serve all programs to their end, at once after those that were served before.

        The runtimes know what they learned from those, and the engines still hold their texts,
        which nobody quotes any more: every run has text of its own.

        Args:
            workload: Programs, and when they come.
            costs: From now on; None leaves them as they are.

        Raises:
            OutOfPages: A request does not fit an engine's memory.
        """
        if costs is not None:
            for cell in self._cells:
                cell.costs = cell.engine.costs = costs
        self._ids.renew()
        before = [replace(cell.totals) for cell in self._cells]
        outcome = SimulationOutcome()
        arrivals = sorted(workload, key=lambda one: one.at_s)
        began_s = now_s = self._now_s
        at = 0
        while at < len(arrivals) or self._agenda:
            next_s = began_s + arrivals[at].at_s if at < len(arrivals) else float("inf")
            if self._agenda and self._agenda[0][0] <= next_s:
                now_s, _, which, act = heappop(self._agenda)
                act(now_s)
            else:
                now_s, which = next_s, at % len(self._cells)
                program = arrivals[at].program
                run_id = RunId(f"{self._began:016x}")
                outcome.programs.append(self._cells[which].arrive(program, run_id, now_s))
                at += 1
                self._began += 1
                next_s = began_s + arrivals[at].at_s if at < len(arrivals) else float("inf")
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

    def _cell(self, setup: Setup, ids: TokenIds, which: int) -> Cell:
        config = setup.engine_config()
        watched_pages = int(ROOM_SHARE * config.kv_pages) if setup.scheduler.retention else 0
        engine = VirtualEngine(config, setup.costs, leaps=setup.leaps, watched_pages=watched_pages)
        state = State(
            incomplete_roles=(MODEL,),
            config=setup.scheduler,
            estimates=self._estimates,
            kv_tokens={MODEL: (setup.kv_tokens, 0)},
        )

        def at(at_s: float, act: Callable[[float], None]) -> None:
            self._serial += 1
            heappush(self._agenda, (at_s, self._serial, which, act))

        said = Said()
        hinted = Hinted(
            lambda *hint: said.say(lambda _: engine.hint(*hint)),
            setup.start_tokens,
            setup.kv_tokens,
        )
        programs = HeldPrograms(hinted.engine, is_on=setup.scheduler.retention)
        return Cell(state, engine, setup.costs, ids, at, said, programs)
