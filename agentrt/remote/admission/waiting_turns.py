"""Requests that are held back before a server, in the order of the policy.

Nothing can be reordered behind the server's door, so what would only wait there waits here. The
order is that of the embedded engine's waiting queue: the same rules, the same policies, the same
share for overdue requests, and the same account of why a request had to wait.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import get_args

from agentrt.base.ids import RequestId
from agentrt.protocol.backend import SchedulingInfo
from agentrt.protocol.step_output import Admission
from agentrt.remote.admission.request_pacer import HeldBackBy
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.scheduler.order.order import Order, is_overdue
from agentrt.scheduler.policies.priority_key import PriorityKey

REFRESH_S = 1.0
"""Time for which a key holds unless the info changes; ageing moves it slowly."""

_CAUSES: tuple[HeldBackBy, ...] = get_args(HeldBackBy)
_AT_THE_FRONT: PriorityKey = (0.0,)
_UNKNOWN = SchedulingInfo(RequestId(0), demanded=True)


@dataclass(slots=True, eq=False)
class _WaitingTurn:
    """A place in the queue.

    Attributes:
        turn: The request.
        since_s: Instant of joining.
        rounds: Rounds of the queue before it joined, by cause.
        waits_for: Cause that held it back when it joined; None if none did.
        key: Current sort key; entries with another one are stale.
    """

    turn: RequestTurn
    since_s: float
    rounds: tuple[int, ...]
    waits_for: HeldBackBy | None = None
    key: PriorityKey = ()


class WaitingTurns:
    """The waiting requests of one server. Instants are seconds of the injected clock.

    Args:
        order: Order of waiting requests.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._places: dict[RequestTurn, _WaitingTurn] = {}
        self._by_key: list[tuple[PriorityKey, int, int, _WaitingTurn]] = []
        self._by_arrival: list[tuple[int, int, _WaitingTurn]] = []
        # A request that joins again has its old number, which may still be that of a stale entry.
        self._entries = itertools.count()
        self._rounds = dict.fromkeys(_CAUSES, 0)
        self._refresh_at_s = 0.0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, turn: RequestTurn, now_s: float) -> None:
        """Let a request join.

        Raises:
            UsageError: The info lacks something that the policy needs.
        """
        place = _WaitingTurn(turn, now_s, tuple(self._rounds.values()))
        self._enter(place, now_s)
        self._places[turn] = place
        heapq.heappush(self._by_arrival, (turn.number, next(self._entries), place))

    def discard(self, turn: RequestTurn) -> None:
        """Let a request leave; one that is not here is ignored."""
        if self._places.pop(turn, None) is not None and not self._places:
            self._by_key.clear()
            self._by_arrival.clear()

    def update(self, turn: RequestTurn, info: SchedulingInfo, now_s: float) -> None:
        """Note new scheduling info of a request, whether it waits or not."""
        turn.info = info
        place = self._places.get(turn)
        if place is not None:
            self._enter(place, now_s)

    def overdue(self, now_s: float) -> RequestTurn | None:
        """The longest waiting request, if it has waited excessively long."""
        if not self._places:
            return None
        oldest = self._oldest()
        return oldest.turn if _is_overdue(now_s, oldest) else None

    def first(self, now_s: float) -> RequestTurn | None:
        """The most urgent request, or None without any."""
        if not self._places:
            return None
        if now_s >= self._refresh_at_s:
            self._refresh(now_s)
        while True:
            key, _, _, place = self._by_key[0]
            if self._places.get(place.turn) is place and place.key == key:
                return place.turn
            heapq.heappop(self._by_key)

    def in_order(self, now_s: float, most: int) -> list[RequestTurn]:
        """The most urgent requests, at most so many."""
        if now_s >= self._refresh_at_s:
            self._refresh(now_s)
        places = self._places.values()
        first = heapq.nsmallest(most, places, key=lambda one: (one.key, one.turn.number))
        return [place.turn for place in first]

    def admit(self, turn: RequestTurn, now_s: float, position: int) -> Admission:
        """Take a request out of the queue to send it.

        Args:
            turn: The request.
            now_s: Now.
            position: Number of requests admitted before it in this round.
        """
        place, waiting = self._places[turn], len(self._places) - 1
        self.discard(turn)
        info = _UNKNOWN if turn.info is None else turn.info
        order = self._order.limited_to(waiting + 1)
        own: list[tuple[str, float]] = []
        if turn.is_overdue:
            own.append(("overdue", 1.0))
        if not info.demanded:
            own.append(("undemanded", 1.0))
        return Admission(
            request_id=info.request_id,
            at_s=now_s,
            policy=order.policy.name,
            waited_s=now_s - place.since_s,
            position=position,
            waiting=waiting,
            passed_over=self._passed_over(place),
            terms=(*order.terms(now_s, info), *own),
        )

    def note_held(self, turn: RequestTurn, cause: HeldBackBy) -> None:
        """Note that a request has to wait."""
        self._places[turn].waits_for = cause

    def note_round(self, cause: HeldBackBy) -> None:
        """Note that some were admitted, and why all that still wait were not."""
        self._rounds[cause] += 1

    def _passed_over(self, place: _WaitingTurn) -> tuple[tuple[str, int], ...]:
        counts = {
            cause: after - before
            for (cause, after), before in zip(self._rounds.items(), place.rounds, strict=True)
        }
        if place.waits_for is not None:
            counts[place.waits_for] += 1
        return tuple((cause, count) for cause, count in counts.items() if count)

    def _enter(self, place: _WaitingTurn, now_s: float) -> None:
        """Give a place its key."""
        info = _UNKNOWN if place.turn.info is None else place.turn.info
        order = self._order.limited_to(len(self._places))
        place.key = (1.0, not info.demanded, *order.key(now_s, info))
        if place.turn.was_refused:
            place.key = _AT_THE_FRONT
        entry = (place.key, place.turn.number, next(self._entries), place)
        heapq.heappush(self._by_key, entry)

    def _refresh(self, now_s: float) -> None:
        """Compute all keys anew: waiting has raised some priorities."""
        self._refresh_at_s = now_s + REFRESH_S
        self._by_key.clear()
        for place in self._places.values():
            self._enter(place, now_s)

    def _oldest(self) -> _WaitingTurn:
        while True:
            _, _, place = self._by_arrival[0]
            if self._places.get(place.turn) is place:
                return place
            heapq.heappop(self._by_arrival)


def _is_overdue(now_s: float, place: _WaitingTurn) -> bool:
    info = place.turn.info
    return info is not None and info.demanded and is_overdue(now_s, info, place.since_s)
