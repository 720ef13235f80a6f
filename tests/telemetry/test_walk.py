"""Jaeger's own walk over the exported spans goes where the true critical path goes."""

import json
from random import Random
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentrt.analysis import Causes, RunRecord, critical_path
from agentrt.telemetry import build
from agentrt.telemetry.jaeger import jaeger_json
from agentrt.telemetry.resource import resources_of
from tests.oracles import jaeger
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import Statement, ThinkStatement, WaitStatement, Work

quick = settings(max_examples=150, derandomize=True, deadline=None)


def recorded(body: tuple[Statement, ...], **how: Any) -> RunRecord:
    record = RunRecord()
    record.on_events(play(body, **how))
    return record


def document(record: RunRecord) -> dict[str, Any]:
    text = jaeger_json([build(record)], resources_of({}))
    return json.loads(text)  # type: ignore[no-any-return]


def walked(record: RunRecord) -> list[str]:
    """Nodes on Jaeger's path in order of time, stretches of a few us left out."""
    trace = document(record)["data"][0]
    nodes = {span["spanID"]: jaeger.tags_of(span)["agentrt.node.id"] for span in trace["spans"]}
    sections = reversed(jaeger.critical_path(trace))
    return without_repeats(
        [nodes[part.span_id] for part in sections if part.end_us - part.start_us > 10]
    )


def true_path(record: RunRecord) -> list[str]:
    return without_repeats(
        [step.node_id for step in critical_path(record) if step.length_s > 10e-6]
    )


def without_repeats(nodes: list[str]) -> list[str]:
    return [node for index, node in enumerate(nodes) if index == 0 or nodes[index - 1] != node]


@quick
@given(st.randoms(use_true_random=False), st.booleans())
def test_documents_have_no_faults(rng: Random, tell_after: bool) -> None:
    body = random_body(rng)
    assert jaeger.faults(document(recorded(body, tell_after=tell_after))) == []


def stays_within_scopes(record: RunRecord) -> bool:
    """Whether every wait on the path is for a node of the same program.

    Where a program waits for a node that another one owns, the tree of spans cannot show the path.
    """
    causes = Causes(record)
    for node in {record.nodes[step.node_id] for step in critical_path(record)}:
        cause, waited = causes.last(node), causes.before_declaration(node)
        owned = [given.node for given in (cause, waited) if given and given.how != "declared"]
        if any(other.declared.parent != node.declared.parent for other in owned):
            return False
        last = causes.before_end(node) if node.kind == "program" else None
        if last is not None and last.node.declared.parent != node.node_id:
            return False
    return True


@quick
@given(st.randoms(use_true_random=False), st.integers(0, 2))
def test_walk_equals_the_true_path(rng: Random, depth: int) -> None:
    record = recorded(random_body(rng, depth=depth), gate_s=0.002)
    assume(stays_within_scopes(record))
    assert walked(record) == true_path(record)


def test_a_node_nobody_waits_for_does_not_draw_the_path() -> None:
    """While the code thinks, another tool ends; Jaeger alone would go through it."""
    record = recorded(
        (
            Work("tool", decode_s=0.1),
            Work("tool", decode_s=0.15),
            WaitStatement(0),
            ThinkStatement(0.1),
            Work("tool", decode_s=0.1),
            WaitStatement(2),
            WaitStatement(1),
        )
    )
    assert true_path(record) == ["root/tool0", "root", "root/tool2"]
    assert walked(record) == true_path(record)
    kinds = [jaeger.tags_of(span)["span.kind"] for span in document(record)["data"][0]["spans"]]
    assert kinds.count("consumer") == kinds.count("producer") == 1


def test_early_prefill_is_off_the_path() -> None:
    record = recorded(
        (
            Work("tool", decode_s=0.1),
            Work("generate", deps=(0,), early_s=0.05, prefill_s=0.01, decode_s=0.1),
        )
    )
    assert walked(record) == true_path(record) == ["root/tool0", "root/generate1"]
    spans = document(record)["data"][0]["spans"]
    early = [span for span in spans if jaeger.tags_of(span)["span.kind"] == "consumer"]
    assert [span["operationName"] for span in early] == ["engine.prefill"]


def test_a_streamed_plan_is_cut_into_items() -> None:
    record = recorded(
        (
            Work("generate", prefill_s=0.1, decode_s=0.4, items=2),
            WaitStatement(0, 0),
            Work("tool", plan=(0, 0), decode_s=0.1),
            WaitStatement(0, 1),
            Work("tool", plan=(0, 1), decode_s=0.5),
        )
    )
    spans = document(record)["data"][0]["spans"]
    items = [span for span in spans if span["operationName"] == "item generate"]
    tool = next(span for span in spans if jaeger.tags_of(span).get("agentrt.node.item") == 1)
    assert len(items) == 2
    assert items[0]["startTime"] + items[0]["duration"] + 2 == items[1]["startTime"]
    assert items[1]["startTime"] + items[1]["duration"] < tool["startTime"] or tool in items
    assert walked(record) == ["root/generate0", "root/tool2"]
