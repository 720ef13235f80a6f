"""The beginning of a prompt of messages, as the server's own template writes it.

Only the server knows its template. So it renders the prompt twice, with two markers in the place of
each pending value, and what both have in common is the beginning, whatever the values will be. A
template that looks at the text of a message may write another beginning for another value: such a
prefix is in vain, and nothing is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agentrt.base.engines.kind_warming import KindWarming
from agentrt.base.errors import RequestRejected
from agentrt.base.segments import Close, Hole, Segment, Text
from agentrt.remote.http import Http

Json = dict[str, Any]

MARKERS = ("0q1", "Zx9")
"""Two texts without a common character, for pending values."""

UNSURE_TOKENS = 8
"""Ids at the end of what both have in common that another text behind them might change."""


def with_marker(segments: Iterable[Segment], marker: str) -> tuple[Segment, ...]:
    """Segments with a text in the place of each pending value, behind what is known of it."""
    return tuple(
        Text("".join(one.begun) + marker) if isinstance(one, Hole) else one for one in segments
    )


def known_segments(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """The segments up to the first pending value, as whole messages."""
    found: list[Segment] = []
    for one in segments:
        if isinstance(one, Hole):
            return (*found, Text("".join(one.begun)), Close())
        found.append(one)
    return tuple(found)


def likely_ids(segments: Iterable[Segment], tools: object) -> tuple[int, ...]:
    """Numbers in the place of token ids: longer prompts begin with those of their beginnings.

    Args:
        segments: Segments of a prompt; what is behind the first hole does not count.
        tools: Tools that stand before them.
    """
    parts = [repr(tools)]
    for one in segments:
        if isinstance(one, Hole):
            parts += one.begun
            break
        parts.append(one.text if isinstance(one, Text) else repr(one))
    data = "\0".join(parts[:1]) + "".join(parts[1:])
    raw = data.encode("utf-8", "surrogatepass")
    return tuple(memoryview(raw[: len(raw) - len(raw) % 4]).cast("i"))


def common_part(first: Sequence[int] | str, second: Sequence[int] | str) -> int:
    """Length of what two renderings begin with."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length


async def rendered_prefix(http: Http, kind: KindWarming, bodies: Sequence[Json]) -> list[int] | str:
    """The beginning that two prompts have in common, as ids or as text.

    Args:
        http: The server.
        kind: Warm-ups of its kind.
        bodies: The chats of both, as they would be sent.

    Raises:
        AgentrtError: The server does not render them.
    """
    found: list[list[int] | str] = []
    for body in bodies:
        fields = kind.template_fields or tuple(body)
        asked = {name: body[name] for name in fields if name in body}
        data = await http.look(kind.template_path, asked)
        try:
            found.append(json.loads(data)[kind.template_result])
        except (ValueError, RecursionError, KeyError, TypeError):
            raise RequestRejected(f"{http.url} does not show its prompts") from None
    length = common_part(*found)
    first = found[0]
    if isinstance(first, str):
        return first[:length]
    length = max(0, length - UNSURE_TOKENS)
    return first[: length - length % kind.block_tokens]
