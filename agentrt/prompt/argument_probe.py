"""The frame of one argument, found from renderings of a call with one and with two arguments."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from agentrt.base.json_style import JsonStyle, styled_json
from agentrt.base.segments import ArgumentFrame, CallMade
from agentrt.prompt.encoded import shared_length
from agentrt.prompt.message_form import Turn
from agentrt.prompt.probe import TemplateProbe, call_id, name_of, text_of
from agentrt.prompt.tokenizer_parts import Marker, TokenizerParts

KEYS = ("\U0010fe04k", "\U0010fe04l")
VALUES = ("2\U0010fe05", '"4\n\U0010fe05')
_LIST = [1, "a"]
_NO_TEXTS = (7340033, 2.5, True, None, _LIST, {"b": False})
_ENDS = (">", "\n")
"""Ends of a piece of markup."""


class NoFrame(Exception):
    """The reason why the template's own form of calls cannot be used."""


def argument_of(probe: TemplateProbe) -> ArgumentFrame:
    """The frame of one argument in the calls of a template.

    Raises:
        NoFrame: The template does not write arguments one by one, or not as bare texts.
    """
    one, two = (_call(probe, count) for count in (1, 2))
    lead, middle, tail = _around(one, 0)
    first_lead, first_middle, rest = _around(two, 0)
    if (first_lead, first_middle) != (lead, middle):
        raise NoFrame("the template writes two arguments in another way than one")
    between, second_middle, _ = _around(rest, 1)
    if second_middle != middle or not middle:
        raise NoFrame("the template writes two arguments in another way than one")
    after = _whole_markup(probe.parts, between, tail)
    before = between[len(after) :]
    if not before or not after or not lead.endswith(before) or KEYS[1] in rest[: len(after)]:
        raise NoFrame("nothing tells one argument from the next")
    as_values = replace(probe, form=replace(probe.form, arguments="object"))
    frame = ArgumentFrame(before, middle, after, style=_style(as_values))
    return replace(frame, json_middle=_json_middle(as_values, frame))


def _style(as_values: TemplateProbe) -> JsonStyle:
    """The style in which the template writes a list; compact if it writes none as JSON."""
    try:
        text = _call(as_values, 1, _LIST)
    except NoFrame:
        return "compact"
    return "spaced" if styled_json(_LIST, "spaced") in text else "compact"


def _json_middle(as_values: TemplateProbe, frame: ArgumentFrame) -> str:
    """The text before a value that is no text; "" if values are not told apart."""
    middles: set[str] = set()
    for value in (VALUES[0], *_NO_TEXTS):
        try:
            text = _call(as_values, 1, value)
            written = value if isinstance(value, str) else styled_json(value, frame.style)
            _, middle, tail = _around(text, 0, written)
        except NoFrame:
            return ""
        if not tail.startswith(frame.after):
            return ""
        if isinstance(value, str):
            if middle != frame.middle:
                return ""
        else:
            middles.add(middle)
    found = middles.pop()
    return "" if middles or found == frame.middle else found


def _call(probe: TemplateProbe, count: int, first: Any = VALUES[0]) -> str:
    """The rendering of a call with so many arguments, from its name on."""
    values = (first, *VALUES[1:])
    arguments = json.dumps(dict(zip(KEYS[:count], values, strict=False)), ensure_ascii=False)
    call = CallMade(call_id(2), name_of(2), arguments)
    result = Turn("tool", text_of(2), call_id=call_id(2), name=name_of(2))
    turns = [Turn("user", text_of(0)), Turn("assistant", "", calls=(call,)), result]
    text = probe.text(turns)
    _, found, rest = (text or "").partition(name_of(2))
    if not found:
        raise NoFrame("the template shows no calls")
    return rest


def _around(text: str, index: int, value: str = "") -> tuple[str, str, str]:
    """The text before an argument's name, between name and value, and after the value."""
    lead, has_key, rest = text.partition(KEYS[index])
    middle, has_value, tail = rest.partition(value or VALUES[index])
    if not has_key or not has_value:
        raise NoFrame("the template does not write arguments as JSON")
    return lead, middle, tail


def _whole_markup(parts: TokenizerParts, between: str, tail: str) -> str:
    """The end of an argument: what `between` and `tail` begin with, up to a whole marker."""
    left, right = units(parts, between), units(parts, tail)
    shared = left[: shared_length(left, right)]
    whole = [at for at, unit in enumerate(shared, 1) if len(unit) > 1 or unit in _ENDS]
    return "".join(shared[: whole[-1]] if whole else shared)


def units(parts: TokenizerParts, text: str) -> list[str]:
    """Characters and whole markers."""
    found: list[str] = []
    for piece in parts.pieces(text):
        found += [piece.text] if isinstance(piece, Marker) else list(piece)
    return found
