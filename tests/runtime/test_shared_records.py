"""One record of a run for all observers of its runtime that make one."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from agentrt import chat, gather, program
from agentrt.analysis import RunRecord, RunRecorder
from agentrt.protocol.events import Event, RunFinished
from agentrt.runtime import Runtime
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual

ASK = chat(system="Be brief.")


@program
async def thrice(word: str) -> int:
    return len(await gather(*(ASK.user(word).generate() for _ in range(3))))


class Last:
    """Takes records, and notes how much is in one when it sees the end of its run."""

    def __init__(self) -> None:
        self.taken: list[RunRecord] = []
        self.ended: list[tuple[bool, int]] = []

    def on_record(self, record: RunRecord) -> None:
        assert record.started is None  # the run only begins
        self.taken.append(record)

    def on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, RunFinished):
                record = self.taken[-1]
                self.ended.append((record.finished is event, len(record.nodes)))


class Refusing(Last):
    """Fails to take a record."""

    def on_record(self, record: RunRecord) -> None:
        raise RuntimeError("no room")


def played(*observers: Any, runs: int = 1, provider: TracerProvider | None = None) -> Runtime:
    async def main() -> Runtime:
        clock = LoopClock()
        backend = ScriptedBackend(lambda request, prompt: "y", clock=clock)
        runtime = Runtime(
            {"default": (backend, None)}, clock=clock, observers=observers, tracer_provider=provider
        )
        async with runtime:
            for _ in range(runs):
                assert await runtime.run(thrice, "x") == 3
            return runtime

    return run_virtual(main)


def test_recorders_of_a_runtime_get_the_same_record() -> None:
    first, second = list[RunRecord](), list[RunRecord]()
    last = Last()
    played(RunRecorder(first.append), last, RunRecorder(second.append), runs=2)
    assert len(first) == 2
    assert [id(one) for one in first] == [id(one) for one in second]
    assert [id(one) for one in first] == [id(one) for one in last.taken]
    assert last.ended == [(True, 4), (True, 4)]


def test_live_spans_take_the_record_of_the_others() -> None:
    last, alone = Last(), Last()
    played(last, provider=TracerProvider(shutdown_on_exit=False))
    played(alone)
    assert last.ended == alone.ended == [(True, 4)]


def test_an_observer_that_refuses_a_record_is_dropped_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusing, done = Refusing(), list[RunRecord]()
    with caplog.at_level(logging.ERROR, logger="agentrt"):
        runtime = played(refusing, RunRecorder(done.append), runs=2)
    assert [dropped for dropped, _ in runtime.observers.dropped] == [refusing]
    assert refusing.ended == []
    assert len(done) == 2
