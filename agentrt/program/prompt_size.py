"""Sizes of prompts whose tokens an engine counts: a bound, and an estimate."""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.base.canonical_json import dumps
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.segments import Segment, ToolSchema
from agentrt.program.messages import messages_of

BYTES_A_TOKEN = 4
"""Bytes of text that a token has on average."""

TEMPLATE_TOKENS = 512
"""Tokens that a server may write around a prompt: its template, and words about tools."""


def prompt_bytes(
    segments: Iterable[Segment], tools: Iterable[ToolSchema], constraint: ConstraintSpec | None
) -> int:
    """Size of a prompt as JSON, with the tools and the schema that a server may add to it."""
    size = len(dumps(messages_of(segments)).encode("utf-8", "surrogatepass"))
    described = [*tools, *(() if constraint is None else constraint.tools)]
    size += sum(len(repr(tool).encode("utf-8", "surrogatepass")) for tool in described)
    if constraint is not None:
        texts = (constraint.source, *constraint.options)
        size += sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return size


def most_prompt_tokens(size_bytes: int) -> int:
    """The most tokens that a prompt of this size has: a token has one byte of text or more."""
    return size_bytes + TEMPLATE_TOKENS


def likely_prompt_tokens(size_bytes: int) -> int:
    """The number of tokens that a prompt of this size has on average."""
    return -(-size_bytes // BYTES_A_TOKEN)
