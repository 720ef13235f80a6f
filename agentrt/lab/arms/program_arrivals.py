"""The arrivals of programs at an arm: by their seconds, or as the bench rings for them.

A bench that rings is connected to by the arm. It sends the number of each program that arrives, a
line each; the arm answers with the number of each that has ended. `peers/program_arrivals.py` is
the same for peers, which cannot import this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress


class ProgramArrivals:
    """The arrivals of one play.

    Args:
        due_s: Instants of the programs, in seconds of the play.
        now_s: Clock of the play.
    """

    def __init__(self, due_s: Sequence[float], now_s: Callable[[], float]) -> None:
        self._due_s = due_s
        self._now_s = now_s
        self._bells: list[asyncio.Future[float]] = []
        self._writer: asyncio.StreamWriter | None = None

    @asynccontextmanager
    async def followed(self, address: str) -> AsyncIterator[None]:
        """Follow the bench at an address, `host:port`; "" goes by the seconds of the lines."""
        if not address:
            yield
            return
        loop = asyncio.get_running_loop()
        self._bells = [loop.create_future() for _ in self._due_s]
        host, _, port = address.rpartition(":")
        reader, self._writer = await asyncio.open_connection(host, int(port))
        reading = asyncio.create_task(self._read(reader))
        try:
            yield
        finally:
            reading.cancel()
            self._writer.close()

    async def wait(self, number: int) -> float:
        """Wait until a program arrives; returns the instant, in seconds of the play.

        Raises:
            ConnectionError: The bench rings no more.
        """
        if self._bells:
            return await self._bells[number]
        await asyncio.sleep(max(0.0, self._due_s[number] - self._now_s()))
        return self._due_s[number]

    def end(self, number: int) -> None:
        """Report the end of a program."""
        if self._writer is not None:
            self._writer.write(b"%d\n" % number)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while line := await reader.readline():
                self._bells[int(line)].set_result(self._now_s())
        for bell in self._bells:
            if not bell.done():
                bell.set_exception(ConnectionError("the bench rings no more"))
