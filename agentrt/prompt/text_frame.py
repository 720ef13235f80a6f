"""Special tokens that a tokenizer puts around a text by itself, such as a token of the beginning.

Chats do not have them from here: their template writes its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
TextFrame = tuple[tuple[int, ...], tuple[int, ...]]
"""Ids before and behind a text."""


def text_frame(tokenizer: Json) -> TextFrame:
    """The ids around a single text.

    Args:
        tokenizer: The parsed `tokenizer.json`.

    Example:
        >>> text_frame({"post_processor": {"type": "RobertaProcessing", "cls": ["<s>", 0],
        ...                                "sep": ["</s>", 2]}})
        ((0,), (2,))
    """
    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    for step in _steps(tokenizer.get("post_processor")):
        opening, closing = _frame_of(step)
        before, behind = (*opening, *before), (*behind, *closing)
    return before, behind


def _steps(processor: Any) -> Iterator[Json]:
    if not isinstance(processor, dict):
        return
    if processor.get("type") != "Sequence":
        yield processor
        return
    for one in processor.get("processors") or ():
        yield from _steps(one)


def _frame_of(step: Json) -> TextFrame:
    match step.get("type"):
        case "TemplateProcessing":
            return _template_frame(step)
        case "BertProcessing" | "RobertaProcessing":
            return (step["cls"][1],), (step["sep"][1],)
        case _:
            return (), ()


def _template_frame(step: Json) -> TextFrame:
    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    has_text = False
    for piece in step["single"]:
        if "Sequence" in piece:
            has_text = True
            continue
        ids = tuple(step["special_tokens"][piece["SpecialToken"]["id"]]["ids"])
        if has_text:
            behind += ids
        else:
            before += ids
    return before, behind
