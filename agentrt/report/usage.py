"""Tokens that a run used."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from agentrt.graph import RunRecord


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens over all generations of a run.

    Attributes:
        input_tokens: Of prompts.
        cached_tokens: Of those, found in the prefix cache.
        output_tokens: Produced, those of cancelled generations included.
        forced_tokens: Of those, forced by a grammar.
        cancelled_tokens: Of those, produced by generations that were cancelled.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    cancelled_tokens: int = 0

    def as_dict(self) -> dict[str, int]:
        """Name -> tokens, in the order of the fields."""
        return asdict(self)


def usage(record: RunRecord) -> Usage:
    """The sum of the ledgers of a run."""
    input_tokens = cached_tokens = output_tokens = forced_tokens = cancelled_tokens = 0
    for node in record.works():
        ledger = node.ledger
        if ledger is None:
            continue
        input_tokens += ledger.prompt_tokens
        cached_tokens += ledger.cached_tokens
        output_tokens += ledger.output_tokens
        forced_tokens += ledger.forced_tokens
        if node.finished is not None and node.finished.outcome == "cancelled":
            cancelled_tokens += ledger.output_tokens
    return Usage(input_tokens, cached_tokens, output_tokens, forced_tokens, cancelled_tokens)
