"""The ports of the language: what it needs of a run, and what a node needs of its scope.

The language imports no runtime. Code of a program runs in an `active` scope, which names the run
that takes the nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from agentrt.base.ids import NodeId, RunId
from agentrt.base.run_progress import RunProgress
from agentrt.program.budget import Budget
from agentrt.program.cost_budget import CostBudget

NodeT_contra = TypeVar("NodeT_contra", contravariant=True)


class Submit(Protocol[NodeT_contra]):
    """A run that takes nodes. All methods return at once."""

    @property
    def run_id(self) -> RunId:
        """The id of the run."""
        ...

    def now_s(self) -> float:
        """The current time on the run's clock."""
        ...

    def seed_of(self, node_id: NodeId) -> int:
        """The seed of a node: a function of the run's seed and the node's path only."""
        ...

    def declare(self, node: NodeT_contra, *, held: bool) -> None:
        """Take a new node; `node.work` is what it does. A held node waits for `release`."""
        ...

    def release(self, node: NodeT_contra) -> None:
        """Let a node start that was declared as held."""
        ...

    def demand(self, node: NodeT_contra) -> None:
        """Mark the node as awaited."""
        ...

    def withdraw(self, node: NodeT_contra) -> None:
        """Mark the node as no longer awaited."""
        ...

    def cancel(self, node: NodeT_contra, reason: str) -> None:
        """End the node without its value."""
        ...

    def close(self, node: NodeT_contra) -> None:
        """End the output of a generation validly, as soon as possible.

        Raises:
            Unsupported: The engine of the node cannot close outputs.
        """
        ...

    def check_model(self, role: str) -> None:
        """Check that an engine has this role.

        Raises:
            UsageError: No engine has it.
        """
        ...

    def token_counter(self, role: str) -> Callable[[str], int]:
        """The function that counts the tokens of a text as the engine of a role does.

        Raises:
            UsageError: No engine has the role, or its tokenizer is not known here.
        """
        ...

    def progress(self) -> RunProgress:
        """The path that has taken the time until now, for an error."""
        ...

    def emit(self, text: str) -> None:
        """Hand text to the caller of the run."""
        ...


@dataclass(slots=True, eq=False)
class LastWait:
    """The node that the code of a program has waited for last.

    Attributes:
        node_id: The node; None before the first wait.
        item: Index of the streamed item, or None for the whole value.
    """

    node_id: NodeId | None = None
    item: int | None = None


class OwningScope(Protocol):
    """The scope of a node, as the node and the runtime see it; see `Scope` for the attributes."""

    run: Submit[Any]
    owner: NodeId | None
    depth: int
    deadline_at_s: float | None
    block_deadline_at_s: float | None
    budgets: tuple[Budget, ...]
    cost_budgets: tuple[CostBudget, ...]
    close: bool
    cut_short: bool
    waited: LastWait

    def forget(self, node: Any) -> None:
        """Drop a node that has its value: there is no failure to report and nothing to await."""
        ...


active: ContextVar[OwningScope | None] = ContextVar("agentrt_scope", default=None)
"""The scope of the running code, or None outside a run."""
