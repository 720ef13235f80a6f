"""A node: work that the scheduler already has, and the promise of its value."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import anyio

from agentrt.base.canonical_json import content
from agentrt.base.errors import DeadlineExceeded, NodeCancelled, NotYetKnown, ToolFailed, UsageError
from agentrt.base.ids import NodeId
from agentrt.base.json_style import JsonStyle
from agentrt.base.notifier import Notifier
from agentrt.base.segments import Hole, Segment, Text
from agentrt.program.call_site import call_site
from agentrt.program.ports import OwningScope, active
from agentrt.protocol.events import NodeKind

T_co = TypeVar("T_co", covariant=True)

OF_RUNTIME = frozenset({"held_options", "prompt", "replaced_prompt", "scope", "work", "written"})
"""Attributes of nodes that programs have no use for."""


class NodeWork:
    """The work of a node for the runtime; each kind of node has a record of its own."""

    __slots__ = ()


def note_wait(node: Node[Any], item: int | None = None) -> None:
    """Remember that the running code has waited for `node`, or for one item of it."""
    scope = active.get()
    if scope is not None:
        scope.waited.node_id = node.id
        scope.waited.item = item


class Node(Generic[T_co]):
    """A handle on work that is already submitted: the promise of its value.

    Programs, tools, questions and generations give nodes. Hold a node to let work run beside other
    work, and await it when the value is needed. Awaiting gives the value or raises the node's own
    error, as often as it is awaited. A cancelled wait withdraws demand and leaves the node running;
    `cancel` ends the node. No node outlives the scope that made it.

    Example:
        >>> from agentrt import chat, program
        >>> @program
        ... async def waters() -> str:
        ...     river = chat().user("Name a river.").generate()
        ...     lake = chat().user("Name a lake.").generate()  # runs beside the first
        ...     return f"{await river} and {await lake}"
        >>> waters.run()
        'Nile and Como'

    Attributes:
        id: Path of the node in its run, such as `finance#0/plan#0`.
        name: Name with few distinct values: that of the call site or of the tool.
        kind: `generate`, `tool`, `program` or `ask`.
        scope: The scope that owns the node, for the runtime.
        site: `file:line` in the user's program.
        work: The work for the runtime.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_demands",
        "_done",
        "_error",
        "_fails_as_text",
        "_observed",
        "_value",
        "_wake",
        "id",
        "kind",
        "name",
        "scope",
        "site",
        "work",
    )

    def __init__(
        self,
        scope: OwningScope,
        node_id: NodeId,
        kind: NodeKind,
        name: str,
        site: str,
        work: NodeWork,
    ) -> None:
        self.scope = scope
        self.id = node_id
        self.kind: NodeKind = kind
        self.name = name
        self.site = site
        self.work = work
        self._done = False
        self._value: Any = None
        self._error: Exception | None = None
        self._wake: Notifier | None = None
        self._demands = 0  # waits under way
        self._observed = False  # code has seen the end, so a failure is handled there
        self._fails_as_text = False  # a failure goes into a prompt, so it is handled
        self._callbacks: tuple[Callable[[Node[Any]], None], ...] = ()

    def __dir__(self) -> list[str]:
        """The names that a shell or a notebook completes: those that programs use."""
        return [name for name in super().__dir__() if name not in OF_RUNTIME]

    def __await__(self) -> Generator[Any, Any, T_co]:
        if not self._done:
            add_demand(self)
            try:
                yield from self._until_end().__await__()
            finally:
                drop_demand(self)
            note_wait(self)
        self._observed = True
        if self._error is not None:
            raise self._error
        value: T_co = self._value
        return value

    @property
    def done(self) -> bool:
        """Whether it has its value or its error."""
        return self._done

    @property
    def error(self) -> Exception | None:
        """The error of a node that failed or was cancelled, else None."""
        return self._error

    @property
    def cancelled(self) -> bool:
        """Whether it ended by being cancelled."""
        return isinstance(self._error, NodeCancelled)

    def cancel(self, reason: str = "") -> None:
        """End it without its value; awaiting it then raises `NodeCancelled`.

        A generation leaves the batch at the next step and keeps the text it has. A tool with
        effect `write` that has already started goes on; its node ends with `OutcomeUnknown`.
        """
        if not self._done:
            self.scope.run.cancel(self, reason or "cancelled by the program")

    def within(self, seconds: float) -> Coroutine[Any, Any, T_co]:
        """Await it for some seconds at most; then it is cancelled, and nothing else is.

        Example:
            >>> from agentrt import DeadlineExceeded, chat, program
            >>> @program
            ... async def river(seconds: float) -> str:
            ...     try:
            ...         return await chat().user("Name a river.").generate().within(seconds)
            ...     except DeadlineExceeded:
            ...         return "too late"
            >>> river.run(60.0), river.run(0.0001)
            ('Nile', 'too late')

        Args:
            seconds: Seconds from the wait on.

        Raises:
            UsageError: The seconds are not above 0.
            DeadlineExceeded: They are over; raised once the node has ended.
            OutcomeUnknown: They are over while a `write` tool is under way.
        """
        if not seconds > 0:
            raise UsageError(f"within({seconds!r}) is out of range", hint="Give seconds above 0")
        return self._wait_within(seconds, call_site())

    async def _wait_within(self, seconds: float, site: str) -> T_co:
        with anyio.move_on_after(seconds):
            return await self
        progress = self.scope.run.progress()
        self.cancel(f"took longer than {seconds:g} s")
        with anyio.CancelScope(shield=True):
            await wait_until_done(self)
        try:
            return await self  # it may have ended meanwhile, or be a tool whose end is not known
        except NodeCancelled:
            raise DeadlineExceeded(
                f"{self.label} took longer than {seconds:g} s",
                progress=progress,
                where=site,
                holds_content=False,
            ) from None

    @property
    def label(self) -> str:
        """The name in notes and messages, such as `tool:filings#4`."""
        return f"{self.kind}:{self.id.rpartition('/')[2]}"

    def _segment(self, *, as_answer: bool = False, style: JsonStyle = "compact") -> Segment:
        """See `segment_of`."""
        if not self._done:
            return Hole(self.id, generated=as_answer)
        if self._error is not None:
            if self._fails_as_text:
                return Text(f"error: {_reason(self._error)}")
            raise self._error
        try:
            return Text(content(self._value, style))
        except ValueError as error:
            raise UsageError(
                f"the value of {self.label} cannot stand in a prompt: {error}",
                hint="Return text, finite numbers, lists, dicts, dataclasses or pydantic models",
                where=self.site,
            ) from error

    def held_options(self) -> tuple[Any, ...]:
        """The options that the value gives to a `OneOf`: the items of a list, or the value itself.

        A failure that is reported as text gives none.

        Raises:
            NotYetKnown: The node is still pending.
            Exception: The node has failed, and its failure is not reported as text.
        """
        if self._error is not None and self._fails_as_text:
            return ()
        value = self.value
        return tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)

    @property
    def value(self) -> T_co:
        """The value of a node that is done.

        Raises:
            NotYetKnown: The node is still pending.
            Exception: The node has failed; this is its own error.
        """
        if not self._done:
            self._refuse("read")
        if self._error is not None:
            raise self._error
        value: T_co = self._value
        return value

    def _until_end(self) -> Coroutine[Any, Any, None]:
        """Wait for the end of a node that has not ended."""
        if self._wake is None:
            self._wake = Notifier()
        return self._wake.wait()

    def _end(self) -> None:
        self._done = True
        if self._wake is not None:
            self._wake.notify_all()
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(self)

    def _refuse(self, verb: str) -> NoReturn:
        state = "is a node, not its value," if self._done else "is still pending"
        raise NotYetKnown(f"node {self.name!r} {state} and cannot be {verb}")

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

    if not TYPE_CHECKING:  # type checkers refuse these by themselves

        def __add__(self, other: Any) -> NoReturn:
            self._refuse("concatenated")

        __radd__ = __add__

        def __lt__(self, other: Any) -> NoReturn:
            self._refuse("compared")

        __le__ = __gt__ = __ge__ = __lt__

        def __eq__(self, other: Any) -> bool:
            if other is None or isinstance(other, Node):
                return self is other
            self._refuse("compared")  # else a forgotten `await` is a branch not taken

        __hash__ = object.__hash__

        def __len__(self) -> NoReturn:
            self._refuse("measured")

        def __getitem__(self, key: Any) -> NoReturn:
            self._refuse("indexed")

        def __contains__(self, item: Any) -> NoReturn:
            self._refuse("searched")

        def __getattr__(self, name: str) -> NoReturn:
            problem = f"node {self.name!r} has no attribute {name!r}"
            if name.startswith("_"):  # of a protocol that a library looks for
                raise AttributeError(problem)
            raise AttributeOfNode(problem, hint="If its value has one, await it first")


