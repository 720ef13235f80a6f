"""Detection of a chat template's message form, by rendering probes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.prompt.call_probe import find_calls
from agentrt.prompt.message_form import MessageForm, Turn
from agentrt.prompt.probe import TOOL, Render, TemplateProbe, call_id, call_of, name_of, text_of
from agentrt.prompt.tokenizer_parts import TokenizerParts


def find_message_form(
    render: Render, parts: TokenizerParts, where: str
) -> tuple[MessageForm, list[str]]:
    """Detect the message form of a template.

    Returns:
        The message form, and a note on each feature that the template lacks.

    Raises:
        ModelInvalid: The template does not even write one user message.
    """
    system, user = Turn("system", text_of(0)), Turn("user", text_of(1))
    answer = Turn("assistant", text_of(2))
    result = Turn("tool", text_of(3), call_id=call_id(3), name=name_of(3))
    probe = TemplateProbe(render, parts, MessageForm())
    notes: list[str] = []

    def lacks(note: str, **change: Any) -> None:
        nonlocal probe
        probe = replace(probe, form=replace(probe.form, **change))
        notes.append(note)

    if not probe.shows([user]):
        probe = replace(probe, form=MessageForm(no_tools="list"))
    if not probe.shows([user]):
        why = probe.refusal([user]) or "its text is missing"
        raise ModelInvalid(
            f"the chat template of {where} does not write a user message: {why}",
            hint="It may need variables that only its own software sets; take another template",
        )
    if not probe.shows([user, Turn("user", text_of(2))]):
        lacks("messages of one role in a row are joined by an empty line", repeats=False)
    if not probe.shows([system, user]):
        lacks("system text opens the first user message", system=False)
    listing = replace(probe, tools=(TOOL,)).text([user])
    if listing is None or TOOL.name not in listing:
        lacks("tools are listed in the system message", lists_tools=False)

    form, why = find_calls(probe)
    probe = replace(probe, form=form)
    caller = Turn("assistant", "", calls=(call_of(3),)) if form.native else answer
    if form.native and not probe.shows([user, caller, result]):
        why, caller = "the template shows no results after them", answer
        probe = replace(probe, form=replace(form, native=False, frame=JSON_ARRAY_FRAME))
    if why:
        notes.append(f"calls are written as a JSON array: {why}")
    if not probe.shows([user, caller, result]):
        lacks("tool results come as user messages", tool_role=False)
    return probe.form, notes
