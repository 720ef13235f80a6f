"""Turns at the engine, shared evenly by the tenants of a server and the clients of each.

A request has its turn from its start to its first token. The queue of the engine is short that way:
a newcomer soon has its first token, and the others wait here. Nothing in here does I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from agentrt.base.record import record

RequestT = TypeVar("RequestT")
MOST_TURNS = 16
OLDEST_EVERY = 8
"""One of so many turns of a client is for its oldest request, whatever the priority of others."""


@record
class Owner:
    """The owner of a request.

    Attributes:
        tenant: Name of the tenant: an API key, or an address.
        client: Name of the client among those of its tenant.
    """

    tenant: str = ""
    client: str = ""


@dataclass(slots=True, eq=False)
class Share(Generic[RequestT]):
    """Requests under way of a tenant or of a client.

    Attributes:
        last_turn: Number of its last turn; before it has had one, of the last turn of all.
        turns: Turns that it has now.
        served: Requests that the server works on: prepared for their turn, or begun and not ended.
        given: Turns that it was given so far.
        queue: Requests that wait for a turn with their priorities, in the order of arrival.
        clients: Shares of its clients, by name.
    """

    last_turn: int
    turns: int = 0
    served: int = 0
    given: int = 0
    queue: dict[RequestT, int] = field(default_factory=dict)
    clients: dict[str, Share[RequestT]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of its requests under way."""
        return self.served + len(self.queue)

    @property
    def order(self) -> tuple[int, int]:
        """Sort key for the next turn: least served, then longest without a turn."""
        return (self.served, self.last_turn)


@dataclass(slots=True, eq=False)
class _Place:
    owner: Owner
    phase: Literal["prepared", "waiting", "turn", "begun"] = "prepared"


