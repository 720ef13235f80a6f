"""Place in which the masks of one sequence are filled: with those of other rows, or apart."""

from __future__ import annotations

from typing import Protocol


class StateLock(Protocol):
    """A computation that has the grammar state to itself."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until the state is free again; False if it is not within that time."""
        ...


class MaskPlace:
    """Place of a sequence's masks: apart once one was slow, back when one was quick.

    Args:
        stays_apart: Whether masks are apart from the start, and stay so after a quick one, because
            a later one may never end.

    Attributes:
        is_apart: Whether masks are filled apart from those of other rows.
        under_way: A mask of its own that is being filled, or None.
    """

    __slots__ = ("_stays_apart", "is_apart", "under_way")

    def __init__(self, *, stays_apart: bool = False) -> None:
        self._stays_apart = self.is_apart = stays_apart
        self.under_way: StateLock | None = None

    @property
    def is_slow(self) -> bool:
        """Whether a mask may take long; then no draft is made, each token of which takes one."""
        return self.is_apart or self.under_way is not None

    def finish(self, *, was_slow: bool) -> None:
        """End the mask under way; a quick one leads back to the other rows."""
        self.under_way = None
        self.is_apart = self._stays_apart or was_slow
