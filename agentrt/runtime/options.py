"""Options of one run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.base.ids import NodeId, RunId
from agentrt.tools import OnTool, OnWrite

if TYPE_CHECKING:
    from agentrt.base.money import Amount


@dataclass(frozen=True, slots=True)
class PersonQuestion:
    """A question of a program to a person.

    Example:
        >>> from agentrt import PersonQuestion, RunOptions, ask, program
        >>> from agentrt.testing import ScriptedRuntime
        >>> @program
        ... async def confirm() -> bool:
        ...     return await ask(bool, "Send the report?")
        >>> def decide(question: PersonQuestion) -> bool:
        ...     return "report" in question.text
        >>> ScriptedRuntime([], on_ask=decide).run(confirm).value
        True

    Attributes:
        node_id: The node that waits for the answer.
        text: The text that is shown.
        form: The type of the answer.
    """

    node_id: NodeId
    text: str
    form: Any


OnAsk = Callable[[PersonQuestion], "Awaitable[Any] | Any"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run; options that are None come from the `RunConfig` of the runtime.

    Give them by `runtime.with_options(...)`, for a run with a deadline, a seed or a tenant of its
    own.

    Example:
        >>> import anyio
        >>> from agentrt import ask, program
        >>> from agentrt.runtime import Runtime
        >>> from agentrt.testing import LoopClock, ScriptedBackend
        >>> @program
        ... async def confirm() -> bool:
        ...     return await ask(bool, "Send the report?")
        >>> async def main() -> bool:
        ...     backend = ScriptedBackend([], clock=LoopClock())
        ...     async with Runtime({"default": (backend, None)}) as runtime:
        ...         options = RunOptions(on_ask=lambda question: "yes")
        ...         return await runtime.with_options(options).run(confirm)
        >>> anyio.run(main)
        True

    Attributes:
        run_id: 16 hex digits; None makes one.
        seed: Seed from which every node derives its own.
        deadline_s: Seconds for the whole run.
        on_emit: Takes the text that the program emits, as it comes.
        on_ask: Answers the program's questions, with a value or with text.
        tenant: Name of the tenant; tenants share the engines evenly, however many runs each has.
        priority: Priority over (or, if negative, below) other runs of the tenant.
        session: Name that joins runs of the tenant which are steps of one program elsewhere: their
            service and waits count together. "" for none.
        true_service_s: Service of the engines that the run will need, if a replay knows it, for
            the policies "oracle" and "clairvoyant".
        true_kv_tokens: Peak of the KV that it will need of an engine, if a replay knows it, for the
            policy "clairvoyant".
        true_longest_tokens: Longest context that one of its generations will reach, likewise.
        cache_salt: Runs share prefixes and generations only with runs of the same salt.
        max_depth: Programs inside one another.
        max_nodes: Nodes that the run makes in all.
        max_running: Bodies of programs, tools and questions that have not ended.
        max_cost: Money for all generations of the run, as `limits(cost=...)` around its program.
        on_write: Makes each call of a `write` tool, for example to log it first.
        on_tool: Makes each attempt of any tool, in place of `on_write`; a replay gives its result
            without making the call.
        traceparent: Span of the caller, as the W3C header of that name; None takes the current
            OpenTelemetry span, if there is one.
        tracestate: The W3C header of that name which came with it; "" for none.
        unread_events: Most events of a started run that wait to be read; the oldest go first.
        keeps_prefixes: Whether later runs may continue from the prompts of this one, such as those
            of a chat that a client keeps; engines then keep the prefixes when the run ends.
    """

    run_id: RunId | None = None
    seed: int | None = None
    deadline_s: float | None = None
    on_emit: Callable[[str], None] | None = None
    on_ask: OnAsk | None = None
    tenant: str = ""
    priority: int = 0
    session: str = ""
    true_service_s: float | None = None
    true_kv_tokens: float | None = None
    true_longest_tokens: float | None = None
    cache_salt: str = ""
    keeps_prefixes: bool = False
    max_depth: int | None = None
    max_nodes: int | None = None
    max_running: int | None = None
    max_cost: Amount | None = None
    on_write: OnWrite | None = None
    on_tool: OnTool | None = None
    traceparent: str | None = None
    tracestate: str = ""
    unread_events: int = 1000
