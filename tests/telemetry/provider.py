"""A tracer provider that keeps its spans, as an application of the user has one."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def provider_to(exporter: SpanExporter, **settings: Any) -> TracerProvider:
    """A provider that hands each span to an exporter as it ends."""
    provider = TracerProvider(shutdown_on_exit=False, **settings)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


class KeptSpans:
    """The spans of a provider.

    Attributes:
        provider: The provider.
    """

    def __init__(self, **settings: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = provider_to(self._exporter, **settings)

    @property
    def all(self) -> Sequence[ReadableSpan]:
        """Spans that have ended, in the order of their ends."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (found,) = [span for span in self.all if span.name == name]
        return found

    def names(self) -> list[str]:
        """Names in the order of their ends."""
        return [span.name for span in self.all]


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Whether a span is a child of another, in its trace."""
    above, of_parent = span.parent, parent.context
    assert of_parent is not None
    return above is not None and (above.trace_id, above.span_id) == (
        of_parent.trace_id,
        of_parent.span_id,
    )


def orphans(spans: Sequence[ReadableSpan]) -> list[str]:
    """Faults of whole traces: missing parents, ids that stand twice, children outside of theirs."""
    by_id = {(span.context.trace_id, span.context.span_id): span for span in spans if span.context}
    found = [] if len(by_id) == len(spans) else ["ids are not unique"]
    for span in spans:
        found += [
            f"{span.name}: {event.name} is outside of it"
            for event in span.events
            if not (span.start_time or 0) <= event.timestamp <= (span.end_time or 0)
        ]
        if span.parent is None:
            continue
        parent = by_id.get((span.parent.trace_id, span.parent.span_id))
        if parent is None:
            found.append(f"{span.name}: its parent is not there")
        elif not within(span, parent):
            found.append(f"{span.name}: not within {parent.name}")
    return found


def within(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Whether a span begins and ends inside of its parent."""
    start, end = span.start_time or 0, span.end_time or 0
    return (parent.start_time or 0) <= start <= end <= (parent.end_time or 0)
