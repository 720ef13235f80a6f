"""A terminal's screen: what is to be seen after some output, with the lines that left it above.

It knows the control sequences that a live display needs, and refuses all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len

_SEQUENCE = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])")


class TerminalScreen:
    """A screen of some columns and rows.

    Args:
        columns: Columns.
        rows: Rows.

    Attributes:
        lines: All lines, those that have left the screen first.
        wrapped: Number of times that text went beyond the last column.
        colours: Whether a colour was asked for.
        hidden_cursor: Whether the cursor is hidden.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self.lines: list[str] = [""]
        self._row, self._column = 0, 0
        self.wrapped = 0
        self.colours = False
        self.hidden_cursor = False

    @property
    def text(self) -> str:
        """All lines without spaces at their ends."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")

    def feed(self, output: str) -> None:
        """Take output."""
        for sequence, text in _parts(output):
            if sequence:
                self._control(*sequence)
            for char in text:
                self._put(char)

    def _put(self, char: str) -> None:
        if char == "\n":  # as the terminal's own driver makes it
            self._down()
            self._column = 0
        elif char == "\r":
            self._column = 0
        else:
            assert char.isprintable() or char == "\t", repr(char)
            if self._column + cell_len(char) > self._columns:
                self.wrapped += 1
                self._down()
                self._column = 0
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + char + line[self._column + 1 :]
            self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.lines):
            self.lines.append("")

    def _control(self, numbers: str, kind: str) -> None:
        if kind == "A":  # up, but not beyond the first row on the screen
            first = max(0, len(self.lines) - self._rows)
            self._row = max(first, self._row - int(numbers or 1))
        elif kind == "K" and numbers == "2":
            self.lines[self._row] = ""
        elif kind == "m":
            colours = {int(one or 0) for one in numbers.split(";")}
            self.colours |= any(30 <= one <= 48 or 90 <= one <= 107 for one in colours)
        elif numbers == "?25":
            self.hidden_cursor = kind == "l"
        else:
            raise AssertionError(f"unknown sequence {numbers}{kind}")


def _parts(output: str) -> Iterator[tuple[tuple[str, str] | None, str]]:
    at = 0
    for match in _SEQUENCE.finditer(output):
        yield None, output[at : match.start()]
        yield (match[1], match[2]), ""
        at = match.end()
    yield None, output[at:]
