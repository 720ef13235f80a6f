"""Two runs side by side: nodes are matched by place, and what changed is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from agentrt.analysis import RunRecord
from agentrt.telemetry import JaegerFile, build, names
from agentrt.telemetry.node_pairs import node_pairs
from agentrt.telemetry.reading import read
from agentrt.telemetry.span import Trace
from agentrt.telemetry.trace_diff import change_of, diff_object, trace_diff
from agentrt.telemetry.waits import TraceNodes
from tests.oracles.random_runs import play
from tests.oracles.statements import CallStatement, Statement, WaitStatement, Work

BEFORE: tuple[Statement, ...] = (
    Work("generate", queue_s=0.2, prefill_s=0.1, decode_s=0.4),
    WaitStatement(0),
    Work("tool", deps=(0,), decode_s=0.5),
    Work("tool", deps=(0,), decode_s=0.1),
    Work("generate", deps=(1, 2), decode_s=0.3),
    WaitStatement(3),
)
AFTER: tuple[Statement, ...] = (
    Work("generate", prefill_s=0.1, decode_s=0.4),
    WaitStatement(0),
    Work("tool", deps=(0,), decode_s=0.1),
    Work("tool", deps=(0,), decode_s=0.7),
    Work("generate", deps=(1, 2), decode_s=0.3),
    WaitStatement(3),
)


def trace(body: tuple[Statement, ...]) -> Trace:
    record = RunRecord()
    record.on_events(play(body))
    return build(record)


def renamed(given: Trace, node: str, **changed: str) -> Trace:
    """The trace with attributes of one node changed, `id` among them."""
    keys = {"id": names.NODE_ID, "name": names.NODE_NAME, "site": names.NODE_SITE}
    spans = []
    for span in given.spans:
        if span.attributes.get(names.NODE_ID) == node:
            more = {keys[key]: value for key, value in changed.items()}
            span = replace(span, attributes=span.attributes | more)
        spans.append(span)
    return replace(given, spans=tuple(spans))


def pairs(a: Trace, b: Trace) -> list[tuple[str | None, str | None]]:
    return [(one.a, one.b) for one in node_pairs(TraceNodes(a), TraceNodes(b))]


def test_a_run_is_the_same_as_itself() -> None:
    one = trace(BEFORE)
    assert pairs(one, one) == [(node, node) for node in TraceNodes(one).nodes]
    found = trace_diff(one, one)
    assert found.slower == found.faster == found.left_path == found.joined_path == []
    assert change_of(found.a.total, found.b.total).took_ms == 0


def test_what_got_slower_and_where_the_path_went() -> None:
    found = trace_diff(trace(BEFORE), trace(AFTER))
    assert [(one.node.node_id, round(one.took_ms)) for one in found.slower] == [("root/tool2", 600)]
    assert [(one.node.node_id, round(one.took_ms)) for one in found.faster] == [
        ("root/tool1", -400),
        ("root/generate0", -200),
    ]
    assert found.faster[1].wait_ms["queue"] == pytest.approx(-200.0, abs=0.1)
    assert [one.node.node_id for one in found.left_path] == ["root/tool1"]
    assert [one.node.node_id for one in found.joined_path] == ["root/tool2"]
    told = diff_object(found)
    assert told["compound_ms"] == pytest.approx(0.0, abs=0.1)
    assert told["split_ms"]["queue"] == -told["split_ms"]["tool"]
    assert told["total"]["tool_ms"] == pytest.approx(200.0, abs=0.1)


def test_nodes_are_matched_by_their_call_site_before_their_order() -> None:
    """Two tools of a name: in the second run the other one was called first."""
    a, b = trace(BEFORE), trace(BEFORE)
    for node, site in (("root/tool1", "p.py:1"), ("root/tool2", "p.py:2")):
        a = renamed(a, node, name="find", site=site)
    for node, site in (("root/tool1", "p.py:2"), ("root/tool2", "p.py:1")):
        b = renamed(b, node, name="find", site=site)
    found = dict(pairs(a, b))
    assert found["root/tool1"] == "root/tool2"
    assert found["root/tool2"] == "root/tool1"


def test_lines_that_moved_are_matched_by_name() -> None:
    a = renamed(trace(BEFORE), "root/generate0", site="p.py:4")
    b = renamed(trace(BEFORE), "root/generate0", site="p.py:9")
    assert ("root/generate0", "root/generate0") in pairs(a, b)


def test_what_only_one_run_has_stands_alone() -> None:
    more = (*BEFORE, Work("generate", decode_s=0.1), WaitStatement(4))
    assert pairs(trace(BEFORE), trace(more))[-1] == (None, "root/generate4")
    assert pairs(trace(more), trace(BEFORE))[-1] == ("root/generate4", None)
    (change,) = [one for one in trace_diff(trace(BEFORE), trace(more)).nodes if one.a is None]
    assert change.took_ms == 0
    assert change.wait_ms == {}


def test_nodes_below_a_program_are_matched_below_its_partner() -> None:
    nested: tuple[Statement, ...] = (CallStatement(BEFORE), WaitStatement(0))
    other: tuple[Statement, ...] = (CallStatement(AFTER), WaitStatement(0))
    found = pairs(trace(nested), trace(other))
    assert len(found) == 6
    assert all(a == b for a, b in found)
    lost = pairs(trace(nested), trace(BEFORE[:2]))
    assert [b for a, b in lost if a is not None] == ["root", *[None] * 5]


def test_programs_of_other_names_are_compared_all_the_same() -> None:
    a = renamed(trace(BEFORE), "root", name="before")
    assert pairs(a, trace(BEFORE))[0] == ("root", "root")


def test_money_is_compared_in_one_currency_only() -> None:
    a = trace_diff(trace(BEFORE), trace(BEFORE)).a.total
    cheap, dear = replace(a, cost_pico=5, currency="USD"), replace(a, cost_pico=3, currency="USD")
    assert change_of(cheap, dear).cost_pico == -2
    assert change_of(cheap, replace(dear, currency="EUR")).currency == ""


def test_a_file_is_read_as_it_was_built(tmp_path: Path) -> None:
    """Links say again what they link, lists are lists, and services may have any name."""
    body = (
        Work("generate", decode_s=0.4, items=2),
        WaitStatement(0, 0),
        Work("tool", plan=(0, 0), decode_s=0.5),
        Work("generate", deps=(1,), decode_s=0.3),
    )
    built = trace(body)
    shop = {"runtime": {"service.name": "shop"}, "engine": {"service.name": "shop-engine"}}
    found = read(JaegerFile(tmp_path, resources=shop).export([built]))[0]  # type: ignore[arg-type]
    for before, after in zip(built.spans, found.spans, strict=True):
        assert after.links == before.links
        assert after.service == before.service
        assert after.attributes == before.attributes
