"""Patterns of a program's forms as grammars in GBNF, the notation of llama.cpp.

A form is words that are given and groups of free words, as in ` name( [a-z]{3}){2} end`. Classes of
letters, groups and repetitions are the same in both notations; text has to be quoted.
"""

from __future__ import annotations

import json
import re

_GROUP = re.compile(r"\(([^()\[\]{}]*)(\[[^\]]+\]\{[\d,]+\})\)(\{[\d,]+\})")


def gbnf_of(pattern: str) -> str:
    """The grammar of a pattern.

    Args:
        pattern: Text, and groups of text with one class of letters.

    Raises:
        ValueError: The pattern has anything else.

    Example:
        >>> gbnf_of(" a( [a-z]{3}){2}")
        'root ::= " a" (" " [a-z]{3}){2}'
    """
    parts: list[str] = []
    at = 0
    for group in _GROUP.finditer(pattern):
        parts += _quoted(pattern[at : group.start()])
        parts.append(f"({json.dumps(group[1])} {group[2]}){group[3]}")
        at = group.end()
    return " ".join(["root ::=", *parts, *_quoted(pattern[at:])])


def _quoted(text: str) -> list[str]:
    if re.search(r"[][(){}|*+?.^$\\]", text):
        raise ValueError(f"{text!r} is no plain text")
    return [json.dumps(text)] if text else []
