"""Whole programs in the simulator beside a real engine that hears the same at the same instants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from random import Random

import anyio
import pytest

from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.core import EngineCore
from agentrt.engine.sequence.sequence import Sequence
from agentrt.engine.step import Flight as RealFlight
from agentrt.lab.sim.copies import measure_copies
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.engine import NO_END_S, VirtualEngine
from agentrt.lab.sim.flight import Flight, Landing
from agentrt.lab.sim.outcome import SimulationOutcome
from agentrt.lab.sim.output import Output
from agentrt.lab.sim.simulation import BEGIN_S, Setup, Simulation
from agentrt.lab.sim.token_ids import TokenIds
from agentrt.lab.workloads import (
    Arrival,
    Message,
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceResult,
    Workload,
)
from agentrt.protocol.backend import GenerateRequest, HoleFill, KvHint, SchedulingInfo, TokenPrompt
from agentrt.protocol.step_output import StepDone

Draw = Callable[[int, int, float], Workload]
PAGE = 16
TINY_PAGE_BYTES = PAGE * 2 * 2 * 2 * 8 * 4  # two layers, keys and values, two heads of eight floats
USED_IDS = range(16, 400)


class TwinEngine(VirtualEngine):
    """A simulated engine with a real one of two layers beside it; after each step they agree.

    Attributes:
        real: The other one.
        compared: Steps.
        restored_tokens: Prompt tokens that came back from the host, of both.
        hints: That both were told.
    """

    def __init__(self, tiny: EngineConfig, config: EngineConfig, costs: SimCosts) -> None:
        super().__init__(config, costs, leaps=False)
        self._clock = FakeClock(BEGIN_S)
        names = ("page_tokens", "kv_pages", "host_kv_bytes", "policy", "max_running")
        same = {name: getattr(config, name) for name in names}
        self.real = EngineCore(dataclasses.replace(tiny, overlap="off", **same), self._clock)
        self._known: dict[int, int] = {}
        self._sequences: dict[RequestId, Sequence] = {}
        self._flight: RealFlight | None = None
        self.compared = 0
        self.restored_tokens = 0
        self.hints: set[KvHint] = set()

    def submit(self, request: GenerateRequest, output: Output, now_s: float) -> None:
        super().submit(request, output, now_s)
        assert isinstance(request.prompt, TokenPrompt)
        self._at(now_s)
        # Hot, so that outputs are as unlike as those of the simulation.
        sampling = SamplingParams(
            max_tokens=request.sampling.max_tokens,
            temperature=9.0,
            seed=request.request_id,
            ignore_eos=True,
        )
        prompt = TokenPrompt(self._ids(request.prompt.token_ids), request.prompt.complete)
        self.real.submit(
            dataclasses.replace(request, prompt=prompt, sampling=sampling, constraint=None)
        )
        sequence = self.real._roster.find(request.request_id)
        assert sequence is not None
        self._sequences[request.request_id] = sequence

    def fill_hole(self, request_id: RequestId, fill: HoleFill, now_s: float) -> None:
        super().fill_hole(request_id, fill, now_s)
        self._at(now_s)
        self.real.fill_hole(request_id, HoleFill(self._ids(fill.token_ids), fill.complete))

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        super().update(updates)
        self.real.update(updates)

    def cancel(self, request_id: RequestId, now_s: float) -> None:
        super().cancel(request_id, now_s)
        self._at(now_s)
        self.real.cancel(request_id, "twins")

    def take_ends(self) -> StepDone | None:
        done = super().take_ends()
        if done is not None:
            assert told(done) == told(self.real._outbox.take(None))
        return done

    def hint(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None,
        from_tokens: int = 0,
        *,
        now_s: float,
    ) -> None:
        super().hint(token_ids, hint, until_s, from_tokens, now_s=now_s)
        self._at(now_s)
        self.hints.add(hint)
        self.real.hint(self._ids(token_ids), hint, until_s, from_tokens)

    def launch(self, now_s: float, until_s: float = NO_END_S) -> Flight | None:
        flight = super().launch(now_s, until_s)
        self._at(now_s)
        self._flight = self.real._launch(ahead=False)
        assert (flight is None) == (self._flight is None)
        if self._flight is not None:
            self.real._steps.draw(self._flight)
        return flight

    def land(self, flight: Flight) -> Landing:
        sequences = [one for one, _ in flight.members]
        before = [len(one.tokens) for one in sequences]
        unheard_tokens = self.unheard_tokens
        landing = super().land(flight)
        unheard_tokens = self.unheard_tokens - unheard_tokens
        assert self._flight is not None
        self._at(flight.ended_at_s)
        record = self.real._steps.tell(self._flight)
        done = self.real._outbox.take(record, self._flight.admissions)
        for one, length in zip(sequences, before, strict=True):
            ids = self._sequences[one.request.request_id].tokens
            self._known.update(zip(one.tokens[length:], ids[length:], strict=True))
        (step,) = landing.steps
        assert told(done, unheard_tokens) == told(step)  # which a real one does not count
        self.compared += 1
        self.restored_tokens += sum(end.ledger.cached_host_tokens for end in done.ends)
        return landing

    def _at(self, now_s: float) -> None:
        self._clock.advance(now_s - self._clock.now_s())

    def _ids(self, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        """As the real model knows them: what it put out itself, and other texts by chance."""
        known, count = self._known, len(USED_IDS)
        return tuple(
            known.get(one, USED_IDS[(one * 2_654_435_761 >> 7) % count]) for one in token_ids
        )


def told(done: StepDone, unheard_tokens: int = 0) -> tuple[int, ...]:
    """What a step computed, what memory there is, and what the ended requests found."""
    found = [done.free_pages, done.evictable_pages]
    if done.step is not None:
        found += [done.step.prefill_tokens, done.step.decode_tokens + unheard_tokens]
    for end in sorted(done.ends, key=lambda end: end.request_id):
        ledger = end.ledger
        found += [ledger.cached_tokens, ledger.cached_host_tokens, ledger.recomputed_tokens]
    return tuple(found)


def copying(costs: SimCosts) -> SimCosts:
    """A page takes what one of the real engine does; copies pay, as they do there."""
    return dataclasses.replace(
        costs, copy_token_s=1e-7, kv_token_bytes=TINY_PAGE_BYTES / PAGE, jump_share=0.0
    )


@pytest.mark.parametrize("host_pages", [0, 9, 64])
def test_the_real_engine_restores_and_computes_the_same(
    host_pages: int, tiny: EngineConfig, costs: SimCosts
) -> None:
    """Talks that go on, are kept, sent down, fetched and forgotten, in too little memory."""
    setup = Setup(copying(costs), 16 * PAGE, host_pages * PAGE)
    engine = TwinEngine(tiny, setup.engine_config(), setup.costs)
    random, ids, now_s = Random(host_pages), TokenIds(), BEGIN_S
    talks: list[tuple[int, ...]] = [()] * 5
    for turn in range(40):
        at = random.randrange(len(talks))
        question = ids.piece(Piece(f"question {turn}", random.randint(10, 50)))
        answer = ids.piece(Piece(f"answer {turn}", random.randint(1, 12)))
        talk = (*talks[at], *question)
        request = GenerateRequest(
            RequestId(turn),
            RunId("twins"),
            NodeId(f"n{turn}"),
            "twins",
            TokenPrompt(talk),
            SamplingParams(max_tokens=len(answer)),
        )
        engine.submit(request, Output(answer), now_s)
        while (flight := engine.launch(now_s)) is not None:
            now_s = flight.ended_at_s
            engine.land(flight)
        talks[at] = (*talk, *answer)[:180]
        hint: KvHint | None = random.choice((None, "keep", "demote", "prefetch", "drop"))
        if hint is not None:
            until_s = None if hint == "drop" else now_s + random.random()
            engine.hint(random.choice(talks), hint, until_s, now_s=now_s)
    saved_tokens, loaded_tokens = engine.copied_tokens
    assert (saved_tokens > 0) == (loaded_tokens > 0) == (host_pages > 0)


def played(
    workload: Workload, setup: Setup, tiny: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> tuple[TwinEngine, SimulationOutcome]:
    """A simulation whose engine has a twin."""
    engines: list[TwinEngine] = []

    def twin(config: EngineConfig, costs: SimCosts, **_: object) -> TwinEngine:
        engines.append(TwinEngine(tiny, config, costs))
        return engines[-1]

    monkeypatch.setattr("agentrt.lab.sim.simulation.VirtualEngine", twin)
    outcome = Simulation(setup).run(workload)
    (engine,) = engines
    return engine, outcome


def asks(serial: int) -> ProgramTrace:
    """A plan over one of four texts, a tool, and a report that goes on from both."""
    first: Message = ("user", (Piece(f"text {serial % 4}", 120), Piece(f"question {serial}", 20)))
    plan = TraceCall("plan", (first,), 30, site="plan")
    tool = ToolUse("tool", 2.0, plan="plan", result_tokens=10, site="tool")
    more: tuple[Message, ...] = (
        first,
        ("assistant", (OutputOf("plan"),)),
        ("user", (TraceResult("tool", 10),)),
    )
    report = TraceCall("report", more, 12, site="report", after=("tool",))
    return ProgramTrace("asks", serial, (plan, tool, report), ("report",))


@pytest.mark.parametrize("host_pages", [0, 12, 200])
def test_programs_one_by_one_restore_and_compute_what_the_real_engine_does(
    host_pages: int, tiny: EngineConfig, costs: SimCosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hints for what waits for tools; a text comes back when others have taken its room."""
    workload = tuple(Arrival(20.0 * serial, asks(serial)) for serial in range(10))
    scheduler = SchedulerConfig(policy="fcfs", gate_share=0.0)
    setup = Setup(copying(costs), 26 * PAGE, host_pages * PAGE, max_running=8, scheduler=scheduler)
    engine, outcome = played(workload, setup, tiny, monkeypatch)
    assert engine.compared == outcome.engines[0].steps > 400
    assert engine.restored_tokens == sum(one.cached_host_tokens for one in outcome.programs)
    assert (engine.restored_tokens > 0) == (host_pages == 200)
    assert ("demote" in engine.hints) == (host_pages > 0)


@pytest.mark.parametrize("host_pages", [0, 200])
def test_many_at_once_take_the_steps_of_the_real_engine(
    host_pages: int,
    tiny: EngineConfig,
    costs: SimCosts,
    draw: Draw,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forks, holes, votes that give up, preemptions; the gate holds programs back."""
    setup = Setup(copying(costs), 40 * PAGE, host_pages * PAGE, max_running=8)
    engine, outcome = played(draw(4, 14, 1.0), setup, tiny, monkeypatch)
    assert engine.compared == outcome.engines[0].steps > 400
    assert engine.unheard_tokens > 0
    assert (engine.restored_tokens > 0) == (host_pages > 0)


def test_copies_of_a_real_engine_are_measured(tiny: EngineConfig) -> None:
    copies = anyio.run(partial(measure_copies, tiny, rounds=1, place="thread"))
    assert copies is not None
    assert copies.token_s > 0
    assert copies.token_bytes == pytest.approx(TINY_PAGE_BYTES / PAGE, rel=1e-4)
