"""Connections that never complete a request, and a client that asks each second meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import closing, suppress

from agentrt.base.record import record
from agentrt.lab.bench.serve.questions import QuestionMaker
from agentrt.lab.bench.serve.raw_connection import chat_request, connected

FILES = 256
_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
_HALVES = {
    "half a head": _HEAD[:-10],
    "half a body": _HEAD + b"content-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    "nothing": b"",
}
_AGAIN_S = 1.0
_PATIENCE_S = 10.0
_PROMPT_TOKENS = 64


@record
class CanarySample:
    """Requests of a client beside half-open connections.

    Attributes:
        asked: Requests.
        waits_s: Seconds of those that were answered.
        open_at_once: Half-open connections that the server held at each request.
        opened: Half-open connections in all.
        refusals: Other ends, by their status or error.
    """

    asked: int
    waits_s: list[float]
    open_at_once: list[int]
    opened: int
    refusals: dict[str, int]


class HalfOpen:
    """Half-open connections, each opened again a second after the server has closed it.

    Args:
        port: Port of the server.
        maker: Maker of prompts.
    """

    def __init__(self, port: int, maker: QuestionMaker) -> None:
        self._port = port
        self._maker = maker
        self._open = 0
        self._opened = 0

    async def measure(self, connections: int, seconds: int) -> CanarySample:
        """Ask once a second.

        Args:
            connections: Half-open connections.
            seconds: Length of it all.
        """
        halves = list(_HALVES.values())
        tasks = [
            asyncio.create_task(self._hold(halves[number % len(halves)]))
            for number in range(connections)
        ]
        found = CanarySample(seconds, [], [], 0, Counter())
        try:
            await asyncio.sleep(_AGAIN_S)  # until they stand
            for number in range(seconds):
                due_at_s = time.monotonic() + 1.0
                found.open_at_once.append(self._open)
                await self._ask(number, found)
                await asyncio.sleep(max(0.0, due_at_s - time.monotonic()))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return CanarySample(
            seconds, found.waits_s, found.open_at_once, self._opened, dict(found.refusals)
        )

    async def _hold(self, half: bytes) -> None:
        while True:
            with suppress(OSError):
                connection = await connected(self._port)
                self._open += 1
                self._opened += 1
                try:
                    connection.write(half)
                    await connection.closed.wait()
                finally:
                    self._open -= 1
                    connection.close()
            await asyncio.sleep(_AGAIN_S)

    async def _ask(self, number: int, found: CanarySample) -> None:
        question = self._maker.question(f"canary {number}", _PROMPT_TOKENS, max_tokens=1)
        began_at_s = time.perf_counter()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                with closing(await connected(self._port)) as connection:
                    answer = await connection.exchange(chat_request(question.fields))
        except OSError as error:  # among them TimeoutError
            refusal = type(error).__name__
        else:
            refusal = "" if answer.status == 200 else str(answer.status)
        if refusal:
            found.refusals[refusal] = found.refusals.get(refusal, 0) + 1
        else:
            found.waits_s.append(time.perf_counter() - began_at_s)
