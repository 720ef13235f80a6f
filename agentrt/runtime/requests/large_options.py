"""Many options of an output are read and written in a worker thread, not on the loop."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

from agentrt.program import Gen
from agentrt.program.late_constraint import LateConstraint
from agentrt.runtime.run import Run
from agentrt.scheduler import InternalEvent
from agentrt.scheduler.internal_events import OptionsKnown
from agentrt.tools.workers import run_in_worker


class LargeOptions:
    """Starts tasks that fill constraints with many options, and posts their ends to the loop."""

    def __init__(self, post: Callable[[InternalEvent], None]) -> None:
        self._post = post
        self._begun: set[tuple[str, str]] = set()

    def is_awaited(self, run: Run, gen: Gen[Any]) -> bool:
        """Whether the constraint of a generation is being filled; starts that if it is time."""
        late = gen.work.output.late
        if late is None or not (late.is_ready and late.is_large):
            return False
        key = run.run_id, gen.id
        if key not in self._begun:
            self._begun.add(key)
            body = self._run(run, gen, late)
            run.task_set.start(body, f"{gen.id} options", contextvars.copy_context())
        return True

    async def _run(self, run: Run, gen: Gen[Any], late: LateConstraint) -> None:
        try:
            await run_in_worker(late.fill, _nothing)
        finally:
            self._begun.discard((run.run_id, gen.id))
        self._post(OptionsKnown(run.run_id, gen.id))


def _nothing() -> None:
    return None
