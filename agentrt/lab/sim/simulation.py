"""Programs arrive on virtual time, and production runtimes with simulated engines serve them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import count, cycle
from pathlib import Path

from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.errors import EngineUnavailable
from agentrt.base.ids import RunId
from agentrt.engine.core import EngineCore
from agentrt.lab.sim.backend import SimulatedBackend
from agentrt.lab.sim.callback_errors import CallbackErrors
from agentrt.lab.sim.codec import SimulatedCodec
from agentrt.lab.sim.copier import page_bytes_of
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.executor import SimulatedExecutor
from agentrt.lab.sim.memory_account import MemoryAccount
from agentrt.lab.sim.outcome import ProgramOutcome, SimulationOutcome
from agentrt.lab.sim.outcome_observer import OutcomeObserver
from agentrt.lab.sim.player import TracePlayer, program_of
from agentrt.lab.sim.token_ids import TokenIds
from agentrt.lab.sim.true_kv_need import ROLE, TrueKvNeed
from agentrt.lab.workloads import Workload
from agentrt.lab.workloads.site_limits import NO_LIMITS, site_limits
from agentrt.protocol.events import Observer
from agentrt.runtime import RunOptions, Runtime
from agentrt.runtime.kv_hints.retention import ROOM_SHARE
from agentrt.scheduler import Estimates, State, policy
from agentrt.testing.clock import LoopClock
from agentrt.testing.loop import VirtualTimeLoop, run_virtual

BEGIN_S = 1_000.0
"""Instant of the start; 0.0 means "never" in a ledger."""
MOST_STEPS = 1 << 20


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings of a simulation.

    Attributes:
        costs: Costs of steps and of the runtime.
        kv_tokens: KV memory of each engine, in tokens.
        host_kv_tokens: Tokens that the offload tier of each engine holds; 0 has no such tier.
        engines: Number of engines; programs go to them in turn.
        step_tokens: Most tokens of a step.
        max_running: Most sequences that run at once.
        prefill_chunk_tokens: Most prompt tokens of one sequence in a step.
        page_tokens: Tokens of a page.
        start_tokens: Tokens that the template writes before the first message.
        scheduler: Settings of the scheduler.
        leaps: True to compute equal steps at once.
        greedy: True if calls of a program with equal prompts write equal text, as those of a model
            without temperature do.
        accounts: True to account for what has the memory of each engine.
        hides_lengths: True if all calls of a site have the limit of the longest, as in a program
            that an author writes. Otherwise the limit of each tells its length.
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
    greedy: bool = False
    hides_lengths: bool = False
    accounts: bool = False

    def engine_config(self) -> EngineConfig:
        """Settings of each engine.

        Raises:
            UsageError: There is an offload tier, and the costs lack the memory of a token.
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
    """Runtimes with their engines, which serve one workload after the other.

    Args:
        setup: Settings of the simulation.
        estimates: Estimates from past runs, which go on learning.
        kv_needs: True KV needs of programs by name, for the policy `clairvoyant`.
        observers: More observers of the runtimes.
    """

    def __init__(
        self,
        setup: Setup,
        estimates: Estimates | None = None,
        kv_needs: Mapping[str, TrueKvNeed] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._observers = observers
        self._setup = setup
        self._kv_needs = kv_needs or {}
        self._estimates = estimates if estimates is not None else Estimates()
        self._serials = count()
        self._now_s = BEGIN_S
        self._ids = TokenIds(setup.start_tokens)
        self._codec = SimulatedCodec(setup.start_tokens)
        self._clock = LoopClock()
        config = setup.engine_config()
        self._executors = [
            SimulatedExecutor(config, setup.costs, self._codec) for _ in range(setup.engines)
        ]
        self._cores = [EngineCore(config, self._clock, one) for one in self._executors]
        self._states = [
            State(
                incomplete_roles=(ROLE,),
                config=setup.scheduler,
                estimates=self._estimates,
                kv_tokens={ROLE: (setup.kv_tokens, setup.host_kv_tokens)},
            )
            for _ in range(setup.engines)
        ]
        self._accounts: list[MemoryAccount] = []

    def run(
        self, workload: Workload, costs: Sequence[tuple[float, SimCosts]] = ()
    ) -> SimulationOutcome:
        """Serve all programs to their end, at once after those that were served before.

        The runtimes keep their estimates. The engines keep the KV of earlier texts, which no later
        prompt quotes, because every run has texts of its own.

        Args:
            workload: Programs with their arrivals.
            costs: Later costs, each with its instant in seconds after the start.

        Raises:
            OutOfPages: A request does not fit an engine's memory.
            Exception: Error of a callback of the simulation.
        """
        self._ids.renew()
        if self._setup.accounts:
            self._accounts = [MemoryAccount(one.admission) for one in self._states]
        before = [replace(one.totals) for one in self._executors]
        outcome = run_virtual(self._serve, workload, costs, start_s=self._now_s)
        self._now_s = outcome.ended_at_s
        for _, last in costs:
            self._set_costs(last)
        outcome.memory = [one.averages for one in self._accounts]
        outcome.engines = [
            one.totals.since(totals) for one, totals in zip(self._executors, before, strict=True)
        ]
        return outcome

    async def _serve(
        self, workload: Workload, costs: Sequence[tuple[float, SimCosts]]
    ) -> SimulationOutcome:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self._clock.follow(loop)
        outcome, began_s = SimulationOutcome(), loop.time()
        players: dict[RunId, TracePlayer] = {}
        hides = self._setup.hides_lengths
        limits = site_limits(one.program for one in workload) if hides else NO_LIMITS
        accounts: list[MemoryAccount | None] = [*self._accounts] or [None] * len(self._cores)
        engines = zip(self._cores, self._executors, accounts, strict=True)
        backends = [self._backend(*one, players) for one in engines]

        def fail() -> None:
            for one in backends:
                one.fail()

        errors = CallbackErrors(loop, fail)
        loop.on_idle = errors.guard(lambda until_s: sum(one.go(until_s) for one in backends) > 0)
        for at_s, taken in costs:
            loop.call_at(began_s + at_s, self._set_costs, taken)
        async with AsyncExitStack() as stack:
            runtimes = [
                await stack.enter_async_context(self._runtime(one, state, players))
                for one, state in zip(backends, self._states, strict=True)
            ]
            plays: list[asyncio.Task[None]] = []
            arrivals = sorted(workload, key=lambda one: one.at_s)
            served = zip(runtimes, self._executors, strict=True)
            for arrival, (runtime, executor) in zip(arrivals, cycle(served), strict=False):
                at_s = began_s + arrival.at_s
                trace, run_id = arrival.program, RunId(f"{next(self._serials):016x}")
                program = ProgramOutcome(trace.name, trace.shape, trace.tenant, at_s)
                outcome.programs.append(program)
                greedy = self._setup.greedy
                player = TracePlayer(
                    trace, run_id, self._ids, executor, program, greedy=greedy, limits=limits
                )
                plays.append(asyncio.create_task(self._play(player, runtime, players, at_s)))
            try:
                await asyncio.gather(*plays)
            except EngineUnavailable:
                errors.raise_first()
                raise
            finally:
                for play in plays:
                    play.cancel()
                await asyncio.gather(*plays, return_exceptions=True)
            for backend in backends:
                await backend.idle()
        errors.raise_first()
        outcome.ended_at_s = loop.time()
        return outcome

    async def _play(
        self, player: TracePlayer, runtime: Runtime, players: dict[RunId, TracePlayer], at_s: float
    ) -> None:
        """Run a program from an instant on."""
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()
        loop.call_at(at_s, arrived.set_result, None)
        await arrived
        players[player.run_id] = player
        need = self._kv_needs.get(player.trace.name)
        options = RunOptions(
            run_id=player.run_id,
            tenant=player.trace.tenant,
            true_service_s=player.rest_s,
            true_kv_tokens=None if need is None else need.peak_tokens,
            true_longest_tokens=None if need is None else need.longest_tokens,
        )
        await runtime.with_options(options).run(program_of(player.trace.shape), player)
        player.outcome.end(loop.time() + player.costs.end_s)
        del players[player.run_id]
        self._ids.forget(player.run_id)

    def _backend(
        self,
        core: EngineCore,
        executor: SimulatedExecutor,
        account: MemoryAccount | None,
        players: Mapping[RunId, TracePlayer],
    ) -> SimulatedBackend:
        setup = self._setup
        capabilities = replace(
            core.capabilities,
            backend="simulated",
            constraints=frozenset(),
            kv_tokens=setup.kv_tokens,
            host_kv_tokens=setup.host_kv_tokens,
        )
        spare_pages = 1 + int(ROOM_SHARE * executor.pages) if setup.scheduler.retention else 0
        return SimulatedBackend(
            core,
            executor,
            capabilities,
            players,
            most_steps=MOST_STEPS if setup.leaps else 1,
            spare_pages=spare_pages,
            foresees=policy(setup.scheduler.policy).foresees,
            account=account,
        )

    def _runtime(
        self, backend: SimulatedBackend, state: State, players: Mapping[RunId, TracePlayer]
    ) -> Runtime:
        return Runtime(
            {ROLE: (backend, self._codec)},
            clock=self._clock,
            observers=[OutcomeObserver(players, backend), *self._observers],
            scheduler=self._setup.scheduler,
            state=state,
        )

    def _set_costs(self, costs: SimCosts) -> None:
        for executor in self._executors:
            executor.costs = costs
