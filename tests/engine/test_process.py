"""The engine in its own process: not slowed by ours, missed when it dies, gone when we are.

One process serves the tests of this file in order; the last ones kill it.
"""

import fcntl
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import EngineUnavailable, ModelInvalid
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.core import EngineCore
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.engine.process.child import ProcessChild, environment
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import BackendDown

PATIENCE_S = 300  # a hang ends the test; nothing is measured


def request(number: int, max_tokens: int = 4) -> GenerateRequest:
    return GenerateRequest(
        request_id=RequestId(number),
        run_id=RunId("0" * 16),
        node_id=NodeId(f"node{number}"),
        site="",
        prompt=TokenPrompt((1, 4, 5)),
        sampling=SamplingParams(max_tokens=max_tokens, temperature=1.0),
    )


@pytest.fixture(scope="module")
def children() -> list[ProcessChild]:
    """The processes of `backend`, the latest last."""
    return []


@pytest.fixture(scope="module")
def backend(
    portal: anyio.from_thread.BlockingPortal, tiny: EngineConfig, children: list[ProcessChild]
) -> Iterator[EmbeddedBackend]:
    def start_child() -> ProcessChild:
        children.append(ProcessChild(tiny))
        return children[-1]

    made = EmbeddedBackend(
        tiny, MonotonicClock(), start_child=start_child, pause_s=lambda deaths: 0.0
    )
    portal.call(made.submit, request(1))  # before there is an engine
    portal.call(made.start)
    yield made
    portal.call(made.aclose)


async def until(backend, found):
    """The first event that `found` accepts."""
    with anyio.fail_after(PATIENCE_S):
        async with aclosing(backend.events()) as events:
            async for event in events:
                if found(event):
                    return event
    raise AssertionError("the events ended")


def ends(*numbers):
    left = set(numbers)

    def found(event):
        left.difference_update(end.request_id for end in getattr(event, "ends", ()))
        return not left

    return found


def unread_bytes(fd: int) -> int:
    buffer = fcntl.ioctl(fd, termios.FIONREAD, struct.pack("i", 0))
    (count,) = struct.unpack("i", buffer)
    return int(count)


def test_what_was_submitted_before_the_start_is_served(backend, portal):
    done = portal.call(until, backend, ends(1))
    assert done.ends[0].error is None


def test_a_busy_tool_does_not_stop_tokens(backend, portal):
    """A synchronous tool computes in pure Python until 40 steps have reached the runtime."""
    steps = 0

    def tool():
        turns = 0
        while steps < 40:
            turns += 1
        return turns

    def count(event):
        nonlocal steps
        steps += event.step is not None
        return bool(event.ends)

    async def main():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, tool)
            backend.submit(request(2, max_tokens=60))
            return await until(backend, count)

    assert portal.call(main).ends[0].ledger.output_tokens == 60
    assert steps >= 60


def test_a_blocked_event_loop_does_not_stop_the_engine(backend, portal, children):
    """Nobody reads: the frames of 30 steps gather in the socket while our interpreter spins."""
    frames = []

    async def main():
        backend.submit(request(3, max_tokens=200))
        await until(backend, lambda event: bool(event.deltas))
        fd = children[-1].owner_socket.fileno()
        while unread_bytes(fd) < 30 * 100:  # holds the event loop, on purpose
            pass

        def gather(event):
            frames.append(event)
            return bool(event.ends)

        return await until(backend, gather)

    assert portal.call(main).ends[0].ledger.output_tokens == 200
    indices = [event.step.index for event in frames if event.step is not None]
    assert indices == list(range(indices[0], indices[0] + len(indices)))


def test_killed_in_the_middle_it_restarts_and_serves_again(backend, portal):
    first_pid = backend.pid

    async def main():
        backend.submit(request(4, max_tokens=3000))
        await until(backend, lambda event: bool(event.deltas))
        os.kill(first_pid, signal.SIGKILL)
        down = await until(backend, lambda event: isinstance(event, BackendDown))
        backend.submit(request(5))
        served = await until(backend, ends(5))
        return down, served

    down, served = portal.call(main)
    assert (down.error.type, down.lost, down.restarting) == ("EngineDied", (4,), True)
    assert "killed by signal 9" in down.error.message
    assert down.error.hint
    assert served.ends[0].error is None
    assert backend.pid != first_pid


def test_a_stopped_engine_is_noticed_and_replaced(backend, portal):
    async def main():
        backend.submit(request(4, max_tokens=3000))
        await until(backend, lambda event: bool(event.deltas))
        os.kill(backend.pid, signal.SIGSTOP)
        down = await until(backend, lambda event: isinstance(event, BackendDown))
        backend.submit(request(5))
        await until(backend, ends(5))
        return down

    down = portal.call(main)
    assert (down.lost, down.restarting, down.own_fault) == ((4,), True, False)
    assert "its process is stopped" in down.error.message


def test_an_engine_that_is_stopped_while_it_loads_is_replaced(portal, tiny):
    async def main():
        backend = EmbeddedBackend(tiny, MonotonicClock())
        backend.launch()
        first_pid = backend.pid
        assert first_pid is not None
        os.kill(first_pid, signal.SIGSTOP)
        with anyio.fail_after(PATIENCE_S):
            await backend.start()
        second_pid = backend.pid
        await backend.aclose()
        return first_pid, second_pid

    first_pid, second_pid = portal.call(main)
    assert second_pid not in (first_pid, None)


