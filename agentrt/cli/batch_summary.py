"""The closing lines of a batch: how many records are done, what failed, tokens and rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentrt.base.money import money_text

MOST_NUMBERS = 10


@dataclass(slots=True)
class BatchSummary:
    """Counts of one command's part of a batch.

    Attributes:
        done: Records with a result.
        failed: Numbers of the records with an error.
        unread: Numbers of the lines that are no record: not JSON, or no arguments of the program.
        unknown: Numbers of the records with a `write` tool whose outcome is unknown.
        standing: Records with a row of an earlier command.
        not_run: Records that were not run, or not to their end.
        input_tokens: Tokens of prompts.
        output_tokens: Tokens produced.
        cost_pico: Cost of them, in millionths of a millionth of the currency.
        currency: Currency of the cost; "" without prices.
    """

    done: int = 0
    failed: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    standing: int = 0
    not_run: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_pico: int = 0
    currency: str = ""

    def lines(self, spent_s: float) -> list[str]:
        """The closing lines, for a command that took `spent_s`."""
        parts = [f"{self.done:,} done", f"{len(self.failed):,} failed{_numbers(self.failed)}"]
        if self.unread:
            parts.append(f"{len(self.unread):,} not read{_numbers(self.unread)}")
        if self.standing:
            parts.append(f"{self.standing:,} stood already")
        if self.not_run:
            parts.append(f"{self.not_run:,} not run")
        ended = self.done + len(self.failed)
        rate = f", {ended / spent_s:.1f} records/s" if spent_s > 0 else ""
        tokens = f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out"
        if spent_s > 0:
            tokens += f" ({self.output_tokens / spent_s:,.0f}/s)"
        if self.currency:
            tokens += f", {money_text(self.cost_pico, self.currency)}"
        found = [f"batch: {', '.join(parts)}; {tokens}; {spent_s:.1f} s{rate}"]
        if self.unknown:
            again = " ".join(f"--again {number}" for number in self.unknown[:MOST_NUMBERS])
            found.append(
                f"outcome unknown{_numbers(self.unknown)}: look whether it was done; "
                f"--resume FILE {again} runs it again"
            )
        return found


def _numbers(numbers: Sequence[int]) -> str:
    """Numbers of lines, in brackets; "" for none."""
    if not numbers:
        return ""
    shown = ", ".join(map(str, numbers[:MOST_NUMBERS]))
    more = f" and {len(numbers) - MOST_NUMBERS} more" if len(numbers) > MOST_NUMBERS else ""
    return f" (line{'s' if len(numbers) > 1 else ''} {shown}{more})"
