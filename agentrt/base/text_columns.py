"""Tables of text, and lines that fit a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines with columns of equal width.

    Example:
        >>> aligned([("name", "count"), ("a", "12")])
        ['name  count', 'a     12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def folded(line: str, width: int) -> str:
    """A line of parts as lines that fit, broken before ` | ` and ` + `; a longer part stays whole.

    Example:
        >>> print(folded("total 5 = tool 2 + decode 3 | parallelism 1.0x", 24))
        total 5 = tool 2
          + decode 3
          | parallelism 1.0x
    """
    lines = [""]
    for part in re.split(r"(?= [|+] )", line):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("  " + part.lstrip())
        else:
            lines[-1] += part
    return "\n".join(lines)
