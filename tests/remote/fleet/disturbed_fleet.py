"""Programs over a fleet whose workers are killed, stopped and cut off.

`python -m tests.remote.fleet.disturbed_fleet [--kind ours|vllm] [--workers N] ...` (see `--help`)
plays programs on the undisturbed fleet, then on the disturbed one, then on the undisturbed one
again, so many at once, and prints one JSON: programs lost, writes made twice or missing, faults by
kind, and the rates. If network namespaces are permitted each worker has one of its own; if not,
no worker is cut off.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from agentrt.protocol.events import Event, Scheduled
from agentrt.runtime import Runtime
from tests.remote.fleet.booked_programs import judged, ordering
from tests.remote.fleet.disturbances import Disturbances
from tests.remote.fleet.process_fleet import process_fleet
from tests.remote.fleet.worker_networks import enter_namespaces
from tests.remote.fleet.worker_processes import CUTS, FAULTS


@dataclass
class Play:
    """Plays of programs on one fleet.

    Args:
        runtime: The runtime.
        ledger: File of the writes.
        orders: Numbers of the orders.
        width: Programs at once.
        tokens: Length of each text.

    Attributes:
        took_s: Time from the first start to the last end, over all plays.
        results: Results or errors, by the number of the order.
    """

    runtime: Runtime
    ledger: Path
    orders: Iterator[int]
    width: int
    tokens: int
    took_s: float = 0.0
    results: dict[int, Any] = field(default_factory=dict)

    async def run(self, least: int, least_s: float) -> None:
        """Programs until there are so many more, and the time is over."""
        began_s, enough = time.monotonic(), len(self.results) + least

        async def one_after_another() -> None:
            while len(self.results) < enough or time.monotonic() - began_s < least_s:
                order = next(self.orders)
                self.results[order] = await result_of(self.runtime, order, self.ledger, self.tokens)

        async with anyio.create_task_group() as tasks:
            for _ in range(self.width):
                tasks.start_soon(one_after_another)
        self.took_s += time.monotonic() - began_s

    @property
    def rate(self) -> float:
        """Programs a second."""
        return len(self.results) / self.took_s

    @property
    def report(self) -> dict[str, Any]:
        """Counts and rate."""
        found = judged(self.results, self.ledger)
        return {
            **found.counts,
            "took_s": round(self.took_s, 1),
            "programs_per_s": round(self.rate, 3),
            **({"examples": found.examples} if found.examples else {}),
        }


async def result_of(runtime: Runtime, order: int, ledger: Path, tokens: int) -> Any:
    """The result of one program, or its error."""
    try:
        return await runtime.run(ordering, order, ledger, tokens)
    except Exception as error:
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        return error


class Decisions:
    """Counts of scheduling decisions, and of requests by worker."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.placed: Counter[str] = Counter()

    def on_events(self, events: Sequence[Event]) -> None:
        """Count those among some events."""
        for event in events:
            if isinstance(event, Scheduled):
                self.counts[event.decision] += 1
                if event.decision == "placed":
                    self.placed[event.worker or ""] += 1


async def measure(given: argparse.Namespace, *, isolated: bool) -> dict[str, Any]:
    """Start the fleet, and play on it undisturbed, disturbed and undisturbed."""
    named = given.faults.split(",")
    kinds = [one for one in FAULTS if one in named and (isolated or one not in CUTS)]
    decisions, orders = Decisions(), itertools.count()
    fleet_opening = process_fleet(
        given.kind, given.workers, isolated=isolated, observers=[decisions], logs=given.logs
    )
    with tempfile.TemporaryDirectory() as folder:
        async with fleet_opening as fleet:

            def new_play() -> Play:
                ledger = Path(folder, "ledger")
                return Play(fleet.runtime, ledger, orders, given.width, given.tokens)

            await new_play().run(given.width, 0.0)  # grammars are compiled, lengths learned
            calm, disturbed = new_play(), new_play()
            await calm.run(1, given.calm_s)
            first_rate, most = calm.rate, given.most_faults
            disturbances = Disturbances(
                fleet.workers, kinds, given.every_s, given.away_s, most, given.seed
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(disturbances.play)
                await disturbed.run(given.programs, given.least_s)
                tasks.cancel_scope.cancel()
            for worker in fleet.workers:
                await worker.until_ready()
            await calm.run(1, given.calm_s)
            return {
                **{name: getattr(given, name) for name in _SETTINGS},
                "namespaces": isolated,
                "faults": dict(disturbances.done),
                "disturbed": disturbed.report,
                "calm": calm.report,
                "first_calm_programs_per_s": round(first_rate, 3),
                "rate_share": round(disturbed.rate / calm.rate, 3),
                "decisions": dict(decisions.counts),
                "placed": dict(decisions.placed),
            }


_SETTINGS = ("kind", "workers", "width", "tokens", "every_s", "away_s", "seed")


def settings(given: Sequence[str]) -> argparse.Namespace:
    """The settings of a command line."""
    parser = argparse.ArgumentParser(prog="disturbed_fleet")
    parser.add_argument("--kind", choices=("ours", "vllm"), default="ours")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--programs", type=int, default=500, help="least, while disturbed")
    parser.add_argument("--least-s", type=float, default=300.0, help="least time of them")
    parser.add_argument("--calm-s", type=float, default=60.0, help="time undisturbed, twice")
    parser.add_argument("--width", type=int, default=12, help="programs at once")
    parser.add_argument("--tokens", type=int, default=400, help="length of each text")
    parser.add_argument("--every-s", type=float, default=20.0, help="from fault to fault")
    parser.add_argument("--away-s", type=float, default=12.0, help="longest stop or cut")
    parser.add_argument("--most-faults", type=int, default=1_000_000)
    parser.add_argument("--faults", default=",".join(FAULTS), help="kinds that take turns")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path, default=None, help="folder of the workers' output")
    return parser.parse_args(given)


def main() -> None:
    given = settings(sys.argv[1:])
    isolated = enter_namespaces("tests.remote.fleet.disturbed_fleet", sys.argv[1:])

    async def found() -> dict[str, Any]:
        return await measure(given, isolated=isolated)

    print(json.dumps(anyio.run(found)))


if __name__ == "__main__":
    main()
