"""The layout with tools offered, from the one without: most chat templates change only the start.

A few conversations verify this for a template. They contain every pair of kinds, early and late.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from agentrt.prompt.layout import AWKWARD, Kind, Layout, quoted, texts_between
from agentrt.prompt.message_form import Turn
from agentrt.prompt.probe import TemplateProbe, text_of

CHECKED = ("u", "su", "uactuau", "suau", "suCttct", "uuctau")
CONTENTS: tuple[Kind, Kind] = ("system", "user")
EDGES = "\n \n"


def layout_with(probe: TemplateProbe, base: Layout) -> Layout | None:
    """`base` with the changes of the probe's tools at its start; None if they change more."""
    starts: dict[tuple[Kind, Kind], set[str | None]] = {}
    for letters in CHECKED:
        found = texts_between(probe, letters)
        if found is None:
            return None
        for pair, text in found:
            if _opens(pair):
                starts.setdefault(pair, set()).add(text)
            elif text is None or base.between.get(pair) != text:
                return None
    between = {pair: text for pair, text in base.between.items() if not _opens(pair)}
    for pair, variants in starts.items():
        text, *others = variants
        if others or text is None:
            return None
        between[pair] = text
    layout = replace(base, between=between)
    first: dict[Kind, str] = {k: text_of(i) + AWKWARD + text_of(i) for i, k in enumerate(CONTENTS)}
    if not _writes(probe, layout, {kind: EDGES + t + EDGES for kind, t in first.items()}):
        return None
    omitted = {kind for kind in CONTENTS if not _writes(probe, layout, {**first, kind: ""})}
    return replace(layout, omits=base.omits.difference(CONTENTS) | omitted)


def _opens(pair: tuple[Kind, Kind]) -> bool:
    """Whether a pair is at the start of a chat, where templates describe the tools."""
    return "start" in pair or "system" in pair


def _writes(probe: TemplateProbe, layout: Layout, contents: dict[Kind, str]) -> bool:
    """Whether a system and a user message are written as `layout` predicts."""
    system, user = (_given(layout, kind, contents[kind]) for kind in CONTENTS)
    expected = ""
    for before, after in pairwise(("start", *CONTENTS, "answer")):
        expected += layout.between.get((before, after), "")
        expected += _shown(layout, after, contents.get(after, ""))
    return probe.text([Turn("system", system), Turn("user", user)]) == expected


def _given(layout: Layout, kind: Kind, text: str) -> str:
    """`text`, without edges if their treatment is unknown."""
    return text.strip() if layout.edges.get(kind) == "odd" else text


def _shown(layout: Layout, kind: Kind, text: str) -> str:
    match layout.edges.get(kind):
        case "quoted":
            return quoted(text)
        case "stripped" | "odd":
            return text.strip()
        case _:
            return text
