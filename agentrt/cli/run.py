"""`agentrt run`: runs a program once or for each line of a file, and reports the results."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import anyio

from agentrt.cli.error_report import INTERRUPTED, TERMINATED
from agentrt.cli.inputs import arguments_of, batch_of
from agentrt.cli.parameters import Parameter, location_of
from agentrt.cli.results_alone import results_alone
from agentrt.cli.session import Session
from agentrt.cli.settings import RunSettings

EXIT_OF = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


def execute(program: Any, parameters: Sequence[Parameter], settings: RunSettings) -> int:
    """Run the program; returns the exit code."""
    with results_alone() as results:
        return _execute(program, parameters, settings, results)


def _execute(
    program: Any, parameters: Sequence[Parameter], settings: RunSettings, results: TextIO
) -> int:
    where = location_of(program)
    if settings.batch is not None:
        inputs = batch_of(settings.batch, parameters, settings.given, settings.args, where=where)
    else:
        inputs = [arguments_of(parameters, settings.given, settings.args, where=where)]
    return anyio.run(until_signal, program, inputs, settings, results)


async def until_signal(
    program: Any, inputs: Sequence[dict[str, Any]], settings: RunSettings, results: TextIO
) -> int:
    """Run until done or signalled; on a signal runs are cancelled and still accounted for."""
    session = Session(program, inputs, settings, results)
    exit_codes: list[int] = []
    async with anyio.create_task_group() as tasks:

        async def watch_signals() -> None:
            with anyio.open_signal_receiver(*EXIT_OF) as signals:
                async for number in signals:
                    if exit_codes:
                        os._exit(exit_codes[0])  # the second signal ends the process at once
                    exit_codes.append(EXIT_OF[number])
                    session.cancel()

        tasks.start_soon(watch_signals)
        code = await session.perform()
        tasks.cancel_scope.cancel()
    if exit_codes:
        sys.stderr.write("interrupted\n" if exit_codes[0] == INTERRUPTED else "terminated\n")
        return exit_codes[0]
    return code
