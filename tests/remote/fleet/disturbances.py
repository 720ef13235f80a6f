"""Faults of workers: one at a time, at set intervals, of kinds that take turns."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from tests.remote.fleet.worker_processes import Fault, WorkerProcess


@dataclass
class Disturbances:
    """Faults of the workers of a fleet.

    Attributes:
        workers: The workers.
        kinds: Kinds of faults, which take turns in an order drawn for each round.
        every_s: Time between the beginnings of two faults.
        most_away_s: Longest time for which a worker is stopped or cut off; drawn from 1 s on.
        most: Most faults.
        seed: Seed of kinds, workers and times.
        done: Faults so far, by kind.
    """

    workers: Sequence[WorkerProcess]
    kinds: Sequence[Fault]
    every_s: float
    most_away_s: float
    most: int
    seed: int = 0
    done: Counter[str] = field(default_factory=Counter)
    _away: set[int] = field(default_factory=set)

    async def play(self) -> None:
        """Disturb until cancelled; a worker that is stopped or cut off is always let go again."""
        chance, turns = random.Random(self.seed), list[Fault]()
        next_at_s = anyio.current_time() + chance.uniform(0.2, 0.5) * self.every_s
        async with anyio.create_task_group() as tasks:
            while self.done.total() < self.most:
                await anyio.sleep_until(next_at_s)
                next_at_s += self.every_s
                free = [one for one in self.workers if one.number not in self._away]
                if not free:
                    continue
                turns = turns or chance.sample(self.kinds, len(self.kinds))
                fault, worker = turns.pop(), chance.choice(free)
                self.done[fault] += 1
                self._away.add(worker.number)
                tasks.start_soon(self._disturb, worker, fault, chance.uniform(1, self.most_away_s))

    async def _disturb(self, worker: WorkerProcess, fault: Fault, away_s: float) -> None:
        await anyio.to_thread.run_sync(worker.disturb, fault)
        if fault != "kill":
            try:
                await anyio.sleep(away_s)
            finally:
                worker.restore(fault)
        self._away.discard(worker.number)
