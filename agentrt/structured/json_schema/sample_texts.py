"""Texts of a constraint, drawn byte by byte without a vocabulary."""

from __future__ import annotations

import functools
import json
import time
from random import Random

from llguidance import LLMatcher, LLTokenizer

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.structured.json_schema.distinct import DistinctPlaces
from agentrt.structured.json_schema.distinct_text import DocumentPosition, follow
from agentrt.structured.json_schema.json_grammar import has_rules, json_grammar
from agentrt.structured.json_schema.native import lark_grammar, parser_limits

_TEXTS = 33
_TEXTS_CPU_S = 0.02
_LONG_BYTES, _MOST_BYTES = 60, 2_000
_END = 261
_ENDS = b'"]},;'
_SHORT = b"0123456789tfn"
_PRINTABLE = bytes(range(32, 127))
_TRIES = 6


def sample_texts(spec: ConstraintSpec) -> list[str]:
    """Different texts of a constraint, a short one and some at random; the same ones each time.

    Fewer are drawn if they take more than their share of CPU time.
    """
    matcher = _matcher(spec)
    start = _start_of(spec)
    ends_s = time.process_time() + _TEXTS_CPU_S
    texts: dict[str, None] = {}
    for number in range(_TEXTS):
        text = _walk(matcher.deep_copy(), Random(number), is_short=number == 0)
        if text is not None and follow(start, b"", text.encode()) is not None:
            texts[text] = None
        if time.process_time() > ends_s:
            break
    return list(texts)


def _matcher(spec: ConstraintSpec) -> LLMatcher:
    if spec.kind != "json":
        return _start(lark_grammar(spec.source))
    schema = json.loads(spec.source)
    matcher = _start(json_grammar(schema, style=spec.style))
    if matcher.is_error() and has_rules(schema):
        return _start(json_grammar(schema, exact=False, style=spec.style))
    return matcher


def _start_of(spec: ConstraintSpec) -> DocumentPosition:
    """The position before a text, whose items may have to be distinct."""
    schema = json.loads(spec.source) if spec.kind == "json" else True
    return DocumentPosition.at_start(DistinctPlaces(schema).root)


def _start(grammar: str) -> LLMatcher:
    return LLMatcher(_bytes(), grammar, limits=parser_limits(), log_level=0)


def _walk(matcher: LLMatcher, dice: Random, *, is_short: bool) -> str | None:
    """One text; None if it finds no end."""
    written = bytearray()
    while len(written) < _MOST_BYTES:
        mask = int.from_bytes(matcher.compute_bitmask(), "little")
        closes = is_short or len(written) > _LONG_BYTES or dice.random() < 0.2
        if mask >> _END & 1 and (closes or mask == 1 << _END):
            return written.decode(errors="replace")
        byte = _next_byte(mask & ((1 << 256) - 1), dice, closes=closes)
        if byte is None or not matcher.consume_token(byte):
            return None
        written.append(byte)
        forced = matcher.compute_ff_bytes()
        if forced and matcher.consume_tokens(list(forced)):
            written += forced
    return None


def _next_byte(mask: int, dice: Random, *, closes: bool) -> int | None:
    """A byte of a mask, one that leads to the end if the text is to close."""
    preferred = (*_ENDS, *_SHORT) if closes else dice.choices(_PRINTABLE, k=_TRIES)
    for byte in preferred:
        if mask >> byte & 1:
            return byte
    allowed = [byte for byte in range(256) if mask >> byte & 1]
    return dice.choice(allowed) if allowed else None


@functools.cache
def _bytes() -> LLTokenizer:
    return LLTokenizer("byte")
