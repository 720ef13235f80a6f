"""One of four workers that is cut off, stopped or killed in the middle of its answers.

`python -m tests.remote.fleet.cut_worker link|answers|stop|kill` plays the same programs on the
whole fleet and on the disturbed one, and prints one JSON: results that changed, what the worker was
sent while it was down, the questions that it was asked then, and what it answered afterwards. Each
worker has a network of its own, see `worker_networks`.
"""

import itertools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio

from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.events import Event, NodeFinished
from agentrt.remote.fleet.fleet_worker import FleetWorker
from tests.remote.fleet.booked_programs import judged
from tests.remote.fleet.disturbed_fleet import result_of
from tests.remote.fleet.process_fleet import ProcessFleet, process_fleet
from tests.remote.fleet.worker_networks import enter_namespaces
from tests.remote.fleet.worker_processes import FAULTS, Fault

WORKERS = 4
PROGRAMS = 16
TOKENS = 120
ROUNDS = 10
"""Rounds of programs in which a worker that has come back must have answered one."""
KEPT = ("item", "way", "letter", "last", "calls")
LOOK_S = 0.005


class Answers:
    """Counts answers by the host of the worker."""

    def __init__(self) -> None:
        self.by_host: Counter[str] = Counter()

    def on_events(self, events: Sequence[Event]) -> None:
        """Count those among some events."""
        for event in events:
            if isinstance(event, NodeFinished) and "server.address" in event.attributes:
                self.by_host[str(event.attributes["server.address"])] += 1


async def measure(fault: Fault) -> dict[str, Any]:
    """Disturb a worker once, in the middle of its answers."""
    answers, found = Answers(), dict[str, int]()
    with tempfile.TemporaryDirectory() as folder:
        calm_ledger, ledger = Path(folder, "calm"), Path(folder, "disturbed")
        async with process_fleet("ours", WORKERS, isolated=True, observers=[answers]) as fleet:
            orders = itertools.count()
            calm = await a_round(fleet, orders, calm_ledger)
            orders = itertools.count()
            process, worker = fleet.workers[1], fleet.backend.workers[1]
            results: dict[int, Any] = {}
            async with anyio.create_task_group() as tasks:

                async def play() -> None:
                    results.update(await a_round(fleet, orders, ledger))

                tasks.start_soon(play)
                await until(lambda: is_answering(worker))
                await anyio.to_thread.run_sync(process.disturb, fault)
                await until(lambda: worker.health != "up")
                traffic = Traffic(worker)
            if fault != "kill":  # a server that was killed may be back by now
                results |= await a_round(fleet, orders, ledger)
                await until(lambda: traffic.questions > 0)
                found = {"sent_while_down": traffic.requests, "questions": traffic.questions}
            process.restore(fault)
            await until(lambda: worker.health == "up")
            before, rounds = answers.by_host[process.host], 0
            while answers.by_host[process.host] == before and rounds < ROUNDS:
                rounds += 1
                results |= await a_round(fleet, orders, ledger)
            found["answered_afterwards"] = answers.by_host[process.host] - before
        booked = judged(results, ledger)
    changed = [at for at, one in calm.items() if kept(one) != kept(results[at])]
    return {**booked.counts, **found, "changed": len(changed), "examples": booked.examples}


async def a_round(fleet: ProcessFleet, orders: Iterator[int], ledger: Path) -> dict[int, Any]:
    """Results or errors of the next programs, which run at once."""
    results: dict[int, Any] = {}

    async def run(order: int) -> None:
        results[order] = await result_of(fleet.runtime, order, ledger, TOKENS)

    async with anyio.create_task_group() as tasks:
        for order in itertools.islice(orders, PROGRAMS):
            tasks.start_soon(run, order)
    return results


async def until(is_so: Callable[[], bool]) -> None:
    """Look until something is so."""
    while not is_so():  # noqa: ASYNC110  # the fleet has no event for its health
        await anyio.sleep(LOOK_S)


def is_answering(worker: FleetWorker) -> bool:
    """Whether it has several requests, and has begun to answer."""
    return len(worker.requests) > 1 and worker.remote.heard_at_s > worker.owes_since_s


class Traffic:
    """Counts what a worker is sent from now on.

    Attributes:
        requests: Requests.
        questions: Questions whether it lives.
    """

    def __init__(self, worker: FleetWorker) -> None:
        self.requests = self.questions = 0
        self._submit, self._check_life = worker.backend.submit, worker.remote.check_life
        worker.backend.submit = self.submit  # type: ignore[method-assign]
        worker.remote.check_life = self.check_life  # type: ignore[method-assign]

    def submit(self, request: GenerateRequest) -> None:
        """Send it a request."""
        self.requests += 1
        self._submit(request)

    async def check_life(self) -> None:
        """Ask it."""
        self.questions += 1
        await self._check_life()


def kept(result: Any) -> Any:
    """What is the same on each fleet: receipts count on."""
    return {name: result[name] for name in KEPT} if isinstance(result, dict) else repr(result)


def main() -> None:
    if not enter_namespaces("tests.remote.fleet.cut_worker", sys.argv[1:]):
        sys.exit(3)
    fault = next(one for one in FAULTS if one == sys.argv[1])
    print(json.dumps(anyio.run(measure, fault)))


if __name__ == "__main__":
    main()
