"""Tools: functions that a program or a model calls, and the decorator that makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, overload

from agentrt.base.errors import ToolFailed, UsageError
from agentrt.base.record import record
from agentrt.base.segments import CallMade
from agentrt.program.call_site import call_site
from agentrt.program.node import Node, NodeWork
from agentrt.program.scope import Scope, current_scope
from agentrt.program.yielding import YieldingNode
from agentrt.tools import BACKOFF_S, Backoff, Effects, ToolSpec

P = ParamSpec("P")
R = TypeVar("R")


@record
class ToolWork(NodeWork):
    """One tool call.

    Attributes:
        spec: The tool.
        arguments: The arguments by name, without those that are bound in `spec`.
        call: The call as a model made it, or None if the program calls.
        plan: The generation with that call in its output.
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
    """A function with a schema, an effect class and limits; `@tool` makes one.

    Inside a run, a call starts the tool and gives a node. `chat.calls(...)` and `chat.step(...)`
    offer tools to a model.

    Example:
        >>> from agentrt import program, tool
        >>> @tool(effects="pure")
        ... def price(symbol: str, currency: str = "USD") -> float:
        ...     "The price of a share."
        ...     return 98.5
        >>> @program
        ... async def twice(symbol: str) -> float:
        ...     return 2 * await price(symbol)
        >>> twice.run("IBM")
        197.0
        >>> list(price.bind(currency="EUR").spec.parameters["properties"])  # as models see it
        ['symbol']

    Attributes:
        spec: Name, schema, effects and limits.
    """

    __slots__ = ("spec",)

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    @property
    def name(self) -> str:
        """The name by which models call it."""
        return self.spec.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Node[R]:
        """Start it now, beside other nodes.

        Raises:
            NoRun: No run is active.
            UsageError: The arguments do not fit the signature, or one of them is a pending node.
            BudgetExceeded: A `limits` block has no call left.
        """
        scope = current_scope(f"tool {self.name}")
        arguments = self.spec.arguments(args, kwargs)
        deadline_at_s = scope.block_deadline_at_s
        return self._submit(scope, ToolWork(self.spec, arguments, deadline_at_s=deadline_at_s))

    def bind(self, **fixed: Any) -> Tool[..., R]:
        """This tool with some arguments fixed, which models then do not see.

        Raises:
            UsageError: The tool has no such parameter.
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
        """Start a call that a model made; use `ToolCall.start`."""
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
        kind = YieldingNode if work.spec.yields else Node
        node: Node[R] = kind(scope, scope.next_id(name), "tool", name, call_site(), work)
        scope.adopt(node)
        return node

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """The options of `@tool(...)`, which make a tool of a function."""

    effects: Effects
    timeout_s: float | None
    retries: int
    backoff: Backoff
    stable_for_s: float | None
    max_result_bytes: int | None
    process: bool
    memory_bytes: int | None
    env: Sequence[str]

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, AsyncIterator[str]], /) -> Tool[P, str]: ...
    @overload
    def __call__(self, fn: Callable[P, Iterator[str]], /) -> Tool[P, str]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Tool[P, R]: ...
    def __call__(self, fn: Callable[P, Any], /) -> Tool[P, Any]:
        spec = ToolSpec.of(
            fn,
            effects=self.effects,
            timeout_s=self.timeout_s,
            retries=self.retries,
            backoff=self.backoff,
            stable_for_s=self.stable_for_s,
            max_result_bytes=self.max_result_bytes,
            process=self.process,
            memory_bytes=self.memory_bytes,
            env=self.env,
        )
        return Tool(spec)


@overload
def tool(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Tool[P, R]: ...
@overload
def tool(fn: Callable[P, AsyncIterator[str]], /) -> Tool[P, str]: ...
@overload
def tool(fn: Callable[P, Iterator[str]], /) -> Tool[P, str]: ...
@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    effects: Effects = "write",
    timeout: float | None = None,
    retries: int = 0,
    backoff: Backoff = BACKOFF_S,
    stable_for: float | None = None,
    max_result_bytes: int | None = None,
    process: bool = False,
    memory_bytes: int | None = None,
    env: Sequence[str] = (),
) -> ToolOptions: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    effects: Effects = "write",
    timeout: float | None = None,
    retries: int = 0,
    backoff: Backoff = BACKOFF_S,
    stable_for: float | None = None,
    max_result_bytes: int | None = None,
    process: bool = False,
    memory_bytes: int | None = None,
    env: Sequence[str] = (),
) -> Any:
    """Make a tool of a function; its schema comes from the signature and the docstring.

    Use it for each function that a model may call, and for slow or remote functions that a program
    calls. The result of a generator, async or not, is the text that it yields, which goes into
    prompts as it comes. `@tool` by itself makes one that may change anything: with `effects` it may
    start sooner.

    Example:
        >>> from agentrt import tool
        >>> @tool(effects="read", timeout=5)
        ... async def prices(ticker: str, days: int = 90) -> list[float]:
        ...     "Daily closes, newest last."
        ...     return [98.5] * days
        >>> prices
        <Tool prices>
        >>> prices.spec.schema.description
        'Daily closes, newest last.'

    Args:
        fn: The function.
        effects: `pure` and `read` tools may be cancelled and tried again, `idempotent` ones tried
            again; a `write` tool starts once, when the model has finished its plan, and is never
            cut short: a timeout, a deadline or a cancellation ends the wait with `OutcomeUnknown`.
        timeout: Seconds for one attempt.
        retries: How often to try again.
        backoff: Seconds before the second attempt, twice as many before each further one, at most
            5; or a function of the number of the attempt that has failed, 1 for the first.
        stable_for: Seconds for which a result stays true, for the scheduler and for traces.
        max_result_bytes: Limit on the text of a result; None takes that of `RunConfig`.
        process: Whether each call runs in a process of its own, which a crash, a deadline or a
            cancellation ends alone (a `write` tool is not ended). Arguments and results are JSON.
        memory_bytes: Limit on the address space of that process.
        env: Environment variables for that process, beside those such as `PATH` and `HOME`.

    Raises:
        UsageError: The signature has no schema, or an option is out of range.
    """
    options = ToolOptions(
        effects,
        timeout,
        retries,
        backoff,
        stable_for,
        max_result_bytes,
        process,
        memory_bytes,
        env,
    )
    return options if fn is None else options(fn)
