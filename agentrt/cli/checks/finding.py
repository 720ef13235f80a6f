"""A finding of `agentrt check`: a fault, its place, and the way to mend it."""

from __future__ import annotations

from typing import Any, Literal

from agentrt.base.errors import ErrorRecord
from agentrt.base.record import record

Severity = Literal["error", "warning", "note"]
Rule = Literal["load", "signature", "output", "tool", "mcp", "prefix", "run"]


@record
class Finding:
    """One finding.

    Attributes:
        severity: An `error` fails a run, a `warning` may or costs time, a `note` is no fault.
        rule: The check that found it.
        where: `file:line`.
        what: The fault.
        fix: How to mend it.
    """

    severity: Severity
    rule: Rule
    where: str
    what: str
    fix: str

    def line(self) -> str:
        """The finding in one line, as compilers write theirs."""
        fix = f"; fix: {_in_line(self.fix)}" if self.fix else ""
        return f"{self.where}: {self.severity}: {_in_line(self.what)} [{self.rule}]{fix}"

    def as_dict(self) -> dict[str, Any]:
        """The finding as data."""
        file, _, number = self.where.rpartition(":")
        has_line = bool(file) and number.isdecimal()
        return {
            "severity": self.severity,
            "rule": self.rule,
            "file": file if has_line else self.where,
            "line": int(number) if has_line else None,
            "what": self.what,
            "fix": self.fix,
        }


def error_finding(
    rule: Rule, error: ErrorRecord, where: str = "", severity: Severity = "error"
) -> Finding:
    """The finding of an error, at its own place or else at `where`."""
    what = error.message if error.type.endswith("Error") else f"{error.type}: {error.message}"
    place = error.where.partition(" in ")[0]
    return Finding(severity, rule, place or where, what, error.hint)


def _in_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
