"""A worker that hangs is found out, whatever it is sent meanwhile."""

import math
from collections.abc import Callable
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from agentrt.base.errors import EngineDied
from agentrt.base.ids import RequestId
from agentrt.remote.admission.request_pacer import RequestPacer
from agentrt.remote.fleet.fleet_worker import FleetWorker
from agentrt.remote.fleet.worker_keeper import WorkerKeeper
from tests.remote.fleet.fleet_servers import TIMES

QUESTIONS = 3
"""Questions without an answer behind which a test gives up."""


class HungServer:
    """A server that opens, and then answers nothing.

    Attributes:
        asked: Questions since it hangs.
        on_question: Called with each of them.
    """

    def __init__(self) -> None:
        self.heard_at_s = -math.inf
        self.is_hung = False
        self.asked = 0
        self.on_question: Callable[[], None] = lambda: None

    async def start(self) -> None:
        pass

    async def check_life(self) -> None:
        if self.is_hung:
            self.asked += 1
            self.on_question()
            await anyio.sleep_forever()
        self.heard_at_s = anyio.current_time()


class Kept:
    """A worker that is kept, and what its keeper finds.

    Attributes:
        server: The server.
        worker: The worker.
        hung: Requests that were taken back.
        questions: Questions before that.
        is_over: Set once some were, or once the keeper has asked too often.
    """

    def __init__(self) -> None:
        self.server = cast(Any, HungServer())
        self.worker = FleetWorker("w", 1.0, self.server, self.server, RequestPacer())
        self.hung: list[RequestId] = []
        self.questions = 0
        self.is_over = anyio.Event()

    def take(self, number: int) -> None:
        """Send it a request."""
        self.worker.take(RequestId(number))

    async def until_hung(self, on_question: Callable[["Kept"], None]) -> None:
        """Keep it until it is found out; each question of the keeper calls `on_question`."""
        keeper = WorkerKeeper(
            self.worker, TIMES, no_fault, lambda _: "", lambda *_: None, self.note_hung
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keeper.run)
            await keeper.tried.wait()
            self.server.is_hung = True

            def questioned() -> None:
                if self.server.asked > QUESTIONS:
                    self.is_over.set()
                on_question(self)

            self.server.on_question = questioned
            self.take(0)
            await self.is_over.wait()
            tasks.cancel_scope.cancel()

    def note_hung(self, worker: FleetWorker, error: EngineDied) -> None:
        self.hung, self.questions = sorted(worker.requests), self.server.asked
        self.is_over.set()


async def no_fault(worker: FleetWorker) -> None:
    return None


def more_each_time(kept: Kept) -> None:
    """A further request arrives while the keeper waits for an answer."""
    kept.take(kept.server.asked)


def another_each_time(kept: Kept) -> None:
    """The request ends by its deadline, and the next one arrives."""
    kept.worker.requests.clear()
    kept.take(kept.server.asked)


@pytest.mark.parametrize(
    ("on_question", "taken_back"),
    [
        (lambda _: None, [0]),
        (more_each_time, [0, 1]),
        (another_each_time, [1]),
    ],
)
def test_a_hung_worker_is_found_out_by_one_question(portal, on_question, taken_back):
    async def main():
        kept = Kept()
        await kept.until_hung(on_question)
        return kept.questions, kept.hung

    assert portal.call(main) == (1, taken_back)


def test_requests_that_end_early_do_not_hide_that_a_worker_hangs(portal):
    """Each ends by its deadline before the worker has been quiet for long, and another follows."""

    async def main():
        kept = Kept()
        kept.server.heard_at_s = anyio.current_time()
        kept.take(0)
        first_s = kept.worker.quiet_since_s
        kept.worker.requests.clear()
        await anyio.lowlevel.checkpoint()
        kept.take(1)
        again_s = kept.worker.quiet_since_s
        kept.server.heard_at_s = anyio.current_time()
        kept.take(2)
        return first_s == again_s, kept.worker.quiet_since_s > again_s

    assert portal.call(main) == (True, True)
