"""Choice of the nodes that get a row where rows are few; the others are counted in a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentrt.base.record import record
from agentrt.cli.run_tree.node import GROUPS, Group, RunTree, TreeNode, group_of

_MOST_MISFITS = 8
"""Nodes that did not fit the rows that are left, after which no more are tried."""


@record
class Row:
    """A row of the picture.

    Attributes:
        node: Node of the row, or the parent of the nodes that it counts.
        last: For each level below the root down to this one, whether no row of the same parent
            follows there.
        counted: Nodes by group that have no row; None for the row of a node with nothing hidden.
        is_count: Whether the row is a line of counts below `node`.
    """

    node: TreeNode
    last: tuple[bool, ...] = ()
    counted: dict[Group, int] | None = None
    is_count: bool = False


class _Choice:
    """Nodes with a row, and the number of rows that they take with the lines of counts."""

    def __init__(self, root: TreeNode) -> None:
        self.kept: set[str] = set()
        self.rows = 0
        self._hidden: dict[str, int] = {}
        self._kept_children: dict[str, int] = {}
        self._add(root)

    def try_to_keep(self, node: TreeNode, most_rows: int) -> bool:
        """Give a node and all above it a row, if the rows suffice."""
        if node.key in self.kept:
            return True
        chain = [node]
        for above in node.ancestors():
            if above.key in self.kept:
                break
            chain.append(above)
        for one in reversed(chain):
            self._add(one)
        if self.rows <= most_rows:
            return True
        for one in chain:
            self._remove(one)
        return False

    def _add(self, node: TreeNode) -> None:
        self.kept.add(node.key)
        self._hidden[node.key] = node.counts.size - 1
        self._kept_children[node.key] = 0
        self.rows += 1 + self._has_line(node)
        if node.parent is not None:
            self._count(node.parent, -node.counts.size, 1)

    def _remove(self, node: TreeNode) -> None:
        if node.parent is not None:
            self._count(node.parent, node.counts.size, -1)
        self.rows -= 1 + self._has_line(node)
        self.kept.discard(node.key)

    def _count(self, parent: TreeNode, hidden: int, kept: int) -> None:
        self.rows -= self._has_line(parent)
        self._hidden[parent.key] += hidden
        self._kept_children[parent.key] += kept
        self.rows += self._has_line(parent)

    def _has_line(self, node: TreeNode) -> bool:
        """Whether what is hidden below takes a line; an ended branch counts it in its own row."""
        if not self._hidden[node.key]:
            return False
        return not node.has_ended or self._kept_children[node.key] > 0


def rows_of(tree: RunTree, wanted: Iterable[TreeNode], most_rows: int | None) -> list[Row]:
    """Rows from the root down, each child under its parent.

    Every node has a row or is counted in one.

    Args:
        tree: The tree.
        wanted: Nodes that get a row first, in this order.
        most_rows: Maximum number of rows, at least 2; None gives every node a row.
    """
    if most_rows is None or tree.root.counts.size <= most_rows:
        return list(_rows(tree.root, None))
    choice = _Choice(tree.root)
    misfits = 0
    for node in wanted:
        misfits += not choice.try_to_keep(node, most_rows)
        if choice.rows >= most_rows or misfits > _MOST_MISFITS:
            break
    return list(_rows(tree.root, choice.kept))


def _rows(root: TreeNode, kept: set[str] | None) -> Iterator[Row]:
    waiting = [Row(root)]
    while waiting:
        row = waiting.pop()
        node = row.node
        if row.is_count:
            yield row
            continue
        below = [one for one in node.children if kept is None or one.key in kept]
        counted = _counted(node, below)
        in_line = counted is not None and not (node.has_ended and not below)
        yield row if counted is None or in_line else Row(node, row.last, counted)
        if in_line:
            waiting.append(Row(node, (*row.last, True), counted, is_count=True))
        for place, child in enumerate(reversed(below)):
            waiting.append(Row(child, (*row.last, not place and not in_line)))


def _counted(node: TreeNode, below: list[TreeNode]) -> dict[Group, int] | None:
    """Nodes below one that have no row; None if all have."""
    sizes = sum(one.counts.size for one in below)
    if node.counts.size == 1 + sizes:
        return None
    nodes = dict(node.counts.nodes)
    nodes[group_of(node.state)] -= 1
    for one in below:
        for group in GROUPS:
            nodes[group] -= one.counts.nodes[group]
    return nodes
