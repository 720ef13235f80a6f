"""Work that a run got from others or ahead of time, and work done in vain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentrt.analysis.run_record import RunRecord


@dataclass(frozen=True, slots=True)
class Spared:
    """Over all nodes of a run.

    Attributes:
        joined: Generations that joined a like one under way.
        joined_tokens: Tokens of coalesced prompts and outputs, computed once for another request.
        ahead: Tools that were called ahead.
        taken: Speculated calls that a real call took or joined.
        saved_s: Time that those calls did not have to wait.
        wasted_s: Time that tools worked in vain.
    """

    joined: int = 0
    joined_tokens: int = 0
    ahead: int = 0
    taken: int = 0
    saved_s: float = 0.0
    wasted_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """As the object of a run has it, times in ms."""
        return {
            "joined": self.joined,
            "joined_tokens": self.joined_tokens,
            "ahead": self.ahead,
            "taken": self.taken,
            "saved_ms": round(self.saved_s * 1e3, 3),
            "wasted_ms": round(self.wasted_s * 1e3, 3),
        }

    def told(self) -> str:
        """In a few words; "" when there was nothing."""
        parts: list[str] = []
        if self.joined:
            parts.append(f"joined {self.joined}")
        if self.ahead:
            parts.append(f"ahead {self.taken} of {self.ahead}, wasted {self.wasted_s:.2f} s")
        return ", ".join(parts)


def spared(record: RunRecord) -> Spared:
    """Spared work according to the scheduler's decisions."""
    joined = joined_tokens = ahead = taken = 0
    saved_s = wasted_s = 0.0
    for node in record.nodes.values():
        for decision in node.scheduled:
            terms = dict(decision.terms)
            if decision.decision == "joined":
                joined += 1
                if node.ledger is not None:
                    joined_tokens += node.ledger.prompt_tokens + node.ledger.output_tokens
            elif decision.decision == "speculated":
                ahead += "probability" in terms
                taken += "saved_s" in terms
                saved_s += terms.get("saved_s", 0.0)
                wasted_s += terms.get("wasted_s", 0.0)
    return Spared(joined, joined_tokens, ahead, taken, saved_s, wasted_s)
