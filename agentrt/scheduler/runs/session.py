"""Sessions: runs that are steps of one program elsewhere, whose service and waits count together.

A client that is itself a runtime of programs sends each generation as a request, which is a run
here. The session that these requests name is the program.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

MOST_SESSIONS = 4096
"""Sessions that are remembered, the least recently used are forgotten first."""


@dataclass(slots=True, eq=False, repr=False)
class SessionAccount:
    """Service of one session.

    Attributes:
        started_at_s: Start of its first run.
        attained_s: Service of all of its runs so far.
        waited_s: Time for which its runs have waited; that of runs at once counts once.
        runs: Number of its unfinished runs.
    """

    started_at_s: float
    attained_s: float = 0.0
    waited_s: float = 0.0
    runs: int = 0


class Sessions:
    """The sessions of all tenants; names are those of one tenant.

    Args:
        most: Sessions that are remembered; those with a run are never forgotten.
    """

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str], SessionAccount] = OrderedDict()

    def begin_run(self, tenant: str, name: str, at_s: float) -> SessionAccount | None:
        """Note that a run begins; gives its session, or None for a run of none."""
        if not name:
            return None
        session = self._known.setdefault((tenant, name), SessionAccount(at_s))
        self._known.move_to_end((tenant, name))
        session.runs += 1
        self._forget()
        return session

    def end_run(self, session: SessionAccount | None, waited_s: float) -> None:
        """Note that a run has ended.

        Args:
            session: Session of the run, or None.
            waited_s: Time for which the session had waited by then, as that run has seen it.
        """
        if session is not None:
            session.runs -= 1
            session.waited_s = max(session.waited_s, waited_s)

    def _forget(self) -> None:
        while len(self._known) > self._most:
            idle = next((key for key, one in self._known.items() if not one.runs), None)
            if idle is None:
                return
            del self._known[idle]
