"""Many clients of one owner in a closed loop, and one newcomer: how long each waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count

from agentrt.analysis.statistics import mean
from agentrt.base.record import record
from agentrt.lab.bench.serve.questions import QuestionMaker
from agentrt.lab.bench.serve.raw_connection import (
    RawAnswer,
    RawConnection,
    chat_request,
    connected,
)
from agentrt.lab.errors import BenchFailed

_PROMPT_TOKENS = 64
_NEW_TOKENS = 32
_PAUSE_S = 0.5
_RETRY_S = 1.0


@record
class ClientGroup:
    """Attributes of requests by which a server tells their owner.

    Attributes:
        key: API key, or "".
        source: Address of its clients.
        user: Field `user`, or "".
    """

    key: str = ""
    source: str = "127.0.0.1"
    user: str = ""


@dataclass
class CrowdSample:
    """Waits for the first token.

    Attributes:
        crowd_s: Seconds that requests of the crowd waited while the newcomer was there.
        newcomer_s: Seconds that each request of the newcomer waited.
        statuses: Requests by the owner's part and status.
    """

    crowd_s: list[float] = field(default_factory=list)
    newcomer_s: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)

    @property
    def ratios(self) -> Sequence[float]:
        """Each wait of the newcomer by the mean wait of the crowd."""
        return [one / mean(self.crowd_s) for one in self.newcomer_s]

    @property
    def ratio(self) -> float:
        """Mean wait of the newcomer by the mean wait of the crowd; 1 by order of arrival."""
        return mean(self.ratios)


class Crowd:
    """Clients of one server.

    Args:
        port: Port of the server.
        maker: Maker of prompts.
    """

    def __init__(self, port: int, maker: QuestionMaker) -> None:
        self._port = port
        self._maker = maker
        self._numbers = count()
        self._began = Counter[int]()
        self._found = CrowdSample()

    async def measure(
        self, clients: int, crowd: ClientGroup, newcomer: ClientGroup, requests: int
    ) -> CrowdSample:
        """Let the newcomer ask some times, one after the other, once every client has had a turn.

        Args:
            clients: Clients of the crowd, each of which asks again as soon as it has its answer.
            crowd: Their owner.
            newcomer: ClientGroup of the newcomer.
            requests: Requests of the newcomer.

        Raises:
            BenchFailed: The crowd was not served.
        """
        tasks = [asyncio.create_task(self._loop(crowd, number)) for number in range(clients)]
        try:
            while len(self._began) < clients:
                await asyncio.sleep(_PAUSE_S)
                for task in tasks:
                    if task.done():
                        task.result()
            self._found.crowd_s.clear()
            with closing(await connected(self._port, newcomer.source)) as connection:
                for _ in range(requests):
                    answer = await self._ask(connection, newcomer, "newcomer")
                    if answer.status == 200:
                        self._found.newcomer_s.append(answer.first_s)
                    await asyncio.sleep(_PAUSE_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not self._found.crowd_s or not self._found.newcomer_s:
            raise BenchFailed(f"the server answered {dict(self._found.statuses)}")
        return self._found

    async def _loop(self, owner: ClientGroup, number: int) -> None:
        """Ask again and again on a kept-alive connection."""
        while True:
            with closing(await connected(self._port, owner.source)) as connection:
                while not connection.closed.is_set():
                    answer = await self._ask(connection, owner, "crowd")
                    if answer.status == 200:
                        self._found.crowd_s.append(answer.first_s)
                        self._began[number] += 1
                    else:
                        await asyncio.sleep(_RETRY_S)

    async def _ask(self, connection: RawConnection, owner: ClientGroup, part: str) -> RawAnswer:
        question = self._maker.question(
            f"crowd {next(self._numbers)}",
            _PROMPT_TOKENS,
            max_tokens=_NEW_TOKENS,
            stream=True,
            **({"user": owner.user} if owner.user else {}),
        )
        answer = await connection.exchange(chat_request(question.fields, owner.key))
        kind = f"{part} {answer.status}"
        self._found.statuses[kind] = self._found.statuses.get(kind, 0) + 1
        return answer
