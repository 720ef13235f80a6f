"""Tables of text, and lines that fit a terminal."""

from __future__ import annotations

import re
import textwrap
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


def wrapped(line: str, width: int, indent: int) -> list[str]:
    """A line as lines of at most `width` columns, broken between words; 0 leaves it whole.

    Args:
        line: The line; blanks inside of it stay as they are.
        width: Columns of the terminal; 0 if there is none.
        indent: Blanks before each line but the first.

    Example:
        >>> wrapped("gpu   none is seen here", 16, indent=6)
        ['gpu   none is', '      seen here']
        >>> wrapped("gpu   none is seen here", 0, indent=6)
        ['gpu   none is seen here']
    """
    if not width or len(line) <= width:
        return [line]
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


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
