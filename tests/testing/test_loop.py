"""Virtual time jumps, and waits for what is real."""

import asyncio
import os
import socket
import threading

import anyio
import anyio.to_thread
import pytest

from agentrt.testing import LoopClock, Stuck, VirtualTimeLoop, run_virtual


def test_sleeps_cost_no_waiting():
    async def main():
        clock = LoopClock()
        start_s = clock.now_s()
        await anyio.sleep(86_400)
        return clock.now_s() - start_s

    assert run_virtual(main) == 86_400


def test_sleeps_of_many_tasks_end_in_order():
    async def main():
        order = []

        async def nap(seconds):
            await anyio.sleep(seconds)
            order.append((seconds, anyio.current_time()))

        start_s = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for seconds in (30.0, 0.25, 7.0, 0.0):
                tasks.start_soon(nap, seconds)
        return [(seconds, at_s - start_s) for seconds, at_s in order]

    assert run_virtual(main) == [(0.0, 0.0), (0.25, 0.25), (7.0, 7.0), (30.0, 30.0)]


def test_timeouts_fire_at_their_instant():
    async def main():
        start_s = anyio.current_time()
        with anyio.move_on_after(5) as scope:
            await anyio.sleep_forever()
        return scope.cancelled_caught, anyio.current_time() - start_s

    assert run_virtual(main) == (True, 5.0)


def test_time_stands_still_while_a_thread_works():
    """A thread is let go by another one, long after any jump would have happened."""

    async def main():
        start_s = anyio.current_time()
        gate = threading.Event()
        starter = threading.Timer(0.05, gate.set)
        starter.start()
        with anyio.move_on_after(1) as scope:
            await anyio.to_thread.run_sync(gate.wait)
        starter.join()
        return scope.cancelled_caught, anyio.current_time() - start_s

    assert run_virtual(main, patience_s=60) == (False, 0.0)


def test_time_stands_still_while_the_executor_works():
    async def main():
        gate = threading.Event()
        starter = threading.Timer(0.05, gate.set)
        starter.start()
        done = await asyncio.wait_for(asyncio.to_thread(gate.wait), 1)
        starter.join()
        return done, anyio.current_time()

    assert run_virtual(main, patience_s=60) == (True, 1_000.0)


def test_time_stands_still_while_a_process_runs():
    """One without a pipe to this loop, ended by the end of its standard input."""

    async def main():
        process = await asyncio.create_subprocess_exec(
            "cat", stdin=gate, stdout=asyncio.subprocess.DEVNULL
        )
        os.close(gate)
        ending = threading.Timer(0.05, os.close, [end])
        ending.start()
        with anyio.move_on_after(3) as scope:
            while process.returncode is None:  # noqa: ASYNC110  # as clients of processes do
                await anyio.sleep(1)
        ending.join()
        return scope.cancelled_caught, process.returncode

    gate, end = os.pipe()
    assert run_virtual(main, patience_s=60) == (False, 0)


def test_time_moves_again_after_a_thread():
    async def main():
        await anyio.to_thread.run_sync(lambda: None)
        await anyio.sleep(50)
        return anyio.current_time()

    assert run_virtual(main) == 1_050.0


def test_a_timeout_over_a_silent_thread_fires_after_patience():
    gate = threading.Event()

    async def main():
        with anyio.move_on_after(60) as scope:
            await anyio.to_thread.run_sync(gate.wait, abandon_on_cancel=True)
        gate.set()
        return scope.cancelled_caught, anyio.current_time()

    assert run_virtual(main, patience_s=0.05) == (True, 1_060.0)


def test_sockets_are_waited_for():
    async def main():
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        echo = threading.Timer(0.05, theirs.sendall, [b"hello\n"])
        echo.start()
        with anyio.fail_after(1):
            line = await reader.readline()
        echo.join()
        theirs.close()
        writer.close()
        await writer.wait_closed()
        await anyio.sleep(10)
        return line, anyio.current_time()

    assert run_virtual(main, patience_s=60) == (b"hello\n", 1_010.0)


def test_a_deadlock_is_an_error():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="deadlock"):
        run_virtual(main, patience_s=0.01)


def test_timers_of_one_instant_fire_in_their_order():
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        fired: list[int] = []
        at_s = loop.time() + 1.0
        for number in range(9):
            loop.call_at(at_s + (number % 2), fired.append, number)
        await anyio.sleep(3.0)
        return fired

    assert run_virtual(main) == [0, 2, 4, 6, 8, 1, 3, 5, 7]


def test_time_jumps_to_the_instant_of_a_timer():
    """Exactly: a difference that is added up would drift."""

    async def main() -> list[tuple[float, float]]:
        loop, found = asyncio.get_running_loop(), []
        for number in range(200):
            at_s = loop.time() + 0.1 * number / 3
            done = loop.create_future()
            loop.call_at(at_s, done.set_result, None)
            await done
            found.append((at_s, loop.time()))
        return found

    assert all(wanted == got for wanted, got in run_virtual(main, start_s=123456.789))


def test_what_is_left_to_do_is_done_before_time_moves_on():
    """The callback is given the instant of the next timer, and may set an earlier one."""
    asked: list[float] = []

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        fired: list[float] = []
        begin_s = loop.time()

        def on_idle(until_s: float) -> bool:
            asked.append(until_s - begin_s)
            if len(asked) == 1:
                loop.call_at(begin_s + 1.0, lambda: fired.append(loop.time() - begin_s))
                return True
            return False

        loop.on_idle = on_idle
        await anyio.sleep(5.0)
        return fired

    assert run_virtual(main) == [1.0]
    assert asked[:3] == [5.0, 1.0, 5.0]


def test_errors_come_out():
    async def main():
        await anyio.sleep(1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_virtual(main)


def test_the_clock_is_readable_from_threads():
    async def main():
        clock = LoopClock()
        clock.now_s()
        await anyio.sleep(2)
        return await anyio.to_thread.run_sync(clock.now_s)

    assert run_virtual(main) == 1_002.0
