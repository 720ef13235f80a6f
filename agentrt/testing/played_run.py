"""A run of a test, as tests look at it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from agentrt.analysis import RunRecord, RunRecorder, Split, Usage, usage
from agentrt.analysis.critical_path import PathStep, critical_path
from agentrt.analysis.latency_split import split
from agentrt.analysis.run_record import NodeRecord
from agentrt.base.ids import NodeId
from agentrt.base.money import decimal_of
from agentrt.base.record import record
from agentrt.protocol.step_output import Ledger


class ContentRecorder(RunRecorder):
    """Records runs with their prompts, answers, arguments and results."""

    wants_content = True


@record
class PlayedGeneration:
    """A generation of a run.

    Attributes:
        node_id: Path in the run, such as `finance#0/plan#0`.
        name: Name of the node.
        messages: Prompt as messages of OpenTelemetry's GenAI conventions.
        prompt: The same as text, `<role> text` a message.
        text: The answer; tool calls are in `calls`.
        calls: Tool calls in it, (name, arguments).
        thinking: Reasoning before the answer.
        outcome: `ok`, `failed` or `cancelled`.
        finish_reason: `stop`, `length`, `cancelled` or `failed`.
        ledger: Tokens and times.
        model: Role of its engine.
    """

    node_id: NodeId
    name: str
    messages: tuple[dict[str, Any], ...]
    prompt: str
    text: str
    calls: tuple[tuple[str, Any], ...]
    thinking: str
    outcome: str
    finish_reason: str
    ledger: Ledger
    model: str


@record
class PlayedToolCall:
    """A tool call of a run.

    Attributes:
        node_id: Path in the run.
        name: Name of the tool.
        arguments: Arguments by name, bound ones left out.
        result: Result as plain data; None without one.
        error: Why it failed, or "".
        attempts: Number of attempts.
        outcome: `ok`, `failed` or `cancelled`; that of the recorded call in a replay.
    """

    node_id: NodeId
    name: str
    arguments: dict[str, Any]
    result: Any = None
    error: str = ""
    attempts: int = 1
    outcome: str = "ok"


@dataclass(slots=False, eq=False)
class PlayedRun:
    """A run that has ended, as `ScriptedRuntime.run` gives it.

    Runs that a test starts itself, by `open` or `play`, have neither value, error nor emitted text.

    Attributes:
        record: Record of all events.
        value: Result of the program; None if it failed.
        error: Exception of the program, or None.
        emitted: Text that the program emitted.
    """

    record: RunRecord = field(repr=False)
    value: Any = None
    error: BaseException | None = None
    emitted: str = field(default="", repr=False)

    @property
    def compound_s(self) -> float:
        """Seconds from submit to result, in virtual time."""
        return self.record.compound_s

    @cached_property
    def path(self) -> tuple[PathStep, ...]:
        """Steps of the critical path, those of the programs' own code included."""
        return critical_path(self.record)

    @property
    def critical_path(self) -> list[str]:
        """Names of the nodes on the critical path in order; programs are left out."""
        return [name for name, _ in path_nodes(self)]

    @cached_property
    def split(self) -> Split:
        """Seconds of the critical path by cause."""
        return split(self.record, self.path)

    @cached_property
    def usage(self) -> Usage:
        """Tokens and cost of all generations."""
        return usage(self.record)

    @property
    def tokens(self) -> int:
        """Tokens of all prompts and answers."""
        return self.usage.input_tokens + self.usage.output_tokens

    @property
    def cost(self) -> Decimal | None:
        """Cost of all generations; None if the engines have no prices."""
        return decimal_of(self.usage.cost_pico) if self.usage.currency else None

    @cached_property
    def generations(self) -> list[PlayedGeneration]:
        """All generations, in the order in which the program made them."""
        found = (node for node in self.record.leaves() if node.kind == "generate")
        return [_generation(node) for node in found]

    @cached_property
    def tool_calls(self) -> list[PlayedToolCall]:
        """All tool calls, in the order in which they were made."""
        return [_tool_call(node) for node in self.record.leaves() if node.kind == "tool"]

    def generation(self, name: str) -> PlayedGeneration:
        """The only generation of a name or node path.

        Raises:
            LookupError: There is none, or more than one.
        """
        found = [one for one in self.generations if name in (one.name, one.node_id)]
        if len(found) != 1:
            paths = ", ".join(one.node_id for one in found or self.generations) or "none"
            raise LookupError(f"{len(found)} generations are called {name!r}: {paths}")
        return found[0]


def path_nodes(run: PlayedRun) -> list[tuple[str, list[PathStep]]]:
    """Names of the nodes on the critical path, each with its steps."""
    found: list[tuple[str, list[PathStep]]] = []
    last = ""
    for step in run.path:
        node = run.record.nodes.get(step.node_id)
        if node is None or node.kind == "program":
            continue
        if step.node_id == last:
            found[-1][1].append(step)
        else:
            found.append((node.name, [step]))
            last = step.node_id
    return found


def messages_text(messages: Sequence[dict[str, Any]]) -> str:
    """Messages as text: `<role> text` a message."""
    lines = []
    for message in messages:
        parts = "".join(part_text(part) for part in message["parts"])
        lines.append(f"<{message['role']}> {parts}\n")
    return "".join(lines)


def part_text(part: dict[str, Any]) -> str:
    """A part of a message as text."""
    match part["type"]:
        case "tool_call":
            arguments = json.dumps(part["arguments"], ensure_ascii=False)
            return f"[call {part['name']} {arguments}]"
        case "tool_call_response":
            return str(part["response"])
        case "reasoning":
            return f"[thinking {part['content']}]"
        case _:
            return str(part["content"])


def _attributes(node: NodeRecord) -> dict[str, Any]:
    declared = dict(node.declared.attributes)
    return declared | (dict(node.finished.attributes) if node.finished else {})


def messages_in(attributes: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """All messages of a prompt, system messages first."""
    system = json.loads(attributes.get("gen_ai.system_instructions", "[]"))
    messages = json.loads(attributes.get("gen_ai.input.messages", "[]"))
    return (*([{"role": "system", "parts": system}] if system else ()), *messages)


def _generation(node: NodeRecord) -> PlayedGeneration:
    attributes, finished = _attributes(node), node.finished
    messages = messages_in(attributes)
    output = json.loads(attributes.get("gen_ai.output.messages", "[]"))
    parts = [part for message in output for part in message["parts"]]
    return PlayedGeneration(
        node_id=node.node_id,
        name=node.name,
        messages=messages,
        prompt=messages_text(messages),
        text="".join(one["content"] for one in parts if one["type"] == "text"),
        calls=tuple((one["name"], one["arguments"]) for one in parts if one["type"] == "tool_call"),
        thinking="".join(one["content"] for one in parts if one["type"] == "reasoning"),
        outcome=node.outcome or "cancelled",
        finish_reason=finished.finish_reason if finished else "",
        ledger=node.ledger or Ledger(),
        model=node.declared.model,
    )


def _tool_call(node: NodeRecord) -> PlayedToolCall:
    attributes, finished = _attributes(node), node.finished
    error = finished.error if finished is not None else None
    return PlayedToolCall(
        node_id=node.node_id,
        name=node.name,
        arguments=_plain(attributes.get("gen_ai.tool.call.arguments", "{}")),
        result=_plain(attributes.get("gen_ai.tool.call.result", "null")),
        error=error.message if error is not None else "",
        attempts=len(node.attempts),
        outcome=node.outcome or "cancelled",
    )


def _plain(text: str) -> Any:
    """JSON as plain data; text that is none stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
