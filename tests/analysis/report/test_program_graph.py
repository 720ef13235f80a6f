"""The drawn graph is the program's, of bounded size, and nothing in it overlaps."""

from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import Causes, RunRecord, critical_path
from agentrt.analysis.report.graph_layout import HEIGHT, MOST_ACROSS, WIDTH, layout, layouts
from agentrt.analysis.report.program_graph import ProgramGraph, program_graph
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import CallStatement, Race, Statement, WaitStatement, Work

randoms = st.randoms(use_true_random=False)
quick = settings(max_examples=80, derandomize=True, deadline=None)


def graph_of(*body: Statement, most: int = 36) -> ProgramGraph:
    record = RunRecord()
    record.on_events(play(body))
    causes = Causes(record)
    return program_graph(record, critical_path(record, causes), causes, most)


def edges(graph: ProgramGraph) -> set[tuple[str, str]]:
    names = {box.key: box.name for box in graph.boxes}
    return {(names[edge.source], names[edge.target]) for edge in graph.edges}


def test_values_items_and_waits_are_edges() -> None:
    graph = graph_of(
        Work("generate", decode_s=0.4, items=1),
        WaitStatement(0, 0),
        Work("tool", plan=(0, 0), decode_s=0.5),
        Work("generate", deps=(1,), decode_s=0.3),
        WaitStatement(2),
        Work("tool", decode_s=0.1),
    )
    assert edges(graph) == {
        ("generate0", "tool1"),
        ("tool1", "generate2"),
        ("generate2", "tool3"),
    }
    assert all(edge.critical for edge in graph.edges)
    assert [box.rank for box in graph.boxes] == [0, 1, 2, 3]


def test_a_program_stands_for_what_it_ended_with() -> None:
    inner = (Work("tool", decode_s=0.1), WaitStatement(1), Work("tool", decode_s=0.2))
    graph = graph_of(
        Work("generate", decode_s=0.1),
        WaitStatement(0),
        CallStatement(inner),
        WaitStatement(3),
        Work("generate", decode_s=0.1),
    )
    assert edges(graph) == {
        ("generate0", "tool1"),
        ("tool1", "tool2"),
        ("tool2", "generate4"),
    }


def test_what_nobody_waited_for_is_off_the_path() -> None:
    graph = graph_of(Work("tool", decode_s=0.1), Work("generate", decode_s=0.5))
    assert [box.on_path_s > 0.0 for box in graph.boxes] == [False, True]
    assert graph.edges == ()


def test_losers_of_a_race_are_counted() -> None:
    graph = graph_of(Race((Work("tool", decode_s=0.1), Work("tool", decode_s=0.9))))
    assert [box.cancelled for box in graph.boxes] == [0, 1]


def test_a_loop_is_folded_to_boxes_that_lead_back() -> None:
    turns: list[Statement] = []
    for turn in range(30):
        turns += [Work("generate", decode_s=0.1), WaitStatement(2 * turn)]
        turns += [Work("tool", deps=(2 * turn,), decode_s=0.1), WaitStatement(2 * turn + 1)]
    graph = graph_of(*turns)
    assert [(box.name, box.count) for box in graph.boxes] == [("generate", 30), ("tool", 30)]
    assert {(edge.source, edge.is_back) for edge in graph.edges} == {
        ("root/generate", False),
        ("root/tool", True),
    }


@quick
@given(randoms, st.integers(2, 12))
def test_folding_loses_no_node_and_no_time(rng: Random, most: int) -> None:
    body = random_body(rng)
    whole, folded = graph_of(*body, most=10_000), graph_of(*body, most=most)
    assert len(folded.boxes) <= most
    for one in (whole, folded):
        assert sum(box.count for box in one.boxes) == len(whole.boxes)
    assert abs(sum(b.work_s for b in folded.boxes) - sum(b.work_s for b in whole.boxes)) < 1e-9
    assert all(not edge.is_back for edge in whole.edges)


@quick
@given(randoms, st.sampled_from((3, 9, 40)), st.booleans())
def test_boxes_lie_inside_the_picture_and_apart(rng: Random, most: int, across: bool) -> None:
    graph = graph_of(*random_body(rng), most=most)
    placed = layout(graph, across=across)
    assert placed.boxes.keys() == {box.key for box in graph.boxes}
    for x, y in placed.boxes.values():
        assert 0 <= x <= placed.width - WIDTH
        assert 0 <= y <= placed.height - HEIGHT
    for (x, y), (other_x, other_y) in combinations(placed.boxes.values(), 2):
        assert abs(x - other_x) >= WIDTH or abs(y - other_y) >= HEIGHT
    assert placed.edges.keys() == {(e.source, e.target) for e in graph.edges if not e.is_back}
    for points in placed.edges.values():
        along = [point[0 if placed.across else 1] for point in points]
        assert along == sorted(along)


def test_few_layers_stand_side_by_side_and_many_below_each_other() -> None:
    def chain(length: int) -> ProgramGraph:
        turns: list[Statement] = []
        for turn in range(length):
            turns += [Work("generate", decode_s=0.1), WaitStatement(turn)]
        return graph_of(*turns)

    wide, narrow = layouts(chain(4))
    assert wide.across
    assert wide.width <= MOST_ACROSS
    assert not narrow.across
    wide, narrow = layouts(chain(8))
    assert wide is narrow
    assert narrow.width < 2 * WIDTH
