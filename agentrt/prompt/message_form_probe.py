"""Which messages a template takes, found out by asking it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.prompt.call_probe import find_calls
from agentrt.prompt.message_form import MessageForm, Turn
from agentrt.prompt.probe import PROBE_TOOL, Render, TemplateProbe, call_id, call_to, named, said
from agentrt.prompt.tokenizer_parts import TokenizerParts


def find_message_form(
    render: Render, lexicon: TokenizerParts, where: str
) -> tuple[MessageForm, list[str]]:
    """Ask a template for its dialect.

    Returns:
        The dialect, and a note on each thing that the template has no place for.

    Raises:
        ModelInvalid: It does not even take one user message.
    """
    system, user, answer = (
        Turn("system", said(0)),
        Turn("user", said(1)),
        Turn("assistant", said(2)),
    )
    result = Turn("tool", said(3), call_id=call_id(3), name=named(3))
    probe = TemplateProbe(render, lexicon, MessageForm())
    notes: list[str] = []

    def lacks(note: str, **change: Any) -> None:
        nonlocal probe
        probe = replace(probe, dialect=replace(probe.dialect, **change))
        notes.append(note)

    if not probe.shows([user]):
        probe = replace(probe, dialect=MessageForm(no_tools="list"))
    if not probe.shows([user]):
        why = probe.refusal([user]) or "its text is missing"
        raise ModelInvalid(
            f"the chat template of {where} does not write a user message: {why}",
            hint="It may need variables that only its own software sets; take another template",
        )
    if not probe.shows([user, Turn("user", said(2))]):
        lacks("messages of one role in a row are joined by an empty line", repeats=False)
    if not probe.shows([system, user]):
        lacks("system text opens the first user message", system=False)
    listing = probe.text([user], (PROBE_TOOL,))
    if listing is None or PROBE_TOOL.name not in listing:
        lacks("tools are listed in the system message", lists_tools=False)

    dialect, why = find_calls(probe)
    probe = replace(probe, dialect=dialect)
    asked = Turn("assistant", "", calls=(call_to(3),)) if dialect.native else answer
    if dialect.native and not probe.shows([user, asked, result]):
        why, asked = "the template shows no results after them", answer
        probe = replace(probe, dialect=replace(dialect, native=False, frame=JSON_ARRAY_FRAME))
    if why:
        notes.append(f"calls are written as a JSON array: {why}")
    if not probe.shows([user, asked, result]):
        lacks("tool results come as user messages", tool_role=False)
    return probe.dialect, notes
