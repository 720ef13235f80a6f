"""Work saved by the response cache, coalescing and speculation, and work that this one wasted."""

from __future__ import annotations

from typing import Any

from agentrt.analysis.run_record import RunRecord
from agentrt.base.money import exact_text, money_text
from agentrt.base.record import record


@record
class SavedWork:
    """Totals over all nodes of a run.

    Attributes:
        joined: Generations coalesced with an equal one in flight.
        joined_tokens: Tokens of coalesced prompts and outputs, computed once for another request.
        cached: Generations with an answer of the response cache.
        cached_tokens: Tokens of their prompts and outputs, computed in earlier runs.
        cached_cost_pico: Cost of these answers then, in millionths of a millionth of the currency.
        currency: Currency of that cost; "" without prices.
        ahead: Tools called ahead (speculation).
        hits: Speculated calls that a real call used or joined.
        saved_s: Waiting time saved by those calls.
        wasted_s: Time of tools called ahead in vain.
        expected: Prompts that were computed ahead.
        used_tokens: Tokens of these that a prompt then had.
        wasted_tokens: Tokens of these that none had.
    """

    joined: int = 0
    joined_tokens: int = 0
    cached: int = 0
    cached_tokens: int = 0
    cached_cost_pico: int = 0
    currency: str = ""
    ahead: int = 0
    hits: int = 0
    saved_s: float = 0.0
    wasted_s: float = 0.0
    expected: int = 0
    used_tokens: int = 0
    wasted_tokens: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Fields of a run's JSON object, times in ms."""
        return {
            "joined": self.joined,
            "joined_tokens": self.joined_tokens,
            "cached_responses": self.cached,
            "cached_response_tokens": self.cached_tokens,
            "cached_response_cost": exact_text(self.cached_cost_pico) if self.currency else None,
            "ahead": self.ahead,
            "taken": self.hits,
            "saved_ms": round(self.saved_s * 1e3, 3),
            "wasted_ms": round(self.wasted_s * 1e3, 3),
            "prompts_ahead": self.expected,
            "used_tokens": self.used_tokens,
            "wasted_tokens": self.wasted_tokens,
        }

    def text(self) -> str:
        """Summary in a few words; "" if there is nothing."""
        parts: list[str] = []
        if self.joined:
            parts.append(f"joined {self.joined}")
        if self.cached:
            saved = f" (saved {money_text(self.cached_cost_pico, self.currency)})"
            parts.append(f"cached {self.cached}{saved if self.currency else ''}")
        if self.ahead:
            parts.append(f"ahead {self.hits} of {self.ahead}, wasted {self.wasted_s:.2f} s")
        if self.expected:
            used, wasted = self.used_tokens, self.wasted_tokens
            parts.append(f"prefilled ahead {used} tokens, wasted {wasted}")
        return ", ".join(parts)


def saved_work(record: RunRecord) -> SavedWork:
    """Saved and wasted work, by the scheduler's decisions."""
    joined = joined_tokens = ahead = hits = expected = used_tokens = wasted_tokens = 0
    cached = cached_tokens = cached_cost_pico = 0
    currency = ""
    saved_s = wasted_s = 0.0
    for node in record.nodes.values():
        ledger = node.ledger
        if ledger is not None and ledger.is_cached:
            cached += 1
            cached_tokens += ledger.prompt_tokens + ledger.output_tokens
            cached_cost_pico += ledger.saved_pico
            currency = currency or ledger.currency
        for decision in node.scheduled:
            terms = dict(decision.terms)
            if decision.decision == "joined":
                joined += 1
                if node.ledger is not None:
                    joined_tokens += node.ledger.prompt_tokens + node.ledger.output_tokens
            elif decision.decision == "speculated":
                is_prompt = "expected_tokens" in terms
                expected += is_prompt
                used_tokens += int(terms.get("used_tokens", 0))
                wasted_tokens += int(terms.get("wasted_tokens", 0))
                ahead += "probability" in terms and not is_prompt
                hits += "saved_s" in terms
                saved_s += terms.get("saved_s", 0.0)
                wasted_s += terms.get("wasted_s", 0.0)
    return SavedWork(
        joined,
        joined_tokens,
        cached,
        cached_tokens,
        cached_cost_pico,
        currency,
        ahead,
        hits,
        saved_s,
        wasted_s,
        expected,
        used_tokens,
        wasted_tokens,
    )