def test_it_never_gives_up_for_good(backend, portal):
    async def killed():
        """Kill it, and wait until another one is being loaded."""
        pid = backend.pid
        os.kill(pid, signal.SIGKILL)
        while backend.pid in (pid, None):
            await anyio.lowlevel.checkpoint()

    async def main():
        await killed()
        first = await until(backend, lambda event: isinstance(event, BackendDown))
        for _ in range(3):
            await killed()
        backend.submit(request(6))  # waits for an engine
        return first, await until(backend, ends(6))

    first, served = portal.call(main)
    assert (first.restarting, first.lost, first.own_fault) == (True, (), False)
    assert served.ends[0].error is None


def test_requests_fail_while_no_engine_can_be_loaded(portal, tiny, tmp_path):
    """The loads go on: once one succeeds, requests are served again."""
    model, hidden = tmp_path / "model", tmp_path / "hidden"
    shutil.copytree(tiny.model_path, model)

    async def main():
        backend = EmbeddedBackend(
            replace(tiny, model_path=model), MonotonicClock(), pause_s=lambda deaths: 0.1
        )
        await backend.start()
        model.rename(hidden)
        assert backend.pid is not None
        os.kill(backend.pid, signal.SIGKILL)
        down = await until(backend, lambda event: not getattr(event, "restarting", True))
        backend.submit(request(7))
        refused = await until(backend, ends(7))
        hidden.rename(model)
        number, served = 8, refused
        while served.ends[0].error is not None:
            await anyio.lowlevel.checkpoint()
            backend.submit(request(number))
            served = await until(backend, ends(number))
            number += 1
        await backend.aclose()
        return down, refused

    down, refused = portal.call(main)
    assert down.error.type == "EngineUnavailable"
    assert "cannot start again" in down.error.message
    assert refused.ends[0].error == down.error


def test_a_model_that_cannot_be_loaded_is_told_by_type(portal, tmp_path):
    broken = EmbeddedBackend(EngineConfig(tmp_path / "none"), MonotonicClock())
    with pytest.raises(ModelInvalid, match="none") as raised:
        portal.call(broken.start)
    portal.call(broken.aclose)
    assert raised.value.hint


def test_a_process_that_cannot_start_shows_its_last_words(portal, tiny, monkeypatch, tmp_path):
    quits = "import os; os.write(2, b'no licence\\n'); os._exit(3)"
    (tmp_path / "sitecustomize.py").write_text(quits)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    broken = EmbeddedBackend(tiny, MonotonicClock())
    with pytest.raises(EngineUnavailable, match=r"while it was loading \(exit code 3\)") as raised:
        portal.call(broken.start)
    portal.call(broken.aclose)
    assert "no licence" in raised.value.hint


@pytest.mark.parametrize("place", ["process", "thread"])
def test_what_was_launched_can_be_abandoned(tiny, place):
    backend = EmbeddedBackend(tiny, MonotonicClock(), place=place)
    backend.launch()
    backend.abandon()
    backend.abandon()
    assert backend.pid is None


def test_what_was_told_ahead_is_there_when_it_serves(portal, tiny, monkeypatch):
    """Told once with the load, and waited for; what is told twice costs the start nothing."""
    told = []
    monkeypatch.setattr(
        EngineCore, "prewarm", lambda core, specs, wait_s=0.0: told.append((specs, wait_s > 0))
    )
    one, other = ConstraintSpec("regex", "a"), ConstraintSpec("regex", "b")
    backend = EmbeddedBackend(tiny, MonotonicClock(), place="thread")
    portal.call(backend.prewarm, (one, other))
    portal.call(backend.prewarm, (one,))
    portal.call(backend.start)
    assert told == [((one, other), True)]
    portal.call(backend.aclose)


OWNER = """
import sys, time
from pathlib import Path
from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.engine.process.backend import EmbeddedBackend
backend = EmbeddedBackend(EngineConfig(Path(sys.argv[1])), MonotonicClock())
backend.launch()
print(backend.pid, "torch" in sys.modules, flush=True)
sys.stdin.read()
"""


def test_it_dies_with_its_owner_who_never_loads_torch(tiny):
    command = [sys.executable, "-c", OWNER, str(tiny.model_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid, has_torch = owner.stdout.readline().split()
        assert has_torch == "False"
        engine = os.pidfd_open(int(pid))
        owner.kill()
    try:
        ended, _, _ = select.select([engine], [], [], PATIENCE_S)
        assert ended
    finally:
        os.close(engine)


@pytest.mark.parametrize(
    ("threads", "inherited", "expected"),
    [
        (2, {}, {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}),
        (0, {"OMP_NUM_THREADS": "7"}, {"OMP_NUM_THREADS": "7"}),
        (3, {"OMP_NUM_THREADS": "7"}, {"OMP_NUM_THREADS": "3"}),
        (1, {"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
        (1, {}, {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}),
    ],
)
def test_the_environment_is_set_before_torch_loads(tmp_path, threads, inherited, expected):
    env = environment(EngineConfig(tmp_path, threads=threads), inherited)
    assert {key: env[key] for key in expected} == expected
