"""The engine core takes the same steps whether a model computes them or costs stand in for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random

import pytest

from agentrt.base.clock import Clock, FakeClock
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.core import EngineCore
from agentrt.engine.step.step_runner import InFlightStep
from agentrt.lab.sim.codec import SimulatedCodec
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.executor import SimulatedExecutor
from agentrt.lab.sim.outcome import SimulationOutcome
from agentrt.lab.sim.outputs import GivenOutput
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
from agentrt.protocol.backend import (
    GenerateRequest,
    HoleFill,
    KvHint,
    PrefixHint,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.step_output import StepDone

Draw = Callable[[int, int, float], Workload]
PAGE = 16
TINY_PAGE_BYTES = PAGE * 2 * 2 * 2 * 8 * 4  # two layers, keys and values, two heads of eight floats
USED_IDS = range(16, 400)


class WatchedCore(EngineCore):
    """A core on virtual time with one over a model beside it; after each step they agree.

    Attributes:
        model: The other one.
        compared: Steps.
        restored_tokens: Prompt tokens that came back from the offload tier, in both.
        hints: Hints that both were given.
    """

    def __init__(
        self, tiny: EngineConfig, config: EngineConfig, clock: Clock, executor: SimulatedExecutor
    ) -> None:
        super().__init__(config, clock, executor)
        self._real_clock = FakeClock(BEGIN_S)
        names = ("page_tokens", "kv_pages", "host_kv_bytes", "policy", "max_running")
        same = {name: getattr(config, name) for name in names}
        self.model = EngineCore(dataclasses.replace(tiny, overlap="off", **same), self._real_clock)
        self._known: dict[int, int] = {}
        self._beside: InFlightStep | None = None
        self.compared = 0
        self.restored_tokens = 0
        self.hinted: set[KvHint] = set()

    def submit(self, request: GenerateRequest) -> None:
        super().submit(request)
        assert isinstance(request.prompt, TokenPrompt)
        # Hot, so that outputs are as unlike as those of the simulation.
        sampling = SamplingParams(
            max_tokens=request.sampling.max_tokens,
            temperature=9.0,
            seed=request.request_id,
            ignore_eos=True,
        )
        prompt = TokenPrompt(self._ids(request.prompt.token_ids), request.prompt.complete)
        self._sync().submit(dataclasses.replace(request, prompt=prompt, sampling=sampling))

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        super().fill_hole(request_id, fill)
        self._sync().fill_hole(request_id, HoleFill(self._ids(fill.token_ids), fill.complete))

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        super().update(updates)
        self._sync().update(updates)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        super().cancel(request_id, reason)
        self._sync().cancel(request_id, reason)

    def hint(self, hint: PrefixHint) -> None:
        super().hint(hint)
        self.hinted.add(hint.hint)
        self._sync().hint(dataclasses.replace(hint, token_ids=self._ids(hint.token_ids)))

    def take_ends(self) -> StepDone | None:
        done, beside = super().take_ends(), self._sync().take_ends()
        assert (done is None) == (beside is None)
        if done is not None and beside is not None:
            assert told(done) == told(beside)
        return done

    def begin_step(self, max_steps: int = 1, spare_pages: int = 0) -> InFlightStep | None:
        step = super().begin_step(1, spare_pages)
        self._beside = self._sync().begin_step()
        assert (step is None) == (self._beside is None)
        return step

    def end_step(self, step: InFlightStep) -> list[StepDone]:
        (done,) = super().end_step(step)
        assert self._beside is not None
        (beside,) = self._sync().end_step(self._beside)
        given, drawn = new_ids(done), new_ids(beside)
        assert given.keys() == drawn.keys()
        for request_id, ids in given.items():
            self._known.update(zip(ids, drawn[request_id], strict=True))
        assert told(done) == told(beside)
        self.compared += 1
        self.restored_tokens += sum(end.ledger.cached_host_tokens for end in done.ends)
        return [done]

    def _sync(self) -> EngineCore:
        """The core beside, at the same instant."""
        self._real_clock.advance(max(0.0, self._clock.now_s() - self._real_clock.now_s()))
        return self.model

    def _ids(self, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        """As the model knows them: its own outputs, and other texts by chance."""
        known, count = self._known, len(USED_IDS)
        return tuple(
            known.get(one, USED_IDS[(one * 2_654_435_761 >> 7) % count]) for one in token_ids
        )


def new_ids(done: StepDone) -> dict[RequestId, list[int]]:
    """What a step put out, by request."""
    found: dict[RequestId, list[int]] = {}
    for delta in done.deltas:
        found.setdefault(delta.request_id, []).extend(delta.token_ids)
    return found


def told(done: StepDone) -> tuple[object, ...]:
    """What a step computed, what memory there is, and what the ended requests found."""
    found: list[object] = [done.free_pages, done.evictable_pages]
    if done.step is not None:
        found += [done.step.prefill_tokens, done.step.decode_tokens, done.step.requests]
    for end in sorted(done.ends, key=lambda end: end.request_id):
        ledger = end.ledger
        found += [ledger.cached_tokens, ledger.cached_host_tokens, ledger.recomputed_tokens]
    return tuple(found)


def copying(costs: SimCosts) -> SimCosts:
    """A page takes what one of the model's engine does; copies pay, as they do there."""
    return dataclasses.replace(
        costs, copy_token_s=1e-7, kv_token_bytes=TINY_PAGE_BYTES / PAGE, jump_share=0.0
    )


