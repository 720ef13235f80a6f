"""The trace of a finished run, built once for all that publish it.

A trace file and the tracer provider of the process take the same run, each in a thread of its own.
What the whole run tells, such as its critical path, is a third of the work.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from agentrt.analysis import RunRecord
from agentrt.telemetry.build import TraceBuilder
from agentrt.telemetry.content import Capture
from agentrt.telemetry.span import Trace


class RunTrace:
    """The trace of one run, built when it is first asked for. Any thread may ask.

    Args:
        record: A finished run.
        capture: Destination of message content, if any.

    Attributes:
        record: The run.
    """

    def __init__(self, record: RunRecord, capture: Capture) -> None:
        self.record = record
        self._capture: Capture = capture
        self._lock = threading.Lock()
        self._builder: TraceBuilder | None = None

    def outline(self) -> Trace:
        """See `TraceBuilder.outline`."""
        return self._built().outline

    def whole(self) -> Trace:
        """The trace with everything in it, for one reader: it is not kept."""
        return self._built().whole()

    def _built(self) -> TraceBuilder:
        with self._lock:
            if self._builder is None:
                self._builder = TraceBuilder(self.record, self._capture)
            return self._builder


_traces: WeakValueDictionary[tuple[int, Capture], RunTrace] = WeakValueDictionary()
_lock = threading.Lock()


def run_trace_of(record: RunRecord, capture: Capture) -> RunTrace:
    """The trace of a record: the same one for all callers, as long as one of them holds it.

    Args:
        record: A finished run.
        capture: Destination of message content, if any.
    """
    key = id(record), capture  # of no other record while the trace, which holds it, lives
    with _lock:
        found = _traces.get(key)
        if found is None:
            found = _traces[key] = RunTrace(record, capture)
        return found
