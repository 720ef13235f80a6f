"""Tokens used by a run."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.analysis.run_record import RunRecord


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
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    ahead_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    cancelled_tokens: int = 0
    retried_tokens: int = 0


def usage(record: RunRecord) -> Usage:
    """Sum of the ledgers of a run, one a generation and one an answer that failed."""
    nodes = list(record.leaves())
    retried = [attempt.ledger for node in nodes for _, attempt in node.failed]
    ended = [(node.ledger, node.outcome) for node in nodes if node.ledger is not None]
    ledgers = [ledger for ledger, _ in ended] + retried
    broken_off = sum(ledger.retried_tokens for ledger in ledgers)
    return Usage(
        input_tokens=sum(ledger.prompt_tokens for ledger in ledgers),
        cached_tokens=sum(ledger.cached_tokens for ledger in ledgers),
        ahead_tokens=sum(ledger.ahead_tokens for ledger in ledgers),
        output_tokens=sum(ledger.output_tokens for ledger in ledgers) + broken_off,
        forced_tokens=sum(ledger.forced_tokens for ledger in ledgers),
        cancelled_tokens=sum(one.output_tokens for one, outcome in ended if outcome == "cancelled"),
        retried_tokens=sum(ledger.output_tokens for ledger in retried) + broken_off,
    )
