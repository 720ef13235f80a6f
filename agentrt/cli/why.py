"""A run's trace in words: its nodes with their times, and the reasons of one node's waits."""

from __future__ import annotations

from collections.abc import Iterator

from agentrt.telemetry import Span, SpanEvent, names
from agentrt.telemetry.reading import number_of
from agentrt.telemetry.waits import TraceNodes, length_ms

_TERM = names.TERM.format("")
_WAITS = ("inputs", "gate", "queue", "grammar")
_IN_WORDS = {
    "rest_s": "service that its run still needs, as learned",
    "attained_s": "service that its run has had",
    "waited_s": "how long nodes of its run have waited",
    "uncached_s": "what computing its prompt takes, as far as the cache does not know it",
    "uncached_tokens": "tokens of its prompt to compute",
    "cached_tokens": "tokens of its prompt in the cache",
    "aged_s": "the service to go by, made less by waiting: the smallest goes first",
    "level": "power of two of that: within one the run that began first goes first",
    "queue": "of the queues of attained service: the first goes first",
    "rank_s": "longest path to the end of its run: inside a run the longest goes first",
    "run_started_at_s": "when its run began, on the engine's clock: the first goes first",
    "tenant_quanta": "of service beyond its tenant's share: the smallest goes before all else",
    "priority": "of its run: the highest goes first among its tenant's",
    "slack_class": "of its deadline: 0 at risk, 1 on track, 2 hopeless",
    "slack_s": "what its deadline leaves beyond the path",
    "overdue": "it had waited beyond all measure and came in by the express lane",
    "held_s": "how long it has waited at the gate",
    "peak_tokens": "of KV memory that its run is expected to need at once",
    "entry_tokens": "of that, what is set aside when its run is let in",
    "committed_tokens": "set aside for the runs that were let in",
    "limit_tokens": "that may be set aside for all runs",
    "computed_again_share": "of the engine's time went into what it had computed before",
    "undemanded": "no code awaited it yet: awaited ones go first",
}
_ELSEWHERE = ("queued_s", "place", "others_waiting")


def table(trace: TraceNodes) -> Iterator[str]:
    """The nodes of a run, each child under its parent, with their start, duration and waits."""
    width = max(len(_indented(node_id)) for node_id in trace.nodes) if trace.nodes else 4
    heads = "".join(f"{head:>9}" for head in ("start ms", "took ms", *_WAITS))
    yield f"{'node':{width}}  {'kind':8}{heads}"
    for node_id in _parents_first(list(trace.nodes)):
        span = trace.nodes[node_id]
        waits = {wait.label: wait.ms for wait in trace.waits(span)}
        figures = (trace.start_ms(span), length_ms(span), *(waits.get(one, 0.0) for one in _WAITS))
        tags = "".join(f"{figure:>9.1f}" for figure in figures)
        mark = "  *" if span.attributes.get(names.CRITICAL) else ""
        failed = "  failed" if span.error is not None else ""
        kind = span.attributes[names.NODE_KIND]
        yield f"{_indented(node_id):{width}}  {kind:8}{tags}{mark}{failed}"
    yield "* on the critical path; inputs, gate, queue and grammar are ms of waiting"


def why(trace: TraceNodes, span: Span) -> Iterator[str]:
    """The waits of one node, and the decisions about it."""
    tags = span.attributes
    yield f"{tags[names.NODE_ID]}: {tags[names.NODE_KIND]} at {tags.get(names.NODE_SITE, '?')}"
    declared_ms = number_of(tags, names.NODE_DECLARED_MS)
    path, over_ms = "on the critical path", trace.end_ms(span)
    if not tags.get(names.CRITICAL):
        path = f"{number_of(tags, names.NODE_SLACK_MS):.1f} ms off the critical path"
    yield f"  declared {declared_ms:.1f} ms after the run began, over at {over_ms:.1f}, {path}"
    if names.CANCELLED_REASON in tags:
        yield f"  cancelled: {tags[names.CANCELLED_REASON]}"
    if span.error is not None:
        yield f"  failed: {span.error}"
    for wait in trace.waits(span):
        yield f"{wait.ms:>10.1f} ms  {wait.label:8} {wait.why}"
    for event in trace.decisions(span):
        yield from _decision(event)


def _decision(event: SpanEvent) -> Iterator[str]:
    tags = event.attributes
    by = f" by the policy {tags[names.POLICY]}" if names.POLICY in tags else ""
    yield f"  {tags[names.DECISION]}{by}, {number_of(tags, names.AT_MS):.1f} ms after the run began"
    reason, _, before = str(tags.get(names.DECISION_REASON, "")).partition("; before it: ")
    terms = {
        name.removeprefix(_TERM): number_of(tags, name) for name in tags if name.startswith(_TERM)
    }
    if tags[names.DECISION] == "placed":
        position, others = int(terms.get("place", 0)), int(terms.get("others_waiting", 0))
        yield (
            f"    after {terms.get('queued_s', 0.0) * 1e3:.1f} ms in the queue: {position} served "
            f"before it in that step, {others} went on waiting"
        )
    if reason:
        yield f"    {reason}"
    for name, value in terms.items():
        if name in _ELSEWHERE or name.startswith("passed_over_"):
            continue
        yield f"    {name:16} {value:>12.6g}  {_IN_WORDS.get(name, '')}".rstrip()
    if before:
        yield "    placed while it waited:"
        yield from (f"      {one}" for one in before.split(", "))


def _parents_first(node_ids: list[str]) -> Iterator[str]:
    """Ids in the order of a tree, siblings as they come."""
    below: dict[str, list[str]] = {}
    for node_id in node_ids:
        below.setdefault(node_id.rpartition("/")[0], []).append(node_id)
    known = set(node_ids)
    waiting = [one for one in reversed(node_ids) if one.rpartition("/")[0] not in known]
    while waiting:
        node_id = waiting.pop()
        yield node_id
        waiting += reversed(below.get(node_id, []))


def _indented(node_id: str) -> str:
    depth = node_id.count("/")
    return "  " * depth + node_id.rpartition("/")[2]
