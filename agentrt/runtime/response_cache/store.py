"""The contract between the response cache and a store of answers.

Methods block, and are called from one thread. A lease is the right to compute an answer: the first
process that misses it gets the lease, others wait for its answer. A lease ends by itself, so that a
process that has crashed blocks no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentrt.base.record import record

MAX_BYTES = 256 * 1024 * 1024
MAX_AGE_S = 30 * 86_400.0


class StoreError(Exception):
    """A store cannot be reached, read or written; the message says which one and why."""


@record
class Found:
    """The outcome of a look-up.

    Attributes:
        value: The value; None if there is none.
        is_leased: Whether the caller holds the lease on the key. With neither, another process
            does, and computes the answer.
    """

    value: bytes | None = None
    is_leased: bool = False


@record
class StoreStats:
    """Size of a store.

    Attributes:
        place: The file or the address, without a password.
        answers: Number of answers.
        value_bytes: Bytes of their values.
    """

    place: str
    answers: int
    value_bytes: int


class ResponseStore(Protocol):
    """A store of answers by key. Every method may raise `StoreError`."""

    @property
    def place(self) -> str:
        """The file or the address, without a password."""
        ...

    def find(self, key: str, holder: str, lease_s: float) -> Found:
        """The value of a key, or else a lease on it for `holder`, if no other one has it."""
        ...

    def put(self, key: str, value: bytes, holder: str) -> None:
        """Keep a value and end the holder's lease; another value of the key is replaced."""
        ...

    def renew(self, keys: Sequence[str], holder: str, lease_s: float) -> None:
        """Let the leases of a holder last for so many seconds from now."""
        ...

    def release(self, key: str, holder: str) -> None:
        """End a lease of a holder without a value, so that another one may compute it."""
        ...

    def remove(self, key: str) -> None:
        """Drop a value."""
        ...

    def clear(self) -> int:
        """Drop all answers and leases; returns the number of answers."""
        ...

    def stats(self) -> StoreStats:
        """The size of the store."""
        ...

    def close(self) -> None:
        """Close files and connections; never fails."""
        ...
