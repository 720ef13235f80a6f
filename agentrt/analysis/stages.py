"""Stages of a node between its last input and its end.

The parts of a generation come from the backend's ledger. Prefill that ran before the last hole was
filled cost the run nothing and is left out; what the ledger leaves open is `unattributed`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter

from agentrt.analysis.causes import Causes
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.analysis.stage import Label, Shares, Stage
from agentrt.base.ids import RequestId
from agentrt.protocol.step_output import Ledger


def stages(record: RunRecord, node: NodeRecord, causes: Causes) -> tuple[Stage, ...]:
    """Stages from the node's last input to its end, without gap; none has length zero.

    A program has none: its time is that of its children and of its code.
    """
    known = causes.staged.get(node.node_id)
    if known is None:
        known = causes.staged[node.node_id] = _stages(record, node, causes)
    return known


def _stages(record: RunRecord, node: NodeRecord, causes: Causes) -> tuple[Stage, ...]:
    line = _Line(causes.ready_at_s(node), record.end_of(node))
    match node.kind:
        case "generate":
            _generation(line, node, causes)
        case "tool":
            _tool(line, node)
        case "ask":
            line.to("tool", line.end_s)
        case "program":
            pass
    return tuple(line.stages)


class _Line:
    """Lays stages end to end; what is asked for beyond the end, or backwards, is cut off."""

    def __init__(self, start_s: float, end_s: float) -> None:
        self.at_s = start_s
        self.end_s = max(start_s, end_s)
        self.stages: list[Stage] = []

    def to(self, label: Label, until_s: float, shares: Shares = ()) -> None:
        if until_s > self.end_s:
            until_s = self.end_s
        if until_s > self.at_s:
            self.stages.append(Stage(label, self.at_s, until_s, shares))
            self.at_s = until_s


def _tool(line: _Line, node: NodeRecord) -> None:
    if not node.attempts:
        line.to("queue", line.end_s)
        return
    line.to("queue", node.attempts[0].started_at_s)  # until a worker took it
    ended_at_s = node.attempts[-1].ended_at_s
    line.to("tool", line.end_s if ended_at_s is None else ended_at_s)  # pauses between attempts too
    line.to("orchestration", line.end_s)


def _generation(line: _Line, node: NodeRecord, causes: Causes) -> None:
    if node.scheduled:
        _looked_up(line, node)
    if not node.sent:
        line.to("orchestration", line.end_s)
        return
    first, last = node.sent[0], node.sent[-1]
    line.to("orchestration", first.at_s - first.held_s)
    line.to("admission", first.at_s)
    hop: Label = "network" if last.backend == "remote" else "orchestration"
    _failed(line, node, hop)
    line.to("unattributed", last.at_s)  # what an engine that died had done is lost
    ledger = node.ledger
    if ledger is not None and ledger.finished_at_s > 0.0:
        whole_at_s = max(ledger.received_at_s, ledger.completed_at_s)
        if node.filled_at_s is not None:
            _behind_steps(line, causes.record, last.request_id, whole_at_s, hop)
        line.to(hop, whole_at_s)
        _served(line, ledger)
        line.to(hop, line.end_s)
    else:
        _watched(line, node, causes)


def _looked_up(line: _Line, node: NodeRecord) -> None:
    """Look-ups in the response cache, which come after admission control."""
    admitted_at_s = node.sent[0].at_s - node.sent[0].held_s if node.sent else line.end_s
    for one in node.scheduled:
        if one.decision in ("cached", "missed"):
            began_at_s = one.at_s - dict(one.terms)["looked_s"]
            line.to("orchestration", min(began_at_s, admitted_at_s))
            line.to("admission", began_at_s)
            line.to("cache", one.at_s)


def _failed(line: _Line, node: NodeRecord, hop: Label) -> None:
    """Answers that did not pass their check, each up to the next sending."""
    for sent, attempt in node.failed:
        line.to("unattributed", sent.at_s)
        line.to(hop, max(attempt.ledger.received_at_s, attempt.ledger.completed_at_s))
        _served(line, attempt.ledger)
        line.to(hop, attempt.at_s)
        after = (one.at_s for one in node.sent if one.at_s >= attempt.at_s)
        line.to("orchestration", next(after, attempt.at_s))


def _behind_steps(
    line: _Line, record: RunRecord, request_id: RequestId, until_s: float, hop: Label
) -> None:
    """The last part of a prompt came while the engine was in a step, which it ends first.

    It may have been computing the parts before.
    """
    first = bisect_right(record.steps, line.at_s, key=lambda step: step.ended_at_s)
    for step in record.steps[first:]:
        if step.started_at_s >= until_s:
            break
        line.to(hop, step.started_at_s)
        own = request_id in step.requests
        line.to("prefill" if own else "queue", min(step.ended_at_s, until_s))


# After the first token decoding comes first; what else fits there was in between its steps: masks,
# preemption with its new prefill, KV brought back.
_AFTER: tuple[Label, ...] = ("decode", "constraint", "queue", "kv_reload", "prefill")
_seconds_of: Callable[[Ledger], tuple[float, ...]] = attrgetter(*[f"{one}_s" for one in _AFTER])
# Before it, all but prefill needs a complete prompt, so an excess is prefill done early.
_BEFORE: tuple[Label, ...] = ("queue", "kv_reload", "constraint", "decode", "prefill")
_SHOWN_BEFORE: tuple[Label, ...] = ("queue", "kv_reload", "constraint", "unattributed", "prefill")


def _served(line: _Line, ledger: Ledger) -> None:
    """From the moment the engine could work on the whole prompt to the end it reported."""
    end_s = min(ledger.finished_at_s, line.end_s)
    first_s = ledger.first_token_at_s if ledger.first_token_at_s > 0.0 else end_s
    first_s = min(max(first_s, line.at_s), end_s)
    left = dict(zip(_AFTER, _seconds_of(ledger), strict=True))
    after = _take(left, end_s - first_s, _AFTER)
    before = _take(left, first_s - line.at_s, _BEFORE)
    for label in _SHOWN_BEFORE:
        if label in before:
            line.to(label, line.at_s + before[label])
    line.to("decode", first_s)
    if after:
        main = max(after, key=lambda label: after[label])
        line.to(main, end_s, tuple(after.items()) if len(after) > 1 else ())


def _take(left: dict[Label, float], room_s: float, wanted: tuple[Label, ...]) -> dict[Label, float]:
    """Fill `room_s` from what is left, in this order; what cannot be filled is unattributed."""
    taken: dict[Label, float] = {}
    for label in wanted:
        seconds = left[label]
        if seconds > 0.0 and room_s > 0.0:
            if seconds > room_s:
                seconds = room_s
            taken[label] = seconds
            left[label] -= seconds
            room_s -= seconds
    if room_s > 0.0:
        taken["unattributed"] = room_s
    return taken


def _watched(line: _Line, node: NodeRecord, causes: Causes) -> None:
    """No account came (cancelled, lost): tell from the steps and tokens that were seen."""
    steps = causes.steps_of(node.sent[-1].request_id)
    first_s = node.first_token_at_s
    if steps:
        line.to("queue", steps[0].started_at_s)
        line.to("prefill", steps[-1].ended_at_s if first_s is None else first_s)
        line.to("decode", steps[-1].ended_at_s)
    elif first_s is not None:
        line.to("unattributed", first_s)
        line.to("decode", line.end_s)
    line.to("unattributed", line.end_s)
