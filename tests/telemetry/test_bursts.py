"""Many spans at once, to a collector that answers and to one that does not."""

import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from agentrt.analysis import RunRecord
from agentrt.telemetry import Span, SpanObserver, Trace, build
from agentrt.telemetry.otlp import OtlpExport

BURST = 20_000
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def burst(count: int) -> list[Trace]:
    """Runs of 100 spans each."""
    traces = []
    for first in range(0, count, 100):
        root = f"{first + 1:016x}"
        spans = [Span("invoke_workflow p", root, None, 1_000, 2_000)]
        spans += [
            Span("chat g", f"{first + 1 + n:016x}", root, 1_001 + n, 1_500, attributes={"n": n})
            for n in range(1, 100)
        ]
        traces.append(Trace(TRACE, "p", tuple(spans)))
    return traces


def test_a_burst_to_a_collector_that_answers_loses_nothing(
    clean_environment: pytest.MonkeyPatch, collector: Any
) -> None:
    told: list[str] = []
    export = OtlpExport(f"{collector.url}/v1/traces", warn=told.append)
    export.export(burst(BURST))
    assert export.flush(60.0)
    export.close()
    assert export.dropped_spans == 0
    assert told == []
    assert len({span.span_id for _, span in collector.spans()}) == BURST


class Silence:
    """A collector that takes connections and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._held: list[socket.socket] = []
        self.asked = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._held.append(client)
            self.asked.set()

    def close(self) -> None:
        self._listener.close()
        for client in self._held:
            client.close()


@pytest.fixture
def silence() -> Iterator[Silence]:
    made = Silence()
    yield made
    made.close()


def test_a_collector_that_hangs_costs_counted_spans_and_little_memory(
    clean_environment: pytest.MonkeyPatch, silence: Silence
) -> None:
    """The queue holds 2,000 spans; what comes on top of them is dropped at once."""
    clean_environment.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2000")
    clean_environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    told: list[str] = []
    export = OtlpExport(f"{silence.url}/v1/traces", warn=told.append)
    for trace in burst(2_000):
        export.export([trace])
    assert silence.asked.wait(60.0)
    tracemalloc.start()
    before_bytes, _ = tracemalloc.get_traced_memory()
    for trace in burst(BURST):
        export.export([trace])
    after_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert export.dropped_spans >= BURST - 2_000
    assert after_bytes - before_bytes < 8 * 2**20
    export.close(1.0)
    (line,) = told
    assert f"spans did not reach {silence.url}" in line
    lost = int(line.split()[0])
    assert lost == BURST + 2_000


def test_a_collector_that_hangs_holds_no_run(
    clean_environment: pytest.MonkeyPatch, silence: Silence, finance: list[Any]
) -> None:
    """Events cost an append; the spans are lost, and a warning says how many."""
    clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", silence.url)
    clean_environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    clean_environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    told: list[str] = []
    observer = SpanObserver(warn=told.append)
    observer.on_events(finance)
    assert observer.flush()
    assert silence.asked.wait(60.0)
    took_s = -time.thread_time()
    observer.on_events(finance)
    took_s += time.thread_time()
    observer.close(1.0)
    record = RunRecord()
    record.on_events(finance)
    assert took_s < 1.0  # of this thread: it waits for nobody
    assert told == [
        f"telemetry: {2 * len(build(record).spans)} spans did not reach {silence.url}/v1/traces: "
        "no answer"
    ]


def test_runs_that_end_faster_than_their_spans_are_built_are_dropped_and_counted(
    finance: list[Any],
) -> None:
    hold, told = threading.Event(), list[str]()

    class Slow:
        exported = 0

        def export(self, traces: Any) -> None:
            hold.wait()
            self.exported += 1

    slow = Slow()
    observer = SpanObserver(slow, environment={}, warn=told.append, max_waiting_nodes=12)
    nodes = sum(type(event).__name__ == "NodeDeclared" for event in finance)
    for _ in range(5):
        observer.on_events(finance)
    assert observer.dropped_spans == (5 - 12 // nodes) * nodes
    hold.set()
    observer.close()
    assert slow.exported == 12 // nodes
    assert len(told) == 1
