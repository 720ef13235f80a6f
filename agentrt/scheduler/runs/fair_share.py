"""Who had how much service: virtual-time counters, as of a fair queue.

A tenant's counter is the larger of two shares, both in seconds of a whole engine: the steps its
runs took part in, and the KV memory they filled. What it had beyond the mean of all active tenants
is its debt. One that comes back is lifted to the least of those that are active: nobody saves up
while idle.

After VTC (https://arxiv.org/abs/2401.00588).
"""

from __future__ import annotations


class TenantAccount:
    """What one tenant had.

    Attributes:
        tenant: Its name.
        runs: Of it, under way.
        counter_s: Service that it had, lifts included; the larger share counts.
    """

    __slots__ = (
        "_all",
        "_memory_s",
        "_service_s",
        "_start_s",
        "_told_s",
        "counter_s",
        "runs",
        "tenant",
    )

    def __init__(self, tenant: str, everybody: FairShare) -> None:
        self.tenant = tenant
        self.runs = 0
        self._all = everybody
        self.counter_s = 0.0
        self._start_s = 0.0
        self._service_s = 0.0
        self._memory_s = 0.0
        self._told_s = 0.0

    @property
    def debt_s(self) -> float:
        """Service beyond the mean of all active tenants; negative when it is owed some."""
        active = self._all.active
        if len(active) < 2:
            return 0.0
        return self.counter_s - self._all.total_s / len(active)

    def charge(self, service_s: float, memory_s: float = 0.0) -> None:
        """It had this much.

        Args:
            service_s: Its share of an engine's steps.
            memory_s: Its share of an engine's KV memory, times the seconds that it had it.
        """
        self._service_s += service_s
        self._memory_s += memory_s
        counter_s = self._start_s + max(self._service_s, self._memory_s)
        if self.runs:
            self._all.total_s += counter_s - self.counter_s
        self.counter_s = counter_s

    def has_moved(self, quantum_s: float) -> bool:
        """Whether its debt is another by a quantum than when this was last so."""
        debt_s = self.debt_s
        if abs(debt_s - self._told_s) < quantum_s:
            return False
        self._told_s = debt_s
        return True

    def lift(self, to_s: float) -> None:
        """It comes back: what the others had meanwhile is not owed to it."""
        more_s = max(0.0, to_s - self.counter_s)
        self._start_s += more_s
        self.counter_s += more_s


class FairShare:
    """All tenants of one runtime.

    Attributes:
        active: Those with a run under way, by name.
        total_s: Sum of their counters.
    """

    def __init__(self) -> None:
        self.active: dict[str, TenantAccount] = {}
        self.total_s = 0.0
        self._known: dict[str, TenantAccount] = {}

    def began(self, tenant: str) -> TenantAccount:
        """A run of the tenant began."""
        account = self._known.get(tenant)
        if account is None:
            account = self._known[tenant] = TenantAccount(tenant, self)
        if not account.runs:
            if self.active:
                account.lift(min(one.counter_s for one in self.active.values()))
            self.active[tenant] = account
            self.total_s += account.counter_s
        account.runs += 1
        return account

    def ended(self, account: TenantAccount) -> None:
        """A run of the tenant is over."""
        account.runs -= 1
        if not account.runs:
            del self.active[account.tenant]
            self.total_s -= account.counter_s
            if not self.active:  # nobody is owed anything: begin anew, without old rounding
                self._known.clear()
                self.total_s = 0.0
