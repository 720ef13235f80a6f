"""A node: work already handed to the scheduler, and the promise of its value."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from agentrt.base.errors import NodeCancelled, NotYetKnown
from agentrt.base.ids import NodeId
from agentrt.base.notifier import Notifier
from agentrt.program.scope import Scope, active
from agentrt.protocol.events import NodeKind

if TYPE_CHECKING:
    from agentrt.program.node_specs import Work

T_co = TypeVar("T_co", covariant=True)


def note_wait(node: Node[Any], item: int | None = None) -> None:
    """The code that runs has really waited for `node`, or for one item of it."""
    scope = active.get()
    if scope is not None:
        scope.waited.node_id = node.id
        scope.waited.item = item


class Node(Generic[T_co]):
    """A handle on work already submitted; it never outlives the scope that made it.

    Await it as often as you like: each time gives the value, or raises the node's own error.
    Cancelling a wait withdraws demand and leaves the node running; `cancel` ends it.

    Attributes:
        id: Path of the node in its run, such as `finance#0/plan#0`.
        name: Low in cardinality: the call site's name, a tool's name.
        kind: `generate`, `tool`, `program` or `ask`.
        site: `file:line` in the user's program.
        work: What the runtime has to do.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_done",
        "_error",
        "_observed",
        "_scope",
        "_told",
        "_value",
        "_waiting",
        "_wake",
        "id",
        "kind",
        "name",
        "site",
        "work",
    )

    def __init__(
        self, scope: Scope, node_id: NodeId, kind: NodeKind, name: str, site: str, work: Work
    ) -> None:
        self._scope = scope
        self.id = node_id
        self.kind: NodeKind = kind
        self.name = name
        self.site = site
        self.work = work
        self._done = False
        self._value: Any = None
        self._error: Exception | None = None
        self._wake: Notifier | None = None
        self._waiting = 0
        self._observed = False  # somebody awaited it: a failure is theirs to handle
        self._told = False  # its failure goes to a model as text, so a failure is handled
        self._callbacks: tuple[Callable[[Node[Any]], None], ...] = ()

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._wait().__await__()

    @property
    def done(self) -> bool:
        """Whether it has its value or its error."""
        return self._done

    @property
    def error(self) -> Exception | None:
        """Its error, when it failed or was cancelled."""
        return self._error

    @property
    def cancelled(self) -> bool:
        """Whether it ended by being cancelled."""
        return isinstance(self._error, NodeCancelled)

    def cancel(self, reason: str = "") -> None:
        """End it without its value; awaiting it then raises `NodeCancelled`.

        A generation leaves the batch at the next step and keeps the text it has. A tool with
        effect `write` that has already started is not interrupted.
        """
        if not self._done:
            self._scope.run.cancel(self, reason or "cancelled by the program")

    async def _wait(self) -> T_co:
        if not self._done:
            self.want()
            try:
                await self.settled()
            finally:
                self.unwant()
            note_wait(self)
        self._observed = True
        if self._error is not None:
            raise self._error
        return cast(T_co, self._value)

    # What follows is for the runtime, for scopes and for `gather` and `race`.

    def want(self) -> None:
        """One more waits for it; the first one marks it demanded."""
        self._waiting += 1
        if self._waiting == 1 and not self._done:
            self._scope.run.demand(self)

    def unwant(self) -> None:
        """One less waits for it."""
        self._waiting -= 1
        if not self._waiting and not self._done:
            self._scope.run.withdraw(self)

    def handled(self) -> None:
        """Whatever its error is, somebody deals with it."""
        self._observed = True

    @property
    def is_handled(self) -> bool:
        """Whether somebody has seen its error, or will be told of it."""
        return self._observed or self._told

    def tell(self) -> None:
        """Its failure will be told to a model as text; then it is no error of the program."""
        self._told = True

    @property
    def told(self) -> bool:
        """Whether its failure is text for a model."""
        return self._told

    async def settled(self) -> None:
        """Wait for the end without demanding it and without raising its error."""
        if not self._done:
            if self._wake is None:
                self._wake = Notifier()
            await self._wake.wait()

    @property
    def scope(self) -> Scope:
        """The scope that owns it."""
        return self._scope

    @property
    def label(self) -> str:
        """How notes and messages name it, such as `tool:filings#4`."""
        return f"{self.kind}:{self.id.rpartition('/')[2]}"

    @property
    def value(self) -> T_co:
        """The value of a node that is done.

        Raises:
            NotYetKnown: It is still pending.
        """
        if not self._done:
            self._refuse("read")
        if self._error is not None:
            raise self._error
        return cast(T_co, self._value)

    def succeed(self, value: Any) -> None:
        """Give it its value."""
        self._value = value
        self._scope.forget(self)
        self._settle()

    def fail(self, error: Exception) -> None:
        """Give it its error."""
        self._error = error
        self._settle()

    def when_done(self, callback: Callable[[Node[Any]], None]) -> None:
        """Call back at the end, or now when it has ended."""
        if self._done:
            callback(self)
        else:
            self._callbacks += (callback,)

    def _settle(self) -> None:
        self._done = True
        if self._wake is not None:
            self._wake.notify_all()
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(self)

    def _refuse(self, verb: str) -> NoReturn:
        raise NotYetKnown(f"node {self.name!r} is still pending and cannot be {verb}")

    def __repr__(self) -> str:
        state = "pending" if not self._done else "failed" if self._error else "done"
        return f"<{type(self).__name__} {self.id} {state}>"

    def __str__(self) -> NoReturn:
        self._refuse("made into text")

    def __format__(self, spec: str) -> NoReturn:
        self._refuse("formatted into text")

    def __bool__(self) -> NoReturn:
        self._refuse("tested for truth")

    def __iter__(self) -> NoReturn:
        self._refuse("iterated over")
