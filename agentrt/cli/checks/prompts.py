"""Prompts: places where a shared prefix is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentrt.cli.checks.finding import Finding
from agentrt.program.code.prompt_order import EarlyPart, early_parts
from agentrt.program.code.source import FunctionSource


def prefix_findings(sources: Iterable[FunctionSource]) -> Iterator[Finding]:
    """Variable parts that stand before constant text, and parts that change in each run."""
    for source in sources:
        for early in early_parts(source):
            yield _changing(early) if early.part.is_changing else _early(early)


def _changing(early: EarlyPart) -> Finding:
    what = (
        f"`{early.part.text}` is another value in each run, so nothing behind it is found in the "
        f"prefix cache"
    )
    fix = "leave it out, or put it at the end of the last message"
    return Finding("warning", "prefix", early.part.where, what, fix)


def _early(early: EarlyPart) -> Finding:
    what = (
        f"`{early.part.text}` stands before {early.characters} characters that are the same in "
        f"every run: they are computed again each time"
    )
    fix = "put the constant text first, best in the system message"
    return Finding("warning", "prefix", early.part.where, what, fix)
