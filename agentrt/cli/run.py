"""`agentrt run`: runs a program once or for each line of a file, and reports the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TextIO

import anyio

from agentrt.base.config import EngineConfig
from agentrt.base.engine_extra import require_packages
from agentrt.base.errors import NotInstalled
from agentrt.cli.batch import Batch
from agentrt.cli.batch_inputs import RunInput, batch_of
from agentrt.cli.error_report import INTERRUPTED
from agentrt.cli.inputs import arguments_of
from agentrt.cli.parameters import Parameter, location_of
from agentrt.cli.results_alone import results_alone
from agentrt.cli.session import Session
from agentrt.cli.settings import RunSettings
from agentrt.cli.signals import note, watched_signals
from agentrt.runtime import leave_threads

WITHOUT_ENGINE = f"{NotInstalled.default_hint}, or name a server: --engine URL"


def execute(program: Any, parameters: Sequence[Parameter], settings: RunSettings) -> int:
    """Run the program; returns the exit code.

    Raises:
        NotInstalled: The run is for the embedded engine, whose packages are not installed.
    """
    if isinstance(settings.engine_choice, EngineConfig):
        require_packages("the embedded engine", hint=WITHOUT_ENGINE)
    with results_alone() as results:
        return _execute(program, parameters, settings, results)


def _execute(
    program: Any, parameters: Sequence[Parameter], settings: RunSettings, results: TextIO
) -> int:
    where = location_of(program)
    if settings.batch is None:
        arguments = arguments_of(parameters, settings.given, settings.args, where=where)
        inputs = [RunInput(arguments)]
        return anyio.run(until_signal, partial(Session, program, inputs, settings, results))
    inputs = batch_of(settings.batch, parameters, settings.given, settings.args, where=where)
    batch = Batch(program, inputs, settings, results)
    try:
        return anyio.run(until_signal, partial(Session, program, inputs, settings, results, batch))
    finally:
        batch.close()


async def until_signal(make_session: Callable[[], Session]) -> int:
    """Run until done or signalled; on a signal runs are cancelled and still accounted for."""
    session = make_session()
    with watched_signals(session.cancel, session.write_grace_s) as watch:
        code = await session.perform()
    if code or watch.exit_code is not None:
        leave_threads()
    if watch.exit_code is None:
        return code
    note("interrupted\n" if watch.exit_code == INTERRUPTED else "terminated\n")
    return watch.exit_code
