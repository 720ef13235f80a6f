"""Pairs of nodes that stand at the same place of a program in two of its runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from agentrt.base.record import record
from agentrt.telemetry import names
from agentrt.telemetry.span import Span
from agentrt.telemetry.waits import TraceNodes

Place = Callable[[Span], tuple[object, ...]]


@record
class NodePair:
    """A node in two runs; at least one of the ids is there.

    Attributes:
        a: Id of the node in the first run; None if only the second has it.
        b: Id of the node in the second run; None if only the first has it.
    """

    a: str | None
    b: str | None


def node_pairs(a: TraceNodes, b: TraceNodes) -> tuple[NodePair, ...]:
    """All nodes of two runs, paired by place, parents before their children.

    The roots are a pair. Among the children of a pair, nodes of one kind, name and call site are
    paired in the order of their declaration. What is left is paired by kind and name alone, since
    lines move when a file is edited.
    """
    return tuple(_Pairing(a, b).below(None, None))


class _Pairing:
    def __init__(self, a: TraceNodes, b: TraceNodes) -> None:
        self._nodes = a.nodes, b.nodes
        self._children = _children(a), _children(b)

    def below(self, a: str | None, b: str | None) -> list[NodePair]:
        """The pairs below a pair of programs, or the roots."""
        left = self._children[0][a or ""] if a is not None or b is None else []
        right = self._children[1][b or ""] if b is not None or a is None else []
        partner = self._partners(left, right)
        found: list[NodePair] = []
        for one in left:
            other = partner.get(one)
            found += [NodePair(one, other), *self.below(one, other)]
        paired = set(partner.values())
        for other in right:
            if other not in paired:
                found += [NodePair(None, other), *self.below(None, other)]
        return found

    def _partners(self, left: Sequence[str], right: Sequence[str]) -> dict[str, str]:
        partner: dict[str, str] = {}
        for place in (_by_site, _by_name, _by_root):
            waiting: dict[tuple[object, ...], list[str]] = defaultdict(list)
            paired = set(partner.values())
            for other in right:
                if other not in paired:
                    waiting[place(self._nodes[1][other])].append(other)
            for one in left:
                same = waiting.get(place(self._nodes[0][one])) if one not in partner else None
                if same:
                    partner[one] = same.pop(0)
        return partner


def _children(trace: TraceNodes) -> dict[str, list[str]]:
    """Ids by that of their parent, in order of declaration; the root is a child of ""."""
    found: dict[str, list[str]] = defaultdict(list)
    for node_id in trace.nodes:
        found[node_id.rpartition("/")[0]].append(node_id)
    return found


def _by_site(span: Span) -> tuple[object, ...]:
    return (*_by_name(span), span.attributes.get(names.NODE_SITE))


def _by_name(span: Span) -> tuple[object, ...]:
    return span.attributes[names.NODE_KIND], span.attributes.get(names.NODE_NAME)


def _by_root(span: Span) -> tuple[object, ...]:
    """The same for both roots, whatever their programs are called, and for no other node."""
    node_id = str(span.attributes[names.NODE_ID])
    return () if "/" not in node_id else (node_id, id(span))
