"""The frame of tool calls, from renderings with one and with two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentrt.base.segments import CallFrame
from agentrt.prompt.message_form import MessageForm, Turn
from agentrt.prompt.probe import (
    PROBE_TOOL,
    TemplateProbe,
    argued,
    call_id,
    call_to,
    holds_placeholder,
    named,
    said,
)
from agentrt.prompt.tokenizer_parts import Marker, TokenizerParts

USER = Turn("user", said(0))
RESULTS = [Turn("tool", said(i), call_id=call_id(i), name=named(i)) for i in (2, 3)]
ONE = [USER, Turn("assistant", "", calls=(call_to(2),)), RESULTS[0]]
TWO = [USER, Turn("assistant", "", calls=(call_to(2), call_to(3))), *RESULTS]


class NoFrame(Exception):
    """Why calls cannot be written in this template's own way."""


def find_calls(probe: TemplateProbe) -> tuple[MessageForm, str]:
    """The dialect with the template's own calls, or as it was and the reason why not."""
    reason = ""
    for arguments in ("object", "text"):
        for empty in ("", "none"):
            native = replace(probe.dialect, native=True, arguments=arguments, empty=empty)
            try:
                frame = _frame(replace(probe, dialect=native))
            except NoFrame as error:
                reason = reason or str(error)
            else:
                return replace(native, frame=frame), ""
    return probe.dialect, reason


def _frame(probe: TemplateProbe) -> CallFrame:
    one = probe.text(ONE, (PROBE_TOOL,))
    if one is None or named(2) not in one:
        raise NoFrame("the template shows no calls")
    if argued(2) not in one:
        raise NoFrame("the template does not write arguments as JSON")
    if one.index(argued(2)) < one.index(named(2), len(_opened(probe, one))):
        raise NoFrame("the template writes arguments before the name")
    lead, middle, tail = _around(_opened(probe, one), one, 2)
    closing = probe.lexicon.first_marker(_closing(probe))
    tail = _before_end(tail, probe.lexicon, closing)
    two = probe.text(TWO, (PROBE_TOOL,))
    if two is None or argued(3) not in two:
        frame = CallFrame(before=lead, middle=middle, after=tail, between="\n")
    else:
        frame = _joined(probe, two, lead, middle, closing)
    texts = (frame.before, frame.middle, frame.after, frame.between, frame.first, frame.last)
    if any(map(holds_placeholder, texts)):
        raise NoFrame("the template writes ids or other things of a call that a model cannot know")
    if not frame.before and not frame.first:
        raise NoFrame("nothing tells a call from text")
    special = {
        piece.text
        for text in texts
        for piece in probe.lexicon.pieces(text)
        if isinstance(piece, Marker)
    }
    return replace(frame, special=tuple(sorted(special)))


def _opened(probe: TemplateProbe, text: str) -> str:
    """The part of `text` before what the assistant writes itself."""
    plain = probe.text([USER, Turn("assistant", said(1)), Turn("user", said(4))], (PROBE_TOOL,))
    asked = probe.text([USER], (PROBE_TOOL,))
    openings = [plain.partition(said(1))[0]] if plain and said(1) in plain else []
    openings += [asked] if asked else []
    for opening in openings:
        if text.startswith(opening):
            return opening
    raise NoFrame("the template opens a message of calls in another way than one of text")


def _closing(probe: TemplateProbe) -> str:
    """What follows the text of an answer."""
    plain = probe.text([USER, Turn("assistant", said(1)), Turn("user", said(4))], (PROBE_TOOL,))
    return plain.partition(said(1))[2] if plain else ""


def _around(opening: str, text: str, index: int) -> tuple[str, str, str]:
    """The text before a call's name, between name and arguments, and after them."""
    head, _, rest = text[len(opening) :].partition(named(index))
    middle, _, tail = rest.partition(argued(index))
    return head, middle, tail


def _joined(
    probe: TemplateProbe, two: str, lead: str, middle: str, closing: Marker | None
) -> CallFrame:
    """The frame from a rendering of two calls: what stands around each, and what only once."""
    lexicon = probe.lexicon
    first_lead, first_middle, rest = _around(_opened(probe, two), two, 2)
    gap, _, rest = rest.partition(named(3))
    second_middle, _, tail = rest.partition(argued(3))
    if (first_lead, first_middle) != (lead, middle) or second_middle != middle:
        raise NoFrame("the template writes several calls in another way than one")
    tail = _before_end(tail, lexicon, closing)
    after = _shared_start(lexicon, gap, tail)
    between = gap[len(after) :]
    before = _shared_end(lexicon, lead, between)
    return CallFrame(
        before=before,
        middle=middle,
        after=after,
        between=between[: len(between) - len(before)],
        first=lead[: len(lead) - len(before)],
        last=tail[len(after) :],
    )


def _before_end(tail: str, lexicon: TokenizerParts, closing: Marker | None) -> str:
    """`tail` up to the token that ends the answer."""
    ends = {index: text for text, index in lexicon.vocab.special_ids.items()}
    texts = [ends[index] for index in lexicon.eos_ids if index in ends]
    texts += [closing.text] if closing else []
    found = [tail.index(text) for text in texts if text in tail]
    if not found:
        raise NoFrame("the template does not end a message of calls")
    return tail[: min(found)]


def _shared_start(lexicon: TokenizerParts, left: str, right: str) -> str:
    shared = ""
    for a, b in zip(_units(lexicon, left), _units(lexicon, right), strict=False):
        if a != b:
            break
        shared += a
    return shared


def _shared_end(lexicon: TokenizerParts, left: str, right: str) -> str:
    shared = ""
    pairs = zip(reversed(_units(lexicon, left)), reversed(_units(lexicon, right)), strict=False)
    for a, b in pairs:
        if a != b:
            break
        shared = a + shared
    return shared


def _units(lexicon: TokenizerParts, text: str) -> Sequence[str]:
    """Characters, markers whole."""
    units: list[str] = []
    for piece in lexicon.pieces(text):
        units += [piece.text] if isinstance(piece, Marker) else list(piece)
    return units
