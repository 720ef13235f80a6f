"""A transcript as a person reads it: node by node, what is new in its prompt and what it gave."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from agentrt.analysis.transcript import (
    NodeTurn,
    Transcript,
    TranscriptMessage,
    TranscriptNode,
    TranscriptPart,
)
from agentrt.base.record import record
from agentrt.cli.fitted_json import fitted_json

if TYPE_CHECKING:
    from rich.text import Text

MAX_LINES = 30
"""Lines shown of a longer text."""
MAX_WIDTH = 100
_LABEL = 13
_INDENT = 2
_REPEATED_CHARACTERS = 60
_BROKEN = {"failed": "red", "cancelled": "yellow"}
# C0 and C1 controls, and marks that change the direction of text: they may not reach a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@record
class Block:
    """A paragraph of a transcript.

    Attributes:
        label: Kind of the text; "" for a heading.
        text: The text.
        style: Style of the text.
    """

    label: str
    text: str
    style: str = ""


def write_transcript(transcript: Transcript, stream: TextIO, max_lines: int | None) -> None:
    """Write a transcript, in colour if the stream is a terminal.

    Args:
        transcript: The transcript.
        stream: Where it goes.
        max_lines: Most lines of one text; None shows all.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    width = min(console.width, MAX_WIDTH)
    for block in blocks_of(transcript):
        indent = _INDENT + _LABEL if block.label else 0
        text = visible(block.text)
        if block.label:
            text = fitted_json(text, width - indent)
        lines: list[Text] = list(Text(text, style=block.style).wrap(console, width - indent))
        left_out = 0 if max_lines is None else len(lines) - max_lines
        if left_out > 1:
            mark = f"... {left_out} more lines; agentrt trace show RUN --text --full"
            lines = [*lines[:max_lines], Text(mark, style="yellow")]
        label = " " * _INDENT + block.label.ljust(_LABEL) if block.label else ""
        for line in lines:
            row = Text().append(label, style="cyan").append_text(line)
            row.rstrip()
            console.print(row, soft_wrap=True)
            label = " " * indent


def blocks_of(transcript: Transcript) -> Iterator[Block]:
    """The paragraphs of a transcript."""
    run, end = transcript.run, transcript.end
    root = next((node for node in transcript.nodes if not node.parent), None)
    first = transcript.nodes[0].node if transcript.nodes else ""
    prefix = first.partition("/")[0] + "/"
    how = "no end: it is under way, or was killed"
    if end is not None:
        how = f"{end.outcome} after {_duration(end.ended_ms)}"
    yield Block("", f"{run.program}, run {run.run_id}: {how}", "bold")
    values = _Values(prefix)
    for turn in transcript.turns():
        yield from _turn(turn, values, is_root=turn.node is root)
    if root is not None and root.result is not None:
        yield Block("", "")
        yield Block("result", values.result(root.result), "green")
    error = end.error if end is not None else None
    if error is not None:
        yield Block("", "")
        yield Block("error", f"{error.type}: {error.message}", "red")
    if end is not None and end.left_out:
        yield Block("", "")
        mark = f"[cut here: the transcript was full, {end.left_out} more nodes are not in it]"
        yield Block("", mark, "yellow")


def visible(text: str) -> str:
    """The text without control characters, which could write anywhere on a terminal."""
    text = text.replace("\r\n", "\n").expandtabs(4)
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class _Values:
    """The values of nodes that have been shown, so that prompts repeat only their beginning."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._shown: set[str] = set()
        self._answers: dict[str, str] = {}
        self._tools: tuple[str, ...] = ()

    def name(self, node: str) -> str:
        """Path of a node below the run's program."""
        return node.removeprefix(self._prefix)

    def add(self, node: TranscriptNode) -> None:
        if node.result is not None or node.answer is not None:
            self._shown.add(node.node)
        if node.answer is not None:
            text = "".join(part.content for part in node.answer.parts if part.type == "text")
            self._answers[text] = node.node

    def new_tools(self, node: TranscriptNode) -> str:
        """Names of the tools of a prompt, if they are others than those of the prompt before."""
        before, self._tools = self._tools, node.tools or self._tools
        return ", ".join(node.tools) if node.tools != before else ""

    def result(self, text: str) -> str:
        """The result of the run; if it is the answer of a node, the name of the node."""
        node = self._answers.get(text) if "\n" in text or len(text) > _REPEATED_CHARACTERS else None
        return text if node is None else f"[the answer of {self.name(node)}]"

    def text(self, part: TranscriptPart, text: str) -> str:
        """The text of a part; of a long value that was shown, its beginning."""
        line = text.partition("\n")[0][:_REPEATED_CHARACTERS]
        if part.node not in self._shown or line == text:
            return text
        return f"{line}... [all of it: {self.name(part.node)}]"


