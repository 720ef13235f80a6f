"""Section of the report on what was said: prompts, answers, calls of tools and their results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from agentrt.analysis.html_page import section
from agentrt.analysis.report.words import counted, duration, shortened
from agentrt.analysis.transcript import (
    NodeTurn,
    Transcript,
    TranscriptMessage,
    TranscriptNode,
    TranscriptPart,
)

MAX_TURNS = 200
MAX_CHARACTERS = 400_000
"""Most characters of all texts together."""
MAX_TEXT_CHARACTERS = 6_000
_PREVIEW_CHARACTERS = 110
_REPEATED_CHARACTERS = 80


def transcript_section(transcript: Transcript) -> str:
    """The turns of a transcript, each folded behind the first words of what it gave.

    The page stays of bounded size: the first turns are shown whole, and the number of others told.
    """
    view = _View(transcript)
    turns: list[str] = []
    left_out = transcript.end.left_out if transcript.end else 0
    for turn in transcript.turns():
        if len(turns) < MAX_TURNS and view.left > 0:
            turns.append(view.turn(turn))
        else:
            left_out += 1
    note = "What was said to models and tools, and by them. Secrets are redacted."
    parts = [f'<p class="note">{note}</p>', f'<div class="turns">{"".join(turns)}</div>']
    if left_out:
        more = f"{counted(left_out, 'more node')} left out; agentrt trace show has those kept."
        parts.append(f'<p class="note">{more}</p>')
    return section("transcript", "Transcript", *parts)


def unread_section(why: str) -> str:
    """The section in place of a transcript that cannot be read."""
    words = f"The transcript of this run cannot be read: {why}"
    return section("transcript", "Transcript", f'<p class="note">{escape(words)}</p>')


class _View:
    """Nodes that have been shown, and the characters that are left.

    Args:
        transcript: The transcript.
    """

    def __init__(self, transcript: Transcript) -> None:
        root = next((node.node for node in transcript.nodes if not node.parent), "")
        self._root = root
        self._shown: set[str] = set()
        self._tools: tuple[str, ...] = ()
        self.left = MAX_CHARACTERS

    def turn(self, turn: NodeTurn) -> str:
        """One node."""
        node = turn.node
        blocks: list[str] = []
        blocks += self._beginning(turn)
        if node.tools and node.tools != self._tools:
            self._tools = node.tools
            blocks.append(self._block("tools", ", ".join(node.tools)))
        for message in turn.messages:
            blocks += self._message(message, message.role)
        if node.arguments is not None and node.arguments != "{}":
            label = "question" if node.kind == "ask" else "arguments"
            blocks.append(self._block(label, _pretty(node.arguments)))
        for number, attempt in enumerate(node.attempts, 1):
            said = f"{attempt.text}\n{attempt.error}" if attempt.text else attempt.error
            blocks.append(self._block(f"attempt {number}", said, "bad"))
        if node.answer is not None and not node.is_rejected:
            blocks += self._message(node.answer, "answer")
        if node.result is not None:
            label = "answer" if node.kind == "ask" else "result"
            blocks.append(self._block(label, _pretty(node.result), "given"))
        if node.error is not None:
            blocks.append(self._block("error", f"{node.error.type}: {node.error.message}", "bad"))
        if node.answer is not None or node.result is not None:
            self._shown.add(node.node)
        ended = "" if node.outcome == "ok" else f'<i class="{node.outcome}">{node.outcome}</i>'
        return (
            f"<details><summary><div><b>{escape(self._name(node.node))}</b>{ended}"
            f"<small>{escape(_facts(node))}</small></div><q>{escape(_preview(node))}</q></summary>"
            f"<dl>{''.join(blocks)}</dl></details>"
        )

    def _beginning(self, turn: NodeTurn) -> Iterator[str]:
        """The part of a prompt that an earlier node has shown."""
        if not turn.begins_as:
            return
        if not turn.messages and turn.begins_as != turn.continues:
            yield self._block("prompt", f"as in {self._name(turn.begins_as)}")
        elif turn.continues:
            yield self._block("after", self._name(turn.continues))
        else:
            yield self._block("begins", f"as in {self._name(turn.begins_as)}")

    def _name(self, node: str) -> str:
        return node.removeprefix(f"{self._root}/")

    def _message(self, message: TranscriptMessage, label: str) -> Iterator[str]:
        """The blocks of a message, texts in a row joined to one."""
        kind = "given" if label == "answer" else ""
        text = ""
        for part in message.parts:
            if part.type == "text":
                text += self._once(part, part.content)
                continue
            if text:
                yield self._block(label, _pretty(text), kind)
                text = ""
            if part.type == "reasoning":
                yield self._block("reasoning", part.content)
            elif part.type == "tool_call":
                yield self._block("call", f"{part.name} {_compact(part.arguments)}", kind)
            else:
                yield self._block(label, self._once(part, part.response))
        if text:
            yield self._block(label, _pretty(text), kind)

    def _once(self, part: TranscriptPart, text: str) -> str:
        """The text of a part; of a long value that was shown, its beginning."""
        line = shortened(text.partition("\n")[0], _REPEATED_CHARACTERS)
        if part.node not in self._shown or line == text:
            return text
        return f"{line} [all of it: {self._name(part.node)}]"

    def _block(self, label: str, text: str, kind: str = "") -> str:
        most = max(0, min(MAX_TEXT_CHARACTERS, self.left))
        shown = text[:most]
        self.left -= len(shown)
        cut = len(text) - len(shown)
        mark = f"<small>{counted(cut, 'more character')}</small>" if cut else ""
        classes = f' class="{kind}"' if kind else ""
        return f"<dt>{escape(label)}</dt><dd{classes}><pre>{escape(shown)}</pre>{mark}</dd>"


def _facts(node: TranscriptNode) -> str:
    facts = [f"{node.kind} by {node.model}" if node.model else node.kind]
    if node.prompt_tokens or node.output_tokens:
        facts.append(f"{node.prompt_tokens:,} tokens in, {node.output_tokens:,} out")
    facts.append(duration((node.ended_ms - node.declared_ms) / 1e3))
    if node.shared:
        facts.append({"joined": "from an equal request", "cached": "from the cache"}[node.shared])
    if node.finish_reason == "length":
        facts.append("stopped at its limit of tokens")
    if node.is_shortened:
        facts.append("its prompt was shortened")
    if node.reason:
        facts.append(node.reason)
    return ", ".join(facts)


def _preview(node: TranscriptNode) -> str:
    """The first words of what a node gave."""
    if node.error is not None:
        return shortened(node.error.message, _PREVIEW_CHARACTERS)
    text = node.result or ""
    if node.answer is not None:
        calls = [part.name for part in node.answer.parts if part.type == "tool_call"]
        text = "".join(part.content for part in node.answer.parts if part.type == "text")
        text = text or ("calls " + ", ".join(calls) if calls else "")
    return shortened(" ".join(text[: 4 * _PREVIEW_CHARACTERS].split()), _PREVIEW_CHARACTERS)


def _pretty(text: str) -> str:
    """JSON that is longer than a line, indented; any other text as it is."""
    if len(text) <= _REPEATED_CHARACTERS or text[:1] not in ("{", "["):
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def _compact(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
