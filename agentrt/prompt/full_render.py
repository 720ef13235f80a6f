"""Encoding a chat from one full rendering, if the layout of its template does not hold.

Data is rendered as placeholders, so that it is neither rewritten nor becomes a marker. Answers of
models are placeholders too, to keep their ids, unless the template rewrites them; then they are
rendered as text. So is data that the template quotes or trims in its own way, with its markers
escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentrt.base.segments import CallMade, Generated, History, ToolSchema
from agentrt.prompt.id_writer import ESCAPE, IdWriter
from agentrt.prompt.layout import Layout
from agentrt.prompt.message_form import Turn
from agentrt.prompt.probe import has_placeholder, text_of
from agentrt.prompt.template import TemplateRefused
from agentrt.prompt.tokenizer_parts import TokenizerParts
from agentrt.prompt.tool_view import ToolView
from agentrt.prompt.turns import SegmentTurn

PLACEHOLDER = re.compile("\U0010fe00([0-9]+)\U0010fe01")


def encode_full_render(
    view: ToolView,
    messages: Sequence[SegmentTurn],
    codec: str,
    tested: re.Pattern[str],
    history: History = "template",
) -> tuple[list[int], dict[int, int]]:
    """The ids of a complete chat, generation prompt included.

    Args:
        view: View of the template with the offered tools.
        messages: The chat.
        codec: Fingerprint of this model's generated ids.
        tested: Pattern of texts that the template tests for in contents; escaped in data.
        history: With "append" the template does not see the text of our own answers.

    Returns:
        The ids; and for each of our own answers that is kept as generated, by its index, the
        number of ids up to its end.

    Raises:
        TemplateRefused: The template refuses these messages.
    """
    probe, layout = view.probe, view.layout
    if any(has_placeholder(message.turn.text) for message in messages):
        raise TemplateRefused("a message holds characters from U+10FE00 to U+10FEFF")
    turns = [_escaped(probe.parts, message, layout, codec, tested) for message in messages]
    placeholders = [replace(t, text=text_of(i)) if t.text else t for i, t in enumerate(turns)]
    unchanged = [
        _is_unchanged(t, w, layout) or (history == "append" and _is_own_answer(t, w, codec))
        for t, w in zip(turns, messages, strict=True)
    ]
    mixed = [h if s else t for h, t, s in zip(placeholders, turns, unchanged, strict=True)]
    real, text = probe.rendered(mixed), probe.rendered(placeholders)

    def original(found: re.Match[str]) -> str:
        index = int(found[1])
        return found[0] if unchanged[index] else turns[index].text

    if PLACEHOLDER.sub(original, text) != real:
        text = real
    return _ids(probe.parts, text, turns, messages, codec)


def escaped_tools(parts: TokenizerParts, tools: tuple[ToolSchema, ...]) -> tuple[ToolSchema, ...]:
    """The tools with the markers in their descriptions and parameters escaped."""

    def escaped(value: Any) -> Any:
        if isinstance(value, str):
            return parts.escape(value, ESCAPE)
        if isinstance(value, dict):
            return {escaped(key): escaped(inner) for key, inner in value.items()}
        return [escaped(inner) for inner in value] if isinstance(value, list | tuple) else value

    return tuple(
        replace(tool, description=escaped(tool.description), parameters=escaped(tool.parameters))
        for tool in tools
    )


def _is_unchanged(turn: Turn, message: SegmentTurn, layout: Layout) -> bool:
    """Whether a content is data that the template leaves unchanged."""
    edges = layout.edges.get(turn.role, "odd")
    plain = edges in ("kept", "stripped") or (edges == "odd" and turn.text == turn.text.strip())
    return plain and not message.generated


def _is_own_answer(turn: Turn, message: SegmentTurn, codec: str) -> bool:
    """Whether a content is exactly one answer of our own."""
    made = message.generated
    return len(made) == 1 and _made_by(made[0], codec) and turn.text == made[0].text


def _ids(
    parts: TokenizerParts, text: str, turns: list[Turn], messages: Sequence[SegmentTurn], codec: str
) -> tuple[list[int], dict[int, int]]:
    writer = IdWriter(parts)
    answers = [made for one in messages for made in one.generated if _made_by(made, codec)]
    waiting = list(enumerate(answers))
    ends: dict[int, int] = {}
    end = 0
    for found in PLACEHOLDER.finditer(text):
        _literal(writer, text[end : found.start()], waiting, ends)
        index = int(found[1])
        if _is_own_answer(turns[index], messages[index], codec):
            (made,) = messages[index].generated
            writer.write_ids(made.token_ids)
            for entry in waiting:  # missing if the template writes it twice
                if entry[1] is made:
                    waiting.remove(entry)
                    ends[entry[0]] = len(writer.ids)
                    break
        else:
            writer.write_text(turns[index].text.replace(ESCAPE, ""))
        end = found.end()
    _literal(writer, text[end:], waiting, ends)
    writer.write_pending()
    return writer.ids, ends


def _literal(
    writer: IdWriter, text: str, waiting: list[tuple[int, Generated]], ends: dict[int, int]
) -> None:
    """Write template text, with the ids of the generated answers that occur in it, in order."""
    while waiting and (at := text.find(waiting[0][1].text)) >= 0:
        order, made = waiting.pop(0)
        writer.write_template(text[:at])
        writer.write_ids(made.token_ids)
        ends[order] = len(writer.ids)
        text = text[at + len(made.text) :]
    writer.write_template(text)


def _made_by(made: Generated, codec: str) -> bool:
    return made.codec == codec and bool(made.token_ids) and bool(made.text)


def _escaped(
    parts: TokenizerParts, message: SegmentTurn, layout: Layout, codec: str, tested: re.Pattern[str]
) -> Turn:
    """The message with the markers in its data escaped; a model's own answers keep theirs."""
    turn = message.turn
    turn = replace(
        turn, call_id=parts.escape(turn.call_id, ESCAPE), name=parts.escape(turn.name, ESCAPE)
    )
    text = turn.text
    if layout.edges.get(turn.role) == "stripped":
        text = text.strip()
    if message.generated and all(_made_by(made, codec) for made in message.generated):
        return replace(turn, text=text)
    calls = tuple(_escaped_call(parts, call) for call in turn.calls)
    text = parts.escape(text, ESCAPE)
    if not message.generated:
        text = tested.sub(lambda found: found[0][0] + ESCAPE + found[0][1:], text)
    return replace(turn, text=text, calls=calls)


def _escaped_call(parts: TokenizerParts, call: CallMade) -> CallMade:
    texts = (call.call_id, call.name, call.arguments_json)
    return CallMade(*(parts.escape(text, ESCAPE) for text in texts))
