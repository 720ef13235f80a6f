"""A strict engine on a clock of tokens: so many slots, a queue of its own, a token a second each.

Its queue is what stock servers have: first come first served, or the smallest priority first; a
request that is in it cannot be moved any more.
"""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from agentrt.base.ids import RequestId, RunId
from agentrt.protocol.backend import SchedulingInfo
from agentrt.remote.admission.admission_queue import AdmissionQueue


class TokenEngine:
    """An engine with `slots`; it notes how many it ever had at once, waiting ones included."""

    def __init__(self, slots: int) -> None:
        self.free = slots
        self.waiting: list[tuple[int, int, anyio.Event]] = []
        self.inside = self.most = 0
        self.order: list[str] = []
        self._numbers = itertools.count()

    async def serve(self, name: str, tokens: int, priority: int = 0) -> None:
        """Serve a request; returns at its last token."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.free:
            self.free -= 1
        else:
            mine = anyio.Event()
            heapq.heappush(self.waiting, (priority, next(self._numbers), mine))
            await mine.wait()
        self.order.append(name)
        await anyio.sleep(tokens)
        if self.waiting:
            heapq.heappop(self.waiting)[2].set()
        else:
            self.free += 1
        self.inside -= 1


@dataclass(frozen=True)
class Load:
    """A program of `steps` requests, one after the other, of `tokens` each."""

    name: str
    at_s: float
    steps: int
    tokens: int


async def slowdowns(
    queue: AdmissionQueue, engine: TokenEngine, loads: Sequence[Load]
) -> dict[str, float]:
    """How much longer each program takes than alone."""
    found: dict[str, float] = {}

    async def play(load: Load) -> None:
        await anyio.sleep(load.at_s)
        began_s = anyio.current_time()
        waited_s = 0.0
        for step in range(load.steps):
            asked_s = anyio.current_time()
            turn = queue.turn()
            turn.info = SchedulingInfo(
                RequestId(turn.number),
                demanded=True,
                run_started_at_s=began_s,
                rest_s=float((load.steps - step) * load.tokens),
                run_id=RunId(load.name),
                attained_s=float(step * load.tokens),
                waited_s=waited_s,
                waiting=1,
                path_p50_s=float((load.steps - step) * load.tokens),
                path_p90_s=float((load.steps - step) * load.tokens),
                as_of_s=asked_s,
            )
            await queue.begin(turn)
            waited_s += anyio.current_time() - asked_s
            try:
                await engine.serve(load.name, load.tokens)
            finally:
                queue.end(turn, answered=True)
        found[load.name] = (anyio.current_time() - began_s) / (load.steps * load.tokens)

    async with anyio.create_task_group() as tasks:
        for load in loads:
            tasks.start_soon(play, load)
    return found
