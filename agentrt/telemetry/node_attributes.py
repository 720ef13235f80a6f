"""Attributes of a node's span."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter

from agentrt.analysis import NodeRecord, RunRecord, Split, Usage, usage
from agentrt.base.ids import NodeId
from agentrt.base.money import PICO
from agentrt.protocol.events import NodeKind
from agentrt.protocol.step_output import Ledger
from agentrt.telemetry import names
from agentrt.telemetry.span import Attributes, SpanKind

_ADMISSION_MS, _QUEUE_MS, _PREFILL_MS, _DECODE_MS, _CONSTRAINT_MS, _KV_RELOAD_MS = (
    names.STAGE_MS.format(label)
    for label in ("admission", "queue", "prefill", "decode", "constraint", "kv_reload")
)
_OPERATIONS: dict[NodeKind, str] = {
    "program": names.INVOKE_WORKFLOW,
    "generate": names.CHAT,
    "tool": names.EXECUTE_TOOL,
}
_COUNTS = {
    "prefill_chunks": names.PREFILL_CHUNKS,
    "ahead_tokens": names.PREFILL_AHEAD,
    "warmed_tokens": names.PREFILL_WARMED,
    "recomputed_tokens": names.RECOMPUTED,
    "forced_tokens": names.FORCED,
    "thinking_tokens": names.REASONING_TOKENS,
    "preemptions": names.PREEMPTED,
    "retried_tokens": names.RETRIED,
    "expert_hits": names.EXPERT_HITS,
    "expert_misses": names.EXPERT_MISSES,
}
"""Counts of a ledger that are told if they are not zero."""
_counts_of: Callable[[Ledger], tuple[int, ...]] = attrgetter(*_COUNTS)


def operation_of(kind: NodeKind) -> str:
    """The operation of a node in the words of the conventions; they have none for a question."""
    return _OPERATIONS.get(kind, "node")


def span_title(kind: NodeKind, name: str) -> str:
    """The operation and the node's name, which tells one call site from another.

    The conventions have the model in the name of a `chat`; all generations of a program would then
    be called the same. The model is an attribute.
    """
    return f"{_OPERATIONS.get(kind, 'node')} {name}"


def span_name(node: NodeRecord) -> str:
    """Name of a node's span."""
    return span_title(node.kind, node.declared.name)


def span_kind(node: NodeRecord) -> SpanKind:
    """Kind `client` for a call of a remote engine; everything else is internal."""
    return "client" if node.sent and node.sent[-1].backend == "remote" else "internal"


def node_attributes(node: NodeRecord) -> Attributes:
    """Attributes of any node that its own events tell, without those given by the runtime."""
    declared, finished = node.declared, node.finished
    attributes: Attributes = {
        names.NODE_ID: declared.node_id,
        names.NODE_NAME: declared.name,
        names.NODE_KIND: declared.kind,
        names.NODE_SITE: declared.site,
    }
    if declared.deps:
        attributes[names.NODE_DEPS] = tuple(declared.deps)
    if declared.plan is not None:
        attributes[names.NODE_ITEM] = declared.plan_item
    match declared.kind:
        case "program":
            attributes[names.OPERATION] = names.INVOKE_WORKFLOW
            attributes[names.WORKFLOW] = attributes[names.AGENT] = declared.name
            attributes[names.INFERENCE_KIND] = "CHAIN"
        case "generate":
            _generation(attributes, node)
        case "tool":
            attributes[names.OPERATION] = names.EXECUTE_TOOL
            attributes[names.TOOL_NAME] = declared.name
            attributes[names.TOOL_TYPE] = "function"
            if len(node.attempts) > 1:
                attributes[names.ATTEMPT] = len(node.attempts)
        case "ask":
            pass
    if finished is not None:
        if finished.outcome == "cancelled":
            attributes[names.CANCELLED_REASON] = finished.reason or "cancelled"
        if finished.error is not None:
            attributes[names.ERROR_TYPE] = finished.error.type
    return attributes


