"""The node of a run that a person means: its name, id or place in the program, and a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from agentrt.base.errors import UsageError
from agentrt.telemetry import Span, names
from agentrt.telemetry.waits import TraceNodes, length_ms

MOST = 40
"""Rows of a list of nodes."""


def nodes_of(trace: TraceNodes, wanted: str) -> list[Span]:
    """The spans of the nodes that are meant, in the order of the run; at least one.

    Args:
        trace: Spans of a run.
        wanted: A node's id, the end of one, its name, or `FILE:LINE` of the code that made it.
            Where several nodes are meant, `:N` behind it takes the N-th of them.

    Raises:
        UsageError: There is no such node.
    """
    if found := _meant(trace, wanted):
        return found
    several, _, number = wanted.rpartition(":")
    meant = _meant(trace, several) if several and number.isdecimal() else []
    if meant:
        if 1 <= int(number) <= len(meant):
            return [meant[int(number) - 1]]
        counted = "1 node" if len(meant) == 1 else f"{len(meant)} nodes"
        raise UsageError(
            f"{several!r} is {counted}, and {number} is none of them",
            hint=f"give a number from 1 to {len(meant)}" if len(meant) > 1 else f"give {several}",
        )
    known = [*trace.nodes, *(one.rpartition("/")[2] for one in trace.nodes)]
    known += [_site(span) for span in trace.nodes.values()]
    close = get_close_matches(wanted, known, n=1, cutoff=0.4)
    run_id = trace.root.attributes.get(names.RUN_ID, "?")
    lists = f"agentrt trace show {run_id} lists its nodes"
    raise UsageError(
        f"run {run_id} has no node {wanted!r}",
        hint=f"did you mean {close[0]}?" if close else lists,
    )


def choice_lines(trace: TraceNodes, wanted: str, meant: Sequence[Span]) -> Iterator[str]:
    """A table of nodes among which to choose, with what chooses each."""
    shown = meant[:MOST]
    rows = [
        (
            f"{wanted}:{number}",
            str(span.attributes[names.NODE_ID]),
            _site(span),
            f"{trace.start_ms(span):.1f}",
            f"{length_ms(span):.1f}",
        )
        for number, span in enumerate(shown, start=1)
    ]
    heads = ("NODE", "id", "made at", "start ms", "took ms")
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads))]
    for row, span in zip((heads, *rows), (None, *shown), strict=True):
        cells = [one.ljust(width) for one, width in zip(row[:3], widths[:3], strict=True)]
        cells += [one.rjust(width) for one, width in zip(row[3:], widths[3:], strict=True)]
        mark = "  *" if span is not None and span.attributes.get(names.CRITICAL) else ""
        yield "  ".join(cells) + mark
    if len(meant) > MOST:
        yield f"and {len(meant) - MOST} more, up to {wanted}:{len(meant)}"
    yield "* on the critical path"


def ambiguous(wanted: str, meant: Sequence[Span]) -> UsageError:
    """The error of a name that several nodes have."""
    sites = dict.fromkeys(_site(span) for span in meant)
    by_site = f", or its place, as --why {next(iter(sites))}" if len(sites) > 1 else ""
    return UsageError(
        f"{wanted!r} is {len(meant)} nodes",
        hint=f"give one of the list: --why {wanted}:1 to {wanted}:{len(meant)}{by_site}",
    )


def _meant(trace: TraceNodes, wanted: str) -> list[Span]:
    if wanted in trace.nodes:
        return [trace.nodes[wanted]]
    return [
        span
        for node_id, span in trace.nodes.items()
        if node_id.endswith(f"/{wanted}")
        or span.attributes.get(names.NODE_NAME) == wanted
        or f"/{_site(span)}".endswith(f"/{wanted}")
    ]


def _site(span: Span) -> str:
    return str(span.attributes.get(names.NODE_SITE, "?"))
