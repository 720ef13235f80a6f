"""The beginning of a run: its id and its deadline."""

from __future__ import annotations

import re
import secrets
from collections.abc import Container

from agentrt.base.config import RunConfig
from agentrt.base.errors import UsageError
from agentrt.base.ids import RunId
from agentrt.program import ProgramWork
from agentrt.runtime.options import RunOptions

_RUN_ID = re.compile(r"[0-9a-f]{16}")


def new_run_id(options: RunOptions, in_use: Container[RunId]) -> RunId:
    """The id that the options give, or a new one.

    Raises:
        UsageError: The id is malformed or in use.
    """
    run_id = options.run_id or RunId(secrets.token_hex(8))
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"run id {run_id!r} is malformed", hint="Give 16 hex digits")
    if run_id in in_use:
        raise UsageError(f"run id {run_id!r} is in use", hint="Give another one")
    return run_id


def within_deadline(work: ProgramWork, options: RunOptions, config: RunConfig) -> ProgramWork:
    """The work under the deadline of the run, if that is the shorter one.

    Raises:
        UsageError: The deadline is out of range.
    """
    deadline_s = options.deadline_s
    if deadline_s is None:
        deadline_s = config.deadline_s
    if deadline_s is None:
        return work
    if not deadline_s > 0:
        raise UsageError(f"deadline_s={deadline_s:g} is out of range", hint="Give seconds above 0")
    return work.within(min(deadline_s, work.deadline_s or deadline_s))
