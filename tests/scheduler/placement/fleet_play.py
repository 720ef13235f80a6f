"""Plays of programs on scripted workers on a clock of its own, with the figures of a placement."""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agentrt.scheduler.placement.worker_load import TokenCosts
from tests.scheduler.placement.fleet_workload import Ask, FleetProgram
from tests.scheduler.placement.scripted_worker import ScriptedWorker, Serving

WINDOW_S = 60.0
STEP_S = 5.0


class Router(Protocol):
    """A way to place requests; workers have the numbers from 0 on."""

    def place(self, number: int, ask: Ask, workers: Sequence[ScriptedWorker]) -> int:
        """Worker of a request."""
        ...

    def computed(self, serving: Serving) -> None:
        """A prompt was computed."""
        ...

    def end(self, serving: Serving) -> None:
        """A request has ended."""
        ...

    def end_run(self, run_id: str) -> None:
        """A program has ended."""
        ...


@dataclass(slots=True)
class PlayFigures:
    """Figures of one play.

    Attributes:
        continuations: Requests that continue an earlier prompt of their program.
        standing: Those of them whose KV stood on some worker when they were placed.
        hits: Those of them that were placed on such a worker.
        placed: Instant, worker, learned and real work of each request, in seconds.
        latencies_s: Time from the arrival of each program to its end.
        prefilled_tokens: Prompt tokens that were computed.
        last_arrival_s: Instant at which the last program came.
    """

    continuations: int = 0
    standing: int = 0
    hits: int = 0
    placed: list[tuple[float, int, float, float]] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)
    prefilled_tokens: int = 0
    last_arrival_s: float = 0.0

    @property
    def hit_share(self) -> float:
        """Share of the continuations with standing KV that were placed where it stood."""
        return self.hits / max(1, self.standing)

    def busiest(self, workers: int, *, real: bool = False) -> float:
        """Work placed on the busiest worker, by the mean, in the worst minute.

        Minutes begin every five seconds, from the second minute to the last arrival of a program.
        """
        return max(self.minutes(workers, real=real))

    def minutes(self, workers: int, *, real: bool = False) -> list[float]:
        """Work placed on the busiest worker, by the mean, in each minute."""
        end_s = self.last_arrival_s
        found: list[float] = []
        begin_s = WINDOW_S
        while begin_s + WINDOW_S <= end_s:
            sums = [0.0] * workers
            for at_s, worker, learned_s, real_s in self.placed:
                if begin_s <= at_s < begin_s + WINDOW_S:
                    sums[worker] += real_s if real else learned_s
            found.append(max(sums) * workers / sum(sums))
            begin_s += STEP_S
        return found


@dataclass(slots=True, eq=False)
class _Running:
    program: FleetProgram
    stage: int = 0
    left: int = 0


class FleetPlay:
    """One play.

    Args:
        programs: Programs, by arrival.
        workers: The workers.
        router: Placement.
        costs: Work of tokens.
    """

    def __init__(
        self,
        programs: Sequence[FleetProgram],
        workers: Sequence[ScriptedWorker],
        router: Router,
        costs: TokenCosts,
    ) -> None:
        self._workers, self._router, self._costs = workers, router, costs
        self._figures = PlayFigures(last_arrival_s=programs[-1].at_s)
        self._numbers = itertools.count()
        self._now_s = 0.0
        self._running = {one.run_id: _Running(one) for one in programs}
        self._coming = [(one.at_s, number, one.run_id) for number, one in enumerate(programs)]
        heapq.heapify(self._coming)
        self._serial = itertools.count(len(programs))

    def play(self) -> PlayFigures:
        """Play all programs to their ends."""
        while True:
            stage_s = self._coming[0][0] if self._coming else float("inf")
            ends = [(at_s, n) for n, one in enumerate(self._workers) if (at_s := one.next_s())]
            end_s, worker = min(ends, default=(float("inf"), -1))
            if end_s < stage_s:
                self._now_s = end_s
                self._advance(self._workers[worker])
            elif self._coming:
                self._now_s = stage_s
                self._send(self._running[heapq.heappop(self._coming)[2]])
            else:
                break
        tokens = sum(worker.prefilled_tokens for worker in self._workers)
        self._figures.prefilled_tokens = tokens
        return self._figures

    def _advance(self, worker: ScriptedWorker) -> None:
        for serving in list(worker.advance(self._now_s)):
            if serving.decode_s > 1e-9:
                self._router.computed(serving)
                continue
            self._router.end(serving)
            running = self._running[serving.ask.run_id]
            running.left -= 1
            if running.left == 0:
                self._go_on(running)

    def _go_on(self, running: _Running) -> None:
        running.stage += 1
        program = running.program
        if running.stage == len(program.stages):
            self._router.end_run(program.run_id)
            self._figures.latencies_s.append(self._now_s - program.at_s)
            return
        at_s = self._now_s + program.gaps_s[running.stage]
        heapq.heappush(self._coming, (at_s, next(self._serial), program.run_id))

    def _send(self, running: _Running) -> None:
        stage = running.program.stages[running.stage]
        running.left = len(stage)
        for ask in stage:
            number = next(self._numbers)
            chosen = self._router.place(number, ask, self._workers)
            self._note(ask, chosen)
            worker = self._workers[chosen]
            self._advance(worker)
            worker.add(Serving(number, ask))

    def _note(self, ask: Ask, chosen: int) -> None:
        figures, worker = self._figures, self._workers[chosen]
        lacking = worker.lacking_tokens(ask)
        learned_s = self._costs.work_s(lacking, ask.learned_tokens)
        real_s = self._costs.work_s(lacking, ask.output_tokens)
        figures.placed.append((self._now_s, chosen, learned_s, real_s))
        if ask.parent_blocks:
            standing = [one.holds(ask) for one in self._workers]
            figures.continuations += 1
            figures.standing += any(standing)
            figures.hits += standing[chosen]
