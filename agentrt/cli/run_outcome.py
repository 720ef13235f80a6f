"""End of one run of a command."""

from __future__ import annotations

from typing import Any

from agentrt.base.ids import RunId
from agentrt.base.record import record


@record
class RunOutcome:
    """End of one run.

    Attributes:
        run_id: Id of the run.
        value: Result as plain data.
        error: Exception raised instead.
        row: Line of a batch's output that an earlier command has made; "" makes it anew.
    """

    run_id: RunId
    value: Any = None
    error: BaseException | None = None
    row: str = ""

    @property
    def is_cut_off(self) -> bool:
        """Whether the run was cancelled: it has neither a result nor an error of its own."""
        return self.error is not None and not isinstance(self.error, Exception | SystemExit)
