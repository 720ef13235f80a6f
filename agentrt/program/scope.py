"""Scopes own nodes: a program call, a `limits` block, a `race`.

A scope's end waits for the nodes nobody awaited, and no node outlives its scope. Nodes that are
generations have no task of their own, so ownership is kept here rather than in one task group a
scope; the tasks of tools and sub-programs are the run's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from agentrt.base.errors import NodeCancelled, NoRun, UsageError
from agentrt.base.ids import NodeId
from agentrt.program.call_site import call_site
from agentrt.program.ports import Submit

if TYPE_CHECKING:
    from agentrt.program.limits import Budget
    from agentrt.program.node import Node

R = TypeVar("R")
active: ContextVar[Scope | None] = ContextVar("agentrt_scope", default=None)


class Waited:
    """The last node that the code of a program really waited for.

    Attributes:
        node_id: The node; None when there was none yet.
        item: Index of its streamed item, or None for the whole value.
    """

    __slots__ = ("item", "node_id")

    def __init__(self) -> None:
        self.node_id: NodeId | None = None
        self.item: int | None = None


class Scope:
    """The nodes made in one block, and the limits they are under.

    Attributes:
        run: Where nodes go.
        path: Prefix of the ids of its nodes.
        owner: The program node whose body it is in; None for the run itself.
        deadline_at_s: Of the enclosing programs and blocks, or None.
        block_deadline_at_s: Of the enclosing `limits` blocks of the same program, or None.
        budgets: Token and call budgets in force, innermost first.
        close: Whether generations end validly at a limit unless they say otherwise.
        thread_id: The thread of the run's event loop; nodes are made there and nowhere else.
        waited: What the program's code has waited for, shared by its blocks.
        cut_short: Its code was cancelled while it waited: a deadline, or whoever called it.
        held: Collects new nodes that may not start yet, while `fan` makes them; else None.
    """

    __slots__ = (
        "_counts",
        "_ended",
        "_nodes",
        "block_deadline_at_s",
        "budgets",
        "close",
        "cut_short",
        "deadline_at_s",
        "held",
        "owner",
        "path",
        "run",
        "thread_id",
        "waited",
    )

    def __init__(
        self,
        run: Submit,
        path: str,
        owner: NodeId | None,
        *,
        deadline_at_s: float | None = None,
        block_deadline_at_s: float | None = None,
        budgets: tuple[Budget, ...] = (),
        close: bool = False,
        waited: Waited | None = None,
    ) -> None:
        self.run = run
        self.path = path
        self.owner = owner
        self.deadline_at_s = deadline_at_s
        self.block_deadline_at_s = block_deadline_at_s
        self.budgets = budgets
        self.close = close
        self.waited = waited or Waited()
        self.thread_id = get_ident()
        self.cut_short = False
        self.held: list[Node[Any]] | None = None
        self._counts: dict[str, int] = {}
        self._nodes: dict[Node[Any], None] = {}
        self._ended = False

    def next_id(self, name: str) -> NodeId:
        """The id of the next node with this name: path, name and index in the scope."""
        if "/" in name or "#" in name or not name:
            raise UsageError(f"{name!r} is no name of a node", hint="Leave out '/' and '#'")
        index = self._counts.get(name, 0)
        self._counts[name] = index + 1
        here = f"{name}#{index}"
        return NodeId(f"{self.path}/{here}" if self.path else here)

    def block(self, name: str) -> Scope:
        """A scope inside this one, of the same program, with the same limits."""
        return Scope(
            self.run,
            self.next_id(name),
            self.owner,
            deadline_at_s=self.deadline_at_s,
            block_deadline_at_s=self.block_deadline_at_s,
            budgets=self.budgets,
            close=self.close,
            waited=self.waited,
        )

    def body_of(self, node: Node[Any], deadline_at_s: float | None) -> Scope:
        """The scope of a program that was called in this one."""
        return Scope(
            self.run,
            node.id,
            node.id,
            deadline_at_s=sooner(self.deadline_at_s, deadline_at_s),
            budgets=self.budgets,
            close=self.close,
        )

    def behalf_of(self, node: Node[Any]) -> Scope:
        """A scope for what is made for one node of this one, with the same limits."""
        return Scope(
            self.run,
            node.id,
            self.owner,
            deadline_at_s=self.deadline_at_s,
            block_deadline_at_s=self.block_deadline_at_s,
            budgets=self.budgets,
            close=self.close,
        )

    def adopt(self, node: Node[Any]) -> None:
        """Own a new node and hand it to the run."""
        if self._ended:
            raise NoRun(
                f"{node.label} was made after its scope had ended",
                hint="Make nodes inside the program, or in tasks that end before it does",
                where=node.site,
            )
        self.run.declare(node, held=self.held is not None)
        self._nodes[node] = None
        if self.held is not None:
            self.held.append(node)

    def forget(self, node: Node[Any]) -> None:
        """A node ended well: nothing is left to wait for or to report."""
        self._nodes.pop(node, None)

    def handled(self) -> None:
        """Whatever becomes of the nodes, somebody deals with it."""
        for node in self._nodes:
            node.handled()

    def hand_over(self, outer: Scope) -> None:
        """Leave the nodes to an enclosing scope, whose end then waits for them."""
        outer._nodes.update(self._nodes)
        self._nodes = outer._nodes
        self._ended = True

    def cancel_all(self, reason: str) -> None:
        """End every node that is still under way."""
        for node in list(self._nodes):
            node.cancel(reason)

    async def settle(self) -> None:
        """Wait until every node has ended, also those added meanwhile."""
        while pending := [node for node in self._nodes if not node.done]:
            for node in pending:
                if not node.done:
                    await node.settled()
                    self.waited.node_id, self.waited.item = node.id, None

    async def end(self) -> None:
        """Wait for the nodes nobody awaited; raise what none of their users has seen.

        Raises:
            Exception: The one failure that nobody awaited, as itself.
            ExceptionGroup: Several of them.
        """
        for node in self._nodes:
            if not node.done:
                self.run.demand(node)
        try:
            await self.settle()
        except BaseException:
            await self.abandon("its scope was cancelled", cut_short=True)
            raise
        self._ended = True
        lost = self._lost()
        self._nodes = {}  # else chats of nodes that failed wait for the garbage collector
        if len(lost) == 1:
            raise lost[0]
        if lost:
            raise ExceptionGroup("nodes that failed and were never awaited", lost)

    async def abandon(self, reason: str, *, cut_short: bool) -> None:
        """Cancel what is under way and wait for it, whatever else is being cancelled.

        Args:
            reason: For those who await a node that is cancelled.
            cut_short: The scope's code was cancelled itself, it did not fail.
        """
        self.cut_short = cut_short
        with anyio.CancelScope(shield=True):
            self.cancel_all(reason)
            await self.settle()
        self._ended = True
        self._nodes = {}

    def _lost(self) -> list[Exception]:
        seen = {id(node.error) for node in self._nodes if node.is_handled}
        failed = {
            id(node.error): node.error
            for node in self._nodes
            if node.error is not None and not isinstance(node.error, NodeCancelled)
        }
        return [error for key, error in failed.items() if key not in seen]


async def in_scope(scope: Scope, body: Callable[[], Awaitable[R]]) -> R:
    """Run `body` with `scope` in force. Its own error wins and cancels the nodes it made."""
    token = active.set(scope)
    try:
        result = await body()
    except BaseException as error:
        await scope.abandon("its scope failed", cut_short=not isinstance(error, Exception))
        raise
    else:
        await scope.end()
    finally:
        active.reset(token)
    return result


def here(what: str) -> Scope:
    """The scope in force.

    Raises:
        NoRun: There is none.
    """
    scope = active.get()
    if scope is None:
        raise NoRun(f"{what} was used outside a run", where=call_site())
    if scope.thread_id != get_ident():
        raise NoRun(
            f"{what} was used in a worker thread",
            hint="Make nodes in the program, or in a tool that is `async def`",
            where=call_site(),
        )
    return scope


def sooner(one: float | None, other: float | None) -> float | None:
    """The earlier of two instants of which either may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
