"""The observer that records runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from agentrt.analysis import RunRecord
from agentrt.base.canonical_json import dumps
from agentrt.base.clock import Clock
from agentrt.base.errors import DeadlineExceeded
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.segments import JSON_ARRAY_FRAME, CallFrame
from agentrt.protocol.backend import Capabilities
from agentrt.protocol.events import (
    AttemptFailed,
    Event,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import BackendDown, Delta, End, Ledger, StepDone
from agentrt.recording.caused_instants import CausedInstants
from agentrt.recording.file import RecordingFile
from agentrt.recording.form import (
    SCHEMA,
    Header,
    RecordedAttempt,
    RecordedEngine,
    RecordedError,
    RecordedGeneration,
    RecordedQuestion,
    RecordedRun,
    RecordedToolAttempt,
    RecordedToolCall,
)

_Line = RecordedGeneration | RecordedToolCall | RecordedQuestion

COUNTS = (
    *("prompt_tokens", "cached_tokens", "output_tokens", "forced_tokens", "thinking_tokens"),
    *("recomputed_tokens", "prefill_chunks", "steps", "batch_size_sum", "preemptions"),
    *("cached_host_tokens", "retried_tokens", "ahead_tokens", "retried_prompt_tokens"),
    *("cost_pico", "retried_cost_pico", "currency", "saved_pico", "is_estimated", "is_cached"),
)
"""Figures of a ledger that a recording keeps."""

SPENT = ("queue_s", "kv_reload_s", "constraint_s", "prefill_s", "decode_s")
"""Seconds of a ledger that it keeps."""


@dataclass(slots=True)
class _Answering:
    """A request, and what its engine has given."""

    deltas: list[tuple[float, Delta]] = field(default_factory=list)
    end: End | None = None


@dataclass(slots=True)
class _OpenNode:
    declared: NodeDeclared
    requests: list[_Answering] = field(default_factory=list)
    attempts: list[RecordedToolAttempt] = field(default_factory=list)
    started_at_s: float = 0.0
    began_at_s: float | None = None
    failed_at_s: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _OpenRun:
    started: RunStarted
    record: RunRecord
    nodes: dict[NodeId, _OpenNode] = field(default_factory=dict)
    lines: list[tuple[_Line, float | None]] = field(default_factory=list)


class RunRecording:
    """Records all runs of a runtime into one file; each is written when it ends.

    `open_runtime(record=PATH)` and `agentrt run --record PATH` make one.

    Args:
        path: The file; it is made for its owner only.
        clock: Clock of the runtime.

    Raises:
        UsageError: The file is there and is no recording, or cannot be written.
    """

    wants_content = True

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = RecordingFile(path)
        self._clock = clock
        self._header = Header(schema=SCHEMA, engines={})
        self._runs: dict[RunId, _OpenRun] = {}
        self._requests: dict[RequestId, _Answering] = {}

    def note_engines(self, engines: Mapping[str, Capabilities]) -> None:
        """Note the engines of the runs, by role; before the first run ends."""
        self._header = Header(
            schema=SCHEMA,
            engines={
                role: RecordedEngine.of(
                    one.backend, one.model, one.call_frame, one.thinking, one.seeds
                )
                for role, one in engines.items()
            },
        )

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events."""
        for event in events:
            if isinstance(event, StepDone):
                self._add_step(event)
            elif isinstance(event, RunStarted):
                record = RunRecord(event.run_id)
                record.add_event(event)
                self._runs[event.run_id] = _OpenRun(event, record)
            elif not isinstance(event, BackendDown):
                run = self._runs[event.run_id]
                run.record.add_event(event)
                self._add(run, event)

    def _add_step(self, step: StepDone) -> None:
        at_s = self._clock.now_s()  # of its arrival: what streams goes on from here
        for delta in step.deltas:
            if (request := self._requests.get(delta.request_id)) is not None:
                request.deltas.append((at_s, delta))
        for end in step.ends:
            if (request := self._requests.pop(end.request_id, None)) is not None:
                request.end = end

    def _add(self, run: _OpenRun, event: Event) -> None:
        if isinstance(event, RunFinished):
            self._end(run, event)
            return
        if isinstance(event, NodeDeclared):
            run.nodes[event.node_id] = _OpenNode(event)
            return
        node = run.nodes.get(event.node_id)  # type: ignore[union-attr]  # the others are of nodes
        if node is None:
            return
        match event:
            case RequestSent():
                request = self._requests[event.request_id] = _Answering()
                node.requests.append(request)
            case AttemptFailed():
                node.failed_at_s.append(event.at_s)
            case ToolStarted():
                node.started_at_s = event.at_s
                if node.began_at_s is None:
                    node.began_at_s = event.at_s
            case ToolEnded():
                seconds = event.at_s - node.started_at_s
                error = RecordedError.of(event.error)
                node.attempts.append(RecordedToolAttempt(seconds=round(seconds, 6), error=error))
            case NodeFinished():
                run.lines += [(line, node.began_at_s) for line in self._lines(node, event)]
                del run.nodes[event.node_id]

    def _lines(self, node: _OpenNode, end: NodeFinished) -> list[_Line]:
        """The line of a node that has ended; none for nodes that are not recorded."""
        if node.declared.kind == "tool":
            return [_tool_line(node, end)]
        if node.declared.kind == "ask":
            node.began_at_s = node.declared.at_s
            return [_question_line(node, end)]
        if node.declared.kind != "generate" or (not node.requests and end.outcome != "ok"):
            return []
        engine = self._header.engines.get(node.declared.model or "default")
        return [_generation_line(node, end, JSON_ARRAY_FRAME if engine is None else engine.frame)]

    def _end(self, run: _OpenRun, event: RunFinished) -> None:
        del self._runs[event.run_id]
        compound_s = round(event.at_s - run.started.at_s, 6)
        last = RecordedRun(
            run=event.run_id,
            program=run.started.program,
            outcome=event.outcome,
            compound_s=compound_s,
        )
        instants = CausedInstants(run.record)
        for line, began_at_s in run.lines:
            if began_at_s is not None:
                wait_s = began_at_s - instants.of(run.record.nodes[NodeId(line.node)])
                timed = line.attempts[0] if isinstance(line, RecordedGeneration) else line
                timed.wait_s = round(max(0.0, wait_s), 6)
        self._file.write(self._header, [*(line for line, _ in run.lines), last])


