"""Detection of a model's reasoning frame, from its chat template and its tokenizer.

A template that writes the reasoning of an earlier answer shows the frame. For others the markers
are known by name, if the template or the vocabulary has them. A model with neither uses the same
words as plain text.
"""

from __future__ import annotations

import re

from agentrt.base.segments import PLAIN_THINK_FRAME, ThinkFrame
from agentrt.prompt.probe import Render, text_of
from agentrt.prompt.template import TemplateRefused
from agentrt.prompt.tokenizer_parts import Marker, TokenizerParts

KEYS = ("reasoning_content", "thinking", "reasoning")
"""Keys of an answer's reasoning in templates."""

KNOWN = (
    ("<think>\n", "</think>", "\n</think>\n\n"),
    ("<|START_THINKING|>", "<|END_THINKING|>", "<|END_THINKING|>"),
    ("[THINK]", "[/THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>", "</seed:think>"),
)
"""Opening, marker and closing for models without reasoning in their template."""

_LAST_TAG = re.compile(r"(<[^<>]+>|\[[A-Z_]+\])\s*$")


def find_think_frame(render: Render, parts: TokenizerParts, source: str) -> ThinkFrame:
    """The reasoning frame; the plain one if the model shows none.

    Args:
        render: Renders the model's templates.
        parts: Tokenizer of the model.
        source: Text of the templates.
    """
    prompt_text = _text(render, [_USER], answer=True) or ""
    for key in KEYS:
        shown = _shown(render, parts, prompt_text, key)
        if shown is not None:
            return shown
    for opening, marker, closing in KNOWN:
        if marker in parts.markers or marker in source:
            return _frame(parts, prompt_text, opening, marker, closing)
    return PLAIN_THINK_FRAME


_USER = {"role": "user", "content": text_of(0)}


def _shown(render: Render, parts: TokenizerParts, prompt_text: str, key: str) -> ThinkFrame | None:
    """The frame as the template writes it, or None."""
    answer = {"role": "assistant", "content": text_of(1), key: text_of(2)}
    text = _text(render, [_USER, answer], answer=False)
    if text is None or text.count(text_of(1)) != 1 or text.count(text_of(2)) != 1:
        return None
    begin, end = text.index(text_of(2)), text.index(text_of(1))
    closing = text[begin + len(text_of(2)) : end]
    if end < begin or not closing.strip():
        return None
    markers = [piece.text for piece in parts.pieces(closing) if isinstance(piece, Marker)]
    marker = markers[0] if markers else closing.strip()
    if text.startswith(prompt_text) and begin > len(prompt_text):
        return _frame(parts, prompt_text, text[len(prompt_text) : begin], marker, closing)
    if prompt_text.startswith(text[:begin]) and marker not in prompt_text[begin:]:
        return _frame(parts, prompt_text, "", marker, closing)  # opened with more text
    tag = _LAST_TAG.search(text[:begin])
    return _frame(parts, prompt_text, tag[0] if tag else "", marker, closing)


def _frame(
    parts: TokenizerParts, prompt_text: str, opening: str, marker: str, closing: str
) -> ThinkFrame:
    frame_pieces = parts.pieces(opening) + parts.pieces(closing)
    special = dict.fromkeys(piece.text for piece in frame_pieces if isinstance(piece, Marker))
    opened = not opening.strip() or prompt_text.rstrip().endswith(opening.strip())
    return ThinkFrame(opening, marker, closing, opened, tuple(special))


def _text(render: Render, messages: list[dict[str, str]], *, answer: bool) -> str | None:
    try:
        return render([dict(message) for message in messages], None, answer)
    except TemplateRefused:
        return None
