"""The graph of a recorded run."""

from collections.abc import Callable
from dataclasses import replace

from agentrt.analysis import RunRecord
from agentrt.analysis.graph.node_graph import NodeGraph
from agentrt.telemetry import build
from agentrt.telemetry.run_graph import run_graph
from tests.oracles.statements import CallStatement, Statement, WaitStatement, Work
from tests.telemetry.conftest import FINANCE

Recorded = Callable[..., RunRecord]


def arrows(graph: NodeGraph) -> list[tuple[str, str, str, bool]]:
    names = {node.key: node.lines[0] for node in graph.nodes}
    return [(names[e.source], names[e.target], e.how, e.is_critical) for e in graph.edges]


def test_arrows_are_values_and_starts(recorded: Recorded) -> None:
    found = run_graph(build(recorded(FINANCE)))
    assert [node.lines[0] for node in found.nodes] == ["generate0", "tool1", "tool2", "generate3"]
    assert arrows(found) == [
        ("generate0", "tool1", "starts", True),
        ("generate0", "tool2", "starts", False),
        ("tool1", "generate3", "value", True),
        ("tool2", "generate3", "value", False),
    ]
    assert [node.is_critical for node in found.nodes] == [True, True, False, True]
    assert found.nodes[1].lines[1] == "500.0 ms"


def test_mere_order_on_the_critical_path_is_dashed(recorded: Recorded) -> None:
    body: tuple[Statement, ...] = (
        Work("generate", decode_s=0.4),
        WaitStatement(0),
        Work("tool", decode_s=0.5),
        WaitStatement(1),
    )
    assert arrows(run_graph(build(recorded(body)))) == [("generate0", "tool1", "order", True)]


def test_the_value_of_a_program_comes_from_its_last_node(recorded: Recorded) -> None:
    inside: tuple[Statement, ...] = (
        Work("tool", decode_s=0.1),
        WaitStatement(0),
        Work("generate", decode_s=0.4),
        WaitStatement(1),
    )
    body = (CallStatement(inside), WaitStatement(2), Work("generate", deps=(2,), decode_s=0.2))
    found = run_graph(build(recorded(body)))
    names = [node.lines[0] for node in found.nodes]
    assert len(names) == 3
    assert (names[1], names[2], "value", True) in arrows(found)


def test_a_shared_prefix_is_no_arrow(recorded: Recorded) -> None:
    record = recorded((Work("generate", decode_s=0.1), Work("generate", decode_s=0.2)))
    first, second = (node for node in record.nodes.values() if node.kind == "generate")
    second.declared = replace(second.declared, fork_of=first.node_id)
    trace = build(record)
    assert [link for span in trace.spans for link in span.links]
    assert arrows(run_graph(trace)) == []