def _tool_line(node: _OpenNode, end: NodeFinished) -> RecordedToolCall:
    text = str(end.attributes.get("gen_ai.tool.call.arguments", "{}"))
    try:
        arguments = json.loads(text)
    except ValueError:  # bound objects, or no JSON of the model
        arguments = text
    result = end.attributes.get("gen_ai.tool.call.result")
    return RecordedToolCall(
        run=end.run_id,
        node=end.node_id,
        name=node.declared.name,
        effects=node.declared.effects,
        arguments=arguments,
        result=None if result is None else str(result),
        attempts=node.attempts,
    )


def _question_line(node: _OpenNode, end: NodeFinished) -> RecordedQuestion:
    answer = end.attributes.get("output.value")
    is_late = end.error is not None and end.error.type == DeadlineExceeded.__name__
    return RecordedQuestion(
        run=end.run_id,
        node=end.node_id,
        question=str(end.attributes.get("input.value", "")),
        answer=None if answer is None else str(answer),
        seconds=round(end.at_s - node.declared.at_s, 6),
        error=None if is_late else RecordedError.of(end.error),
    )


def _generation_line(node: _OpenNode, end: NodeFinished, frame: CallFrame) -> RecordedGeneration:
    found = {name: json.loads(str(text)) for name, text in end.attributes.items() if _is_json(name)}
    system = found.get("gen_ai.system_instructions", [])
    messages = found.get("gen_ai.input.messages", [])
    if system:
        messages = [{"role": "system", "parts": system}, *messages]
    requests = [one for one in node.requests if one.end is not None]
    got_at_s = [*node.failed_at_s, end.at_s]
    attempts: list[RecordedAttempt] = []
    for one in requests:
        last_s = got_at_s[len(attempts) - 1] if attempts else None
        at_s = got_at_s[min(len(attempts), len(got_at_s) - 1)]
        attempts.append(_attempt(node, one.deltas, one.end, end, at_s, last_s))
    if len(attempts) == len(node.requests) - 1 or not node.requests:
        last = node.requests[-1] if node.requests else _Answering()
        deltas = last.deltas
        if not deltas and end.outcome == "ok":  # of the cache, or of an equal request in flight
            deltas = _whole(found.get("gen_ai.output.messages", []), end, frame)
        last_s = got_at_s[len(attempts) - 1] if attempts else None
        attempts.append(_attempt(node, deltas, None, end, end.at_s, last_s))
    failed = len(attempts) - 1  # each added its answer and a complaint to the prompt
    tools = found.get("gen_ai.tool.definitions", [])
    return RecordedGeneration(
        run=end.run_id,
        node=end.node_id,
        site=node.declared.site,
        model=node.declared.model or "default",
        messages=messages[: len(messages) - 2 * failed],
        tools={one["name"]: tool_hash(one) for one in tools},
        attempts=attempts,
    )


