"""Section of the report on errors: of the run, of its nodes, and of single attempts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from agentrt.analysis.error_text import error_lines
from agentrt.analysis.html_page import folded, section
from agentrt.analysis.report.words import shortened
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.base.errors import ErrorRecord
from agentrt.base.record import record as value

MAX_SHOWN = 20
_MOST_CHARACTERS = 2000


@value
class Trouble:
    """A failure, an attempt made again, or a cancellation.

    Attributes:
        name: Node below the program, or the program itself.
        what: Event, in a line.
        where: Place in the program's code; "" if unknown.
        fix: Remedy; "" if unknown.
        is_final: Whether the node failed by it; an attempt was made again.
    """

    name: str
    what: str
    where: str
    fix: str
    is_final: bool


def run_error(record: RunRecord) -> str:
    """The error of the run, or the reason of its end, in full; "" if it ended well."""
    error = record.finished.error if record.finished else None
    if error is not None:
        what, where, fix = (escape(shortened(one, _MOST_CHARACTERS)) for one in error_lines(error))
        return f'<pre class="error">{what}\n{where}\n{fix}</pre>'
    if record.finished is None:
        return '<pre class="error">The run did not end: it was cut short.</pre>'
    if record.outcome != "ok":
        reason = record.root.finished.reason if record.root and record.root.finished else ""
        return f'<pre class="error">{escape(f"{record.outcome}: {reason}".rstrip(": "))}</pre>'
    return ""


def trouble_section(record: RunRecord) -> str:
    """Nodes that failed or were cancelled, and attempts made again; "" without any."""
    found = list(troubles(record))
    if not found:
        return ""
    shown = [_trouble(one) for one in found[:MAX_SHOWN]]
    rest = [_trouble(one) for one in found[MAX_SHOWN : 5 * MAX_SHOWN]]
    parts = [f'<ul class="troubles">{"".join(shown)}</ul>']
    if rest:
        left = len(found) - len(shown)
        more = f" (the first {len(rest)})" if left > len(rest) else ""
        body = f'<ul class="troubles">{"".join(rest)}</ul>'
        parts.append(folded(f"{left:,} more{more}", body))
    return section("errors", "Errors and cancellations", *parts)


def troubles(record: RunRecord) -> Iterator[Trouble]:
    """Failures first, then attempts that were made again, then cancellations."""
    nodes = list(record.nodes.values())
    for node in nodes:
        if node.outcome == "failed" and node.finished is not None:
            yield _failure(node, node.finished.error)
    for node in nodes:
        for attempt in node.attempts[:-1]:
            if attempt.error is not None:
                yield _again(node, f"{attempt.error.type}: {attempt.error.message}")
        for _, failed in node.failed:
            yield _again(node, failed.reason)
    for node in nodes:
        if node.outcome == "cancelled" and node.finished is not None:
            reason = node.finished.reason
            what = f"cancelled: {reason}" if reason not in {"", "cancelled"} else "cancelled"
            yield Trouble(_name(node), what, node.declared.site, "", True)


def _failure(node: NodeRecord, error: ErrorRecord | None) -> Trouble:
    if error is None:
        return Trouble(_name(node), "failed", node.declared.site, "", True)
    what = f"{error.type}: {error.message}"
    return Trouble(_name(node), what, error.where or node.declared.site, error.hint, True)


def _again(node: NodeRecord, what: str) -> Trouble:
    return Trouble(_name(node), what, node.declared.site, "", False)


def _name(node: NodeRecord) -> str:
    return node.node_id.partition("/")[2] or node.node_id


def _trouble(one: Trouble) -> str:
    again = "" if one.is_final else "<small>tried again</small>"
    what = escape(shortened(one.what, _MOST_CHARACTERS))
    where = f'<span class="about">{escape(one.where)}</span>' if one.where else ""
    fix = f'<span class="about">Fix: {escape(shortened(one.fix, _MOST_CHARACTERS))}</span>'
    return f"<li><b>{escape(one.name)}</b> {again}<p>{what}</p>{where}{fix if one.fix else ''}</li>"
