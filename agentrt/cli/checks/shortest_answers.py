"""Answers that obey each constraint and say nothing: the shortest text that a type allows."""

from __future__ import annotations

from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.cli.checks.outputs import compiled
from agentrt.program.output import value_of
from agentrt.protocol.backend import GenerateRequest
from agentrt.testing import Reply

FREE_TEXT = "text"
MOST_TOKENS = 4096


def shortest_reply(request: GenerateRequest, prompt: str) -> Reply:
    """The script of a backend: an answer to each request, whatever the prompt says."""
    constraint = request.constraint
    text = FREE_TEXT if constraint is None else shortest_text(constraint)
    return Reply(text, thinking=FREE_TEXT)


def shortest_text(constraint: ConstraintSpec) -> str:
    """The shortest text that a constraint allows, as far as one is found.

    Raises:
        ConstraintError: The constraint cannot be enforced, or no end was found.
    """
    found = compiled(constraint).start().completion(MOST_TOKENS)
    if found is None:
        raise ConstraintError(
            f"no text of at most {MOST_TOKENS} bytes that fits was found",
            hint="allow a shorter one",
        )
    return bytes(found).decode("utf-8", "replace")


def shortest_value(form: Any) -> Any:
    """A value of a type, made from the shortest text of it.

    Raises:
        Exception: The type is none that a model could write, such as that of an open file.
    """
    output = value_of(form)
    constraint = output.known_constraint
    return output.parse(FREE_TEXT if constraint is None else shortest_text(constraint))
