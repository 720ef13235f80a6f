"""Call patterns (expected next tools): a table for people, one JSON object for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentrt.cli.stored_rows import StoredRows, by_engines, table, title
from agentrt.runtime.estimate_store.database import fits
from agentrt.scheduler.estimates.call_model import CallModel, Origin
from agentrt.scheduler.estimates.call_patterns import CallContext, CallPatterns
from agentrt.scheduler.estimates.row import CALLS

SCHEMA = "agentrt.patterns/1"
HEAD = ("after", "next", "seen", "right", "arguments")


def lines_of(stored: StoredRows, pattern: str, width: int | None = None) -> list[str]:
    """A table for each program and set of engines.

    Args:
        stored: Rows, each with the name of its engines.
        pattern: Call sites or programs that are shown.
        width: Characters of a line, as far as names and figures fit; None sets no limit.
    """
    tables: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for engines, (program, before, index), model in _models(stored, pattern):
        after = before or "its start"
        tables.setdefault((engines, program), [HEAD]).append(
            (
                f"{after}, {_nth(index)}" if index else after,
                model.tool,
                str(model.count),
                f"{model.probability:.0%}",
                ", ".join(_cell(name, origin, before) for name, origin in model.sources().items()),
            )
        )
    lines: list[str] = []
    for (engines, program), rows in tables.items():
        lines += ([""] if lines else []) + title(program, engines, width)
        lines += table(rows, width)
    return lines


def as_object(stored: StoredRows, pattern: str) -> dict[str, Any]:
    """All patterns as data; null for an argument of unknown origin."""
    patterns = [
        {
            "engines": engines,
            "template": program,
            "after": before,
            "index": index,
            "tool": model.tool,
            "count": model.count,
            "probability": model.probability,
            "arguments": {name: list(found) or None for name, found in model.sources().items()},
        }
        for engines, (program, before, index), model in _models(stored, pattern)
    ]
    return {"schema": SCHEMA, "patterns": patterns}


def _models(stored: StoredRows, pattern: str) -> Iterator[tuple[str, CallContext, CallModel]]:
    known = (
        (engines, row)
        for engines, row in stored
        if row.quantity == CALLS and fits(pattern, row.template, row.site)
    )
    for engines, rows in by_engines(known):
        for context, model in sorted(CallPatterns(rows).models(), key=lambda found: found[0]):
            yield engines, context, model


def _cell(name: str, origin: Origin, before: str) -> str:
    """Origin of an argument, for example `page = search's result.hits[0].id`."""
    if not origin:
        return f"{name} = ? (a constant that is not kept)"
    if origin[0] == "always":
        return f"{name} = {origin[1]}"
    at, part, *path = origin
    tool = [*before.split(" < "), "?", "?"][at].removesuffix(" failed")
    steps = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return f"{name} = {tool}'s {part}{steps}"


def _nth(index: int) -> str:
    """Name of a call by its index since then."""
    return f"call {index + 1}"
