"""The port through which the language hands work to whatever runtime is active.

The language imports no runtime: it knows this protocol and the scope in force, which holds one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from agentrt.base.ids import NodeId, RunId
from agentrt.base.run_progress import RunProgress

if TYPE_CHECKING:
    from agentrt.program.node import Node


class Submit(Protocol):
    """A run that takes nodes. All methods return at once."""

    @property
    def run_id(self) -> RunId:
        """The run."""
        ...

    def now_s(self) -> float:
        """Now, on the run's clock."""
        ...

    def seed_of(self, node_id: NodeId) -> int:
        """The seed of a node: from the run's seed and the node's path only."""
        ...

    def declare(self, node: Node[Any], *, held: bool) -> None:
        """Take a new node; `node.work` says what it is. One that is held waits for `release`."""
        ...

    def release(self, node: Node[Any]) -> None:
        """A node that was declared as held may start."""
        ...

    def demand(self, node: Node[Any]) -> None:
        """Somebody waits for the node."""
        ...

    def withdraw(self, node: Node[Any]) -> None:
        """Nobody waits for the node any more."""
        ...

    def cancel(self, node: Node[Any], reason: str) -> None:
        """End the node without its value."""
        ...

    def close(self, node: Node[Any]) -> None:
        """End the output of a generation validly, as soon as it can.

        Raises:
            Unsupported: Its engine cannot.
        """
        ...

    def check_model(self, role: str) -> None:
        """Raises `UsageError` when no engine has this role."""
        ...

    def progress(self) -> RunProgress:
        """What took the time until now, for an error."""
        ...

    def emit(self, text: str) -> None:
        """Hand text to the caller of the run."""
        ...
