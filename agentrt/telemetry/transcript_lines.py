"""The lines of a run's transcript, from its events and the content of its nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrt.analysis.transcript import SCHEMA
from agentrt.base.content_config import ContentConfig
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId
from agentrt.base.message_parts import genai_messages
from agentrt.base.segments import Generated, Open
from agentrt.protocol.events import (
    Event,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    Scheduled,
    ToolEnded,
)
from agentrt.protocol.node_content import NodeContent
from agentrt.telemetry.kept_text import KeptTexts, json_bytes

_SHARED = ("joined", "cached")
_ASSISTANT = Open("assistant")
Line = dict[str, Any]


class RunLines:
    """Makes the lines of one run, and stops when they are too many.

    Args:
        started: Start of the run.
        config: Limits of size.

    Attributes:
        is_over: Whether the run has ended.
        started: Start of the run.
    """

    def __init__(self, started: RunStarted, config: ContentConfig) -> None:
        self.started = started
        self.is_over = False
        self._config = config
        self._rest_bytes = config.max_run_bytes
        self._nodes = self._left_out = 0
        self._declared: dict[NodeId, tuple[int, NodeDeclared]] = {}
        self._content: dict[NodeId, NodeContent] = {}
        self._errors: dict[NodeId, list[str]] = {}
        self._shared: dict[NodeId, str] = {}
        self._models: dict[NodeId, str] = {}
        self._prompts: dict[int, int] = {}
        self._buffer: list[bytes] = []
        self._add(
            {
                "record": "run",
                "schema": SCHEMA,
                "run_id": started.run_id,
                "program": started.program,
                "source": started.source,
                "unix_ns": started.unix_ns,
            }
        )

    def take_bytes(self) -> bytes:
        """The lines since the last call."""
        data = b"".join(self._buffer)
        self._buffer.clear()
        return data

    def add_content(self, content: NodeContent) -> None:
        """Take the content of a node, before the event of its end."""
        self._content[content.node_id] = content

    def add_event(self, event: Event) -> None:
        """Take an event of the run."""
        take = _TAKEN.get(type(event))
        if take is not None:
            take(self, event)

    def _declare(self, declared: NodeDeclared) -> None:
        self._declared[declared.node_id] = self._nodes, declared
        self._nodes += 1

    def _send(self, sent: RequestSent) -> None:
        self._models[sent.node_id] = sent.model

    def _end_tool(self, ended: ToolEnded) -> None:
        if ended.error is not None:
            error = f"{ended.error.type}: {ended.error.message}"
            self._errors.setdefault(ended.node_id, []).append(error)

    def _schedule(self, scheduled: Scheduled) -> None:
        if scheduled.decision in _SHARED:
            self._shared[scheduled.node_id] = scheduled.decision

    def _finish(self, finished: NodeFinished) -> None:
        node_id = finished.node_id
        content = self._content.pop(node_id, None)
        errors = self._errors.pop(node_id, [])
        shared, model = self._shared.pop(node_id, ""), self._models.pop(node_id, "")
        found = self._declared.pop(node_id, None)
        if found is None:
            return
        if self._rest_bytes <= 0:
            self._left_out += 1
            return
        number, declared = found
        line = self._node(number, declared, finished)
        kept = KeptTexts(self._config.max_text_characters)
        if finished.error is not None:
            line["error"] = _error(finished.error, kept)
        if shared:
            line["shared"] = shared
        if model:
            line["model"] = model
        attempts: list[Line] = []
        if errors and (finished.outcome == "ok" or len(errors) > 1):  # else that of the node
            attempts = [{"error": kept.text(error)} for error in errors]
        if content is not None:
            attempts += self._add_content(line, content, kept)
        if attempts:
            line["attempts"] = attempts
        if kept.cut_characters:
            line["cut_characters"] = kept.cut_characters
        self._add(line)

    def _node(self, number: int, declared: NodeDeclared, finished: NodeFinished) -> Line:
        """A node without its content."""
        began_s = self.started.at_s
        line: Line = {
            "record": "node",
            "node": declared.node_id,
            "number": number,
            "kind": declared.kind,
            "name": declared.name,
            "parent": declared.parent or "",
            "site": declared.site,
            "outcome": finished.outcome,
            "declared_ms": round((declared.at_s - began_s) * 1e3, 3),
            "ended_ms": round((finished.at_s - began_s) * 1e3, 3),
        }
        if finished.reason:
            line["reason"] = finished.reason
        if finished.finish_reason:
            line["finish_reason"] = finished.finish_reason
        if finished.ledger is not None:
            line["prompt_tokens"] = finished.ledger.prompt_tokens
            line["output_tokens"] = finished.ledger.output_tokens
        return line

    def _add_content(self, line: Line, content: NodeContent, kept: KeptTexts) -> list[Line]:
        """Add the content of a node to its line; returns the answers that failed their check."""
        for link in content.links:
            number = self._prompts[link.serial] = len(self._prompts)
            prompt: Line = {"record": "prompt", "prompt": number}
            after = None if link.after is None else self._prompts.get(link.after)
            if after is not None:
                prompt["after"] = after
            if link.answer_of:
                prompt["answer_of"] = link.answer_of
            else:
                prompt["messages"] = kept.messages(genai_messages(link.segments))
            self._add(prompt)
        if content.prompt is not None and content.prompt in self._prompts:
            line["prompt"] = self._prompts[content.prompt]
        if content.is_shortened:
            line["is_shortened"] = True
        if content.tools:
            line["tools"] = content.tools
        if content.answer is not None:
            line["answer"] = _answer(content.answer, kept)
        if content.call_id:
            line["call_id"] = content.call_id
        if content.arguments_json:
            line["arguments"] = kept.json_text(content.arguments_json)
        elif content.arguments is not None:
            line["arguments"] = kept.value(content.arguments)
        if content.has_result:
            line["result"] = kept.value(content.result)
        if not content.attempts:
            return []
        return [
            {"error": kept.text(one.reason), "text": kept.text(one.text)}
            for one in content.attempts
        ]

    def _end(self, finished: RunFinished) -> None:
        line: Line = {
            "record": "end",
            "outcome": finished.outcome,
            "ended_ms": round((finished.at_s - self.started.at_s) * 1e3, 3),
            "nodes": self._nodes,
        }
        if finished.error is not None:
            kept = KeptTexts(self._config.max_text_characters)
            line["error"] = _error(finished.error, kept)
        if self._left_out:
            line["left_out"] = self._left_out
        self._add(line)
        self.is_over = True

    def _add(self, line: Line) -> None:
        data = json_bytes(line)
        self._rest_bytes -= len(data) + 1
        self._buffer += (data, b"\n")


_TAKEN: dict[type, Callable[[RunLines, Any], None]] = {
    NodeDeclared: RunLines._declare,
    RequestSent: RunLines._send,
    Scheduled: RunLines._schedule,
    ToolEnded: RunLines._end_tool,
    NodeFinished: RunLines._finish,
    RunFinished: RunLines._end,
}


def _answer(answer: Generated, kept: KeptTexts) -> Line:
    (message,) = kept.messages(genai_messages((_ASSISTANT, answer)))
    return message


def _error(error: ErrorRecord, kept: KeptTexts) -> Line:
    return {"type": error.type, "message": kept.text(error.message)}
