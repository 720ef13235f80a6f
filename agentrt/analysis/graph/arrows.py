"""Ways of arrows in a picture, around the boxes that lie between their ends."""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.base.record import record

SIDE = 40
"""Room beside the boxes, in pixels, for arrows that go around."""


@record
class Box:
    """A placed box.

    Attributes:
        x: Middle, in pixels.
        y: Middle, in pixels.
        width: Width in pixels.
        height: Height in pixels.
    """

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        """Left border."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """Right border."""
        return self.x + self.width / 2


def way(source: Box, target: Box, between: Iterable[Box], *, is_back: bool) -> str:
    """The way of an arrow as the data of an SVG path.

    It leads straight down if no box lies in its way, else around the left side; the arrows of a
    loop lead up again around the right side.

    Args:
        source: Box where it begins.
        target: Box where it ends.
        between: Boxes of the layers between both.
        is_back: Whether it belongs to a loop.
    """
    passed = list(between)
    if is_back:
        side = max(box.right for box in (source, target, *passed)) + SIDE
        return _around(source.right, source.y, side, target.right, target.y)
    if any(_is_in_the_way(box, source, target) for box in passed):
        side = min(box.left for box in (source, target, *passed)) - SIDE
        return _around(source.left, source.y, side, target.left, target.y)
    y1, y2 = source.y + source.height / 2, target.y - target.height / 2
    bend = max(16.0, (y2 - y1) / 2)
    ends = f"M{source.x:.1f} {y1:.1f}C{source.x:.1f} {y1 + bend:.1f}"
    return f"{ends} {target.x:.1f} {y2 - bend:.1f} {target.x:.1f} {y2:.1f}"


def _around(x1: float, y1: float, side: float, x2: float, y2: float) -> str:
    return f"M{x1:.1f} {y1:.1f}C{side:.1f} {y1:.1f} {side:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


def _is_in_the_way(box: Box, source: Box, target: Box) -> bool:
    """Whether the straight line between two boxes meets a third one at its middle."""
    share = (box.y - source.y) / (target.y - source.y)
    x = source.x + share * (target.x - source.x)
    return box.left - 4 <= x <= box.right + 4
