"""A walk through the spans that a collector got, from roots down by parents, as Jaeger makes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def faults(spans: Iterable[Any], outside: frozenset[str] = frozenset()) -> list[str]:
    """What is wrong with spans of OTLP; empty if nothing is.

    Each parent is there, in the same trace. Children begin and end inside of their parents, other
    than background work, and no span is below itself. Ids stand once.

    Args:
        spans: Spans of all traces, in any order.
        outside: Ids of spans that others have, as hex.
    """
    found: list[str] = []
    by_id: dict[tuple[bytes, bytes], Any] = {}
    for span in spans:
        if (span.trace_id, span.span_id) in by_id:
            found.append(f"{span.name}: its id stands twice")
        by_id[span.trace_id, span.span_id] = span
        if len(span.trace_id) != 16 or len(span.span_id) != 8:
            found.append(f"{span.name}: malformed ids")
        if not 0 < span.start_time_unix_nano < span.end_time_unix_nano:
            found.append(f"{span.name}: ends before it begins")
        found += [
            f"{span.name}: {event.name} is outside of it"
            for event in span.events
            if not span.start_time_unix_nano <= event.time_unix_nano <= span.end_time_unix_nano
        ]
    for span in by_id.values():
        if not span.parent_span_id or span.parent_span_id.hex() in outside:
            continue
        parent = by_id.get((span.trace_id, span.parent_span_id))
        if parent is None:
            found.append(f"{span.name}: an orphan")
        elif span.kind != _CONSUMER and not _within(span, parent):
            found.append(f"{span.name}: not within {parent.name}")
    reached = _reached(by_id, outside)
    found += [
        f"{span.name}: no root leads to it" for key, span in by_id.items() if key not in reached
    ]
    return found


def _reached(by_id: dict[tuple[bytes, bytes], Any], outside: frozenset[str]) -> set[Any]:
    """Spans below the roots, the roots included."""
    below: dict[tuple[bytes, bytes], list[tuple[bytes, bytes]]] = {}
    todo: list[tuple[bytes, bytes]] = []
    for key, span in by_id.items():
        if not span.parent_span_id or span.parent_span_id.hex() in outside:
            todo.append(key)
        else:
            below.setdefault((span.trace_id, span.parent_span_id), []).append(key)
    reached = set()
    while todo:
        key = todo.pop()
        reached.add(key)
        todo += below.get(key, [])
    return reached


def _within(span: Any, parent: Any) -> bool:
    return bool(
        parent.start_time_unix_nano <= span.start_time_unix_nano
        and span.end_time_unix_nano <= parent.end_time_unix_nano
    )


_CONSUMER = 5
