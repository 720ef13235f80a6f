"""Times after which a worker of a fleet counts as silent, and is asked again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FleetTimes:
    """Times of a fleet, in seconds.

    Attributes:
        quiet_s: Time without bytes from a worker that has requests, after which it is asked whether
            it lives.
        answer_s: Time for its answer. Without one it counts as hung: its requests go elsewhere.
        first_pause_s: Pause before the second question to a worker that is down.
        most_pause_s: Longest such pause; each is twice as long as the one before.
        open_s: Time for the opening of a worker that answers.
        join_s: Time for which the opening waits for other workers once one is open.
        tick_s: Time between two looks at requests that wait.
        gap_s: Time without a request after which a run is taken to send none any more.
    """

    quiet_s: float = 2.0
    answer_s: float = 4.0
    first_pause_s: float = 0.1
    most_pause_s: float = 5.0
    open_s: float = 60.0
    join_s: float = 2.0
    tick_s: float = 0.5
    gap_s: float = 10.0


DEFAULT_TIMES = FleetTimes()
