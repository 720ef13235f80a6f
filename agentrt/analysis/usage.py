"""Tokens used by a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from agentrt.analysis.run_record import RunRecord
from agentrt.protocol.step_output import Ledger


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens over all generations of a run.

    Attributes:
        input_tokens: Tokens of prompts.
        cached_tokens: Prompt tokens found in the prefix cache.
        output_tokens: Tokens produced, those of cancelled generations included.
        forced_tokens: Output tokens forced by a grammar.
        cancelled_tokens: Output tokens of cancelled generations.
        retried_tokens: Output tokens of answers that failed their check and were generated again.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    cancelled_tokens: int = 0
    retried_tokens: int = 0

    def as_dict(self) -> dict[str, int]:
        """Tokens by name, in the order of the fields."""
        return asdict(self)


def usage(record: RunRecord) -> Usage:
    """Sum of the ledgers of a run, one a generation and one an answer that failed."""
    total = Usage()
    for node in record.leaves():
        for _, attempt in node.failed:
            total = _with(total, attempt.ledger, retried=True)
        if node.ledger is not None and node.finished is not None:
            cancelled = node.finished.outcome == "cancelled"
            total = _with(total, node.ledger, cancelled=cancelled)
    return total


def _with(total: Usage, ledger: Ledger, *, cancelled: bool = False, retried: bool = False) -> Usage:
    return Usage(
        total.input_tokens + ledger.prompt_tokens,
        total.cached_tokens + ledger.cached_tokens,
        total.output_tokens + ledger.output_tokens,
        total.forced_tokens + ledger.forced_tokens,
        total.cancelled_tokens + cancelled * ledger.output_tokens,
        total.retried_tokens + retried * ledger.output_tokens,
    )
