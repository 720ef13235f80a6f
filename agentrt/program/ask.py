"""A question to a person, as a node."""

from __future__ import annotations

from typing import Any, TypeVar

from typing_extensions import TypeForm

from agentrt.program.call_site import call_site
from agentrt.program.node import Node
from agentrt.program.node_specs import AskWork
from agentrt.program.scope import here

T = TypeVar("T")


def ask(form: TypeForm[T], question: str) -> Node[T]:
    """Ask whoever watches the run; awaiting parks the program until the answer is there.

    The run's `on_ask` gives the answer, as a value or as text, which is checked against the type.

    Example:
        ```python
        if await ask(Literal["yes", "no"], "Send the report?") == "yes":
            await send(report)
        ```

    Args:
        form: The type of the answer.
        question: As shown.

    Raises:
        NoRun: Outside a run.
    """
    from pydantic import TypeAdapter

    scope = here("ask")
    adapter: TypeAdapter[T] = TypeAdapter(form)

    def parse(answer: Any) -> T:
        return (
            adapter.validate_strings(answer)
            if isinstance(answer, str)
            else (adapter.validate_python(answer))
        )

    work = AskWork(question, form, parse, scope.block_deadline_at_s)
    node: Node[T] = Node(scope, scope.next_id("ask"), "ask", "ask", call_site(), work)
    scope.adopt(node)
    return node
