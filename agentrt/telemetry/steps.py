"""Engine steps as spans, in a trace of their own.

A step serves nodes of many runs, so it belongs to none of their traces; it links to the generations
in its batch. Only one step in N is traced.
"""

from __future__ import annotations

from agentrt.analysis import RunRecord
from agentrt.base.ids import RequestId, RunId, span_id_of, trace_id_of
from agentrt.protocol.step_output import StepRecord
from agentrt.telemetry import names
from agentrt.telemetry.span import Span, SpanLink, Trace, span_ids

_MAX_LINKS = 128  # OpenTelemetry's default limit of links


def step_trace(record: RunRecord, run: Trace, every: int) -> Trace | None:
    """The trace of one in `every` steps that served a run; None if there are none.

    Args:
        record: The run.
        run: Trace of the run, to link to.
        every: Sampling interval; 0 traces no steps at all.
    """
    started = record.started
    if every <= 0 or started is None:
        return None
    trace_id = trace_id_of(RunId(f"{record.run_id}/steps"))
    zero_us = started.unix_ns / 1000 - started.at_s * 1e6
    spans_of = _spans_of(record)
    ids = span_ids(trace_id)
    spans = [
        _span(step, next(ids), zero_us, run.trace_id, spans_of)
        for step in record.steps
        if step.index % every == 0
    ]
    return Trace(trace_id, f"{run.name}-steps", tuple(spans)) if spans else None


def _span(
    step: StepRecord,
    span_id: str,
    zero_us: float,
    run_trace_id: str,
    spans_of: dict[RequestId, str],
) -> Span:
    start_us = round(zero_us + step.started_at_s * 1e6)
    end_us = max(start_us + 1, round(zero_us + step.ended_at_s * 1e6))
    span = Span(names.STEP, span_id, None, start_us, end_us, service="engine")
    span.attributes = {
        names.STEP_INDEX: step.index,
        names.BATCH_SIZE: len(step.requests),
        names.BATCH_TOKENS: step.prefill_tokens + step.decode_tokens,
        names.BATCH_PREFILL_TOKENS: step.prefill_tokens,
    }
    members = [spans_of[request] for request in step.requests if request in spans_of]
    span.links = tuple(
        [SpanLink(run_trace_id, member, {names.LINK: "batch"}) for member in members[:_MAX_LINKS]]
    )
    return span


def _spans_of(record: RunRecord) -> dict[RequestId, str]:
    """Span of the node of each request."""
    live_ids = record.finished.span_ids if record.finished else {}
    return {
        sent.request_id: live_ids.get(node.node_id) or span_id_of(record.run_id, node.node_id)
        for node in record.nodes.values()
        for sent in node.sent
    }
