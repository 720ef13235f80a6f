"""Tools: functions that a program or a model calls, and the decorator that makes them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, overload

from agentrt.base.errors import ToolFailed, UsageError
from agentrt.base.record import record
from agentrt.base.segments import CallMade
from agentrt.program.call_site import call_site
from agentrt.program.node import Node, NodeWork
from agentrt.program.scope import Scope, current_scope
from agentrt.tools import Effects, ToolSpec

P = ParamSpec("P")
R = TypeVar("R")


@record
class ToolWork(NodeWork):
    """One tool call.

    Attributes:
        spec: The tool.
        arguments: The arguments by name, without those that are bound in `spec`.
        call: The call as a model made it, or None if the program calls.
        plan: The generation whose output holds that call.
        plan_item: Index of the call among those of `plan`.
        deadline_at_s: Deadline of a `limits` block around the call, or None.
        refused: Why the arguments do not fit the tool, or None if they do.
    """

    spec: ToolSpec
    arguments: Mapping[str, Any]
    call: CallMade | None = None
    plan: Node[Any] | None = None
    plan_item: int = 0
    deadline_at_s: float | None = None
    refused: ToolFailed | None = None


class Tool(Generic[P, R]):
    """A function with a schema, an effect class and limits. Calling it in a run gives a node.

    Attributes:
        spec: What it is.
    """

    __slots__ = ("spec",)

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    @property
    def name(self) -> str:
        """As a model calls it."""
        return self.spec.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Node[R]:
        """Start it now, beside whatever else runs.

        Raises:
            NoRun: Outside a run.
            UsageError: The arguments do not fit its signature.
        """
        scope = current_scope(f"tool {self.name}")
        arguments = self.spec.arguments(args, kwargs)
        deadline_at_s = scope.block_deadline_at_s
        return self._submit(scope, ToolWork(self.spec, arguments, deadline_at_s=deadline_at_s))

    def bind(self, **fixed: Any) -> Tool[..., R]:
        """This tool with some arguments fixed; a model does not see them.

        Raises:
            UsageError: It has no such parameter.
        """
        return Tool(self.spec.bind(**fixed))

    def start_call(
        self,
        arguments: Mapping[str, Any],
        call: CallMade,
        plan: Node[Any],
        plan_item: int,
        refused: ToolFailed | None,
    ) -> Node[R]:
        """Start a call that a model made; `ToolCall.start` is the way to do so."""
        scope = current_scope(f"tool {self.name}")
        deadline_at_s = scope.block_deadline_at_s
        return self._submit(
            scope, ToolWork(self.spec, arguments, call, plan, plan_item, deadline_at_s, refused)
        )

    def _submit(self, scope: Scope, work: ToolWork) -> Node[R]:
        for value in work.arguments.values():
            if isinstance(value, Node) and not value.done:
                raise UsageError(
                    f"tool {self.name} was given the pending node {value.name!r}",
                    hint="await it first",
                    where=call_site(),
                )
        for budget in scope.budgets:
            budget.count_call()
        name = self.name
        node: Node[R] = Node(scope, scope.next_id(name), "tool", name, call_site(), work)
        scope.adopt(node)
        return node

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What `tool(...)` was given; calling it with a function makes the tool."""

    effects: Effects
    timeout_s: float | None
    retries: int
    stable_for_s: float | None

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Tool[P, R]: ...
    def __call__(self, fn: Callable[P, Any], /) -> Tool[P, Any]:
        spec = ToolSpec.of(
            fn,
            effects=self.effects,
            timeout_s=self.timeout_s,
            retries=self.retries,
            stable_for_s=self.stable_for_s,
        )
        return Tool(spec)


@overload
def tool(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Tool[P, R]: ...
@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    effects: Effects = "write",
    timeout: float | None = None,
    retries: int = 0,
    stable_for: float | None = None,
) -> ToolOptions: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    effects: Effects = "write",
    timeout: float | None = None,
    retries: int = 0,
    stable_for: float | None = None,
) -> Any:
    """Makes a tool of a function; its schema comes from the signature and the docstring.

    `@tool` by itself makes one that may change anything: say more, and it may start sooner.

    Example:
        ```python
        @tool(effects="read", timeout=5)
        async def prices(ticker: str, days: int = 90) -> list[float]:
            "Daily closes, newest last."
            ...
        ```

    Args:
        fn: The function.
        effects: `pure` and `read` may be cancelled and tried again, `idempotent` tried again;
            `write` starts once, only when the model has finished asking, and is never interrupted.
        timeout: Seconds for one attempt.
        retries: How often to try again.
        stable_for: Seconds for which a result stays true, as told to the scheduler and in traces.
    """
    options = ToolOptions(effects, timeout, retries, stable_for)
    return options if fn is None else options(fn)