def given_attributes(node: NodeRecord) -> Attributes:
    """Attributes set by the runtime for a node's span; they override the others."""
    finished = node.finished
    if finished is None or not finished.attributes:
        return node.declared.attributes
    return node.declared.attributes | finished.attributes


def run_attributes(
    record: RunRecord, split: Split, path: list[NodeId], work_s: float
) -> Attributes:
    """Attributes of the root span, about the whole run."""
    started = record.started
    assert started is not None
    attributes: Attributes = {
        names.RUN_ID: record.run_id,
        names.PROGRAM: started.source,
        names.SEED: started.seed,
        names.COMPOUND_MS: round(record.compound_s * 1e3, 6),  # as exact as the graph
        names.WORK_MS: _ms(work_s),
        names.PARALLELISM: round(work_s / record.compound_s, 2) if record.compound_s else 0.0,
        names.PATH_MS: _ms(record.compound_s),
        names.PATH_NODES: tuple(path),
    }
    for label, seconds in split.parts().items():
        attributes[names.SPLIT_MS.format(label)] = _ms(seconds)
    if started.deadline_s is not None:
        attributes[names.DEADLINE_MS] = _ms(started.deadline_s)
        attributes[names.DEADLINE_MET] = record.compound_s <= started.deadline_s
    nodes = record.nodes.values()
    retries = sum([max(0, len(node.attempts) - 1) + len(node.failed) for node in nodes])
    if retries:
        attributes[names.RETRIES] = retries
    if record.downs:
        attributes[names.ENGINE_DOWNS] = len(record.downs)
    if started.tenant:
        attributes[names.TENANT] = started.tenant
    if started.session:
        attributes[names.CONVERSATION] = started.session
    if started.priority:
        attributes[names.PRIORITY] = started.priority
    _cost(attributes, usage(record))
    if record.finished is None:
        attributes[names.CANCELLED_REASON] = "the run did not end"
    return attributes


def _generation(attributes: Attributes, node: NodeRecord) -> None:
    attributes[names.OPERATION] = names.CHAT
    json_wanted = node.declared.attributes.get(names.CONSTRAINT_KIND) == "json"
    attributes[names.OUTPUT_TYPE] = "json" if json_wanted else "text"
    if node.sent:
        sent = node.sent[-1]
        if node.sent[0].held_s > 0.0:
            attributes[_ADMISSION_MS] = _ms(node.sent[0].held_s)
        attributes[names.ENGINE] = sent.backend
        attributes[names.PROVIDER] = "agentrt" if sent.backend == "embedded" else sent.backend
        attributes[names.REQUEST_MODEL] = sent.model
        attributes[names.RESPONSE_MODEL] = sent.model
        if sent.backend == "remote":
            attributes[names.REQUEST_STREAM] = True
    finished = node.finished
    if finished is not None:
        if finished.finish_reason:
            attributes[names.FINISH_REASONS] = _reasons(finished.finish_reason)
        if finished.closed_early:
            attributes[names.CLOSED_EARLY] = True
        if finished.ledger is not None:
            _ledger(attributes, finished.ledger)
            if finished.ledger.saved_pico:
                attributes[names.COST_SAVED] = finished.ledger.saved_pico / PICO
            if finished.ledger.currency and not node.failed:
                _node_cost(attributes, node)
    if node.failed:
        attributes[names.ATTEMPT] = len(node.failed) + 1
        failed = [one.ledger for _, one in node.failed]
        attributes[names.CHECK_TOKENS] = sum(one.output_tokens for one in failed)
        attributes[names.CHECK_PROMPT_TOKENS] = sum(one.prompt_tokens for one in failed)
        attributes[names.CHECK_CACHED_TOKENS] = sum(one.cached_tokens for one in failed)
        _node_cost(attributes, node)
    for one in node.scheduled:
        if one.decision in ("cached", "missed"):
            attributes[names.RESPONSE_CACHE] = "hit" if one.decision == "cached" else "miss"
            attributes[names.STAGE_MS.format("cache")] = _ms(dict(one.terms)["looked_s"])
    if node.lost:
        attributes[names.PREFIX_LOST] = sum(lost.lost_tokens for lost in node.lost)
        attributes[names.PREFIX_LOST_REASON] = node.lost[-1].reason


