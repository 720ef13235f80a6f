"""`agentrt run`: runs a program once or for each line of a file, and reports the results."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TextIO

import anyio

from agentrt.cli.batch import Batch
from agentrt.cli.batch_inputs import RunInput, batch_of
from agentrt.cli.error_report import INTERRUPTED
from agentrt.cli.inputs import arguments_of
from agentrt.cli.parameters import Parameter, location_of
from agentrt.cli.results_alone import results_alone
from agentrt.cli.session import Session
from agentrt.cli.settings import RunSettings
from agentrt.cli.signals import SignalWatch, watched_signals


def execute(program: Any, parameters: Sequence[Parameter], settings: RunSettings) -> int:
    """Run the program; returns the exit code."""
    with results_alone() as results:
        return _execute(program, parameters, settings, results)


def _execute(
    program: Any, parameters: Sequence[Parameter], settings: RunSettings, results: TextIO
) -> int:
    where = location_of(program)
    if settings.batch is None:
        arguments = arguments_of(parameters, settings.given, settings.args, where=where)
        session = Session(program, [RunInput(arguments)], settings, results)
        return anyio.run(until_signal, session)
    inputs = batch_of(settings.batch, parameters, settings.given, settings.args, where=where)
    batch = Batch(program, inputs, settings, results)
    try:
        session = Session(program, inputs, settings, results, batch)
        return anyio.run(until_signal, session)
    finally:
        batch.close()


async def until_signal(session: Session) -> int:
    """Run until done or signalled; on a signal runs are cancelled and still accounted for."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        with suppress(RuntimeError):  # the loop is closed: the command has ended
            loop.call_soon_threadsafe(cancel)

    def cancel() -> None:
        watch.taken_up.set()
        session.cancel()

    watch: SignalWatch
    with watched_signals(stop) as watch:
        code = await session.perform()
    if watch.exit_code is None:
        return code
    with suppress(OSError):  # the terminal is gone
        sys.stderr.write("interrupted\n" if watch.exit_code == INTERRUPTED else "terminated\n")
    return watch.exit_code
