"""How an engine ended: by an error of its own, or by something outside.

A process that is killed or stopped from outside proves nothing about the requests in it, nor about
the next load.
"""

from __future__ import annotations

import signal

from agentrt.base.errors import (
    AgentrtError,
    EngineDied,
    EngineUnavailable,
    ErrorRecord,
    InternalError,
    revive,
)
from agentrt.base.record import record
from agentrt.engine.process.child import ChildExit
from agentrt.engine.process.vitals import Verdict

_FAULTS = frozenset(
    (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP)
)
"""Signals by which a process ends for an error of its own."""


@record
class Death:
    """The end of an engine.

    Attributes:
        child_exit: How its process ended.
        last_error: Error that it reported before, or that was found in its reports; None if there
            was none.
        verdict: State of the process before it was ended, by its signs of life.
        oom_kills: Processes that the kernel killed for lack of memory meanwhile.
    """

    child_exit: ChildExit
    last_error: ErrorRecord | None
    verdict: Verdict
    oom_kills: int

    @property
    def is_own_fault(self) -> bool:
        """Whether the engine ended by an error of its own, which a request may have caused."""
        if self.verdict != "alive":
            return self.verdict == "hangs"
        code = self.child_exit.code
        was_starved = code == -signal.SIGKILL and self.oom_kills > 0
        return self.last_error is not None or code > 0 or -code in _FAULTS or was_starved

    def while_serving(self) -> EngineDied:
        """The error of an engine that had loaded."""
        last = self.last_error
        said = f": {last.type}: {last.message}" if last else ""
        return EngineDied(f"the engine died ({self.child_exit.how}){said}", hint=self._hint())

    def while_loading(self) -> AgentrtError:
        """The error of an engine that had not loaded; its own one if it reported one."""
        if self.last_error is None:
            message = f"the engine's process ended while it was loading ({self.child_exit.how})"
            return EngineUnavailable(message, hint=self._hint())
        error = revive(self.last_error)
        if isinstance(error, InternalError):
            return EngineUnavailable(f"the engine cannot start: {error.message}", hint=error.hint)
        return error

    def _hint(self) -> str:
        """Hint with the child's last lines of stderr; "" keeps the error's own hint."""
        lines = [line.strip() for line in self.child_exit.stderr.splitlines() if line.strip()]
        return f"Its last words: {' | '.join(lines[-3:])}" if lines else ""
