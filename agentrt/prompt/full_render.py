"""Encoding a chat from one rendering of the whole, where a template's layout does not hold.

Data stands in the rendering as placeholders, so that it is neither rewritten nor becomes a marker.
Answers of models are placeholders too, so that their ids are kept, unless the template rewrites
them; then they are rendered as they are. So is data that the template quotes or trims in its own
way, its markers escaped.
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
from agentrt.prompt.probe import TemplateProbe, holds_placeholder, said
from agentrt.prompt.template import TemplateRefused
from agentrt.prompt.tokenizer_parts import TokenizerParts
from agentrt.prompt.tool_view import ToolView
from agentrt.prompt.turns import Written

PLACE = re.compile("\U0010fe00([0-9]+)\U0010fe01")


def encode_whole(
    view: ToolView,
    messages: Sequence[Written],
    codec: str,
    telling: re.Pattern[str],
    history: History = "template",
) -> tuple[list[int], dict[int, int]]:
    """The ids of a complete chat, up to where the model goes on.

    Args:
        view: Of the template, with the tools offered.
        messages: The chat.
        codec: Fingerprint under which generated ids are our own.
        telling: Finds what the template looks for in contents; data must not speak to it.
        history: With "append" the template does not see what our own answers say.

    Returns:
        The ids; and for each answer of our own that stands in them as it was made, counted from 0,
        how many ids there are up to its end.

    Raises:
        TemplateRefused: The template does not take these messages.
    """
    probe, layout, tools = view.probe, view.layout, view.safe_tools
    if any(holds_placeholder(written.turn.text) for written in messages):
        raise TemplateRefused("a message holds characters from U+10FE00 to U+10FEFF")
    turns = [_escaped(probe.lexicon, written, layout, codec, telling) for written in messages]
    hidden = [replace(t, text=said(i)) if t.text else t for i, t in enumerate(turns)]
    settled = [
        _is_settled(t, w, layout) or (history == "append" and _is_kept(t, w, codec))
        for t, w in zip(turns, messages, strict=True)
    ]
    partly = [h if s else t for h, t, s in zip(hidden, turns, settled, strict=True)]
    real = _text(probe, partly, tools)
    text = _text(probe, hidden, tools)

    def shown(found: re.Match[str]) -> str:
        index = int(found[1])
        return found[0] if settled[index] else turns[index].text

    if PLACE.sub(shown, text) != real:
        text = real
    return _ids(probe.lexicon, text, turns, messages, codec)


def escaped_tools(lexicon: TokenizerParts, tools: tuple[ToolSchema, ...]) -> tuple[ToolSchema, ...]:
    """The tools, with no marker in what they say of themselves."""

    def escaped(value: Any) -> Any:
        if isinstance(value, str):
            return lexicon.escape(value, ESCAPE)
        if isinstance(value, dict):
            return {escaped(key): escaped(inner) for key, inner in value.items()}
        return [escaped(inner) for inner in value] if isinstance(value, list | tuple) else value

    return tuple(
        replace(tool, description=escaped(tool.description), parameters=escaped(tool.parameters))
        for tool in tools
    )


def _is_settled(turn: Turn, written: Written, layout: Layout) -> bool:
    """Whether a content is data that stands in the text as it is."""
    edges = layout.edges.get(turn.role, "odd")
    plain = edges in ("kept", "stripped") or (edges == "odd" and turn.text == turn.text.strip())
    return plain and not written.generated


def _is_kept(turn: Turn, written: Written, codec: str) -> bool:
    """Whether a content is one answer of our own and nothing else."""
    made = written.generated
    return len(made) == 1 and _own(made[0], codec) and turn.text == made[0].text


def _ids(
    lexicon: TokenizerParts, text: str, turns: list[Turn], messages: Sequence[Written], codec: str
) -> tuple[list[int], dict[int, int]]:
    pen = IdWriter(lexicon)
    own = [made for written in messages for made in written.generated if _own(made, codec)]
    waiting = list(enumerate(own))
    ends: dict[int, int] = {}
    end = 0
    for found in PLACE.finditer(text):
        _literal(pen, text[end : found.start()], waiting, ends)
        index = int(found[1])
        if _is_kept(turns[index], messages[index], codec):
            (made,) = messages[index].generated
            pen.generated(made.token_ids)
            for entry in waiting:  # it is not among them where the template writes it twice
                if entry[1] is made:
                    waiting.remove(entry)
                    ends[entry[0]] = len(pen.ids)
                    break
        else:
            pen.text(turns[index].text.replace(ESCAPE, ""))
        end = found.end()
    _literal(pen, text[end:], waiting, ends)
    pen.end()
    return pen.ids, ends


def _literal(
    pen: IdWriter, text: str, waiting: list[tuple[int, Generated]], ends: dict[int, int]
) -> None:
    """Write template text; where it holds, in order, what a model generated, keep those ids."""
    while waiting and (at := text.find(waiting[0][1].text)) >= 0:
        order, made = waiting.pop(0)
        pen.literal(text[:at])
        pen.generated(made.token_ids)
        ends[order] = len(pen.ids)
        text = text[at + len(made.text) :]
    pen.literal(text)


def _own(made: Generated, codec: str) -> bool:
    return made.codec == codec and bool(made.token_ids) and bool(made.text)


def _text(probe: TemplateProbe, turns: list[Turn], tools: tuple[ToolSchema, ...]) -> str:
    messages = probe.dialect.messages(turns, tools)
    return probe.render(messages, probe.dialect.tools(tools), True)


def _escaped(
    lexicon: TokenizerParts, written: Written, layout: Layout, codec: str, telling: re.Pattern[str]
) -> Turn:
    """The message, its data free of markers; a model's own answers keep theirs."""
    turn = written.turn
    turn = replace(
        turn,
        call_id=lexicon.escape(turn.call_id, ESCAPE),
        name=lexicon.escape(turn.name, ESCAPE),
    )
    text = turn.text
    if layout.edges.get(turn.role) == "stripped":
        text = text.strip()
    if written.generated and all(_own(made, codec) for made in written.generated):
        return replace(turn, text=text)
    calls = tuple(_escaped_call(lexicon, call) for call in turn.calls)
    text = lexicon.escape(text, ESCAPE)
    if not written.generated:
        text = telling.sub(lambda found: found[0][0] + ESCAPE + found[0][1:], text)
    return replace(turn, text=text, calls=calls)


def _escaped_call(lexicon: TokenizerParts, call: CallMade) -> CallMade:
    return CallMade(
        lexicon.escape(call.call_id, ESCAPE),
        lexicon.escape(call.name, ESCAPE),
        lexicon.escape(call.arguments_json, ESCAPE),
    )
