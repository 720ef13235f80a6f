"""Cursor over the bytes of a header: every read is bounded."""

from __future__ import annotations

import struct
from mmap import mmap
from typing import Any


class OutOfBounds(Exception):
    """A read that does not end within the bytes."""


class ByteCursor:
    """Position in little-endian bytes.

    Attributes:
        at: Offset of the next read, in bytes.
    """

    def __init__(self, data: bytes | mmap, end: int) -> None:
        """Begin at the first byte.

        Args:
            data: The bytes.
            end: Bytes that may be read.
        """
        self.at = 0
        self._data = memoryview(data)
        self._source = data
        self._end = end

    def number(self, form: struct.Struct) -> Any:
        """The next number.

        Raises:
            OutOfBounds: The bytes end before.
        """
        start = self.skip(form.size)
        return form.unpack_from(self._data, start)[0]

    def text_bytes(self, most: int) -> bytes:
        """The next text: a length of eight bytes, then so many bytes.

        Args:
            most: Longest length, in bytes.

        Raises:
            OutOfBounds: The text is longer, or the bytes end before.
        """
        size = self.number(LENGTH)
        if size > most:
            raise OutOfBounds(f"a text of {size} bytes at byte {self.at - LENGTH.size}")
        start = self.skip(size)
        return bytes(self._data[start : start + size])

    def skip(self, size: int) -> int:
        """Pass `size` bytes.

        Returns:
            Offset of the first of them.

        Raises:
            OutOfBounds: The bytes end before.
        """
        start = self.at
        if size > self._end - start:
            raise OutOfBounds(f"{size} bytes at byte {start} of {self._end}")
        self.at = start + size
        return start

    def skip_texts(self, count: int) -> int:
        """Pass `count` texts.

        Returns:
            Offset of the first of them.

        Raises:
            OutOfBounds: The bytes end before.
        """
        start = at = self.at
        data, unpack, last = self._data, LENGTH.unpack_from, self._end - LENGTH.size
        for _ in range(count):
            if at > last:
                raise OutOfBounds(f"{count} texts at byte {start} of {self._end}")
            at += unpack(data, at)[0] + LENGTH.size
        if at > self._end:
            raise OutOfBounds(f"{count} texts at byte {start} of {self._end}")
        self.at = at
        return start

    def texts(self, count: int) -> list[bytes]:
        """The next `count` texts; a call for each would take five times as long.

        Raises:
            OutOfBounds: The bytes end before.
        """
        found: list[bytes] = []
        start = at = self.at
        data, unpack, last = self._source, LENGTH.unpack_from, self._end - LENGTH.size
        for _ in range(count):
            if at > last:
                break
            begin = at + LENGTH.size
            at = begin + unpack(data, at)[0]
            found.append(data[begin:at])
        if len(found) < count or at > self._end:
            raise OutOfBounds(f"{count} texts at byte {start} of {self._end}")
        self.at = at
        return found


LENGTH = struct.Struct("<Q")
"""Length of a text, and count of an array."""
