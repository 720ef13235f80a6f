"""Graphs as text and as pictures: layers, loops, and names that are no markup."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from agentrt.analysis.graph.arrows import Box, smooth_way, way_back
from agentrt.analysis.graph.dot import dot
from agentrt.analysis.graph.layering import layers
from agentrt.analysis.graph.mermaid import mermaid
from agentrt.analysis.graph.node_graph import GraphEdge, GraphNode, NodeGraph
from agentrt.analysis.graph.svg import svg


def graph(*arrows: str, hostile: str = "") -> NodeGraph:
    """A graph of boxes with names of one letter: `ab` is an arrow from a to b."""
    ends = [(arrow[0], arrow[1]) for arrow in arrows]
    keys = dict.fromkeys("".join(arrows))
    nodes = tuple(GraphNode(key, (f"{key}{hostile}",), "generate") for key in keys)
    return NodeGraph(f"title{hostile}", nodes, tuple(GraphEdge(a, b) for a, b in ends))


@pytest.mark.parametrize(
    ("arrows", "rows"),
    [
        (("ab", "bc", "ac"), ["a", "b", "c"]),
        (("ab", "ac", "bd", "cd"), ["a", "bc", "d"]),
        (("ab", "cd"), ["ac", "bd"]),
        (("ab", "bc", "cd", "ed"), ["a", "b", "ce", "d"]),
        (("ab", "bc", "cb"), ["a", "b", "c"]),
        (("aa", "ab"), ["a", "b"]),
    ],
)
def test_a_box_lies_below_all_that_lead_to_it(arrows: tuple[str, ...], rows: list[str]) -> None:
    assert ["".join(sorted(row)) for row in layers(graph(*arrows)).rows] == rows


def test_arrows_of_a_loop_lead_back() -> None:
    assert layers(graph("ab", "bc", "ca")).back == {("c", "a")}
    assert layers(graph("ab", "bc")).back == set()


def test_a_long_chain_needs_no_deep_stack() -> None:
    keys = [f"n{at}" for at in range(3000)]
    nodes = tuple(GraphNode(key, (key,), "tool") for key in keys)
    edges = tuple(GraphEdge(a, b) for a, b in pairwise(keys))
    assert len(layers(NodeGraph("chain", nodes, edges)).rows) == 3000


def test_boxes_in_a_picture_do_not_overlap() -> None:
    text = svg(graph("ab", "ac", "ad", "be", "ce", "de"))
    boxes = [
        (float(one["x"]), float(one["y"]), float(one["width"]), float(one["height"]))
        for one in (
            node.attrib for node in ElementTree.fromstring(text).iter() if node.tag.endswith("rect")
        )
        if "x" in one
    ]
    assert len(boxes) == 5
    for at, (x, y, width, height) in enumerate(boxes):
        for x2, y2, width2, height2 in boxes[:at]:
            apart = x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y
            assert apart


def test_an_arrow_leads_around_what_lies_between_its_ends() -> None:
    """From a to c it would be hidden behind b."""
    root = ElementTree.fromstring(svg(graph("ab", "bc", "ac")))
    boxes = [one.attrib for one in root.iter() if one.tag.endswith("rect")]
    middle = boxes[1]
    left, right = float(middle["x"]), float(middle["x"]) + float(middle["width"])
    *_, path = (one.attrib["d"] for one in root.iter() if one.get("fill") == "none")
    (straight,) = re.findall(r"L([\d.]+) ", path)
    assert not left <= float(straight) <= right


def test_a_way_leads_straight_or_in_a_bend() -> None:
    assert smooth_way([(1.0, 0.0), (1.0, 8.0)]) == "M1.0 0.0L1.0 8.0"
    assert smooth_way([(1.0, 0.0), (3.0, 8.0)]) == "M1.0 0.0C1.0 4.0 3.0 4.0 3.0 8.0"
    assert smooth_way([(0.0, 1.0), (8.0, 3.0)], across=True) == "M0.0 1.0C4.0 1.0 4.0 3.0 8.0 3.0"


def test_an_arrow_of_a_loop_leads_around_the_right_side() -> None:
    top, middle, bottom = (Box(100.0, y, 60.0, 20.0) for y in (10.0, 110.0, 210.0))
    assert way_back(bottom, top, [middle]).startswith("M130.0 210.0C170.0 ")


HOSTILE = '"]; <script>alert(1)</script> \\ {x} %% --> & #quot; `a`'


def test_names_are_no_markup() -> None:
    hostile = graph("ab", hostile=HOSTILE)
    texts = [node.text or "" for node in ElementTree.fromstring(svg(hostile)).iter()]
    assert any(text.startswith('a"]; <script>') for text in texts)
    lines = mermaid(hostile).splitlines()
    (box,) = (line for line in lines if line.startswith("  n0["))
    inside = box.partition('"')[2].rpartition('"')[0]
    assert not set(inside) & set('"<>{}\\`&')
    assert html_of(inside) == f"a{HOSTILE}"
    assert len(re.findall("-->", mermaid(hostile))) == 2  # the title's and the arrow's
    (node,) = (line for line in dot(hostile).splitlines() if line.startswith("  n0 ["))
    assert r"\"]; <script>alert(1)</script> \\ {x}" in node


def html_of(label: str) -> str:
    """Mermaid's codes of characters as the characters."""
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label)


def test_an_empty_graph_is_drawn_too() -> None:
    empty = NodeGraph("nothing", (), (), ("a note",))
    assert "a note" in svg(empty)
    assert mermaid(empty).startswith("flowchart TD\n")
    assert dot(empty).endswith("}\n")


def test_what_a_border_stands_for_is_written_too() -> None:
    node = GraphNode("a", ("a",), "tool", is_many=True, is_maybe=True, is_critical=True)
    one = NodeGraph("one", (node,), (GraphEdge("a", "a", "starts", is_critical=True),))
    for text in (svg(one), mermaid(one), dot(one)):
        assert "(many, maybe)" in text
        assert "#d55e00" in text
        assert "starts" in text
