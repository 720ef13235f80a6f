"""Questions to a person, as nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import TypeForm

from agentrt.base.record import record
from agentrt.program.call_site import call_site
from agentrt.program.node import Node, NodeWork
from agentrt.program.scope import current_scope

T = TypeVar("T")


@record
class AskWork(NodeWork):
    """One question to a person.

    Attributes:
        question: The text that is shown.
        form: The type of the answer.
        parse: Makes a value of that type from an answer that came as text or as a value.
        deadline_at_s: Deadline of a `limits` block around the call, or None.
    """

    question: str
    form: Any
    parse: Callable[[Any], Any]
    deadline_at_s: float | None = None


def ask(form: TypeForm[T], question: str) -> Node[T]:
    """Ask a person; awaiting parks the program until the answer is there.

    Use it for a decision that no model should take. The `on_ask` of the run's options gives the
    answer as a value or as text, which is checked against the type; `agentrt run` asks on the
    terminal.

    Example:
        >>> from typing import Literal
        >>> from agentrt import ask, program
        >>> @program
        ... async def report() -> str:
        ...     if await ask(Literal["yes", "no"], "Send the report?") == "yes":
        ...         return "sent"
        ...     return "kept"
        >>> report.run()
        'sent'

    Args:
        form: Type of the answer.
        question: Text that is shown.

    Raises:
        NoRun: No run is active.
        UsageError: Raised on awaiting, if the run has no `on_ask` or the answer does not fit.
    """
    from pydantic import TypeAdapter

    scope = current_scope("ask")
    adapter: TypeAdapter[T] = TypeAdapter(form)

    def parse(answer: Any) -> T:
        if isinstance(answer, str):
            return adapter.validate_strings(answer)
        return adapter.validate_python(answer)

    work = AskWork(question, form, parse, scope.block_deadline_at_s)
    node: Node[T] = Node(scope, scope.next_id("ask"), "ask", "ask", call_site(), work)
    scope.adopt(node)
    return node
