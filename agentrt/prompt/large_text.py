"""Texts that take so long to encode that it happens in a worker thread."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.base.segments import Segment, Text

LARGE_CHARACTERS = 64 * 1024


def large_texts(segments: Sequence[Segment]) -> int:
    """Number of large texts among the segments of a prompt."""
    return sum(isinstance(one, Text) and len(one.text) > LARGE_CHARACTERS for one in segments)
