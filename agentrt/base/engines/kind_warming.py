"""Warm-ups of kinds of servers: requests that compute the beginning of a prompt alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.base.record import record


@record
class KindWarming:
    """Warm-ups of one kind of server.

    Attributes:
        output_tokens: Fewest tokens that a request may produce there, 0 or 1.
        block_tokens: Tokens of a block of its prefix cache, or a multiple of them. Prefixes are
            found in whole blocks.
        source: Address of the document that describes the cache.
        template_path: Path, beside the API, that gives the prompt of a chat; "" if there is none.
        template_result: Field of its answer with the prompt, as text or as ids.
        template_fields: Fields of a chat that it takes; () takes all.
    """

    output_tokens: int
    block_tokens: int
    source: str
    template_path: str = ""
    template_result: str = ""
    template_fields: tuple[str, ...] = ()


def warming_in(row: Mapping[str, Any], sources: Mapping[str, str]) -> KindWarming:
    """The warm-ups in the table `warming` of a kind.

    Args:
        row: The table.
        sources: Documents, by the short names of the file.
    """
    return KindWarming(
        row["output_tokens"],
        row["block_tokens"],
        sources[row["from"]],
        row.get("template_path", ""),
        row.get("template_result", ""),
        tuple(row.get("template_fields", ())),
    )
