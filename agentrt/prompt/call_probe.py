"""The frame of tool calls, found from renderings of the chat template with one and two calls."""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.json_style import JsonStyle
from agentrt.base.segments import ArgumentFrame, CallFrame
from agentrt.prompt.argument_probe import NoFrame, argument_of, units
from agentrt.prompt.encoded import shared_length
from agentrt.prompt.message_form import MessageForm, Turn
from agentrt.prompt.probe import (
    TOOL,
    TemplateProbe,
    args_of,
    call_id,
    call_of,
    has_placeholder,
    name_of,
    text_of,
)
from agentrt.prompt.tokenizer_parts import Marker, TokenizerParts

USER = Turn("user", text_of(0))
_STYLES: tuple[JsonStyle, ...] = ("compact", "spaced")
ANSWERED = [USER, Turn("assistant", text_of(1)), Turn("user", text_of(4))]
RESULTS = [Turn("tool", text_of(i), call_id=call_id(i), name=name_of(i)) for i in (2, 3)]
ONE = [USER, Turn("assistant", "", calls=(call_of(2),)), RESULTS[0]]
TWO = [USER, Turn("assistant", "", calls=(call_of(2), call_of(3))), *RESULTS]


def find_calls(probe: TemplateProbe) -> tuple[MessageForm, str]:
    """The message form with the template's own calls, or unchanged with the reason."""
    reason = ""
    for arguments in ("object", "text", "texts"):
        for empty in ("", "none"):
            native = replace(probe.form, native=True, arguments=arguments, empty=empty)
            shown = replace(probe, form=native, tools=(TOOL,))
            try:
                argument = argument_of(shown) if arguments == "texts" else None
                frame = _frame(shown, argument)
            except NoFrame as error:
                reason = reason or str(error)
                continue
            if argument is not None and argument.json_middle:
                native = replace(native, arguments="object")
            return replace(native, frame=frame), ""
    return probe.form, reason


def _frame(probe: TemplateProbe, argument: ArgumentFrame | None) -> CallFrame:
    one = probe.text(ONE)
    if one is None or name_of(2) not in one:
        raise NoFrame("the template shows no calls")
    bare = _bare(one, argument)
    if one.index(bare.arguments_text(args_of(2))) < one.index(name_of(2), len(_opened(probe, one))):
        raise NoFrame("the template writes arguments before the name")
    lead, middle, tail = _around(_opened(probe, one), one, 2, bare)
    closing = probe.parts.first_marker(_closing(probe))
    tail = _before_end(tail, probe.parts, closing)
    two = probe.text(TWO)
    if two is None or bare.arguments_text(args_of(3)) not in two:
        frame = CallFrame(before=lead, middle=middle, after=tail, between="\n")
    else:
        frame = _joined(probe, two, lead, middle, closing, bare)
    frame = replace(frame, argument=argument, style=bare.style)
    texts = [frame.before, frame.middle, frame.after, frame.between, frame.first, frame.last]
    if argument is not None:
        texts += [argument.before, argument.middle, argument.after, argument.json_middle]
    if any(map(has_placeholder, texts)):
        raise NoFrame("the template writes ids or other things of a call that a model cannot know")
    if not frame.before and not frame.first:
        raise NoFrame("nothing tells a call from text")
    special = {
        piece.text
        for text in texts
        for piece in probe.parts.pieces(text)
        if isinstance(piece, Marker)
    }
    return replace(frame, special=tuple(sorted(special)))


def _bare(one: str, argument: ArgumentFrame | None) -> CallFrame:
    """The frame without its texts: the form of the arguments in a rendering of one call.

    Raises:
        NoFrame: They are no JSON.
    """
    for style in _STYLES:
        bare = CallFrame("", "", "", argument=argument, style=style)
        if bare.arguments_text(args_of(2)) in one:
            return bare
    raise NoFrame("the template does not write arguments as JSON")


def _opened(probe: TemplateProbe, text: str) -> str:
    """The part of `text` before the assistant's own output."""
    # Behind the last question, some templates write an empty thought before any answer.
    answers = [probe.text(turns) for turns in (ANSWERED[:2], ANSWERED)]
    prompt_text = probe.text([USER])
    openings = [text.partition(text_of(1))[0] for text in answers if text and text_of(1) in text]
    openings += [prompt_text] if prompt_text else []
    for opening in openings:
        if text.startswith(opening):
            return opening
    raise NoFrame("the template opens a message of calls in another way than one of text")


def _closing(probe: TemplateProbe) -> str:
    """Text after an answer."""
    plain = probe.text(ANSWERED)
    return plain.partition(text_of(1))[2] if plain else ""


def _around(opening: str, text: str, index: int, bare: CallFrame) -> tuple[str, str, str]:
    """The text before a call's name, between name and arguments, and after them."""
    head, _, rest = text[len(opening) :].partition(name_of(index))
    middle, _, tail = rest.partition(bare.arguments_text(args_of(index)))
    return head, middle, tail


def _joined(
    probe: TemplateProbe,
    two: str,
    lead: str,
    middle: str,
    closing: Marker | None,
    bare: CallFrame,
) -> CallFrame:
    """The frame from a rendering of two calls: texts around each call and texts that occur once."""
    parts = probe.parts
    first_lead, first_middle, rest = _around(_opened(probe, two), two, 2, bare)
    gap, _, rest = rest.partition(name_of(3))
    second_middle, _, tail = rest.partition(bare.arguments_text(args_of(3)))
    if (first_lead, first_middle) != (lead, middle) or second_middle != middle:
        raise NoFrame("the template writes several calls in another way than one")
    tail = _before_end(tail, parts, closing)
    gap_units, tail_units = units(parts, gap), units(parts, tail)
    after = "".join(gap_units[: shared_length(gap_units, tail_units)])
    between = gap[len(after) :]
    lead_units, between_units = units(parts, lead)[::-1], units(parts, between)[::-1]
    before = "".join(lead_units[: shared_length(lead_units, between_units)][::-1])
    return CallFrame(
        before=before,
        middle=middle,
        after=after,
        between=between[: len(between) - len(before)],
        first=lead[: len(lead) - len(before)],
        last=tail[len(after) :],
    )


def _before_end(tail: str, parts: TokenizerParts, closing: Marker | None) -> str:
    """`tail` up to the token that ends the answer."""
    ends = {index: text for text, index in parts.vocab.special_ids.items()}
    texts = [ends[index] for index in parts.eos_ids if index in ends]
    texts += [closing.text] if closing else []
    found = [tail.index(text) for text in texts if text in tail]
    if not found:
        raise NoFrame("the template does not end a message of calls")
    return tail[: min(found)]
