"""Lines of a recording that a replay has not used yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar


class OfNode(Protocol):
    """A line of a recording with the path of its node."""

    node: str


LineT = TypeVar("LineT", bound=OfNode)


def take(left: list[LineT], fits: Callable[[LineT], bool], node: str) -> LineT | None:
    """Take the line of this node, else the first one, of those in `left` that fit; maybe none."""
    found = [one for one in left if fits(one)]
    found.sort(key=lambda one: one.node != node)
    if not found:
        return None
    left.remove(found[0])
    return found[0]
