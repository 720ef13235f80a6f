"""Output of `agentrt eval`: a report on standard output and in files, and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from agentrt.base.output_file import write_output

CROSSED = 6
"""Exit code if a limit of `--fail-if` is crossed."""


class Report(Protocol):
    """The figures of an evaluation.

    Attributes:
        crossed: Limits that were crossed, as text.
    """

    @property
    def crossed(self) -> Sequence[str]: ...
    def text(self) -> str: ...
    def data(self) -> dict[str, Any]: ...
    def html(self) -> str: ...


def write_report(report: Report, json_file: Path | None, html_file: Path | None) -> int:
    """Print a report, and write it to the files that are given.

    Returns:
        0, or `CROSSED`.

    Raises:
        UsageError: A file cannot be written.
    """
    sys.stdout.write(report.text())
    if json_file is not None:
        write_output(json_file, json.dumps(report.data(), ensure_ascii=False, indent=1) + "\n")
    if html_file is not None:
        write_output(html_file, report.html())
    return CROSSED if report.crossed else 0
