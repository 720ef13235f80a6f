"""What Jaeger's UI makes of a trace file: its checks, and its walk along the critical path.

Written from the description of the UI, apart from the code that writes the files, to test it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_TAG_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "bool": bool,
    "int64": int,
    "float64": (int, float),
    "binary": str,
}
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SPAN_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of the critical path, as drawn on one span's bar."""

    span_id: str
    start_us: int
    end_us: int


def tags_of(span: dict[str, Any]) -> dict[str, Any]:
    """Key -> value."""
    return {tag["key"]: tag["value"] for tag in span["tags"]}


def faults(document: dict[str, Any]) -> list[str]:
    """What is wrong with a Jaeger JSON document; empty when nothing is."""
    found: list[str] = []
    if list(document) != ["data", "total", "limit", "offset", "errors"]:
        found.append(f"top level has {list(document)}")
    for trace in document["data"]:
        found += _trace_faults(trace)
    return found


def critical_path(trace: dict[str, Any]) -> list[Section]:
    """The black line that Jaeger's UI draws, the latest section first.

    From each root it goes to the child that finished last, and from the start of a span to the
    child of its parent that finished last strictly before. Children are cut to their parent; one
    that begins at or after its parent's end, or ends at or before its start, is left out; so is a
    CONSUMER below a PRODUCER with all below it.
    """
    walk = _JaegerWalk(trace)
    for span in trace["spans"]:
        if _parent_of(span) is None:
            walk.from_root(span["spanID"])
    return walk.sections


def strayed(trace: dict[str, Any]) -> str:
    """How that line differs from the critical path that the trace itself tells; "" when it agrees.

    Compared are the nodes that do work, in order of time; programs fill the gaps between them.
    """
    nodes: dict[str, str] = {}
    programs: set[str] = set()
    for span in trace["spans"]:
        tags = tags_of(span)
        nodes[span["spanID"]] = tags["agentrt.node.id"]
        if tags.get("agentrt.node.kind") == "program":
            programs.add(tags["agentrt.node.id"])
    drawn = [nodes[section.span_id] for section in reversed(critical_path(trace))]
    told = json.loads(tags_of(trace["spans"][0])["agentrt.critical_path.nodes"])
    drawn, told = (
        list(dict.fromkeys(node for node in path if node not in programs)) for path in (drawn, told)
    )
    return "" if drawn == told else f"drawn {drawn}, told {told}"


class _JaegerWalk:
    def __init__(self, trace: dict[str, Any]) -> None:
        self.sections: list[Section] = []
        self.start: dict[str, int] = {}
        self.end: dict[str, int] = {}
        self._parent: dict[str, str | None] = {}
        self._children: dict[str, list[str]] = {}
        kinds = {span["spanID"]: tags_of(span).get("span.kind") for span in trace["spans"]}
        below: dict[str | None, list[dict[str, Any]]] = {}
        for span in trace["spans"]:
            below.setdefault(_parent_of(span), []).append(span)
        todo: list[tuple[str | None, dict[str, Any]]] = [(None, span) for span in below[None]]
        while todo:
            parent, span = todo.pop()
            span_id = span["spanID"]
            start, end = span["startTime"], span["startTime"] + span["duration"]
            if parent is not None:
                if kinds[parent] == "producer" and kinds[span_id] == "consumer":
                    continue
                if start >= self.end[parent] or end <= self.start[parent]:
                    continue
                start, end = max(start, self.start[parent]), min(end, self.end[parent])
                self._children[parent].append(span_id)
            self.start[span_id], self.end[span_id] = start, end
            self._parent[span_id], self._children[span_id] = parent, []
            todo += [(span_id, child) for child in below.get(span_id, [])]
        for children in self._children.values():
            children.sort(key=lambda child: self.end[child], reverse=True)

    def from_root(self, root: str) -> None:
        at: tuple[str, int | None] | None = (root, None)
        while at is not None:
            at = self._step(*at)

    def _step(self, span_id: str, returning_us: int | None) -> tuple[str, int | None] | None:
        last = next(
            (
                child
                for child in self._children[span_id]
                if returning_us is None or self.end[child] < returning_us
            ),
            None,
        )
        end = self.end[span_id] if returning_us is None else returning_us
        start = self.start[span_id] if last is None else self.end[last]
        if start != end:
            self.sections.append(Section(span_id, start, end))
        if last is not None:
            return last, None
        parent = self._parent[span_id]
        return None if parent is None else (parent, self.start[span_id])


