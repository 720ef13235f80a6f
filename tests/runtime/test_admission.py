"""The gate, refusals, tenants and learned facts, through a whole runtime."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest

from agentrt import DeadlineExceeded, UsageError, chat, program
from agentrt.analysis import RunRecord, split
from agentrt.base.config import SchedulerConfig
from agentrt.base.ids import RunId
from agentrt.protocol.events import Event, NodeFinished, RequestSent, Scheduled
from agentrt.runtime import RunOptions, Runtime
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual

ASK = chat(system="Be brief.")
OUTPUT = "y" * 20


@program
async def answers(question: str) -> str:
    return await ASK.user(question).generate(max_tokens=40, name="answer")


@program
async def twice(question: str) -> str:
    first = await ASK.user(question).generate(max_tokens=40, name="first")
    return await ASK.user(first).generate(max_tokens=40, name="second")


class Rig:
    """A scripted engine of ten tokens a second, and what was seen."""

    def __init__(self, kv_tokens: int = 0) -> None:
        self.clock = LoopClock()
        self.backend = ScriptedBackend(
            lambda request, prompt: OUTPUT,
            clock=self.clock,
            decode_tokens_per_s=10.0,
            kv_tokens=kv_tokens,
        )
        self.seen: list[Event] = []

    def on_events(self, events: Sequence[Event]) -> None:
        self.seen += events

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.seen if isinstance(event, kind)]

    def run(self, body: Callable[[Runtime], Awaitable[Any]], **config: Any) -> Any:
        async def main() -> Any:
            scheduler = SchedulerConfig(**config)
            engines = {"default": (self.backend, None)}
            async with Runtime(
                engines, clock=self.clock, observers=[self], scheduler=scheduler
            ) as runtime:
                return await body(runtime)

        return run_virtual(main)


async def at_once(runtime: Runtime, *runs: RunOptions) -> None:
    async with anyio.create_task_group() as tasks:
        for number, options in enumerate(runs):
            tasks.start_soon(runtime.with_options(options).run, answers, f"{number:04d}")


def named(number: int, **options: Any) -> RunOptions:
    return RunOptions(run_id=RunId(f"{number:016x}"), seed=number, **options)


async def taught(runtime: Runtime, runs: int = 3) -> float:
    """Runs one after another; the peak that each had."""
    for number in range(runs):
        await runtime.run(answers, f"{number:04d}")
    (template,) = {p.template for p in runtime.estimates.sites() if p.template}
    return runtime.estimates.site(template, "engine default").p50("context_tokens")


def test_runs_that_do_not_fit_wait_and_the_split_shows_it() -> None:
    rig = Rig(kv_tokens=150)

    async def body(runtime: Runtime) -> None:
        assert 45 < await taught(runtime) < 58, "two fit into 120, three do not"
        await at_once(runtime, *[named(n) for n in range(1, 5)])

    rig.run(body)
    took_s = next(e for e in rig.of(NodeFinished) if e.run_id == f"{1:016x}").ledger.decode_s
    sent = {event.run_id: event for event in rig.of(RequestSent)}
    held = [sent[RunId(f"{n:016x}")].held_s for n in range(1, 5)]
    assert held == pytest.approx([0.0, 0.0, took_s, took_s], abs=0.2)
    told = [e for e in rig.of(Scheduled) if e.decision in ("held", "admitted")]
    assert [e.decision for e in told] == ["admitted"] * 5 + ["held"] * 2 + ["admitted"] * 2
    terms = dict(told[-3].terms)
    assert terms["limit_tokens"] == 120
    assert terms["committed_tokens"] + terms["peak_tokens"] > 120
    record = RunRecord(RunId(f"{4:016x}"))
    record.on_events(rig.seen)
    assert split(record).admission == pytest.approx(took_s, abs=0.2)


def test_a_run_within_a_run_is_not_held_for_ever() -> None:
    """The outer one has the memory and waits for the inner one, which nothing tells the gate."""
    rig = Rig(kv_tokens=90)

    @program
    async def outer(runtime: Any) -> str:
        await ASK.user("x").generate(max_tokens=40)
        inner: str = await runtime.run(answers, "0001")
        return inner + await ASK.user("z").generate(max_tokens=40)

    async def body(runtime: Runtime) -> str:
        await taught(runtime)
        await runtime.run(outer, runtime)
        for _ in range(3):
            result: str = await runtime.run(outer, runtime)
        return result

    assert rig.run(body) == 2 * OUTPUT
    assert max(event.held_s for event in rig.of(RequestSent)) == pytest.approx(1.0)


def test_without_a_share_nobody_waits() -> None:
    rig = Rig(kv_tokens=150)

    async def body(runtime: Runtime) -> None:
        await taught(runtime)
        await at_once(runtime, *[named(n) for n in range(1, 5)])

    rig.run(body, gate_share=0.0)
    assert {event.held_s for event in rig.of(RequestSent)} == {0.0}
    assert not [e for e in rig.of(Scheduled) if e.decision == "held"]


def test_requests_carry_what_was_learned() -> None:
    rig = Rig()

    async def body(runtime: Runtime) -> None:
        for number in range(4):
            await runtime.with_options(named(number, tenant="t", priority=3)).run(twice, "x")

    rig.run(body)
    first, second = [request.info for request in rig.backend.seen.requests[-2:]]
    assert first is not None
    assert second is not None
    took_s = rig.of(NodeFinished)[0].ledger.decode_s
    assert (first.tenant, first.priority) == ("t", 3)
    assert first.output_tokens == pytest.approx(20)
    assert [first.rest_s, second.rest_s] == pytest.approx([2 * took_s, took_s], rel=0.1)
    assert [first.path_p90_s, second.path_p90_s] == pytest.approx([2 * took_s, took_s], rel=0.1)
    assert [first.attained_s, second.attained_s] == pytest.approx([0, took_s], rel=0.1)
    started = [e for e in rig.seen if type(e).__name__ == "RunStarted"][-1]
    assert (getattr(started, "tenant", ""), getattr(started, "priority", 0)) == ("t", 3)


def test_a_run_that_cannot_end_in_time_says_so_at_once() -> None:
    rig = Rig()

    async def body(runtime: Runtime) -> DeadlineExceeded:
        for number in range(10):
            await runtime.with_options(named(number)).run(twice, "x")
        before_s = rig.clock.now_s()
        with pytest.raises(DeadlineExceeded) as raised:
            await runtime.with_options(named(99, deadline_s=1.0)).run(twice, "x")
        assert rig.clock.now_s() == before_s
        return raised.value

    error = rig.run(body)
    assert [(part.name, round(part.took_s)) for part in error.progress.path] == [
        ("first", 2),
        ("second", 2),
    ]
    assert "half of its 10 past runs took" in error.message
    assert "refuse_hopeless" in error.hint
    assert "test_admission.py" in error.where
    (told,) = [e for e in rig.of(Scheduled) if e.decision == "refused"]
    assert dict(told.terms)["left_s"] == pytest.approx(1.0)
    assert len(rig.backend.seen.requests) == 20, "no engine had any of it"


def test_a_replay_has_to_tell_the_oracle_what_it_knows() -> None:
    rig = Rig()

    async def body(runtime: Runtime) -> str:
        with pytest.raises(UsageError, match="true_service_s"):
            await runtime.run(answers, "x")
        result: str = await runtime.with_options(named(1, true_service_s=9.0)).run(answers, "x")
        return result

    assert rig.run(body, policy="oracle") == OUTPUT
    (request,) = rig.backend.seen.requests
    assert request.info is not None
    assert request.info.true_rest_s == 9.0


def test_programs_that_nobody_knows_wait_by_what_they_declare() -> None:
    """Three times forty tokens of output fit into 120."""
    rig = Rig(kv_tokens=150)

    async def body(runtime: Runtime) -> None:
        await at_once(runtime, *[named(n) for n in range(1, 5)])

    rig.run(body)
    held = sorted(event.held_s for event in rig.of(RequestSent))
    assert held[:3] == [0.0] * 3
    assert held[3] > 1.0