@pytest.mark.parametrize("host_pages", [0, 9, 64])
def test_talks_restore_and_compute_the_same(
    host_pages: int, tiny: EngineConfig, costs: SimCosts
) -> None:
    """Talks that go on, are kept, sent down, fetched and forgotten, in too little memory."""
    setup = Setup(copying(costs), 16 * PAGE, host_pages * PAGE)
    config, clock = setup.engine_config(), FakeClock(BEGIN_S)
    executor = SimulatedExecutor(config, setup.costs, SimulatedCodec())
    core = WatchedCore(tiny, config, clock, executor)
    random, ids = Random(host_pages), TokenIds()
    talks: list[tuple[int, ...]] = [()] * 5
    for turn in range(40):
        at = random.randrange(len(talks))
        question = ids.piece(Piece(f"question {turn}", random.randint(10, 50)))
        answer = ids.piece(Piece(f"answer {turn}", random.randint(1, 12)))
        talk = (*talks[at], *question)
        request = GenerateRequest(
            RequestId(turn),
            RunId("talks"),
            NodeId(f"n{turn}"),
            "talks",
            TokenPrompt(talk),
            SamplingParams(max_tokens=len(answer)),
        )
        executor.expect(request.request_id, GivenOutput(answer))
        core.submit(request)
        while (step := core.begin_step()) is not None:
            clock.advance(step.batch.spans[-1].ended_s - clock.now_s())
            core.end_step(step)
        talks[at] = (*talk, *answer)[:180]
        hint: KvHint | None = random.choice((None, "keep", "demote", "prefetch", "drop"))
        if hint is not None:
            until_s = None if hint == "drop" else clock.now_s() + random.random()
            core.hint(PrefixHint(random.choice(talks), hint, until_s))
            executor.hinted(clock.now_s())
    assert executor.offload is None or host_pages
    assert (executor.totals.saved_tokens > 0) == (executor.totals.loaded_tokens > 0)
    assert (executor.totals.loaded_tokens > 0) == (host_pages > 0)


def played(
    workload: Workload, setup: Setup, tiny: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> tuple[WatchedCore, SimulationOutcome]:
    """A simulation whose engine has a model's beside it."""
    cores: list[WatchedCore] = []

    def watched(config: EngineConfig, clock: Clock, executor: SimulatedExecutor) -> WatchedCore:
        cores.append(WatchedCore(tiny, config, clock, executor))
        return cores[-1]

    monkeypatch.setattr("agentrt.lab.sim.simulation.EngineCore", watched)
    outcome = Simulation(setup).run(workload)
    (core,) = cores
    return core, outcome


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
def test_programs_one_by_one_restore_and_compute_the_same(
    host_pages: int, tiny: EngineConfig, costs: SimCosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hints for what waits for tools; a text comes back when others have taken its room."""
    workload = tuple(Arrival(20.0 * serial, asks(serial)) for serial in range(10))
    scheduler = SchedulerConfig(policy="fcfs", gate_share=0.0)
    setup = Setup(copying(costs), 26 * PAGE, host_pages * PAGE, max_running=8, scheduler=scheduler)
    core, outcome = played(workload, setup, tiny, monkeypatch)
    assert core.compared == outcome.engines[0].steps > 400
    assert core.restored_tokens == sum(one.cached_host_tokens for one in outcome.programs)
    assert (core.restored_tokens > 0) == (host_pages == 200)
    assert ("demote" in core.hinted) == (host_pages > 0)


@pytest.mark.parametrize("host_pages", [0, 200])
def test_many_at_once_take_the_same_steps(
    host_pages: int,
    tiny: EngineConfig,
    costs: SimCosts,
    draw: Draw,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forks, holes, votes that give up, preemptions; the gate holds programs back."""
    setup = Setup(copying(costs), 40 * PAGE, host_pages * PAGE, max_running=8)
    core, outcome = played(draw(4, 14, 1.0), setup, tiny, monkeypatch)
    totals = outcome.engines[0]
    assert core.compared == totals.steps > 400
    assert totals.discarded_tokens > 0
    assert (core.restored_tokens > 0) == (host_pages > 0)
