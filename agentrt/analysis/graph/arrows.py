"""Ways of arrows in a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentrt.analysis.graph.layered_layout import Point
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


def smooth_way(points: Sequence[Point], *, across: bool = False) -> str:
    """A smooth line through points as the data of an SVG path.

    Args:
        points: Two or more points, in pixels.
        across: Whether the line leads from left to right; else downwards.
    """
    x, y = points[0]
    drawn = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in points[1:]:
        if (to_y == y) if across else (to_x == x):
            drawn += f"L{to_x:.1f} {to_y:.1f}"
        elif across:
            middle = (x + to_x) / 2
            drawn += f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        else:
            middle = (y + to_y) / 2
            drawn += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    return drawn


def way_back(source: Box, target: Box, between: Iterable[Box]) -> str:
    """The way of an arrow of a loop, up again around the right side, as data of an SVG path.

    Args:
        source: Box where it begins.
        target: Box where it ends.
        between: Boxes of the layers between both.
    """
    side = max(box.right for box in (source, target, *between)) + SIDE
    x1, y1, x2, y2 = source.right, source.y, target.right, target.y
    return f"M{x1:.1f} {y1:.1f}C{side:.1f} {y1:.1f} {side:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
