"""The order of batches of KV events: what is missing, what came twice, and a new beginning."""

from __future__ import annotations

from typing import Literal

BatchPlace = Literal["next", "gap", "repeated", "restarted"]
"""`gap`: batches before it are missing. `restarted`: the server counts anew, and its cache is
empty."""


class BatchOrder:
    """The numbers of the batches of one server, which counts them from 0.

    Attributes:
        taken_to: Number of the last batch that was taken; -1 before the first.

    Example:
        >>> order = BatchOrder()
        >>> order.place(0)
        'next'
        >>> order.take(0, b"")
        >>> order.place(4), order.place(0)
        ('gap', 'restarted')
    """

    def __init__(self) -> None:
        self.taken_to = -1
        self._published = -1
        self._last = b""

    def place(self, number: int) -> BatchPlace:
        """The place of a batch that was published.

        A server publishes each number once, in order. What was replayed comes again.
        """
        if number <= self._published:
            self.restart()
            self._published = number
            return "restarted"
        self._published = number
        if number <= self.taken_to:
            return "repeated"
        return "gap" if number > self.taken_to + 1 else "next"

    def take(self, number: int, payload: bytes) -> None:
        """Note that a batch is taken, however it came."""
        self.taken_to, self._last = number, payload

    def place_replayed(self, number: int, payload: bytes) -> BatchPlace:
        """The place of a batch that was asked for, from the last one on that was taken.

        If that one has other content, the server counts anew: its numbers have passed ours.
        """
        if number == self.taken_to and self._last and payload != self._last:
            return "restarted"
        return "repeated" if number <= self.taken_to else "next"

    def restart(self) -> None:
        """Begin anew."""
        self.taken_to, self._last = -1, b""
