"""Layout of a chat template: its texts between contents, by the kinds of message around them.

With it a chat is extended by its new part only. A text counts if it was the same in every
conversation tried; anything else is rendered in full.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from agentrt.base.segments import Role
from agentrt.prompt.message_form import Turn, render_calls
from agentrt.prompt.probe import TemplateProbe, call_id, call_of, has_placeholder, name_of, text_of

Kind = Literal["start", "system", "user", "assistant", "calls", "tool", "answer"]
"""Kind of a message; `start` is before the first, `answer` is the generation prompt."""

Edges = Literal["kept", "stripped", "odd", "quoted", "rewritten"]
"""Treatment of a content: whitespace around it is kept, stripped, or partly stripped (odd); it is
written as the inside of a JSON string; or it is rewritten in another way."""

AWKWARD = 'a "b" \\ <c> & \'d\' {"e": [1]}\n\n  # f\n'

PREVIOUS_NAME, NEXT_NAME = "\U0010fe10", "\U0010fe11"
PREVIOUS_ID, NEXT_ID = "\U0010fe12", "\U0010fe13"

_ROLES: dict[str, Role] = {"s": "system", "u": "user", "a": "assistant"}

# One letter a message: system, user, assistant, c one call, C two calls, tool.
CONVERSATIONS = (
    *("u", "su", "uau", "suau", "uauau", "suauau", "uu", "suu", "uauu"),
    *("uct", "suct", "uctu", "suctu", "uctau", "suctau", "uCtt", "uCttu", "suCttu", "uCttau"),
    *("uctct", "uCttctu", "uactu", "uauct", "suauctu", "uctuctu", "uctauau", "uctuau"),
)
ANSWERED = ("ua", "sua", "uaua", "ucta", "uCtta")
"""Conversations that end with an answer: some templates write the last one differently."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Texts between contents.

    Attributes:
        between: Text by (kind before, kind after), with slots for names and ids of tool messages.
        edges: Treatment of contents, by kind.
        omits: Kinds with empty messages written differently from others.
        joiner: Text between an assistant's content and its calls; None if unknown.
        unsteady: Pairs with a text that depends on more than the pair.
    """

    between: dict[tuple[Kind, Kind], str]
    edges: dict[Kind, Edges] = field(default_factory=dict)
    omits: frozenset[Kind] = frozenset()
    joiner: str | None = None
    unsteady: frozenset[tuple[Kind, Kind]] = frozenset()


def find_layout(probe: TemplateProbe) -> Layout:
    """Find a template's texts between contents, with the tools of the probe offered."""
    texts: dict[tuple[Kind, Kind], set[str]] = {}
    unsteady: set[tuple[Kind, Kind]] = set()
    for letters in CONVERSATIONS:
        found = texts_between(probe, letters)
        for pair, text in found or ():
            if text is None:
                unsteady.add(pair)
            else:
                texts.setdefault(pair, set()).add(text)
    unsteady |= {pair for pair, variants in texts.items() if len(variants) > 1}
    between = {pair: min(v) for pair, v in texts.items() if pair not in unsteady}
    _add_answered(probe, between, unsteady)
    edges, omits = _contents(probe)
    return Layout(between, edges, omits, _joiner(probe), frozenset(unsteady))


