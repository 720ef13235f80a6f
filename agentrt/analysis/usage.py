"""Tokens used by a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agentrt.analysis.run_record import RunRecord
from agentrt.base.money import exact_text, money_text
from agentrt.protocol.step_output import Ledger


@dataclass(slots=True)
class Usage:
    """Tokens over all generations of a run.

    Attributes:
        input_tokens: Tokens of prompts.
        cached_tokens: Prompt tokens found in the prefix cache.
        ahead_tokens: Prompt tokens that were there when the last input of their prompt came.
        warmed_tokens: Prompt tokens that warm-ups at remote engines computed; they are no part of
            `input_tokens`.
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
    warmed_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    cancelled_tokens: int = 0
    retried_tokens: int = 0
    cost_pico: int = 0
    discarded_cost_pico: int = 0
    currency: str = ""

    def add(self, ledger: Ledger, *, is_discarded: bool) -> None:
        """Add a ledger; what is discarded gave no result.

        An answer of the response cache adds nothing: no engine computed or billed it.
        """
        self.currency = self.currency or ledger.currency
        if ledger.is_cached:
            return
        self.input_tokens += ledger.prompt_tokens + ledger.retried_prompt_tokens
        self.cached_tokens += ledger.cached_tokens
        self.ahead_tokens += ledger.ahead_tokens
        self.warmed_tokens += ledger.warmed_tokens
        self.output_tokens += ledger.output_tokens + ledger.retried_tokens
        self.forced_tokens += ledger.forced_tokens
        self.retried_tokens += ledger.retried_tokens
        self.cost_pico += ledger.cost_pico
        self.discarded_cost_pico += ledger.cost_pico if is_discarded else ledger.retried_cost_pico

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
    """Sum of the ledgers of a run, one a generation and one an answer that failed its check."""
    found = Usage()
    for node in record.leaves():
        for _, attempt in node.failed:
            found.add(attempt.ledger, is_discarded=True)
            found.retried_tokens += attempt.ledger.output_tokens
        finished = node.finished
        if finished is not None and finished.ledger is not None:
            was_cancelled = finished.outcome == "cancelled"
            found.add(finished.ledger, is_discarded=was_cancelled)
            if was_cancelled:
                found.cancelled_tokens += finished.ledger.output_tokens
    return found