class RequestShares(Generic[RequestT]):
    """Requests under way: they are prepared, wait for a turn, have one, or have had it.

    Args:
        most: Requests under way at once.
        most_turns: Turns at once. A tenant without one has one beyond them. So has a client, up to
            twice as many in all, if no other tenant waits.
    """

    def __init__(self, most: int, most_turns: int = MOST_TURNS) -> None:
        self._most = most
        self._most_turns = most_turns
        self._all: Share[RequestT] = Share(0)
        self._places: dict[RequestT, _Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[RequestT]:
        return iter(tuple(self._places))

    def enter(self, request: RequestT, owner: Owner) -> RequestT | None:
        """Take a request, which is prepared from now on.

        Returns:
            The request that is refused because there are too many, if there are: the new one, or
            one that waits and whose owner has more.
        """
        refused: RequestT | None = None
        if len(self) >= self._most:
            refused = self._surplus(owner)
            if refused is not None:
                self.leave(refused)
            elif not self._is_owed(owner):
                return request
        self._places[request] = _Place(owner)
        for share in self._shares(owner):
            share.served += 1
        return refused

    @property
    def waiting(self) -> int:
        """Requests that are prepared or wait for a turn."""
        return sum([one.phase in ("prepared", "waiting") for one in self._places.values()])

    def wait(self, request: RequestT, priority: int = 0) -> None:
        """Let a request that is prepared wait for its turn, unless it has left.

        Args:
            request: The request.
            priority: Priority among those of its client; the smallest goes first.
        """
        place = self._places.get(request)
        if place is not None and place.phase == "prepared":
            place.phase = "waiting"
            for share in self._shares(place.owner):
                share.served -= 1
                share.queue[request] = priority

    def next_turns(self) -> list[RequestT]:
        """Give turns to requests that wait, as long as there are any; in the order of the turns."""
        found = []
        while (chosen := self._next()) is not None:
            place = self._places[chosen]
            place.phase = "turn"
            self._all.last_turn += 1
            for share in self._shares(place.owner):
                del share.queue[chosen]
                share.turns += 1
                share.given += 1
                share.served += 1
                share.last_turn = self._all.last_turn
            found.append(chosen)
        return found

    def begin(self, request: RequestT) -> None:
        """End the turn of a request that has its first token, if it has not ended before."""
        place = self._places.get(request)
        if place is not None and place.phase == "turn":
            place.phase = "begun"
            for share in self._shares(place.owner):
                share.turns -= 1

    def leave(self, request: RequestT) -> None:
        """Forget a request; one that is unknown is none."""
        self.begin(request)
        place = self._places.pop(request, None)
        if place is None:
            return
        for share in self._shares(place.owner):
            if place.phase == "waiting":
                del share.queue[request]
            else:
                share.served -= 1
        self._drop_empty(place.owner)

    def _next(self) -> RequestT | None:
        """The request with the next turn; None if there is none, or no turn is left."""
        tenants = _waiting(self._all)
        if self._all.turns < self._most_turns:
            clients = _waiting(min(tenants, key=_order)) if tenants else []
        elif without := [tenant for tenant in tenants if not tenant.turns]:
            clients = _waiting(min(without, key=_order))
        elif len(tenants) == 1 and self._all.turns < 2 * self._most_turns:
            clients = [client for client in _waiting(tenants[0]) if not client.turns]
        else:
            clients = []
        return _first(min(clients, key=_order)) if clients else None

    def _surplus(self, owner: Owner) -> RequestT | None:
        """The least request that waits of an owner that has more; None if there is none."""
        tenant = _larger(self._all, owner.tenant)
        own = self._all.clients.get(owner.tenant)
        client: Share[RequestT] | None = None
        if tenant is not None:
            client = max(reversed(_waiting(tenant)), key=_size)
        elif own is not None:
            client = _larger(own, owner.client)
        if client is None:
            return None
        return max(reversed(client.queue), key=client.queue.__getitem__)

    def _is_owed(self, owner: Owner) -> bool:
        """Whether an owner has less than its even share, of up to twice as many requests."""
        if len(self) >= 2 * self._most:
            return False
        tenants = self._all.clients
        tenant = tenants.get(owner.tenant)
        even = self._most // len(tenants.keys() | {owner.tenant})
        if _size(tenant) < even:
            return True
        clients = tenant.clients if tenant is not None else {}
        return _size(clients.get(owner.client)) < even // len(clients.keys() | {owner.client})

    def _shares(self, owner: Owner) -> tuple[Share[RequestT], Share[RequestT], Share[RequestT]]:
        """The shares that a request of an owner counts for; new ones if it has none yet."""
        now = self._all.last_turn
        tenant = self._all.clients.get(owner.tenant)
        if tenant is None:
            tenant = self._all.clients[owner.tenant] = Share(now)
        client = tenant.clients.get(owner.client)
        if client is None:
            client = tenant.clients[owner.client] = Share(now)
        return (self._all, tenant, client)

    def _drop_empty(self, owner: Owner) -> None:
        tenant = self._all.clients[owner.tenant]
        if not tenant.clients[owner.client].size:
            del tenant.clients[owner.client]
        if not tenant.size:
            del self._all.clients[owner.tenant]


def _first(client: Share[RequestT]) -> RequestT:
    """The request of a client with the next turn: the most urgent, and now and then the oldest."""
    queue = client.queue
    if client.given % OLDEST_EVERY == OLDEST_EVERY - 1:
        return next(iter(queue))
    return min(queue, key=queue.__getitem__)


def _waiting(share: Share[RequestT]) -> list[Share[RequestT]]:
    return [one for one in share.clients.values() if one.queue]


def _larger(among: Share[RequestT], name: str) -> Share[RequestT] | None:
    """The largest of the shares that wait, if it is larger than another would be with one more."""
    largest = max(_waiting(among), key=_size, default=None)
    is_larger = _size(largest) > _size(among.clients.get(name)) + 1
    return largest if is_larger else None


def _order(share: Share[RequestT]) -> tuple[int, int]:
    return share.order


def _size(share: Share[RequestT] | None) -> int:
    return 0 if share is None else share.size
