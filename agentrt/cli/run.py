"""`agentrt run`: runs a program once or a line at a time, and tells what came of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import anyio

from agentrt.cli.error_report import INTERRUPTED, TERMINATED
from agentrt.cli.inputs import arguments_of, batch_of
from agentrt.cli.parameters import Parameter, place_of
from agentrt.cli.session import Session
from agentrt.cli.settings import RunSettings

EXIT_OF = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


def execute(program: Any, own: Sequence[Parameter], settings: RunSettings) -> int:
    """Runs the program as asked and gives the exit code."""
    where = place_of(program)
    if settings.batch is not None:
        inputs = batch_of(settings.batch, own, settings.given, settings.args, where=where)
    else:
        inputs = [arguments_of(own, settings.given, settings.args, where=where)]
    return anyio.run(until_signal, program, inputs, settings)


async def until_signal(
    program: Any, inputs: Sequence[dict[str, Any]], settings: RunSettings
) -> int:
    """Runs until done, or until told to stop: then runs are cancelled and still accounted for."""
    session = Session(program, inputs, settings)
    told: list[int] = []
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            with anyio.open_signal_receiver(*EXIT_OF) as signals:
                async for number in signals:
                    if told:
                        os._exit(told[0])  # the second one means now
                    told.append(EXIT_OF[number])
                    session.cancel()

        tasks.start_soon(watch)
        code = await session.perform()
        tasks.cancel_scope.cancel()
    if told:
        sys.stderr.write("interrupted\n" if told[0] == INTERRUPTED else "terminated\n")
        return told[0]
    return code
