"""Usage of the engines of a runtime by tenant: requests, tokens and cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from agentrt.base.money import decimal_of
from agentrt.protocol.step_output import Ledger

MAX_TENANTS = 10_000
"""Tenants with an account of their own; servers take their names from strangers."""


@dataclass(slots=True)
class TenantUsage:
    """Usage of one tenant since the runtime was opened.

    Attributes:
        requests: Number of requests that have ended, those thrown away included, and those with
            an answer of the response cache, which count nothing else.
        input_tokens: Tokens of prompts.
        cached_tokens: Prompt tokens found in a prefix cache.
        output_tokens: Tokens produced, those of attempts that broke off included.
        cost_pico: Cost, in millionths of a millionth of the currency.
        currency: Currency of the cost; "" as long as no engine with prices was used.
    """

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_pico: int = 0
    currency: str = ""

    @property
    def cost(self) -> Decimal | None:
        """Cost in units of the currency; None if no engine has prices."""
        return decimal_of(self.cost_pico) if self.currency else None

    def merge(self, other: TenantUsage) -> None:
        """Add the usage of another tenant."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.cached_tokens += other.cached_tokens
        self.output_tokens += other.output_tokens
        self.cost_pico += other.cost_pico
        self.currency = other.currency or self.currency


class TenantUsages(Mapping[str, TenantUsage]):
    """Usage by tenant. Of more tenants than `MAX_TENANTS`, those that were idle longest are merged.

    Attributes:
        merged: Usage of tenants without an account of their own.
    """

    def __init__(self, max_tenants: int = MAX_TENANTS) -> None:
        self.merged = TenantUsage()
        self._max_tenants = max_tenants
        self._by_tenant: dict[str, TenantUsage] = {}

    def charge(self, tenant: str, ledger: Ledger) -> None:
        """Charge a request that has ended to its tenant."""
        usage = self._by_tenant.pop(tenant, None) or TenantUsage()
        usage.requests += 1
        if ledger.is_cached:  # no engine computed it
            ledger = Ledger(currency=ledger.currency)
        usage.input_tokens += ledger.prompt_tokens + ledger.retried_prompt_tokens
        usage.cached_tokens += ledger.cached_tokens
        usage.output_tokens += ledger.output_tokens + ledger.retried_tokens
        usage.cost_pico += ledger.cost_pico
        usage.currency = ledger.currency or usage.currency
        self._by_tenant[tenant] = usage
        if len(self._by_tenant) > self._max_tenants:
            self.merged.merge(self._by_tenant.pop(next(iter(self._by_tenant))))

    def __getitem__(self, tenant: str) -> TenantUsage:
        return self._by_tenant[tenant]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_tenant)

    def __len__(self) -> int:
        return len(self._by_tenant)
