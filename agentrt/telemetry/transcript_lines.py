"""The lines of a run's transcript, from its events and the content of its nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentrt.analysis.transcript import SCHEMA
from agentrt.base.content_config import ContentConfig
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId
from agentrt.base.message_parts import answer_parts, genai_messages
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
Line = dict[str, Any]


@dataclass(slots=True, eq=False)
class OpenNode:
    """A node that has not ended.

    Attributes:
        number: Place in the order of declaration, from 0.
        declared: Declaration of the node.
        model: Model that has its request, or "".
        shared: Decision by which it shares an answer, or "".
        errors: Errors of its attempts.
        content: Content of the node, which comes shortly before the end.
    """

    number: int
    declared: NodeDeclared
    model: str = ""
    shared: str = ""
    errors: list[str] = field(default_factory=list)
    content: NodeContent | None = None


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
        self._open: dict[NodeId, OpenNode] = {}
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

    def add(self, found: Event | NodeContent) -> None:
        """Take an event of the run, or the content of a node, before the event of its end."""
        take = _TAKEN.get(type(found))
        if take is not None:
            take(self, found)

    def _declare(self, declared: NodeDeclared) -> None:
        self._open[declared.node_id] = OpenNode(self._nodes, declared)
        self._nodes += 1

    def _send(self, sent: RequestSent) -> None:
        node = self._open.get(sent.node_id)
        if node is not None:
            node.model = sent.model

    def _end_tool(self, ended: ToolEnded) -> None:
        node = self._open.get(ended.node_id)
        if node is not None and ended.error is not None:
            node.errors.append(f"{ended.error.type}: {ended.error.message}")

    def _schedule(self, scheduled: Scheduled) -> None:
        node = self._open.get(scheduled.node_id)
        if node is not None and scheduled.decision in _SHARED:
            node.shared = scheduled.decision

    def _keep(self, content: NodeContent) -> None:
        node = self._open.get(content.node_id)
        if node is not None:
            node.content = content

    def _finish(self, finished: NodeFinished) -> None:
        node = self._open.pop(finished.node_id, None)
        if node is None:
            return
        if self._rest_bytes <= 0:
            self._left_out += 1
            return
        line = self._node(node, finished)
        kept = KeptTexts(self._config.max_text_characters)
        if finished.error is not None:
            line["error"] = _error(finished.error, kept)
        if node.shared:
            line["shared"] = node.shared
        if node.model:
            line["model"] = node.model
        attempts: list[Line] = []
        errors, content = node.errors, node.content
        if errors and (finished.outcome == "ok" or len(errors) > 1):  # else that of the node
            attempts = [{"error": kept.text(error)} for error in errors]
        if content is not None:
            if node.declared.kind == "generate":
                self._add_answer(line, content, kept)
            else:
                _add_result(line, content, kept)
            for one in content.attempts:
                attempts.append({"error": kept.text(one.reason), "text": kept.text(one.text)})
        if attempts:
            line["attempts"] = attempts
        if kept.cut_characters:
            line["cut_characters"] = kept.cut_characters
        self._add(line)

    def _node(self, node: OpenNode, finished: NodeFinished) -> Line:
        """A node without its content."""
        began_s, declared, ledger = self.started.at_s, node.declared, finished.ledger
        line: Line = {
            "record": "node",
            "node": declared.node_id,
            "number": node.number,
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
        if ledger is not None:
            line["prompt_tokens"] = ledger.prompt_tokens
            line["output_tokens"] = ledger.output_tokens
        return line

    def _add_answer(self, line: Line, content: NodeContent, kept: KeptTexts) -> None:
        """Add the new links of a generation's prompt, and the prompt and the answer to its line."""
        prompts = self._prompts
        for link in content.links:
            number = prompts[link.serial] = len(prompts)
            prompt: Line = {"record": "prompt", "prompt": number}
            after = None if link.after is None else prompts.get(link.after)
            if after is not None:
                prompt["after"] = after
            if link.answer_of:
                prompt["answer_of"] = link.answer_of
            else:
                prompt["messages"] = kept.messages(genai_messages(link.segments))
            self._add(prompt)
        number_of_last = None if content.prompt is None else prompts.get(content.prompt)
        if number_of_last is not None:
            line["prompt"] = number_of_last
        if content.is_shortened:
            line["is_shortened"] = True
        if content.tools:
            line["tools"] = content.tools
        if content.answer is not None:
            parts = kept.parts(answer_parts(content.answer))
            line["answer"] = {"role": "assistant", "parts": parts}

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
        data = json_bytes(line) + b"\n"
        self._rest_bytes -= len(data)
        self._buffer.append(data)


_TAKEN: dict[type, Callable[[RunLines, Any], None]] = {
    NodeDeclared: RunLines._declare,
    RequestSent: RunLines._send,
    Scheduled: RunLines._schedule,
    ToolEnded: RunLines._end_tool,
    NodeContent: RunLines._keep,
    NodeFinished: RunLines._finish,
    RunFinished: RunLines._end,
}


def _add_result(line: Line, content: NodeContent, kept: KeptTexts) -> None:
    """Add the arguments and the result of a tool, a program or a question to its line."""
    if content.call_id:
        line["call_id"] = content.call_id
    if content.arguments_json:
        line["arguments"] = kept.json_text(content.arguments_json)
    elif content.arguments is not None:
        line["arguments"] = kept.value(content.arguments)
    if content.has_result:
        line["result"] = kept.value(content.result)


def _error(error: ErrorRecord, kept: KeptTexts) -> Line:
    return {"type": error.type, "message": kept.text(error.message)}
