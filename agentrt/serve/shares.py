"""Requests under way, shared among tenants."""

from __future__ import annotations

from collections import Counter

import anyio


class RequestShares:
    """The requests under way, by tenant.

    Args:
        most: Requests at once, shared evenly by the tenants that have any. A tenant below its share
            is taken even then: there may be twice as many in all.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tenants: Counter[str] = Counter()
        self.scopes: set[anyio.CancelScope] = set()

    def __len__(self) -> int:
        return len(self.scopes)

    def has_room(self, tenant: str) -> bool:
        """Whether another request of a tenant is taken."""
        if len(self) < self._most:
            return True
        share = self._most // len(self._tenants.keys() | {tenant})
        return self._tenants[tenant] < share and len(self) < 2 * self._most

    def add(self, scope: anyio.CancelScope, tenant: str) -> None:
        """Note the start of a request."""
        self.scopes.add(scope)
        self._tenants[tenant] += 1

    def remove(self, scope: anyio.CancelScope, tenant: str) -> None:
        """Note the end of a request."""
        self.scopes.discard(scope)
        self._tenants[tenant] -= 1
        if not self._tenants[tenant]:
            del self._tenants[tenant]
