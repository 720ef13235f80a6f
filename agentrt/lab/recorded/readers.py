"""Recorded programs by shape, each with the source of its text."""

from __future__ import annotations

from collections.abc import Mapping

from agentrt.base.record import record
from agentrt.lab.recorded.agents import coding_agent, react
from agentrt.lab.recorded.classification import classification
from agentrt.lab.recorded.extraction import extraction
from agentrt.lab.recorded.finance import finance
from agentrt.lab.recorded.game24 import tree_of_thought
from agentrt.lab.recorded.source import RecordReader


@record
class ShapeRecords:
    """The records of a shape.

    Attributes:
        source: Where its text comes from.
        read: Reads the programs.
    """

    source: str
    read: RecordReader


_AGENTS = "sessions of agentperf-local 0.3.4 (Apache-2.0)"

RECORDS: Mapping[str, ShapeRecords] = {
    "react": ShapeRecords(f"{_AGENTS}, those of assistants", react),
    "finance": ShapeRecords(
        "programs/finance.py on the embedded model, held-out questions (of this repository)",
        finance,
    ),
    "tree-of-thought": ShapeRecords(
        "game of 24, puzzles (MIT); proposals and values computed in the published format",
        tree_of_thought,
    ),
    "classification": ShapeRecords("GSM8K test, questions and answers (MIT)", classification),
    "coding-agent": ShapeRecords(f"{_AGENTS}, those of SWE-bench tasks", coding_agent),
    "extraction": ShapeRecords("BFCL parallel, tasks and answers (Apache-2.0)", extraction),
}
"""Recorded programs by shape; other shapes have no recorded text."""
