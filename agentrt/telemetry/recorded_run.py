"""The record of a run, read back from its trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import cast

from agentrt.analysis import LABELS, Causes, NodeRecord, RunRecord
from agentrt.analysis.run_record import Attempt, Closed
from agentrt.analysis.stage import Label, Stage
from agentrt.base.errors import ErrorRecord, UsageError
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol import events
from agentrt.protocol.step_output import Ledger
from agentrt.telemetry import names
from agentrt.telemetry.reading import number_of, words_of
from agentrt.telemetry.recorded_ledger import ledger_of
from agentrt.telemetry.span import Attributes, Span, SpanEvent, Trace

_UNKNOWN = "its trace does not say"


def run_record_of(trace: Trace) -> RunRecord:
    """The record of a finished run: its graph, times, tokens and errors, to the microsecond.

    The run begins at 0 s on the record's clock. A record keeps no engine steps.

    Args:
        trace: The trace of a run.

    Raises:
        UsageError: The trace does not hold the run's graph.
    """
    return _TraceReader(trace).record()


class _TraceReader:
    def __init__(self, trace: Trace) -> None:
        self._trace_id = trace.trace_id
        self._root = trace.spans[0]
        self._run_id = RunId(str(self._root.attributes.get(names.RUN_ID, "")))
        self._spans = trace.spans
        self._record = RunRecord(self._run_id)

    def record(self) -> RunRecord:
        nodes = [span for span in self._spans if names.NODE_KIND in span.attributes]
        if not self._run_id or any(names.NODE_ORDER not in span.attributes for span in nodes):
            raise UsageError(
                "the trace does not hold the graph of its run",
                hint="give a trace that this version of `agentrt run` wrote",
            )
        self._start_and_end()
        attempts = self._attempts()
        for span in sorted(nodes, key=lambda one: _order(one)[0]):
            self._node(span, attempts.get(span.span_id, ()))
        self._close_bodies()
        causes = Causes(self._record)
        for span in nodes:
            node = self._record.nodes[_node_id(span)]
            if node.kind != "program":
                at_s, end_s = causes.ready_at_s(node), self._record.end_of(node)
                texts = _texts(span.attributes, names.NODE_STAGES)
                self._record.staged[node.node_id] = _stages(texts, at_s, end_s)
        return self._record

    def _start_and_end(self) -> None:
        tags = self._root.attributes
        record = self._record
        deadline_ms = number_of(tags, names.DEADLINE_MS)
        record.started = events.RunStarted(
            self._run_id,
            self._root.name.rpartition(" ")[2],
            str(tags.get(names.PROGRAM, "")),
            0.0,
            self._root.start_us * 1000,
            deadline_ms / 1e3 if deadline_ms else None,
            int(number_of(tags, names.SEED)),
            str(tags.get(names.TENANT, "")),
            int(number_of(tags, names.PRIORITY)),
            session=str(tags.get(names.CONVERSATION, "")),
            trace_id=self._trace_id,
        )
        record.last_at_s = _seconds(tags, names.COMPOUND_MS)
        did_end = names.NODE_KIND not in tags or len(_order(self._root)) > 1
        if did_end:
            error = _error(self._root) if self._root.error is not None else None
            outcome = _outcome(self._root)
            record.finished = events.RunFinished(self._run_id, outcome, record.last_at_s, error)

    def _attempts(self) -> dict[str, list[Attempt]]:
        """Attempts of tools, by the span of their node."""
        found: dict[str, list[Attempt]] = defaultdict(list)
        for span in self._spans:
            if span.name == "attempt" and span.parent_id is not None:
                error = _error(span) if span.error is not None else None
                found[span.parent_id].append(
                    Attempt(self._at_s(span.start_us), self._at_s(span.end_us), error)
                )
        return found

    def _at_s(self, at_us: int) -> float:
        return (at_us - self._root.start_us) / 1e6

    def _node(self, span: Span, attempts: Iterable[Attempt]) -> None:
        tags = span.attributes
        declared = self._declared(span)
        seq, *end_seq = _order(span)
        node = NodeRecord(declared, seq)
        node.parent = self._record.nodes.get(declared.parent) if declared.parent else None
        node.attempts = tuple(attempts)
        if names.NODE_DEMANDED_MS in tags:
            node.demanded_at_s = _seconds(tags, names.NODE_DEMANDED_MS)
        for text in _texts(tags, names.NODE_ITEMS):
            item, ms, place = text.split()
            node.items[int(item)] = Closed(float(ms) / 1e3, int(place))
        if names.ENGINE in tags:
            node.sent = (self._sent(span),)
        self._events(span, node)
        if names.PREFIX_LOST in tags:
            lost = int(number_of(tags, names.PREFIX_LOST))
            why = str(tags.get(names.PREFIX_LOST_REASON, _UNKNOWN))
            node.lost = (events.PrefixLost(self._run_id, node.node_id, lost, why, 0.0),)
        if end_seq:
            node.finished = self._finished(span)
            (node.finished_seq,) = end_seq
        self._record.has_after |= declared.after is not None
        if node.finished is not None and node.finished.after is not None:
            self._record.has_end_after = self._record.has_after = True
        self._record.nodes[node.node_id] = node

    def _declared(self, span: Span) -> events.NodeDeclared:
        tags = span.attributes
        return events.NodeDeclared(
            self._run_id,
            _node_id(span),
            cast(events.NodeKind, tags[names.NODE_KIND]),
            str(tags.get(names.NODE_NAME, "")),
            self._parent(_node_id(span)),
            tuple(NodeId(one) for one in words_of(tags, names.NODE_DEPS)),
            str(tags.get(names.NODE_SITE, "")),
            _seconds(tags, names.NODE_DECLARED_MS),
            plan=_id(tags, names.NODE_PLAN),
            plan_item=int(number_of(tags, names.NODE_ITEM)),
            attributes=tags,
            after=_id(tags, names.NODE_AFTER),
            after_item=_item(tags, names.NODE_AFTER_ITEM),
        )

    def _parent(self, node_id: NodeId) -> NodeId | None:
        """The nearest node above in the path of an id; names may have slashes of their own."""
        path = node_id.rpartition("/")[0]
        while path and path not in self._record.nodes:
            path = path.rpartition("/")[0]
        return NodeId(path) if path else None

    def _sent(self, span: Span) -> events.RequestSent:
        tags = span.attributes
        return events.RequestSent(
            self._run_id,
            _node_id(span),
            RequestId(0),
            str(tags[names.ENGINE]),
            str(tags.get(names.REQUEST_MODEL, "")),
            complete=True,
            at_s=self._at_s(span.start_us),
            held_s=_seconds(tags, names.STAGE_MS.format("admission")),
        )

    def _events(self, span: Span, node: NodeRecord) -> None:
        for event in span.events:
            if event.name == names.FIRST_TOKEN:
                node.first_token_at_s = self._at_s(event.at_us)
            elif event.name == names.SCHEDULED:
                node.scheduled += (self._decision(node.node_id, event),)
            elif event.name == names.CHECK_FAILED and node.sent:
                node.failed += ((node.sent[-1], self._failed(span, node, event)),)

    def _decision(self, node_id: NodeId, event: SpanEvent) -> events.Scheduled:
        tags = event.attributes
        head = names.TERM.format("")
        terms = ((key.removeprefix(head), number_of(tags, key)) for key in tags if key[:13] == head)
        address = tags.get("server.address")
        return events.Scheduled(
            self._run_id,
            node_id,
            _seconds(tags, names.AT_MS),
            str(tags.get(names.DECISION, "")),
            str(tags.get(names.DECISION_REASON, "")),
            str(tags.get(names.POLICY, "")),
            tuple(terms),
            f"{address}:{tags.get('server.port', '')}" if address else "",
        )

    def _failed(self, span: Span, node: NodeRecord, event: SpanEvent) -> events.AttemptFailed:
        """An answer that failed its check; the tokens of all are with the first."""
        tags = span.attributes
        ledger = Ledger()
        if not node.failed:
            ledger = Ledger(
                prompt_tokens=int(number_of(tags, names.CHECK_PROMPT_TOKENS)),
                cached_tokens=int(number_of(tags, names.CHECK_CACHED_TOKENS)),
                output_tokens=int(number_of(tags, names.CHECK_TOKENS)),
            )
        return events.AttemptFailed(
            self._run_id,
            node.node_id,
            int(number_of(event.attributes, names.ATTEMPT)) - 1,
            str(event.attributes.get(names.CHECK_REASON, "the answer failed its check")),
            ledger,
            self._at_s(event.at_us),
        )

    def _finished(self, span: Span) -> events.NodeFinished:
        tags = span.attributes
        outcome = _outcome(span)
        stopped = names.NODE_STOPPED_MS in tags
        reasons = words_of(tags, names.FINISH_REASONS)
        return events.NodeFinished(
            self._run_id,
            _node_id(span),
            outcome,
            _seconds(tags, names.NODE_ENDED_MS),
            reason=str(tags.get(names.CANCELLED_REASON, "")),
            error=_error(span) if span.error is not None else None,
            ledger=ledger_of(tags, outcome) if names.INPUT_TOKENS in tags else None,
            closed_early=bool(tags.get(names.CLOSED_EARLY)),
            finish_reason=reasons[0] if reasons else "",
            after=_id(tags, names.NODE_END_AFTER),
            after_item=_item(tags, names.NODE_END_AFTER_ITEM),
            stopped_at_s=_seconds(tags, names.NODE_STOPPED_MS) if stopped else None,
        )

    def _close_bodies(self) -> None:
        bodies: dict[NodeId, list[NodeRecord]] = defaultdict(list)
        for node in self._record.nodes.values():
            if node.parent is not None:
                bodies[node.parent.node_id].append(node)
        for node_id, body in bodies.items():
            self._record.nodes[node_id].children = body


def _stages(texts: Iterable[str], at_s: float, end_s: float) -> tuple[Stage, ...]:
    """Stages laid end to end between two instants, whatever rounding took from them."""
    read = [_lengths(text) for text in texts]
    whole_s = sum(lengths[0][1] for lengths in read)
    scale = (end_s - at_s) / whole_s if whole_s > 0.0 else 0.0
    found: list[Stage] = []
    for (label, seconds), *shares in read:
        until_s = end_s if len(found) == len(read) - 1 else at_s + seconds * scale
        part = (until_s - at_s) / (sum(own for _, own in shares) or 1.0)
        own_shares = tuple((own, length_s * part) for own, length_s in shares)
        found.append(Stage(label, at_s, until_s, own_shares))
        at_s = until_s
    return tuple(found)


def _lengths(text: str) -> list[tuple[Label, float]]:
    """The label and seconds of a stage, then of its shares."""
    words = text.split()
    known: dict[str, Label] = {label: label for label in LABELS}
    labels = [known.get(one, "unattributed") for one in words[::2]]
    return list(zip(labels, (float(ms) / 1e3 for ms in words[1::2]), strict=True))


def _order(span: Span) -> list[int]:
    """Place of a node's declaration in causal order, and that of its end if it ended."""
    return [int(one) for one in str(span.attributes[names.NODE_ORDER]).split()]


def _texts(tags: Attributes, name: str) -> list[str]:
    """The parts of an attribute that is a list in one text."""
    return [one for one in str(tags.get(name, "")).split(", ") if one]


def _outcome(span: Span) -> events.Outcome:
    if span.error is not None:
        return "failed"
    return "cancelled" if names.CANCELLED_REASON in span.attributes else "ok"


def _error(span: Span) -> ErrorRecord:
    kind = str(span.attributes.get(names.ERROR_TYPE, "error"))
    site = str(span.attributes.get(names.NODE_SITE, ""))
    return ErrorRecord(kind, span.error or kind, where=site)


def _node_id(span: Span) -> NodeId:
    return NodeId(str(span.attributes[names.NODE_ID]))


def _id(tags: Attributes, name: str) -> NodeId | None:
    return NodeId(str(tags[name])) if name in tags else None


def _item(tags: Attributes, name: str) -> int | None:
    return int(number_of(tags, name)) if name in tags else None


def _seconds(tags: Attributes, name: str) -> float:
    return number_of(tags, name) / 1e3
