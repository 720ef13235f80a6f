"""The import graph of the package, read from the sources.

An import counts wherever it stands: at the top of a module, inside a function, under
`TYPE_CHECKING`. A *room* of a package is a package or a module right under it.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.syntax import ROOT, nodes_of

PACKAGE = ROOT / "agentrt"
# Scripts that run in an environment of their own, by path; nothing of ours imports them.
PEERS = PACKAGE / "lab" / "arms" / "peers"


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """`agentrt.kv_cache.radix` of its file; a package goes by its own name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports_of(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of each import; `from a import b` counts as `a.b`."""
    found: list[tuple[int, str]] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return tuple(found)


@cache
def module_graph() -> Mapping[str, frozenset[str]]:
    """Each module of the package, and the modules of the package that it imports."""
    modules = {name_of(path): path for path in sources()}
    graph: dict[str, frozenset[str]] = {}
    for name, path in modules.items():
        targets = {_module(target, modules) for _, target in imports_of(path)}
        graph[name] = frozenset(targets - {name, ""})
    return graph


def _module(target: str, modules: Mapping[str, Path]) -> str:
    """The module that holds `target`, "" outside of the package."""
    while target and target not in modules:
        target = target.rpartition(".")[0]
    return target


def room_graph(package: str = "agentrt") -> dict[str, set[str]]:
    """The rooms of a package and the rooms that each imports."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for name, targets in module_graph().items():
        here = room_of(name, package)
        if here is None:
            continue
        for target in targets:
            there = room_of(target, package)
            if there not in (None, here, "__init__"):
                rooms[here].add(str(there))
        rooms[here] |= set()
    return dict(rooms)


def room_of(module: str, package: str) -> str | None:
    """The room of `package` in which a module stands; None outside of the package."""
    if module == package:
        return "__init__"
    if not module.startswith(package + "."):
        return None
    return module[len(package) + 1 :].partition(".")[0]


def packages() -> list[str]:
    """Every package, `agentrt` first."""
    return sorted(name_of(path) for path in sources() if path.name == "__init__.py")


def arrows(rooms: Mapping[str, set[str]]) -> int:
    return sum(len(targets) for targets in rooms.values())


def circles(graph: Mapping[str, set[str] | frozenset[str]]) -> list[list[str]]:
    """Groups of two or more nodes that reach each other (Tarjan's components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(start: str) -> None:
        work: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(graph.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    found.append(_popped(stack, node))
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                work.append((target, iter(sorted(graph.get(target, ())))))
            elif target in stack:
                low[node] = min(low[node], index[target])

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(group for group in found if len(group) > 1)


def _popped(stack: list[str], until: str) -> list[str]:
    group: list[str] = []
    while not group or group[-1] != until:
        group.append(stack.pop())
    return sorted(group)
