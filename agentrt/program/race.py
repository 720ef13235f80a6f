"""Values in the order in which they arrive; leaving the block ends the rest."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import Token
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar

from agentrt.program.arrivals import Arrivals
from agentrt.program.node import Node, mark_handled
from agentrt.program.ports import OwningScope, active
from agentrt.program.scope import Scope, current_scope

T = TypeVar("T")


class race(Generic[T]):
    """Values in completion order; leaving the block cancels the nodes that still run.

    Use it if the first good answer is enough, or to start work on each value as it arrives.

    Example:
        >>> from agentrt import chat, program, race
        >>> @program
        ... async def first_even() -> int:
        ...     ask = chat().user("Name an even number.")
        ...     async with race([ask.generate(int, seed=i) for i in range(3)]) as finished:
        ...         async for number in finished:
        ...             if number % 2 == 0:
        ...                 return number
        ...     return 0
        >>> first_even.run()
        4

    Args:
        nodes: The nodes.
        errors: With "raise" the failure of a node is raised as it arrives, with "skip" it is left
            out.

    Attributes:
        pending: Number of nodes that have not been handed out yet.
        last: The node of the value handed out last.
        cancelled: Nodes that were cancelled when the block was left.

    Raises:
        NoRun: No run is active when the block is entered.
    """

    def __init__(
        self, nodes: Iterable[Node[T]], *, errors: Literal["raise", "skip"] = "raise"
    ) -> None:
        self._nodes = list(nodes)
        self._errors = errors
        self._arrivals: Arrivals[T] | None = None
        self._scope: Scope | None = None
        self._token: Token[OwningScope | None] | None = None
        self.pending = len(self._nodes)
        self.last: Node[T] | None = None
        self.cancelled: list[Node[T]] = []

    async def __aenter__(self) -> Self:
        self._scope = current_scope("race").block("race")
        self._token = active.set(self._scope)
        self._arrivals = Arrivals(self._nodes)
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        assert self._arrivals is not None, "use `async with race(...)`"
        while self.pending:
            node = await self._arrivals.next()
            self.pending -= 1
            self.last = node
            if node.error is None or self._errors == "raise":
                return await node
            mark_handled(node)
        raise StopAsyncIteration

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._arrivals is not None
        assert self._scope is not None
        assert self._token is not None
        self._arrivals.close()
        for node in self._nodes:
            mark_handled(node)
            if not node.done:
                self.cancelled.append(node)
                node.cancel("lost the race")
        try:
            await self._scope.leave(error)
        finally:
            active.reset(self._token)
