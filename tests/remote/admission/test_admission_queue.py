"""The queue before one server: requests keep the order in which they were made."""

import anyio

from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.admission.request_pacer import RequestPacer


def test_a_refused_request_goes_before_those_behind_it(portal):
    """Also if the time that the server asked for has passed before the next is looked at."""

    async def main():
        queue, sent = AdmissionQueue(RequestPacer(1)), []
        first, second = queue.turn(), queue.turn()

        async def behind():
            await queue.begin(second)
            sent.append("second")

        async with anyio.create_task_group() as tasks:
            await queue.begin(first)
            tasks.start_soon(behind)
            await anyio.wait_all_tasks_blocked()
            await queue.begin_again(first, 0.0)
            sent.append("first again")
            queue.end(first, answered=True)
        return sent

    assert portal.call(main) == ["first again", "second"]


def test_a_cancelled_wait_leaves_the_place_to_the_next(portal):
    async def main():
        queue = AdmissionQueue(RequestPacer(1))
        first, second, third = queue.turn(), queue.turn(), queue.turn()
        await queue.begin(first)
        with anyio.CancelScope() as given_up:
            given_up.cancel()
            await queue.begin(second)
        queue.end(first, answered=True)
        await queue.begin(third)
        return second.sent_at_s, third.sent_at_s is not None

    assert portal.call(main) == (None, True)
