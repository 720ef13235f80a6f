"""Waits of a node: where its time went, from its trace alone."""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.protocol.step_output import HELD_BACK, PASSED_OVER
from agentrt.telemetry import names
from agentrt.telemetry.reading import number_of, words_of
from agentrt.telemetry.span import Span, SpanEvent, Trace

LABELS = (
    *("inputs", "gate", "response cache", "queue", "grammar", "reload", "prefill", "decode"),
    *("tool", "work", "other"),
)
"""Labels of waits, in the order in which a node has them."""
_LEAST_MS = 0.01
_CAUSE_TERM = names.TERM.format("passed_over_")


@record
class Wait:
    """A part of a node's time.

    Attributes:
        label: Kind of wait: `inputs`, `gate`, `queue`, `grammar`, `reload`, `prefill`, `decode`,
            `tool`, `work` (of a program's nodes) or `other`.
        ms: Duration.
        why: Reason in plain words.
    """

    label: str
    ms: float
    why: str


class TraceNodes:
    """Nodes of a run, from its trace.

    Attributes:
        root: Span of the run.
        nodes: Span of each node, by id.
    """

    def __init__(self, trace: Trace) -> None:
        self.root = trace.spans[0]
        self.nodes: dict[str, Span] = {
            str(span.attributes[names.NODE_ID]): span
            for span in trace.spans
            if names.NODE_KIND in span.attributes
        }

    def start_ms(self, span: Span) -> float:
        """Arrival of its last input, since the run began."""
        return (span.start_us - self.root.start_us) / 1e3

    def end_ms(self, span: Span) -> float:
        """End, since the run began."""
        return (span.end_us - self.root.start_us) / 1e3

    def decisions(self, span: Span) -> list[SpanEvent]:
        """Decisions of the scheduler about a node, in order of time."""
        made = [event for event in span.events if event.name == names.SCHEDULED]
        return sorted(made, key=lambda event: number_of(event.attributes, names.AT_MS))

    def waits(self, span: Span) -> list[Wait]:
        """The node's time from its declaration to its end, part by part, empty parts left out.

        Parts alternate in reality: masks between tokens, a new queue after a preemption.
        """
        tags = span.attributes
        kind = tags[names.NODE_KIND]
        waits = [self._inputs(span)]
        if kind == "generate":
            waits += [self._admission(span), _response_cache(span)]
            waits += [self._queue(span), *self._engine(span)]
        elif kind == "tool":
            queue_ms = _stage_ms(span, "queue")
            waits.append(Wait("queue", queue_ms, "for a worker that was free"))
            waits.append(Wait("tool", length_ms(span) - queue_ms, _tries(span)))
        else:
            waits.append(Wait("work", length_ms(span), "its own nodes and code"))
        known_ms = sum(wait.ms for wait in waits[1:])
        rest_ms = max(0.0, length_ms(span) - known_ms)
        waits.append(Wait("other", rest_ms, "on the way to the engine and back, and in the loop"))
        return [wait for wait in waits if wait.ms >= _LEAST_MS]

    def _inputs(self, span: Span) -> Wait:
        tags = span.attributes
        pending_ms = self.start_ms(span) - number_of(tags, names.NODE_DECLARED_MS)
        if names.NODE_DECLARED_MS not in tags or pending_ms < _LEAST_MS:
            return Wait("inputs", 0.0, "")
        needed = [self.nodes[one] for one in words_of(tags, names.NODE_DEPS) if one in self.nodes]
        if not needed:
            return Wait("inputs", pending_ms, "for what the program did first")
        last = max(needed, key=lambda one: one.end_us)
        what = "the hole in its prompt was" if tags[names.NODE_KIND] == "generate" else "it needed"
        others = f", the last of {len(needed)}" if len(needed) > 1 else ""
        return Wait(
            "inputs",
            pending_ms,
            f"{what} {last.attributes[names.NODE_KIND]} {last.attributes[names.NODE_ID]}{others}, "
            f"which took {length_ms(last):.1f} ms",
        )

    def _admission(self, span: Span) -> Wait:
        reasons = {
            event.attributes.get(names.DECISION): str(event.attributes.get(names.DECISION_REASON))
            for event in self.decisions(span)
        }
        why = reasons.get("held") or reasons.get("admitted") or "its run was not admitted yet"
        return Wait("gate", _stage_ms(span, "admission"), why)

    def _queue(self, span: Span) -> Wait:
        steps = dict.fromkeys(PASSED_OVER, 0)
        placed = False
        for event in self.decisions(span):
            if event.attributes.get(names.DECISION) != "placed":
                continue
            placed = True
            for name in event.attributes:
                cause = name.removeprefix(_CAUSE_TERM)
                if cause in steps and name != cause:
                    steps[cause] += int(number_of(event.attributes, name))
        queue_ms, total = _stage_ms(span, "queue"), sum(steps.values())
        server_ms = min(queue_ms, number_of(span.attributes, names.SERVER_QUEUE_MS))
        behind = f"{server_ms:.1f} ms of it in the server's own queue"
        if total:
            own_ms = queue_ms - server_ms
            parts = [
                f"{PASSED_OVER[cause]} in {count} ({own_ms * count / total:.1f} ms)"
                for cause, count in steps.items()
                if count
            ]
            what = "rounds" if any(steps[cause] for cause in HELD_BACK) else "steps"
            why = f"of {total} {what} {', '.join(parts)}"
            return Wait("queue", queue_ms, f"{why}; {behind}" if server_ms else why)
        if server_ms:
            return Wait("queue", queue_ms, behind)
        why = "for the next step to begin" if placed else "its engine does not say for what"
        return Wait("queue", queue_ms, why)

    def _engine(self, span: Span) -> list[Wait]:
        tags = span.attributes
        cached = int(number_of(tags, names.CACHED_TOKENS))
        computed = int(number_of(tags, names.INPUT_TOKENS)) - cached
        produced = int(number_of(tags, names.OUTPUT_TOKENS))
        early_ms = number_of(tags, names.PREFILL_EARLY_MS)
        prefill_ms = max(0.0, _stage_ms(span, "prefill") - early_ms)
        early = f"; {early_ms:.1f} ms of it before, at no cost" if early_ms else ""
        ahead = int(number_of(tags, names.PREFILL_AHEAD))
        early += f"; {ahead} were there when its last input came" if ahead else ""
        forced = int(number_of(tags, names.FORCED))
        given = f", {forced} of them given by the grammar" if forced else ""
        return [
            Wait("grammar", _stage_ms(span, "constraint"), "compiling it and filling its masks"),
            Wait("reload", _stage_ms(span, "kv_reload"), "KV brought back from the host's memory"),
            Wait("prefill", prefill_ms, f"{computed} tokens, {cached} were in the cache{early}"),
            Wait("decode", _stage_ms(span, "decode"), f"{produced} tokens{given}"),
        ]


def _response_cache(span: Span) -> Wait:
    is_hit = span.attributes.get(names.RESPONSE_CACHE) == "hit"
    why = "looked up and found" if is_hit else "looked up and not found"
    return Wait("response cache", _stage_ms(span, "cache"), why)


def length_ms(span: Span) -> float:
    """Duration of a span."""
    return (span.end_us - span.start_us) / 1e3


def _stage_ms(span: Span, stage: str) -> float:
    return number_of(span.attributes, names.STAGE_MS.format(stage))


def _tries(span: Span) -> str:
    tries = int(number_of(span.attributes, names.ATTEMPT))
    return f"in {tries} attempts" if tries else "at work"
