"""Tokens used by a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agentrt.analysis.run_record import RunRecord
from agentrt.base.money import exact_text, money_text


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens over all generations of a run.

    Attributes:
        input_tokens: Tokens of prompts.
        cached_tokens: Prompt tokens found in the prefix cache.
        ahead_tokens: Prompt tokens that were there when the last input of their prompt came.
        output_tokens: Tokens produced, those of cancelled generations included.
        forced_tokens: Output tokens forced by a grammar.
        cancelled_tokens: Output tokens of cancelled generations.
        retried_tokens: Output tokens of answers that were generated again, since they failed their
            check or broke off at a remote engine.
        cost_pico: Cost of all of them, in millionths of a millionth of the currency.
        discarded_cost_pico: Part of the cost that gave no result: answers that were cancelled,
            failed their check or broke off.
        currency: Currency of the cost; "" if no engine has prices.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    ahead_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    cancelled_tokens: int = 0
    retried_tokens: int = 0
    cost_pico: int = 0
    discarded_cost_pico: int = 0
    currency: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Fields of a run's JSON object; money as exact decimal text, or null without prices."""
        fields = asdict(self)
        for name in ("cost", "discarded_cost"):
            pico = fields.pop(f"{name}_pico")
            fields[name] = exact_text(pico) if self.currency else None
        return fields | {"currency": fields.pop("currency") or None}

    def money(self) -> str:
        """Cost for people, such as `0.0123 USD`; "" without prices."""
        if not self.currency:
            return ""
        discarded_pico = self.discarded_cost_pico
        discarded = f" ({money_text(discarded_pico, '')} discarded)" if discarded_pico else ""
        return money_text(self.cost_pico, self.currency) + discarded


def usage(record: RunRecord) -> Usage:
    """Sum of the ledgers of a run, one a generation and one an answer that failed."""
    nodes = list(record.leaves())
    retried = [attempt.ledger for node in nodes for _, attempt in node.failed]
    ended = [(node.ledger, node.outcome) for node in nodes if node.ledger is not None]
    ledgers = [ledger for ledger, _ in ended] + retried
    discarded_pico = sum(
        ledger.cost_pico if outcome == "cancelled" else ledger.retried_cost_pico
        for ledger, outcome in ended
    ) + sum(ledger.cost_pico for ledger in retried)
    broken_off = sum(ledger.retried_tokens for ledger in ledgers)
    return Usage(
        input_tokens=sum(one.prompt_tokens + one.retried_prompt_tokens for one in ledgers),
        cached_tokens=sum(ledger.cached_tokens for ledger in ledgers),
        ahead_tokens=sum(ledger.ahead_tokens for ledger in ledgers),
        output_tokens=sum(ledger.output_tokens for ledger in ledgers) + broken_off,
        forced_tokens=sum(ledger.forced_tokens for ledger in ledgers),
        cancelled_tokens=sum(one.output_tokens for one, outcome in ended if outcome == "cancelled"),
        retried_tokens=sum(ledger.output_tokens for ledger in retried) + broken_off,
        cost_pico=sum(ledger.cost_pico for ledger in ledgers),
        discarded_cost_pico=discarded_pico,
        currency=next((ledger.currency for ledger in ledgers if ledger.currency), ""),
    )