def _node_cost(attributes: Attributes, node: NodeRecord) -> None:
    """Cost of a generation, failed answers included."""
    used = Usage()
    for _, attempt in node.failed:
        used.add(attempt.ledger, is_discarded=True)
    finished = node.finished
    if finished is not None and finished.ledger is not None:
        used.add(finished.ledger, is_discarded=finished.outcome == "cancelled")
    _cost(attributes, used)


def _cost(attributes: Attributes, used: Usage) -> None:
    if not used.currency:
        return
    attributes[names.COST] = used.cost_pico / PICO
    attributes[names.COST_CURRENCY] = used.currency
    if used.discarded_cost_pico:
        attributes[names.COST_DISCARDED] = used.discarded_cost_pico / PICO


@cache
def _reasons(reason: str) -> tuple[str, ...]:
    """One tuple for all nodes; with one of its own, each node's dict is garbage-collected."""
    return (reason,)


def _ledger(attributes: Attributes, ledger: Ledger) -> None:
    attributes[names.INPUT_TOKENS] = ledger.prompt_tokens
    attributes[names.OUTPUT_TOKENS] = ledger.output_tokens
    attributes[names.CACHED_TOKENS] = ledger.cached_tokens
    attributes[names.PREFIX_CACHED] = ledger.cached_tokens
    attributes[names.TIMING_SOURCE] = ledger.source
    attributes[_QUEUE_MS] = _ms(ledger.queue_s)
    if ledger.server_queue_s:
        attributes[names.SERVER_QUEUE_MS] = _ms(ledger.server_queue_s)
    attributes[_PREFILL_MS] = _ms(ledger.prefill_s)
    attributes[_DECODE_MS] = _ms(ledger.decode_s)
    if ledger.constraint_s:
        attributes[_CONSTRAINT_MS] = _ms(ledger.constraint_s)
    if ledger.kv_reload_s:
        attributes[_KV_RELOAD_MS] = _ms(ledger.kv_reload_s)
    begun_at_s = max(ledger.received_at_s, ledger.completed_at_s)
    if ledger.first_token_at_s > 0.0:
        first_s = max(0.0, ledger.first_token_at_s - begun_at_s)
        attributes[names.TIME_TO_FIRST_CHUNK] = _ms(first_s) / 1e3
        if ledger.output_tokens > 1:
            rest_s = ledger.finished_at_s - ledger.first_token_at_s
            attributes[names.ITL_MEAN] = _ms(rest_s / (ledger.output_tokens - 1))
    if ledger.steps:
        attributes[names.BATCH_MEAN] = round(ledger.batch_size_sum / ledger.steps, 2)
    for name, count in zip(_COUNTS.values(), _counts_of(ledger), strict=True):
        if count:
            attributes[name] = count
    if ledger.expert_tokens:
        attributes[names.EXPERT_TOKENS] = expert_tokens_text(ledger.expert_tokens)
    for drafts in ledger.drafts:
        if drafts.accepted_tokens:
            attributes[names.DRAFT_ACCEPTED.format(drafts.source)] = drafts.accepted_tokens
        if drafts.rejected_tokens:
            attributes[names.DRAFT_REJECTED.format(drafts.source)] = drafts.rejected_tokens


def expert_tokens_text(counts: tuple[tuple[int, ...], ...]) -> str:
    """Tokens by layer and expert as one text.

    Example:
        >>> expert_tokens_text(((4, 0), (1, 3)))
        '4,0;1,3'
    """
    return ";".join(",".join(map(str, layer)) for layer in counts)


def _ms(seconds: float) -> float:
    """Milliseconds with three decimals; rounding to an integer takes a quarter of the time."""
    return round(seconds * 1e6) / 1e3 if -1e9 < seconds < 1e9 else seconds * 1e3
