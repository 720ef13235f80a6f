"""Placed graphs: nothing overlaps, arrows lead through no box, and few of them cross."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis.graph.layered_layout import (
    MOST_LANES,
    LayeredLayout,
    Spacing,
    crossings,
    layered_layout,
)

SPACING = Spacing(between=10.0, layers=30.0)
Graph = tuple[list[list[str]], list[tuple[str, str]], dict[str, tuple[float, float]]]
quick = settings(max_examples=150, derandomize=True, deadline=None)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    layers = [[f"{at}.{number}" for number in range(count)] for at, count in enumerate(counts)]
    pairs = [
        (source, target)
        for first, second in combinations(layers, 2)
        for source in first
        for target in second
    ]
    arrows = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12)) if pairs else []
    size = st.tuples(st.integers(20, 90).map(float), st.integers(10, 50).map(float))
    return layers, arrows, {key: draw(size) for row in layers for key in row}


def placed(graph: Graph, across: bool = False) -> LayeredLayout:
    layers, arrows, sizes = graph
    return layered_layout(layers, arrows, sizes, SPACING, across=across)


@quick
@given(graphs(), st.booleans())
def test_boxes_lie_in_the_picture_and_apart(graph: Graph, across: bool) -> None:
    found, sizes = placed(graph, across), graph[2]
    assert found.boxes.keys() == sizes.keys()
    for key, (x, y) in found.boxes.items():
        width, height = sizes[key]
        assert x - width / 2 >= -1e-6
        assert x + width / 2 <= found.width + 1e-6
        assert y - height / 2 >= -1e-6
        assert y + height / 2 <= found.height + 1e-6
    for one, other in combinations(sizes, 2):
        (x, y), (x2, y2) = found.boxes[one], found.boxes[other]
        apart_x = abs(x - x2) - (sizes[one][0] + sizes[other][0]) / 2
        apart_y = abs(y - y2) - (sizes[one][1] + sizes[other][1]) / 2
        assert max(apart_x, apart_y) >= SPACING.between - 1e-6


@quick
@given(graphs(), st.booleans())
def test_arrows_pass_boxes_beside_them(graph: Graph, across: bool) -> None:
    layers, arrows, sizes = graph
    found = placed(graph, across)
    along, beside = (0, 1) if across else (1, 0)
    level = {key: at for at, row in enumerate(layers) for key in row}
    assert found.ways.keys() == set(arrows)
    for (source, target), points in found.ways.items():
        assert [point[along] for point in points] == sorted(point[along] for point in points)
        assert points[0][beside] == found.boxes[source][beside]
        assert points[-1][beside] == found.boxes[target][beside]
        passed = range(level[source] + 1, level[target])
        assert len(points) == 2 + 2 * len(passed)
        for at, enter, leave in zip(passed, points[1:-1:2], points[2:-1:2], strict=True):
            assert 0 <= enter[beside] == leave[beside] <= (found.height if across else found.width)
            for key in layers[at]:
                apart = abs(found.boxes[key][beside] - enter[beside]) - sizes[key][beside] / 2
                assert apart >= SPACING.between - 1e-6


@quick
@given(graphs())
def test_crossings_are_counted(graph: Graph) -> None:
    layers, arrows, _ = graph
    level = {key: (at, place) for at, row in enumerate(layers) for place, key in enumerate(row)}
    short = [(one, other) for one, other in arrows if level[other][0] == level[one][0] + 1]
    expected = sum(
        level[a][0] == level[c][0] and (level[a][1] - level[c][1]) * (level[b][1] - level[d][1]) < 0
        for (a, b), (c, d) in combinations(short, 2)
    )
    assert crossings(layers, short) == expected


@pytest.mark.parametrize("across", [False, True])
def test_boxes_are_ordered_so_that_arrows_do_not_cross(across: bool) -> None:
    layers = ["x", "ab", "cd"]
    arrows = [("a", "d"), ("b", "c"), ("x", "a"), ("x", "b")]
    sizes = dict.fromkeys("xabcd", (40.0, 20.0))
    boxes = layered_layout(layers, arrows, sizes, SPACING, across=across).boxes
    side = 1 if across else 0
    assert (boxes["a"][side] < boxes["b"][side]) == (boxes["d"][side] < boxes["c"][side])


def test_a_chain_hangs_straight_beside_wide_layers() -> None:
    layers = [list("abcdefg"), ["h"], ["i"], ["j"]]
    sizes = {key: (40.0, 20.0) for row in layers for key in row}
    boxes = layered_layout(layers, [("a", "h"), ("h", "i"), ("i", "j")], sizes, SPACING).boxes
    assert len({boxes[key][0] for key in "ahij"}) == 1


def test_a_long_graph_has_no_place_for_each_arrow_in_each_layer() -> None:
    keys = [f"n{at}" for at in range(600)]
    arrows = [*pairwise(keys), *((keys[0], key) for key in keys[2:])]
    sizes = dict.fromkeys(keys, (40.0, 20.0))
    found = layered_layout([[key] for key in keys], arrows, sizes, SPACING)
    assert len(found.ways) == len(arrows)
    assert sum(len(points) - 2 for points in found.ways.values()) <= 2 * MOST_LANES
    assert len(found.ways[keys[0], keys[-1]]) == 2
