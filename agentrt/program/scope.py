"""Scopes own nodes: a program call, a `limits` block, a `race`.

The end of a scope waits for the nodes that were not awaited, and no node outlives its scope.
Generations have no task of their own, so ownership is kept here rather than in one task group a
scope; the tasks of tools and sub-programs belong to the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import InitVar, dataclass, field
from threading import get_ident
from typing import Any, TypeVar

import anyio

from agentrt.base.errors import NodeCancelled, NoRun, UsageError
from agentrt.base.ids import NodeId
from agentrt.program.budget import Budget
from agentrt.program.call_site import call_site, task_site
from agentrt.program.cost_budget import CostBudget
from agentrt.program.node import Node, is_handled, mark_handled, wait_until_done
from agentrt.program.ports import LastWait, OwningScope, Submit, active

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class Scope:
    """The nodes made in one block, and the limits they are under.

    Args:
        outer: The scope with limits that hold here too, or None.

    Attributes:
        run: The run that takes the nodes.
        path: Prefix of the ids of the nodes.
        owner: The program node of the code; None for the run itself.
        depth: Programs around the code.
        deadline_at_s: Deadline of the enclosing programs and blocks, or None.
        block_deadline_at_s: Deadline of the enclosing `limits` blocks of the same program, or None.
        budgets: Token and call budgets in force, innermost first.
        cost_budgets: Budgets of money in force, likewise.
        close: Whether generations end validly at a limit unless their options say otherwise.
        thread_id: The thread of the run's event loop, in which all nodes are made.
        waited: The last wait of the program's code, shared by the blocks of the program.
        cut_short: Whether its code was cancelled while it waited, by a deadline or by its caller.
        held: Collects new nodes that may not start yet, while `fan` makes them; else None.
        site: Call site of the program or the node that the code is part of.
    """

    run: Submit[Node[Any]]
    path: str
    owner: NodeId | None
    outer: InitVar[OwningScope | None] = None
    depth: int = 0
    deadline_at_s: float | None = None
    block_deadline_at_s: float | None = None
    budgets: tuple[Budget, ...] = ()
    cost_budgets: tuple[CostBudget, ...] = ()
    close: bool = False
    waited: LastWait = field(default_factory=LastWait)
    thread_id: int = field(default_factory=get_ident)
    cut_short: bool = False
    held: list[Node[Any]] | None = None
    site: str = ""
    _counts: dict[str, int] = field(default_factory=dict)
    _nodes: dict[Node[Any], None] = field(default_factory=dict)
    _ended: bool = False

    def __post_init__(self, outer: OwningScope | None) -> None:
        if outer is not None:
            self.depth = outer.depth
            self.deadline_at_s = outer.deadline_at_s
            self.block_deadline_at_s = outer.block_deadline_at_s
            self.budgets = outer.budgets
            self.cost_budgets = outer.cost_budgets
            self.close = outer.close

    @classmethod
    def of_program(cls, node: Node[Any], deadline_at_s: float | None) -> Scope:
        """The scope of the body of a program node."""
        outer = node.scope
        scope = cls(outer.run, node.id, node.id, outer=outer, site=node.site)
        scope.deadline_at_s = sooner(scope.deadline_at_s, deadline_at_s)
        scope.block_deadline_at_s = None
        scope.depth += 1
        return scope

    @classmethod
    def of_callback(cls, node: Node[Any]) -> Scope:
        """The scope of code that is called for the sake of a node, under the node's limits."""
        return cls(node.scope.run, node.id, node.scope.owner, outer=node.scope, site=node.site)

    def next_id(self, name: str) -> NodeId:
        """The id of the next node with this name: path, name and index in the scope.

        Raises:
            UsageError: The name is empty, or holds a `/` or a `#`.
        """
        index = self._counts.get(name)
        if index is None:
            if "/" in name or "#" in name or not name:
                raise UsageError(f"{name!r} is no name of a node", hint="Leave out '/' and '#'")
            index = 0
        self._counts[name] = index + 1
        here = f"{name}#{index}"
        return NodeId(f"{self.path}/{here}" if self.path else here)

    def block(self, name: str) -> Scope:
        """A scope inside this one, of the same program, with the same limits."""
        scope = Scope(self.run, self.next_id(name), self.owner, outer=self)
        scope.waited = self.waited
        return scope

    def adopt(self, node: Node[Any]) -> None:
        """Own a new node and hand it to the run.

        Raises:
            NoRun: The scope has ended.
        """
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
        """Drop a node that has its value: there is no failure to report and nothing to await."""
        self._nodes.pop(node, None)

    def mark_handled(self) -> None:
        """Take the failures of all nodes as dealt with."""
        for node in self._nodes:
            mark_handled(node)

    def hand_over(self, outer: Scope) -> None:
        """Leave the nodes to an enclosing scope, which then waits for them."""
        outer._nodes.update(self._nodes)
        self._nodes = outer._nodes
        self._ended = True

    def cancel_all(self, reason: str) -> None:
        """Cancel every node that has not ended."""
        for node in list(self._nodes):
            node.cancel(reason)

    async def wait_until_done(self) -> None:
        """Wait until every node has ended, those added meanwhile included."""
        while pending := [node for node in self._nodes if not node.done]:
            for node in pending:
                if not node.done:
                    await wait_until_done(node)
                    self.waited.node_id, self.waited.item = node.id, None

    async def end(self) -> None:
        """Wait for the nodes that were not awaited; raise the failures that no code has seen.

        Raises:
            Exception: The failure, if it is the only one.
            ExceptionGroup: Several failures.
        """
        if not self._nodes:  # every node has its value
            self._ended = True
            return
        for node in self._nodes:
            if not node.done:
                self.run.demand(node)
        try:
            await self.wait_until_done()
        except BaseException:
            await self.abandon("its scope was cancelled", cut_short=True)
            raise
        self._ended = True
        unseen = self._unseen()
        self._nodes = {}  # else the chats of failed nodes wait for the garbage collector
        if len(unseen) == 1:
            raise unseen[0]
        if unseen:
            raise ExceptionGroup("nodes that failed and were never awaited", unseen)

    async def leave(self, error: BaseException | None) -> None:
        """End with the code of the scope: await the nodes, or cancel them if the code failed."""
        if error is None:
            await self.end()
        else:
            await self.abandon("its scope failed", cut_short=not isinstance(error, Exception))

    async def abandon(self, reason: str, *, cut_short: bool) -> None:
        """Cancel the nodes and wait for their ends, even while the caller is being cancelled.

        Args:
            reason: Stands in the `NodeCancelled` of the cancelled nodes.
            cut_short: Whether the code of the scope was itself cancelled rather than failed.
        """
        self.cut_short = cut_short
        with anyio.CancelScope(shield=True):
            self.cancel_all(reason)
            await self.wait_until_done()
        self._ended = True
        self._nodes = {}

    def _unseen(self) -> list[Exception]:
        seen = {id(node.error) for node in self._nodes if is_handled(node)}
        failed = {
            id(node.error): node.error
            for node in self._nodes
            if node.error is not None and not isinstance(node.error, NodeCancelled)
        }
        return [error for key, error in failed.items() if key not in seen]


async def in_scope(scope: Scope, body: Callable[[], Awaitable[R]]) -> R:
    """Run `body` with `scope` active and give its result.

    Raises:
        BaseException: The body's own error, which cancels the nodes of the scope, or a failure of
            one of them that no code has seen.
    """
    token = active.set(scope)
    site_token = task_site.set(scope.site)
    try:
        result = await body()
    except BaseException as error:
        await scope.leave(error)
        raise
    else:
        await scope.end()
    finally:
        active.reset(token)
        task_site.reset(site_token)
    return result


def current_scope(what: str) -> Scope:
    """The active scope; `what` is the user for whom it is looked up, such as `generate`.

    Raises:
        NoRun: No scope is active, or the caller is in a worker thread.
    """
    scope = active.get()
    if not isinstance(scope, Scope):
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
