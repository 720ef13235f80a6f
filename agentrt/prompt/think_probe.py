"""How a model thinks before it answers, found by asking its template and its tokenizer.

A template that writes an earlier answer's reasoning shows the frame itself. Of others the markers
are known by name, where the template or the vocabulary has them. A model with neither thinks in
letters, between the same words.
"""

from __future__ import annotations

import re

from agentrt.base.segments import PLAIN_THINK_FRAME, ThinkFrame
from agentrt.prompt.probe import Render, said
from agentrt.prompt.template import TemplateRefused
from agentrt.prompt.tokenizer_parts import Marker, TokenizerParts

KEYS = ("reasoning_content", "thinking", "reasoning")
"""Under which templates look for the reasoning of an answer."""

KNOWN = (
    ("<think>\n", "</think>", "\n</think>\n\n"),
    ("<|START_THINKING|>", "<|END_THINKING|>", "<|END_THINKING|>"),
    ("[THINK]", "[/THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>", "</seed:think>"),
)
"""Opening, marker and closing of models whose template leaves reasoning out."""

_LAST_TAG = re.compile(r"(<[^<>]+>|\[[A-Z_]+\])\s*$")


def find_think_frame(render: Render, lexicon: TokenizerParts, source: str) -> ThinkFrame:
    """The frame; that of letters where the model shows none.

    Args:
        render: Of the model's templates.
        lexicon: Of the model.
        source: Text of the templates.
    """
    asked = _text(render, [_USER], answer=True) or ""
    for key in KEYS:
        shown = _shown(render, lexicon, asked, key)
        if shown is not None:
            return shown
    for opening, marker, closing in KNOWN:
        if marker in lexicon.markers or marker in source:
            return _frame(lexicon, asked, opening, marker, closing)
    return PLAIN_THINK_FRAME


_USER = {"role": "user", "content": said(0)}


def _shown(render: Render, lexicon: TokenizerParts, asked: str, key: str) -> ThinkFrame | None:
    """The frame as the template writes it, or None where it does not."""
    answer = {"role": "assistant", "content": said(1), key: said(2)}
    text = _text(render, [_USER, answer], answer=False)
    if text is None or text.count(said(1)) != 1 or text.count(said(2)) != 1:
        return None
    begin, end = text.index(said(2)), text.index(said(1))
    closing = text[begin + len(said(2)) : end]
    if end < begin or not closing.strip():
        return None
    markers = [piece.text for piece in lexicon.pieces(closing) if isinstance(piece, Marker)]
    marker = markers[0] if markers else closing.strip()
    if text.startswith(asked) and begin > len(asked):
        return _frame(lexicon, asked, text[len(asked) : begin], marker, closing)
    if asked.startswith(text[:begin]) and marker not in asked[begin:]:
        return _frame(lexicon, asked, "", marker, closing)  # with more words than answers show
    tag = _LAST_TAG.search(text[:begin])
    return _frame(lexicon, asked, tag[0] if tag else "", marker, closing)


def _frame(
    lexicon: TokenizerParts, asked: str, opening: str, marker: str, closing: str
) -> ThinkFrame:
    whole = lexicon.pieces(opening) + lexicon.pieces(closing)
    special = dict.fromkeys(piece.text for piece in whole if isinstance(piece, Marker))
    opened = not opening.strip() or asked.rstrip().endswith(opening.strip())
    return ThinkFrame(opening, marker, closing, opened, tuple(special))


def _text(render: Render, messages: list[dict[str, str]], *, answer: bool) -> str | None:
    try:
        return render([dict(message) for message in messages], None, answer)
    except TemplateRefused:
        return None
