"""The report of a run: one page that stands alone, says everything, and grows no further."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import RunRecord
from agentrt.analysis.report.run_report import run_report
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId, RunId
from agentrt.base.trace_context import TraceContext
from agentrt.protocol.events import (
    Event,
    EventOfNode,
    NodeDeclared,
    NodeFinished,
    PrefixLost,
    RequestSent,
    RunFinished,
    RunStarted,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import DraftCount, Ledger
from tests.oracles.pages import Element, faults, page_of
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import CallStatement, Statement, WaitStatement, Work

RUN_ID = RunId("00000000000000a1")
EVIL = "<script>alert('x')</script><b>\"&'"
FINANCE: tuple[Statement, ...] = (
    Work("generate", queue_s=0.05, prefill_s=0.1, decode_s=0.4, items=2),
    WaitStatement(0, 0),
    Work("tool", plan=(0, 0), decode_s=0.5),
    WaitStatement(0, 1),
    Work("tool", plan=(0, 1), decode_s=0.1),
    Work("generate", deps=(1, 2), early_s=0.05, prefill_s=0.02, decode_s=0.3),
)


def record_of(events: Sequence[Event]) -> RunRecord:
    record = RunRecord()
    record.on_events(events)
    return record


def report_of(events: Sequence[Event]) -> Element:
    page = page_of(run_report(record_of(events)))
    assert faults(page) == []
    return page


def test_what_was_cut_off_saves_nothing() -> None:
    late = ErrorRecord("DeadlineExceeded", "passed its deadline")
    told = play((Work("tool", decode_s=1.0), WaitStatement(0), Work("generate", decode_s=0.5)))

    def told_with(kind: str) -> str:
        ids = {one.node_id for one in told if isinstance(one, NodeDeclared) and one.kind == kind}
        return (
            report_of(
                [
                    replace(one, outcome="failed", error=late)
                    if isinstance(one, NodeFinished) and one.node_id in ids
                    else one
                    for one in told
                ]
            )
            .named("what-if")
            .text()
        )

    assert "keep the time they had: tool." in told_with("tool")
    assert "Tool twice" not in told_with("tool")
    assert "saves" not in told_with("program")
    assert "cut off before its end" in told_with("program")
    assert "cut off" not in told_with("ask")


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False))
def test_every_run_has_a_sound_page(rng: Random) -> None:
    page = report_of(play(random_body(rng), gate_s=0.0005))
    assert len(page.every("h1")) == 1
    assert page.every("section")


def test_the_page_tells_the_run() -> None:
    page = report_of(play(FINANCE, gate_s=0.01))
    assert page.every("title")[0].text() == "root, 1.18 s · agentrt"
    assert "1.18 s from submit to result, 42 % of it tool" in page.every(kind="lead")[0].text()
    tiles = [tile.text() for tile in page.every(kind="tiles")[0].every("div")]
    assert tiles[0] == "End to end 1.18 s no deadline"
    assert "Tokens in 200 60 % from the cache" in tiles
    links = [link.attributes["href"] for link in page.every("nav")[0].every("a")]
    assert links == [f"#{one.attributes['id']}" for one in page.every("section")]


def test_the_page_names_the_trace_that_the_run_joined() -> None:
    first, *rest = play(FINANCE)
    assert isinstance(first, RunStarted)
    caller = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    page = report_of([replace(first, caller=caller), *rest])
    assert f"Trace {caller.trace_id}." in page.every("footer")[0].text()


def test_the_split_adds_up_in_words_and_width() -> None:
    page = report_of(play(FINANCE, gate_s=0.01))
    pieces = page.named("split").every(kind="split")[0].every("span")
    widths = [float(one.attributes["style"][len("width:") : -1]) for one in pieces]
    assert sum(widths) == pytest.approx(100, abs=0.01)
    rows = [row.text() for row in page.named("split").every("li")]
    assert rows[0] == "tool 500 ms 42 % tools at work"
    assert rows[1].startswith("decode 500 ms 42 %")
    assert len(rows) == len(pieces)


def test_estimates_are_told_with_their_basis() -> None:
    rows = [row.text() for row in report_of(play(FINANCE)).named("what-if").every("li")]
    assert rows[0].startswith("generate writes half as many tokens saves 250 ms")
    assert any(row.startswith("One engine more saves 25.0 ms") for row in rows)


def test_each_node_has_a_lane_with_its_stages_in_words() -> None:
    timeline = report_of(play(FINANCE)).named("timeline")
    names = [row.every(kind="name")[0].text() for row in timeline.every("li", "row")]
    assert names == ["◆ critical path", "◆ generate0", "◆ tool1", "tool2", "◆ generate3"]
    spoken = timeline.every("li", "row")[1].every("svg")[0].attributes["aria-label"]
    assert (
        " ".join(spoken.split())
        == "generate0: from 0 ms, queue 50.0 ms, prefill 100 ms, decode 400 ms"
    )
    titles = [title.text() for title in timeline.every("title")]
    assert "queue 50.0 ms from 0 ms" in titles


def test_the_path_lists_its_steps() -> None:
    rows = [row.text() for row in report_of(play(FINANCE)).named("path").every("tr")]
    assert (
        rows[1] == "generate0, item 0 350 ms 30 % 0 ms decode 200 ms, prefill 100 ms, queue 50.0 ms"
    )


def test_the_graph_has_a_box_a_node_and_heavy_lines_on_the_path() -> None:
    graph, slim = report_of(play(FINANCE)).named("graph").every("svg", "graph")
    assert [box.text() for box in slim.every("g")] == [box.text() for box in graph.every("g")]
    assert len(graph.every("g", "box")) == 4
    assert len(graph.every("path", "edge")) == 4
    assert (
        len(
            [edge for edge in graph.every("path", "edge") if "critical" in edge.attributes["class"]]
        )
        == 2
    )
    assert graph.every("g", "box")[0].every("text")[0].text() == "◆ generate0"


def test_text_of_a_run_stays_text() -> None:
    """Whatever names, models and errors say, it is text on the page."""
    error = ErrorRecord("ToolFailed", EVIL, hint=EVIL, where=EVIL)
    told: list[Event] = []
    for one in play(FINANCE, outcome="failed"):
        if isinstance(one, RunStarted):
            one = replace(one, program=EVIL, source=EVIL)
        elif isinstance(one, NodeDeclared):
            one = replace(one, name=EVIL, site=EVIL)
        elif isinstance(one, RequestSent):
            one = replace(one, model=EVIL)
            told.append(PrefixLost(RUN_ID, one.node_id, 10, EVIL, one.at_s))
        elif isinstance(one, NodeFinished):
            one = replace(one, outcome="failed", error=error)
        elif isinstance(one, RunFinished):
            one = replace(one, error=error)
        told.append(one)
    text = run_report(record_of(told))
    assert "<script" not in text
    page = page_of(text)
    assert faults(page) == []
    assert page.every("h1")[0].text() == f"{EVIL} failed"
    for name in ("prefixes", "tokens", "errors"):
        assert "alert('x')" in page.named(name).text(), name


def test_ids_with_markup_stay_text() -> None:
    told: list[Event] = []
    for one in play((Work("tool", decode_s=0.1),)):
        if isinstance(one, EventOfNode) and one.node_id == "root/tool0":
            one = cast(Event, replace(one, node_id=NodeId(f"root/{EVIL}#0")))
        elif isinstance(one, NodeFinished):
            one = replace(one, after=NodeId(f"root/{EVIL}#0"))
        told.append(one)
    text = run_report(record_of(told))
    assert "<script" not in text
    page = page_of(text)
    assert faults(page) == []
    for name in ("timeline", "path", "graph"):
        assert "alert('x')" in page.named(name).text(), name


def test_a_page_may_load_and_run_nothing() -> None:
    (policy,) = (
        one.attributes["content"]
        for one in report_of(play(FINANCE)).every("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_a_run_of_2000_nodes_is_folded_to_a_page_of_bounded_size() -> None:
    tools = tuple(Work("tool", queue_s=0.001 * n, decode_s=0.01 + n % 7 / 100) for n in range(1200))
    works = tuple(Work("generate", prefill_s=0.01, decode_s=n % 11 / 100) for n in range(793))
    body: tuple[Statement, ...] = (
        *tools,
        CallStatement(works[:300]),
        *works[300:],
        WaitStatement(5),
    )
    record = record_of(play(body))
    assert len(record.nodes) == 1995
    text = run_report(record)
    assert len(text) < 120_000
    page = page_of(text)
    assert faults(page) == []
    lanes = [row.text() for row in page.named("timeline").every("summary")]
    assert [lane.split("\u00d7")[1].split()[0] for lane in lanes] == ["1,200", "300", "493"]
    assert len(page.named("graph").every("svg", "graph")[0].every("g", "box")) <= 36
    assert "1,200" in page.named("graph").text()


def test_a_path_through_2000_nodes_is_folded_too() -> None:
    turns: list[Statement] = []
    for turn in range(1000):
        turns += [Work("generate", queue_s=0.01, decode_s=0.2), WaitStatement(2 * turn)]
        turns += [Work("tool", decode_s=0.1), WaitStatement(2 * turn + 1)]
    text = run_report(record_of(play(tuple(turns))))
    assert len(text) < 120_000
    page = page_of(text)
    assert faults(page) == []
    assert "1960 shorter steps" in page.named("path").text().replace(",", "")
    assert len(page.named("graph").every("path", "back")) == 2  # once for each kind of window


def test_many_call_sites_are_bounded_too() -> None:
    told: list[Event] = []
    for one in play(tuple(Work("generate", decode_s=0.01 * n) for n in range(400))):
        node_id = getattr(one, "node_id", "")
        if isinstance(one, NodeDeclared) and node_id != "root":
            one = replace(one, name=f"site {node_id}")
        told.append(one)
    page = report_of(told)
    assert len(page.named("timeline").every("li", "row")) <= 61 + 12
    assert "341 other call sites" in page.named("timeline").text()
    assert len(page.named("tokens").every("tr")) <= 32
    assert "320 more generations" in page.named("prefixes").text()
    assert len(str(run_report(record_of(told)))) < 250_000


def test_tokens_drafts_and_cost_are_told_by_call_site() -> None:
    ledger = Ledger(
        prompt_tokens=700,
        cached_tokens=350,
        output_tokens=90,
        forced_tokens=30,
        drafts=(DraftCount("prompt", 5, 15), DraftCount("grammar", 20, 0)),
        cost_pico=1_234_000_000,
        currency="USD",
    )
    told: list[Event] = [
        replace(one, ledger=ledger)
        if isinstance(one, NodeFinished) and one.node_id == "root/generate0"
        else one
        for one in play((Work("generate", decode_s=0.2),))
    ]
    page = report_of(told)
    assert page.named("tokens-title").text() == "Tokens and cost"
    rows = [row.text() for row in page.named("tokens").every("tr")]
    assert "generate 1 700 350 90 30 0.0012 USD tiny" in rows
    assert "prompt 5 15 25 % the request's own prompt and output" in rows
    assert rows[-2].startswith("grammar")
    assert "350 of 700 tokens reused" in page.named("prefixes").text()


def test_experts_are_told_by_layer_and_call_site() -> None:
    ledger = Ledger(output_tokens=9, expert_tokens=((6, 2, 0, 0), (2, 2, 2, 2)))
    told: list[Event] = [
        replace(one, ledger=ledger) if isinstance(one, NodeFinished) and one.ledger else one
        for one in play((Work("generate", decode_s=0.2), Work("generate", decode_s=0.1)))
    ]
    page = report_of(told)
    rows = [row.text() for row in page.named("experts").every("tr")]
    assert "generate 32 2.00 layer 0 expert 0, layer 0 expert 1, layer 1 expert 0" in rows
    assert "0 16 0 (75 %) 2 of 4 3.00" in rows
    assert "1 16 0 (25 %) 0 of 4 1.00" in rows
    plain = run_report(record_of(play((Work("generate", decode_s=0.2),))))
    assert 'id="experts"' not in plain


@pytest.mark.parametrize("tokens", [(), ((6, 2), (2, 2))])
def test_the_expert_cache_is_told_by_call_site(tokens: tuple[tuple[int, ...], ...]) -> None:
    ledger = Ledger(output_tokens=9, expert_hits=30, expert_misses=10, expert_tokens=tokens)
    told: list[Event] = [
        replace(one, ledger=ledger) if isinstance(one, NodeFinished) and one.ledger else one
        for one in play((Work("generate", decode_s=0.2), Work("generate", decode_s=0.1)))
    ]
    rows = [row.text() for row in report_of(told).named("experts").every("tr")]
    assert "generate 60 20 75 %" in rows


def test_errors_say_what_where_and_how_to_fix() -> None:
    node_id = NodeId("root/tool0")
    error = ErrorRecord("ToolFailed", "the file is gone", "give a file", "a.py:3")
    told: list[Event] = []
    for one in play((Work("tool", decode_s=0.2),), outcome="failed"):
        if isinstance(one, ToolEnded):
            told.append(ToolEnded(RUN_ID, node_id, 1, one.at_s - 0.1, error))
            told.append(ToolStarted(RUN_ID, node_id, 2, one.at_s - 0.1))
        elif isinstance(one, NodeFinished):
            one = replace(one, outcome="failed", error=error)
        elif isinstance(one, RunFinished):
            one = replace(one, error=error)
        told.append(one)
    page = report_of(told)
    assert page.every(kind="pill")[0].text() == "failed"
    assert page.every("pre", "error")[0].text() == (
        "error: ToolFailed: the file is gone where: a.py:3 fix: give a file"
    )
    rows = [row.text() for row in page.named("errors").every("li")]
    assert rows[0] == "root ToolFailed: the file is gone a.py:3 Fix: give a file"
    assert rows[2] == "tool0 tried again ToolFailed: the file is gone made_up.py:1"
    assert "200 ms, failed" in page.named("timeline").text()


def test_a_run_that_never_began_has_its_error() -> None:
    started, *_ = play(())
    error = ErrorRecord("EngineDied", "no engine")
    page = report_of([started, RunFinished(RUN_ID, "failed", 100.5, error)])
    assert "EngineDied: no engine" in page.every("pre", "error")[0].text()
    assert page.named("split").every("li")[0].text().startswith("admission 500 ms 100 %")


def test_a_run_cut_short_says_so() -> None:
    told = play((Work("tool", decode_s=0.2), WaitStatement(0), Work("tool", decode_s=1.0)))
    page = report_of([one for one in told if getattr(one, "at_s", 0.0) < 100.5])
    assert "cut short" in page.every("pre", "error")[0].text()
    assert "2 open" in page.every(kind="tiles")[0].text()


def test_a_deadline_is_told() -> None:
    started, *rest = play((Work("tool", decode_s=0.2),))
    assert isinstance(started, RunStarted)
    late = report_of([replace(started, deadline_s=0.1), *rest])
    assert "past its deadline of 100 ms" in late.every(kind="tiles")[0].text()
