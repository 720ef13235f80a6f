"""Nodes refuse to be used as values, and work outside a run is refused."""

from typing import Any

import pytest

from agentrt import NoRun, NotYetKnown, UsageError, ask, chat, limits, program, race, tool
from agentrt.program import Node, Scope
from agentrt.program.node import succeed


class Port:
    """Takes nodes and does nothing with them."""

    run_id = "0" * 16

    def declare(self, node: Node[Any], *, held: bool) -> None:
        assert not held


@tool(effects="pure")
def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@program
async def leaf() -> int:
    return 1


@pytest.fixture
def node() -> Node[Any]:
    scope = Scope(Port(), "finance#0", None)  # type: ignore[arg-type]
    return Node(scope, scope.next_id("plan"), "generate", "plan", "p.py:3", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("use", "verb"),
    [
        (str, "made into text"),
        (bool, "tested for truth"),
        (iter, "iterated over"),
        (lambda node: f"{node}", "formatted into text"),
        (lambda node: node.value, "read"),
        (lambda node: "Draft: " + node, "concatenated"),
        (lambda node: node + "!", "concatenated"),
        (len, "measured"),
        (lambda node: node[0], "indexed"),
        (lambda node: "x" in node, "searched"),
        (lambda node: node > 3, "compared"),
        (lambda node: node == "yes", "compared"),
        (lambda node: node != "yes", "compared"),
    ],
)
def test_a_pending_node_is_no_value(node: Node[Any], use: Any, verb: str) -> None:
    with pytest.raises(NotYetKnown, match=f"'plan' is still pending and cannot be {verb}") as e:
        use(node)
    assert "await it first" in str(e.value)
    assert isinstance(e.value, TypeError), "Python's own rule for a value of the wrong kind"


def test_a_node_that_has_ended_is_no_value_either(node: Node[Any]) -> None:
    succeed(node, 7)
    with pytest.raises(NotYetKnown, match="'plan' is a node, not its value, and cannot be"):
        _ = f"{node}"


def test_nodes_are_compared_by_identity(node: Node[Any]) -> None:
    scope = Scope(Port(), "finance#0", None)  # type: ignore[arg-type]
    other = Node[Any](scope, scope.next_id("plan"), "generate", "plan", "p.py:3", None)  # type: ignore[arg-type]
    assert node == node
    assert node != other
    assert node != None  # noqa: E711  # what libraries ask
    assert [other, node].index(node) == 1
    assert {node: 1}[node] == 1


def test_an_attribute_of_the_value_is_none_of_the_node(node: Node[Any]) -> None:
    with pytest.raises(AttributeError, match=r"'plan' has no attribute 'city'\. .* await it first"):
        node.city  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(node, "city")
    with pytest.raises(NotYetKnown):
        node.city  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(node, "__array__"), "what libraries look for"


def test_its_repr_is_for_people(node: Node[Any]) -> None:
    assert repr(node) == "<Node finance#0/plan#0 pending>"


def test_ids_are_path_name_and_index() -> None:
    scope = Scope(Port(), "finance#0", None)  # type: ignore[arg-type]
    assert [scope.next_id(name) for name in ("a", "b", "a")] == [
        "finance#0/a#0",
        "finance#0/b#0",
        "finance#0/a#1",
    ]
    with pytest.raises(UsageError, match="no name of a node"):
        scope.next_id("a/b")


@pytest.mark.parametrize(
    "make",
    [
        lambda: chat().user("x").generate(),
        lambda: chat().user("x").each(int),
        lambda: chat().user("x").calls(double),
        lambda: double(1),
        lambda: leaf(),
        lambda: ask(str, "?"),
        lambda: limits(seconds=1).__enter__(),
        lambda: race([]).__aenter__().send(None),
    ],
    ids=["generate", "each", "calls", "tool", "program", "ask", "limits", "race"],
)
def test_work_outside_a_run_is_refused(make: Any) -> None:
    with pytest.raises(NoRun, match="outside a run") as e:
        make()
    assert "test_node.py:" in e.value.where
    assert "runtime.run(program" in str(e.value)
    assert isinstance(e.value, RuntimeError)


def test_a_program_must_be_async() -> None:
    with pytest.raises(UsageError, match="no async function"):
        program(lambda: 1)  # type: ignore[arg-type,return-value]


def test_a_deadline_must_be_positive() -> None:
    with pytest.raises(UsageError, match="deadline=-1"):
        program(deadline=-1)(leaf.fn)
