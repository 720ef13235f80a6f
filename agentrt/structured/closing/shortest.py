"""The shortest match of a regex, found in its table over single bytes."""

from __future__ import annotations

from agentrt.base.errors import ConstraintError
from agentrt.base.vocabulary import Vocab
from agentrt.structured.backends.outlines_table import build_table, shortest_path
from agentrt.structured.json_schema.regex_text import cost_of, minimal_regex

_MAX_STATES = 20_000
_MAX_WIDE = 8
_READABLE_FIRST = tuple(dict.fromkeys(b"a1A0" + bytes(range(32, 127)) + bytes(range(256))))
_BYTES = Vocab(
    token_bytes=tuple(bytes([byte]) for byte in _READABLE_FIRST),
    special_ids={},
    eos_ids=(256,),
    tokenizer_json="",
    logits_size=257,
    fingerprint="single bytes",
)
"""One token a byte; of two shortest paths the table takes the one with the lower ids."""


def shortest_match(pattern: str) -> str | None:
    """The shortest text that `pattern` matches as a whole, readable if there is a choice.

    None if the pattern cannot be searched safely, or matches nothing.
    """
    small = minimal_regex(pattern)
    cost = cost_of(small)
    if cost.broad or cost.states > _MAX_STATES or cost.wide_after_choice > _MAX_WIDE:
        return None
    try:
        path = shortest_path(build_table(small, _BYTES), 0)
        return b"".join(_BYTES.token_bytes[token] for token in path).decode()
    except (ConstraintError, UnicodeDecodeError):
        return None
