"""Warm-ups of kinds of servers: requests that compute the beginning of a prompt alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.base.record import record


@record
class KindWarming:
    """Warm-ups of one kind of server.

    Attributes:
        output_tokens: Fewest tokens that a request may produce there.
        block_tokens: Tokens of a block of its prefix cache, or a multiple of them. Prefixes are
            found in whole blocks.
        source: Address of the document that describes the cache.
    """

    output_tokens: int
    block_tokens: int
    source: str


def warming_in(row: Mapping[str, Any], sources: Mapping[str, str]) -> KindWarming:
    """The warm-ups in the table `warming` of a kind.

    Args:
        row: The table.
        sources: Documents, by the short names of the file.
    """
    return KindWarming(row["output_tokens"], row["block_tokens"], sources[row["from"]])