def _turn(turn: NodeTurn, values: _Values, *, is_root: bool) -> Iterator[Block]:
    node = turn.node
    if not is_root:
        yield Block("", "")
        yield Block("", _heading(turn, values), _BROKEN.get(node.outcome, "bold"))
    yield from _beginning(turn, values)
    if tools := values.new_tools(node):
        yield Block("tools", tools, "dim")
    for message in turn.messages:
        yield from _message(message, values, message.role)
    arguments = "question" if node.kind == "ask" else "arguments"
    if node.arguments is not None and node.arguments != "{}":
        yield Block(arguments, node.arguments)
    for number, attempt in enumerate(node.attempts, 1):
        if attempt.text:
            yield Block(f"attempt {number}", attempt.text)
            yield Block("rejected", attempt.error, "yellow")
        else:
            yield Block(f"attempt {number}", attempt.error, "yellow")
    if node.answer is not None and not node.is_rejected:
        yield from _message(node.answer, values, "answer")
    if node.result is not None and not is_root:
        yield Block("answer" if node.kind == "ask" else "result", node.result, "green")
    if node.error is not None and not is_root:
        yield Block("error", f"{node.error.type}: {node.error.message}", "red")
    if node.cut_characters:
        yield Block("cut", f"{node.cut_characters} characters are not in the transcript", "yellow")
    values.add(node)


def _beginning(turn: NodeTurn, values: _Values) -> Iterator[Block]:
    """The part of a prompt that has been shown, by the name of a node."""
    if not turn.begins_as:
        return
    if not turn.messages and turn.begins_as != turn.continues:
        yield Block("prompt", f"as in {values.name(turn.begins_as)}", "dim")
    elif turn.continues:
        yield Block("after", values.name(turn.continues), "dim")
    else:
        yield Block("begins", f"as in {values.name(turn.begins_as)}", "dim")


def _heading(turn: NodeTurn, values: _Values) -> str:
    node = turn.node
    facts = [node.kind if not node.model else f"{node.kind} by {node.model}"]
    if node.prompt_tokens or node.output_tokens:
        facts.append(f"{node.prompt_tokens} tokens in, {node.output_tokens} out")
    facts.append(_duration(node.ended_ms - node.declared_ms))
    if node.shared:
        facts.append({"joined": "from an equal request", "cached": "from the cache"}[node.shared])
    if node.is_shortened:
        facts.append("its prompt was shortened")
    if node.finish_reason == "length":
        facts.append("stopped at its limit of tokens")
    if node.outcome != "ok":
        facts.append(node.outcome + (f" ({node.reason})" if node.reason else ""))
    return f"{values.name(node.node)}  {', '.join(facts)}"


def _message(message: TranscriptMessage, values: _Values, label: str) -> Iterator[Block]:
    """The paragraphs of a message, texts in a row joined to one."""
    style = "green" if label == "answer" else ""
    text = ""
    for part in message.parts:
        if part.type == "text":
            text += values.text(part, part.content)
            continue
        if text:
            yield Block(label, text, style)
            text = ""
        if part.type == "reasoning":
            yield Block("reasoning", part.content, "dim")
        elif part.type == "tool_call":
            yield Block("calls", f"{part.name} {_arguments(part.arguments)}", style)
        else:
            yield Block(label, values.text(part, part.response))
    if text:
        yield Block(label, text, style)


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _duration(ms: float) -> str:
    return f"{ms / 1e3:.2f} s" if ms >= 1000 else f"{ms:.1f} ms"