def quoted(text: str) -> str:
    """`text` as the inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def filled(text: str, previous: tuple[str, str], following: tuple[str, str]) -> str:
    """`text` with the names and ids of the tool messages around it in its slots."""
    for slot, value in (
        (PREVIOUS_NAME, previous[0]),
        (PREVIOUS_ID, previous[1]),
        (NEXT_NAME, following[0]),
        (NEXT_ID, following[1]),
    ):
        text = text.replace(slot, value)
    return text


def _add_answered(
    probe: TemplateProbe, between: dict[tuple[Kind, Kind], str], unsteady: set[tuple[Kind, Kind]]
) -> None:
    """Add the text after a last answer, if everything before it is written as usual."""
    variants: set[str | None] = set()
    for letters in ANSWERED:
        found = texts_between(probe, letters)
        if not found:
            continue
        *usual, (_, text) = found
        plain = all(between.get(pair) == expected for pair, expected in usual)
        variants.add(text if plain else None)
    if len(variants) == 1 and None not in variants:
        between["assistant", "answer"] = str(variants.pop())
    elif variants:
        unsteady.add(("assistant", "answer"))


def texts_between(
    probe: TemplateProbe, letters: str
) -> list[tuple[tuple[Kind, Kind], str | None]] | None:
    """The texts of one conversation, with one letter a message.

    Returns:
        Each pair with its text, None for texts that hold parts of other messages; or None if the
        template refuses the conversation.
    """
    turns = _turns(letters)
    text = probe.text(turns)
    if text is None:
        return None
    kinds: list[Kind] = ["start", *(kind_of(turn) for turn in turns), "answer"]
    pairs = list(pairwise(kinds))
    spans = _spans(text, [_content(probe, turn) for turn in turns])
    if spans is None:
        return [(pair, None) for pair in pairs]
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    return [
        (pair, _slotted(text[end:start], index - 1))
        for index, (pair, end, start) in enumerate(zip(pairs, ends, starts, strict=True))
    ]


def _turns(letters: str) -> list[Turn]:
    turns: list[Turn] = []
    for index, letter in enumerate(letters):
        if letter in "cC":
            targets = range(index + 1, index + 2 + (letter == "C"))
            turns.append(Turn("assistant", "", calls=tuple(call_of(i) for i in targets)))
        elif letter == "t":
            turns.append(Turn("tool", text_of(index), call_id=call_id(index), name=name_of(index)))
        else:
            turns.append(Turn(_ROLES[letter], text_of(index)))
    return turns


def kind_of(turn: Turn) -> Kind:
    """The kind of a message."""
    return "calls" if turn.calls else turn.role


def _content(probe: TemplateProbe, turn: Turn) -> str:
    return turn.text + (render_calls(probe.form.frame, turn.calls) if turn.calls else "")


def _spans(text: str, contents: list[str]) -> list[tuple[int, int]] | None:
    """Start and end of each content; None unless each occurs once and in order."""
    spans: list[tuple[int, int]] = []
    end = 0
    for content in contents:
        start = text.find(content, end)
        if start < 0 or text.count(content) != 1:
            return None
        end = start + len(content)
        spans.append((start, end))
    return spans


def _slotted(text: str, index: int) -> str | None:
    """`text` between messages `index` and `index + 1`, with slots for their names and ids."""
    for slot, value in (
        (PREVIOUS_NAME, name_of(index)),
        (PREVIOUS_ID, call_id(index) if index >= 0 else ""),
        (NEXT_NAME, name_of(index + 1)),
        (NEXT_ID, call_id(index + 1)),
    ):
        text = text.replace(value, slot) if value else text
    bare = filled(text, ("", ""), ("", ""))
    return None if has_placeholder(bare) else text


def _contents(probe: TemplateProbe) -> tuple[dict[Kind, Edges], frozenset[Kind]]:
    """Treatment of contents by kind, and the kinds that are omitted if empty."""
    found: dict[Kind, Edges] = {}
    omits: set[Kind] = set()
    tries: tuple[tuple[Kind, str, int], ...] = (
        ("system", "su", 0),
        ("user", "u", 0),
        ("assistant", "uau", 1),
        ("tool", "uct", 2),
    )
    for kind, letters, index in tries:
        turns = _turns(letters)
        turn = turns[index]
        inner = turn.text + AWKWARD + turn.text

        def render(content: str, turns: list[Turn] = turns, index: int = index) -> str | None:
            changed = replace(turns[index], text=content)
            return probe.text([*turns[:index], changed, *turns[index + 1 :]])

        plain, text, spaced = render(turn.text), render(inner), render(f"\n \n{inner}\n \n")
        if plain is None or text is None:
            continue
        if render("") != plain.replace(turn.text, ""):
            omits.add(kind)
        if text == plain.replace(turn.text, quoted(inner)):
            found[kind] = "quoted"
        elif text != plain.replace(turn.text, inner):
            found[kind] = "rewritten"
        elif spaced == text.replace(inner, f"\n \n{inner}\n \n"):
            found[kind] = "kept"
        else:
            found[kind] = "stripped" if spaced == text and not probe.form.merges else "odd"
    return found, frozenset(omits)


def _joiner(probe: TemplateProbe) -> str | None:
    """The text between an assistant's content and the calls in the same message."""
    silent = _turns("uct")
    spoken = [silent[0], Turn("assistant", text_of(1), silent[1].calls), silent[2]]
    text = probe.text(spoken)
    frame = render_calls(probe.form.frame, silent[1].calls)
    if text is None or text.count(frame) != 1 or text.count(text_of(1)) != 1:
        return None
    joiner = text[text.index(text_of(1)) + len(text_of(1)) : text.index(frame)]
    without = probe.text(silent)
    steady = without is not None and text.replace(text_of(1) + joiner, "") == without
    return joiner if steady and not has_placeholder(joiner) else None
