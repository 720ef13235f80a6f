"""Whoever waits is woken, once a ring."""

import anyio

from agentrt.base.notifier import Notifier


def test_all_who_wait_are_woken_and_nobody_else() -> None:
    wake, woken = Notifier(), list[int]()

    async def wait(number: int) -> None:
        await wake.wait()
        woken.append(number)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            wake.notify_all()  # nobody waits yet: a ring is not kept
            tasks.start_soon(wait, 1)
            tasks.start_soon(wait, 2)
            await anyio.wait_all_tasks_blocked()
            assert woken == []
            wake.notify_all()
            await anyio.wait_all_tasks_blocked()
            assert woken == [1, 2]
            tasks.start_soon(wait, 3)
            await anyio.wait_all_tasks_blocked()
            assert woken == [1, 2]
            wake.notify_all()

    anyio.run(main)
    assert woken == [1, 2, 3]


def test_who_stops_waiting_leaves_nothing_behind() -> None:
    wake = Notifier()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake.wait)
            await anyio.wait_all_tasks_blocked()
            assert wake.waiting == 1
            tasks.cancel_scope.cancel()
        assert wake.waiting == 0
        wake.notify_all()

    anyio.run(main)
