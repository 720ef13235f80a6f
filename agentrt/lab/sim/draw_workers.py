"""Processes that serve draws of programs by arms, each draw always in the same process.

What a process knows of a draw (its programs, their latencies alone) it keeps, so that only points
travel. Virtual time does not depend on how many processes there are.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import lru_cache
from types import TracebackType

from agentrt.base.record import record
from agentrt.lab.sim.arms import SimArm
from agentrt.lab.sim.command import study_of
from agentrt.lab.sim.flags import StudyFlags
from agentrt.lab.sim.study import Study, StudyPoint


@record
class DrawPlay:
    """One draw, served by an arm at a rate.

    Attributes:
        arm: The arm.
        rate: Programs a second.
        draw: Number of the draw.
    """

    arm: SimArm
    rate: float
    draw: int


class DrawWorkers:
    """Serves draws in processes.

    Args:
        flags: The mix and its engine.
        kv_tokens: KV memory of the engine.
        processes: Number of processes.
    """

    def __init__(self, flags: StudyFlags, kv_tokens: int, processes: int) -> None:
        self._flags, self._kv_tokens = flags, kv_tokens
        context = multiprocessing.get_context("fork")
        self._pools = [ProcessPoolExecutor(1, context) for _ in range(processes)]

    def __enter__(self) -> DrawWorkers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)

    def serve(self, plays: Sequence[DrawPlay]) -> list[Future[StudyPoint]]:
        """Begin plays; the points come in any order.

        Raises:
            OutOfPages: A program does not fit the memory; raised by its future.
        """
        return [
            self._pools[one.draw % len(self._pools)].submit(
                _point, self._flags, one, self._kv_tokens
            )
            for one in plays
        ]


def _point(flags: StudyFlags, play: DrawPlay, kv_tokens: int) -> StudyPoint:
    return _study(flags).point(play.arm, play.rate, play.draw, kv_tokens)


@lru_cache(maxsize=1)
def _study(flags: StudyFlags) -> Study:
    """The study of a process."""
    return study_of(flags)