def _is_json(name: str) -> bool:
    return name.startswith("gen_ai.") and name.rpartition(".")[2] in (
        "system_instructions",
        "messages",
        "definitions",
    )


def tool_hash(definition: Mapping[str, Any]) -> str:
    """A short hash of a tool's description and schema."""
    return sha256(dumps(dict(definition)).encode()).hexdigest()[:12]


def _whole(
    messages: list[dict[str, Any]], end: NodeFinished, frame: CallFrame
) -> list[tuple[float, Delta]]:
    """An answer that came without an engine's request of its own."""
    parts = [part for message in messages for part in message["parts"]]
    calls = [(one["name"], dumps(one["arguments"])) for one in parts if one["type"] == "tool_call"]
    text = "".join(one["content"] for one in parts if one["type"] != "tool_call")
    if calls:
        text += frame.calls_text(calls)
    tokens = end.ledger.output_tokens if end.ledger is not None else 0
    return [(end.at_s, Delta(RequestId(0), (0,) * tokens, text))]


def _attempt(
    node: _OpenNode,
    deltas: list[tuple[float, Delta]],
    end: End | None,
    finished: NodeFinished,
    got_at_s: float,
    after_s: float | None,
) -> RecordedAttempt:
    """An answer, with its times since the prompt was complete.

    Args:
        node: The node; it is told when its first attempt began.
        deltas: Output with its instants.
        end: End of its request; None if the node ended before, or without one.
        finished: End of its node.
        got_at_s: Instant at which the program, or the check of the answer, had it.
        after_s: End of the attempt before; None for the first one.
    """
    ledger = (end.ledger if end is not None else finished.ledger) or Ledger()
    began_s = max(ledger.received_at_s, ledger.completed_at_s)
    began_s = began_s or (deltas[0][0] if deltas else finished.at_s)
    if end is not None and end.unmet is not None:
        text, tokens = end.unmet.text, ledger.output_tokens
        deltas = [(ledger.finished_at_s, Delta(end.request_id, (0,) * tokens, text))]
    if after_s is None:
        node.began_at_s = began_s
    ended_s = max(ledger.finished_at_s or finished.at_s, began_s)
    first_s = ledger.first_token_at_s or (deltas[0][0] if deltas else ended_s)
    first_s = min(max(first_s, began_s), ended_s)
    is_whole = finished.outcome == "ok" and bool(deltas)
    attempt = RecordedAttempt(
        chunks=[_chunk(at_s - began_s, delta.text, delta) for at_s, delta in deltas],
        reasoning=[_chunk(at_s - began_s, d.reasoning, d) for at_s, d in deltas if d.reasoning],
        reason="stop" if is_whole else "cancelled",
        wait_s=0.0 if after_s is None else round(max(0.0, began_s - after_s), 6),
        delivered_s=round(max(got_at_s, ended_s) - began_s, 6),
        first_token_s=round(first_s - began_s, 6),
        total_s=round(ended_s - began_s, 6),
        spent={name: round(value, 6) for name in SPENT if (value := getattr(ledger, name))},
        usage={name: value for name in COUNTS if (value := getattr(ledger, name))},
        logprobs=[
            (one.token_id, one.logprob, list(one.top))
            for _, delta in deltas
            for one in delta.logprobs
        ],
    )
    return attempt if end is None else attempt.model_copy(update=_end_fields(end))


def _end_fields(end: End) -> dict[str, Any]:
    return {
        "reason": end.reason,
        "closed_early": end.closed_early,
        "stopped_by": end.stopped_by,
        "unmet": end.unmet.reason if end.unmet is not None else "",
        "scores": [(one.logprob, one.tokens) for one in end.scores],
        "error": RecordedError.of(end.error),
    }


def _chunk(at_s: float, text: str, delta: Delta) -> tuple[float, str, int]:
    return (round(max(0.0, at_s), 6), text, len(delta.token_ids))