class AttributeOfNode(NotYetKnown, AttributeError):
    """An attribute of a value was looked for at its node; `hasattr` sees an `AttributeError`."""


def _reason(error: Exception) -> str:
    """The text of a failure in a prompt: the tool's own message, if it has one."""
    if isinstance(error, ToolFailed) and error.attempts and error.__cause__ is not None:
        return str(error.__cause__) or type(error.__cause__).__name__
    return getattr(error, "message", "") or str(error)


# What follows is for the runtime, for scopes and for `gather` and `race`. It is no part of the
# class, so that users who complete the name of a node see what they use.


def add_demand(node: Node[Any]) -> None:
    """Count one more wait; the first one marks the node as demanded."""
    node._demands += 1
    if node._demands == 1 and not node._done:
        node.scope.run.demand(node)


def drop_demand(node: Node[Any]) -> None:
    """Count one wait less; the last one withdraws the demand."""
    node._demands -= 1
    if not node._demands and not node._done:
        node.scope.run.withdraw(node)


def mark_handled(node: Node[Any]) -> None:
    """Take any error of the node as dealt with."""
    node._observed = True


def report_failure_as_text(node: Node[Any]) -> None:
    """Let a failure stand in a prompt as text, so that it is no error of the program."""
    node._fails_as_text = True


def is_handled(node: Node[Any]) -> bool:
    """Whether code has seen the error, or a prompt will hold it as text."""
    return node._observed or node._fails_as_text


async def wait_until_done(node: Node[Any]) -> None:
    """Wait for the end without demanding it and without raising its error."""
    if not node._done:
        await node._until_end()


def segment_of(
    node: Node[Any], *, as_answer: bool = False, style: JsonStyle = "compact"
) -> Segment:
    """The part of a prompt that stands for the node: a hole while it is pending.

    Args:
        node: The node.
        as_answer: Whether the node is the answer to the prompt before it, or a part of one.
        style: Style of a value that is no text.

    Raises:
        Exception: The node has failed, and its failure is not reported as text.
        UsageError: The value has no text form.
    """
    return node._segment(as_answer=as_answer, style=style)


def succeed(node: Node[Any], value: Any) -> None:
    """Give a node its value."""
    node._value = value
    node.scope.forget(node)
    node._end()


def fail(node: Node[Any], error: Exception) -> None:
    """Give a node its error."""
    node._error = error
    node._end()


def when_done(node: Node[Any], callback: Callable[[Node[Any]], None]) -> None:
    """Call back at the end, or at once if the node has ended."""
    if node._done:
        callback(node)
    else:
        node._callbacks += (callback,)
