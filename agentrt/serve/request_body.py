"""Bodies of requests, as far as memory reaches."""

from __future__ import annotations

from collections import Counter
from functools import partial

from agentrt.serve.asgi import Receive, read_body
from agentrt.serve.prompt_size import BodyLimit
from agentrt.serve.refusal import RequestRefused

MOST_HELD_BYTES = 256 << 20
_UNCOUNTED_BYTES = 64 * 1024


class BodyMemory:
    """Memory of the bodies that have not been read yet, shared evenly by the clients that have any.

    A client below its share is served even where the memory is used up: there may be twice as much
    in all. The first bytes of each body do not count.

    Args:
        most_bytes: Memory of all bodies.
    """

    def __init__(self, most_bytes: int = MOST_HELD_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held_bytes: Counter[str] = Counter()

    @property
    def held_bytes(self) -> int:
        """Memory in use."""
        return self._held_bytes.total()

    def grow(self, client: str, size_bytes: int) -> None:
        """Count more of a body.

        Raises:
            RequestRefused: There is no room.
        """
        total = self.held_bytes + size_bytes
        share = self._most_bytes // len(self._held_bytes.keys() | {client})
        is_over = self._held_bytes[client] + size_bytes > share
        if (total > self._most_bytes and is_over) or total > 2 * self._most_bytes:
            raise RequestRefused(503, "too many large requests are under way: come back soon")
        self._held_bytes[client] += size_bytes

    def shrink(self, client: str, size_bytes: int) -> None:
        """Give back what a body held."""
        self._held_bytes[client] -= size_bytes
        if self._held_bytes[client] <= 0:
            del self._held_bytes[client]


class HeldBody:
    """One body, which counts until it is released.

    Args:
        memory: Memory of all bodies.
        client: Owner of the body.

    Attributes:
        content: The bytes.
    """

    def __init__(self, memory: BodyMemory, client: str) -> None:
        self._memory = memory
        self._client = client
        self._counted_bytes = 0
        self.content = b""

    async def receive(self, receive: Receive, limit: BodyLimit) -> None:
        """Receive a body of a size that fits.

        Args:
            receive: Gives the events of the request.
            limit: The longest body.

        Raises:
            RequestRefused: The body is too long.
            ClientLeft: The body is not complete.
        """
        try:
            self.content = await read_body(receive, partial(self._count, limit))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Forget the body."""
        self.content = b""
        if self._counted_bytes:
            self._memory.shrink(self._client, self._counted_bytes)
            self._counted_bytes = 0

    def _count(self, limit: BodyLimit, size_bytes: int) -> None:
        limit.check(size_bytes)
        if size_bytes <= _UNCOUNTED_BYTES:
            return
        self._memory.grow(self._client, size_bytes - self._counted_bytes)
        self._counted_bytes = size_bytes
