"""A class name stands for one thing in the package."""

import ast
from collections import defaultdict

from tests.import_graph import name_of, sources
from tests.syntax import nodes_of


def test_a_class_name_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name_of(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
