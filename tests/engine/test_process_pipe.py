"""The owner's end of the socket: what is sent together arrives together."""

import asyncio
import socket

import anyio

from agentrt.base.ids import RequestId
from agentrt.engine.process.messages import COMMANDS, Cancel, Command
from agentrt.engine.process.pipe import Pipe
from agentrt.protocol.step_output import StepDone
from agentrt.protocol.wire import FrameReader


def ignore(_: StepDone) -> None:
    """Nobody reports here."""


def arrived(end: socket.socket) -> list[Command]:
    """What one read finds."""
    try:
        data = end.recv(1 << 16)
    except BlockingIOError:
        return []
    return [COMMANDS.value(payload) for payload in FrameReader().feed_data(data)]


def test_one_turn_of_the_loop_is_one_write():
    async def main() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        pipe = Pipe(ours, ignore)
        await pipe.connect()
        turns = [[Cancel(RequestId(10 * turn + at), "") for at in range(9)] for turn in (1, 2)]
        for commands in turns:
            for command in commands:
                pipe.send(command)
            assert arrived(theirs) == []
            await asyncio.sleep(0)
            assert arrived(theirs) == commands
        pipe.send(turns[0][0])
        pipe.abort()
        await pipe.closed.wait()
        theirs.close()

    anyio.run(main)
