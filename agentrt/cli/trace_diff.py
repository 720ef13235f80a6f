"""`agentrt trace diff`: two runs of a program side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agentrt.base.errors import DeadlineExceeded, UsageError
from agentrt.base.text_columns import wrapped
from agentrt.cli.run_argument import Folder, run_argument
from agentrt.cli.standard_streams import terminal_width

if TYPE_CHECKING:
    from agentrt.telemetry.node_figures import Figures
    from agentrt.telemetry.trace_diff import NodeChange, TraceDiff

RAISED, TOO_SLOW = 1, DeadlineExceeded.exit_code
MOST_SHOWN = 5
"""Changes in the lists of what got slower and what got faster."""
SHOWN_MS = 0.05  # what the table rounds to nothing
_WIDEST_NAME = 40
_COLUMNS = (
    *("A ms", "B ms", "diff"),
    *("queue", "grammar", "prefill", "decode", "tool"),
    *("in", "cached", "out"),
)
_FOOT = (
    "diff, and what is right of it: B minus A, in ms and tokens; * on both critical paths, < on "
    "A's, > on B's"
)


def diff(
    a: Annotated[str, run_argument("A")],
    b: Annotated[str, run_argument("B")],
    folder: Folder = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One agentrt.diff/1 object with all figures.")
    ] = False,
    max_slowdown: Annotated[
        str,
        typer.Option(
            "--max-slowdown",
            metavar="PERCENT",
            help="Exit with 5 if B took so much longer than A, with 1 if B failed and A did not.",
        ),
    ] = "",
) -> int:
    """Compare two runs node by node: what got slower or faster, where the critical path changed.

    A node is matched by its place in the program: its parents, name and call site, and its number
    among equals. The exit code is 0 unless --max-slowdown says otherwise.
    """
    from agentrt.cli.trace_files import find, runs_folder
    from agentrt.telemetry.reading import read
    from agentrt.telemetry.trace_diff import diff_object, trace_diff

    most_percent = percent_of(max_slowdown)
    place = folder or runs_folder()
    found = trace_diff(read(find(a, place))[0], read(find(b, place))[0])
    if as_json:
        lines = [json.dumps(diff_object(found), ensure_ascii=False, separators=(",", ":"))]
    else:
        lines = list(lines_of(found, terminal_width()))
    sys.stdout.write("\n".join(lines) + "\n")
    return exit_code(found, most_percent)


def percent_of(text: str) -> float | None:
    """The value of --max-slowdown: `10` or `10%`; None if it is not given.

    Raises:
        UsageError: The text is no percentage of 0 or more.
    """
    if not text:
        return None
    number = text.strip().removesuffix("%")
    try:
        percent = float(number)
    except ValueError:
        percent = -1.0
    if not 0 <= percent < float("inf"):
        raise UsageError(f"--max-slowdown {text!r} is no percentage", hint="give it as 10 or 10%")
    return percent


def exit_code(diff: TraceDiff, most_percent: float | None) -> int:
    """The exit code: 0, or what the limit makes of the second run."""
    if most_percent is None:
        return 0
    if diff.b.error is not None and diff.a.error is None:
        return RAISED
    return TOO_SLOW if diff.b.compound_ms > diff.a.compound_ms * (1 + most_percent / 100) else 0


def lines_of(diff: TraceDiff, width: int = 0) -> Iterator[str]:
    """The difference for people.

    Args:
        diff: The difference.
        width: Columns of the terminal; 0 if it goes elsewhere.
    """
    for line in _run_lines(diff):
        yield from wrapped(line, width, indent=3)
    yield ""
    yield from _table(diff, width)
    yield from wrapped(_FOOT, width, indent=2)
    yield ""
    for line in _lists(diff):
        yield from wrapped(line, width, indent=2)


def _run_lines(diff: TraceDiff) -> Iterator[str]:
    for mark, run in (("A", diff.a), ("B", diff.b)):
        failed = "ok" if run.error is None else f"failed: {run.error}"
        yield f"{mark}  {run.run_id or '?'}  {run.program}  {run.compound_ms:.1f} ms  {failed}"
    if diff.a.program != diff.b.program:
        yield "These are runs of two programs: nodes are matched as far as their names agree."


def _table(diff: TraceDiff, most: int) -> Iterator[str]:
    rows: list[tuple[str, str, str, Sequence[str]]] = [
        (_name(one), one.node.kind, _mark(one), _cells(one)) for one in diff.nodes
    ]
    total = _changed(diff.a.total, diff.b.total)
    rows.append(("all leaves", "", " ", total))
    width = min(_WIDEST_NAME, max(len(name) for name, *_ in rows))
    money = any(cells[-1] for *_, cells in rows)
    columns = (*_COLUMNS, "cost") if money else _COLUMNS
    rows = [("node", "kind", " ", columns), *rows]
    widths = [max(len(cells[i]) for *_, cells in rows) for i in range(len(columns))]
    gap, kinds = 2, 9
    if most and width + 2 + kinds + sum(widths) + gap * len(widths) > most:
        told = [i for i in range(len(columns)) if any(cells[i] for *_, cells in rows[1:])]
        rows = [(name, kind, mark, [cells[i] for i in told]) for name, kind, mark, cells in rows]
        widths = [widths[i] for i in told]
        gap = 1
        if width + 2 + kinds + sum(widths) + gap * len(widths) > most:
            kinds = 0
    for name, kind, mark, cells in rows:
        middle = f"{mark} {kind:<{kinds - 1}}" if kinds else mark
        yield _row(name, middle, cells[: len(widths)], width, widths, " " * gap)


def _row(
    name: str, middle: str, cells: Sequence[str], width: int, widths: Sequence[int], gap: str
) -> str:
    shown = name if len(name) <= width else f"…{name[1 - width :]}"
    figures = gap.join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return f"{shown:<{width}} {middle}{gap}{figures}".rstrip()


def _cells(change: NodeChange) -> tuple[str, ...]:
    if change.a is not None and change.b is not None:
        return _changed(change.a.figures, change.b.figures)
    nothing = ("",) * (len(_COLUMNS) - 2)
    if change.a is not None:
        return (f"{change.a.figures.took_ms:.1f}", "-", *nothing, "")
    assert change.b is not None
    return ("-", f"{change.b.figures.took_ms:.1f}", *nothing, "")


def _changed(a: Figures, b: Figures) -> tuple[str, ...]:
    """Both times, and signed differences; those that round to nothing are left blank."""
    from agentrt.base.money import money_text
    from agentrt.telemetry.trace_diff import change_of

    more = change_of(a, b)
    cost = ""
    if more.cost_pico and more.currency:
        cost = f"{'-' if more.cost_pico < 0 else '+'}{money_text(abs(more.cost_pico), '')}"
    tokens = (more.input_tokens, more.cached_tokens, more.output_tokens)
    return (
        f"{a.took_ms:.1f}",
        f"{b.took_ms:.1f}",
        _signed_ms(more.took_ms),
        *(_signed_ms(ms) for ms in more.stage_ms.values()),
        *(f"{count:+d}" if count else "" for count in tokens),
        cost,
    )


def _lists(diff: TraceDiff) -> Iterator[str]:
    from agentrt.telemetry.trace_diff import split_change

    more_ms = diff.b.compound_ms - diff.a.compound_ms
    share = f" ({more_ms / diff.a.compound_ms:+.1%})" if diff.a.compound_ms else ""
    split = ", ".join(f"{label} {ms:+.1f}" for label, ms in split_change(diff).items())
    because = f": {split}" if split else ""
    yield f"compound {diff.a.compound_ms:.1f} -> {diff.b.compound_ms:.1f} ms{share}{because}"
    yield f"slower: {_largest(diff.slower)}"
    yield f"faster: {_largest(diff.faster)}"
    for mark, failed in (
        ("A", [one for one in diff.nodes if one.a is not None and one.a.error is not None]),
        ("B", [one for one in diff.nodes if one.b is not None and one.b.error is not None]),
    ):
        if failed:
            yield f"failed in {mark}: {_names(failed)}"
    left, joined = _names(diff.left_path), _names(diff.joined_path)
    moved = [f"left it: {left}"] if left else []
    moved += [f"joined it: {joined}"] if joined else []
    yield f"critical path: {'; '.join(moved) or 'through the same nodes'}"
    for mark, alone in (
        ("A", [one for one in diff.nodes if one.b is None]),
        ("B", [one for one in diff.nodes if one.a is None]),
    ):
        if alone:
            yield f"only in {mark}: {_names(alone)}"


def _largest(changes: Sequence[NodeChange]) -> str:
    shown = [f"{_short(one)} {one.took_ms:+.1f} ms{_main_part(one)}" for one in changes]
    rest = len(shown) - MOST_SHOWN
    return ", ".join(shown[:MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "") or "nothing"


def _main_part(change: NodeChange) -> str:
    """The part of its time that changed most; its inputs came before it took time."""
    parts = {label: ms for label, ms in change.wait_ms.items() if label != "inputs"}
    part, ms = max(parts.items(), key=lambda one: abs(one[1]), default=("", 0.0))
    return f" ({part} {ms:+.1f})" if abs(ms) >= SHOWN_MS and part != change.node.kind else ""


def _names(changes: Sequence[NodeChange]) -> str:
    rest = len(changes) - 2 * MOST_SHOWN
    shown = ", ".join(_short(one) for one in changes[: 2 * MOST_SHOWN])
    return shown + (f" and {rest} more" if rest > 0 else "")


def _name(change: NodeChange) -> str:
    node_id = change.node.node_id
    return "  " * node_id.count("/") + node_id.rpartition("/")[2]


def _short(change: NodeChange) -> str:
    """Id below the program, with both numbers if they differ."""
    here = change.node.node_id.partition("/")[2] or change.node.node_id
    if change.a is None or change.b is None:
        return here
    there = change.a.node_id.partition("/")[2] or change.a.node_id
    return here if here == there else f"{there} -> {here}"


def _mark(change: NodeChange) -> str:
    before = change.a is not None and change.a.is_critical
    after = change.b is not None and change.b.is_critical
    return "*" if before and after else "<" if before else ">" if after else " "


def _signed_ms(ms: float) -> str:
    return f"{ms:+.1f}" if abs(ms) >= SHOWN_MS else ""