def _parent_of(span: dict[str, Any]) -> str | None:
    """First CHILD_OF within the trace, else first FOLLOWS_FROM within it."""
    for how in ("CHILD_OF", "FOLLOWS_FROM"):
        for reference in span["references"]:
            if reference["refType"] == how and reference["traceID"] == span["traceID"]:
                return str(reference["spanID"])
    return None


def _trace_faults(trace: dict[str, Any]) -> list[str]:
    found: list[str] = []
    if not _TRACE_ID.fullmatch(trace["traceID"]):
        found.append(f"trace id {trace['traceID']!r}")
    for key, process in trace["processes"].items():
        if not isinstance(process["serviceName"], str) or not process["serviceName"]:
            found.append(f"process {key} has no service name")
        found += _tag_faults(f"process {key}", process["tags"])
    spans = {span["spanID"]: span for span in trace["spans"]}
    if len(spans) < len(trace["spans"]):
        found.append("span ids are not unique")
    for span in trace["spans"]:
        found += _span_faults(span, trace, spans)
    return found


def _span_faults(
    span: dict[str, Any], trace: dict[str, Any], spans: dict[str, dict[str, Any]]
) -> list[str]:
    name = f"{span['operationName']} {span['spanID']}"
    found = _tag_faults(name, span["tags"])
    if span["traceID"] != trace["traceID"]:
        found.append(f"{name}: of another trace")
    if not _SPAN_ID.fullmatch(span["spanID"]) or not int(span["spanID"], 16):
        found.append(f"{name}: bad span id")
    if span["processID"] not in trace["processes"]:
        found.append(f"{name}: no process {span['processID']}")
    start, duration = span["startTime"], span["duration"]
    if type(start) is not int or start <= 0 or type(duration) is not int or duration < 1:
        found.append(f"{name}: startTime {start!r}, duration {duration!r}")
    for log in span["logs"]:
        if type(log["timestamp"]) is not int:
            found.append(f"{name}: log at {log['timestamp']!r}")
        found += _tag_faults(f"{name} log", log["fields"])
    own = [ref["spanID"] for ref in span["references"] if ref["traceID"] == trace["traceID"]]
    found += [
        f"{name}: refers to {span_id}, which is not there"
        for span_id in own
        if span_id not in spans
    ]
    if any(ref["refType"] not in {"CHILD_OF", "FOLLOWS_FROM"} for ref in span["references"]):
        found.append(f"{name}: bad refType")
    parent = spans.get(_parent_of(span) or "")
    background = tags_of(span).get("span.kind") == "consumer"
    if parent is not None and not background and not _within(span, parent):
        found.append(f"{name}: not within its parent {parent['operationName']}")
    return found


def _within(span: dict[str, Any], parent: dict[str, Any]) -> bool:
    end = span["startTime"] + span["duration"]
    parent_end = parent["startTime"] + parent["duration"]
    return bool(parent["startTime"] <= span["startTime"] and end <= parent_end)


def _tag_faults(name: str, tags: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    for tag in tags:
        wanted = _TAG_TYPES.get(tag["type"])
        value = tag["value"]
        right = wanted is not None and isinstance(value, wanted)
        if not right or (isinstance(value, bool) and tag["type"] != "bool"):
            found.append(f"{name}: tag {tag}")
    keys = [tag["key"] for tag in tags]
    if len(set(keys)) < len(keys):
        found.append(f"{name}: a tag stands twice")
    return found
