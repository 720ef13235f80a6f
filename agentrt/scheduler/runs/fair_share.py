"""Fair share of tenants: virtual-time counters, as in fair queueing.

A tenant's counter is the larger of two sums, both in seconds of a whole engine: its share of steps,
and its share of the KV cache. Its excess over the mean of all active tenants is its debt. A tenant
that returns is raised to the least counter of the active ones: idle time earns no credit.

After VTC (https://arxiv.org/abs/2401.00588).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False, repr=False)
class TenantAccount:
    """Service of one tenant.

    Attributes:
        tenant: Name of the tenant.
        runs: Number of its unfinished runs.
        counter_s: Service so far, raises included; the larger share counts.
    """

    tenant: str
    _fair_share: FairShare
    runs: int = 0
    counter_s: float = 0.0
    _start_s: float = 0.0
    _service_s: float = 0.0
    _memory_s: float = 0.0
    _reported_s: float = 0.0

    @property
    def debt_s(self) -> float:
        """Service beyond the mean of all active tenants; negative if below."""
        active = self._fair_share.active
        if len(active) < 2:
            return 0.0
        return self.counter_s - self._fair_share.total_s / len(active)

    def charge(self, service_s: float, memory_s: float = 0.0) -> None:
        """Charge service to the tenant.

        Args:
            service_s: Share of an engine's steps, in seconds.
            memory_s: Share of an engine's KV cache, times the seconds it was held.
        """
        self._service_s += service_s
        self._memory_s += memory_s
        counter_s = self._start_s + max(self._service_s, self._memory_s)
        if self.runs:
            self._fair_share.total_s += counter_s - self.counter_s
        self.counter_s = counter_s

    def debt_changed(self, quantum_s: float) -> bool:
        """Whether the debt has changed by a quantum since this was last True."""
        debt_s = self.debt_s
        if abs(debt_s - self._reported_s) < quantum_s:
            return False
        self._reported_s = debt_s
        return True

    def raise_counter(self, to_s: float) -> None:
        """Raise the counter on return: service of others in the meantime is not owed."""
        more_s = max(0.0, to_s - self.counter_s)
        self._start_s += more_s
        self.counter_s += more_s


class FairShare:
    """All tenants of one runtime.

    Attributes:
        active: Tenants with an unfinished run, by name.
        total_s: Sum of their counters.
    """

    def __init__(self) -> None:
        self.active: dict[str, TenantAccount] = {}
        self.total_s = 0.0
        self._accounts: dict[str, TenantAccount] = {}

    def begin_run(self, tenant: str) -> TenantAccount:
        """Note that a run of the tenant begins."""
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = TenantAccount(tenant, self)
        if not account.runs:
            if self.active:
                account.raise_counter(min(one.counter_s for one in self.active.values()))
            self.active[tenant] = account
            self.total_s += account.counter_s
        account.runs += 1
        return account

    def end_run(self, account: TenantAccount) -> None:
        """Note that a run of the tenant has ended."""
        account.runs -= 1
        if not account.runs:
            del self.active[account.tenant]
            self.total_s -= account.counter_s
            if not self.active:  # no debts are left: reset, and drop rounding errors
                self._accounts.clear()
                self.total_s = 0.0
