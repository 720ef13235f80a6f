"""Answers that obey each constraint and say nothing: the shortest text that a type allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentrt.base.clock import Clock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import Unsupported
from agentrt.cli.checks.outputs import compiled
from agentrt.program.output import value_of
from agentrt.protocol.backend import GenerateRequest
from agentrt.testing import Reply, ScriptedBackend

FREE_TEXT = "text"
MOST_TOKENS = 4096
BYTES_OF_TOKEN = 8


class ShortestBackend(ScriptedBackend):
    """A scripted engine that gives the shortest answer to each request, whatever the prompt says.

    Its tokens are bytes, of which a token of a model spells several: limits are made wider.

    Args:
        clock: Clock of its event loop.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(_reply, clock=clock)

    def submit(self, request: GenerateRequest) -> None:
        most = request.sampling.max_tokens * BYTES_OF_TOKEN
        super().submit(replace(request, sampling=replace(request.sampling, max_tokens=most)))


def _reply(request: GenerateRequest, prompt: str) -> Reply:
    constraint = request.constraint
    if constraint is None:
        return Reply(FREE_TEXT, thinking=FREE_TEXT)
    return Reply(shortest_text(constraint), thinking=FREE_TEXT)  # an error fails the request


def shortest_text(constraint: ConstraintSpec) -> str:
    """The shortest text that a constraint allows, as far as one is found.

    Raises:
        ConstraintError: The constraint cannot be enforced.
        Unsupported: No end was found.
    """
    found = compiled(constraint).start().completion(MOST_TOKENS)
    if found is None:
        raise Unsupported(
            f"no text of at most {MOST_TOKENS} bytes that fits was found",
            hint="test it with answers of your own",
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
