"""One trace of a run for its file and its live spans."""

import gc
import weakref
from collections.abc import Callable

from agentrt.analysis import RunRecord
from agentrt.telemetry import build
from agentrt.telemetry.run_trace import run_trace_of
from tests.telemetry.conftest import FINANCE


def test_a_record_has_one_trace_while_somebody_holds_it(
    recorded: Callable[..., RunRecord],
) -> None:
    record, other = recorded(FINANCE), recorded(FINANCE)
    held = run_trace_of(record, "NO_CONTENT")
    assert run_trace_of(record, "NO_CONTENT") is held
    assert held.outline() is held.outline()
    assert run_trace_of(record, "SPAN_ONLY") is not held
    assert run_trace_of(other, "NO_CONTENT") is not held
    gone, kept = weakref.ref(held), weakref.ref(record)
    del held, record
    gc.collect()
    assert gone() is None
    assert kept() is None


def test_the_whole_trace_leaves_the_root_of_its_outline_as_it_is(
    recorded: Callable[..., RunRecord],
) -> None:
    """Another thread may be writing that root on a live span."""
    found = run_trace_of(recorded(FINANCE), "NO_CONTENT")
    root = found.outline().spans[0]
    attributes = dict(root.attributes)
    whole = found.whole()
    assert root.attributes == attributes
    assert "agentrt.critical_path.nodes" in attributes
    assert attributes.items() < whole.spans[0].attributes.items()
    spans = [span.span_id for span in whole.spans]
    assert spans == [span.span_id for span in found.outline().spans]


def test_the_outline_does_not_change_the_whole(recorded: Callable[..., RunRecord]) -> None:
    record = recorded(FINANCE)
    found = run_trace_of(record, "NO_CONTENT")
    found.outline()
    shown = [
        (span.name, span.kind, span.start_us, span.end_us, span.attributes, span.events, span.links)
        for span in found.whole().spans
    ]
    assert shown == [
        (span.name, span.kind, span.start_us, span.end_us, span.attributes, span.events, span.links)
        for span in build(record).spans
    ]
