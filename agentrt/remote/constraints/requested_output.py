"""The output that a request asks for, before any protocol has words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from agentrt.base.record import record
from agentrt.base.segments import ToolSchema

ToolChoice = Literal["none", "auto", "required", "named"]


@record
class OutputSchema:
    """A JSON Schema for the text of the answer.

    Attributes:
        schema: The schema.
        strict: Whether the server is asked to hold the model to it; the schema is in its subset.
    """

    schema: Mapping[str, Any]
    strict: bool = True


@record
class ToolOffer:
    """Tools that a request offers.

    Attributes:
        tools: The tools.
        choice: Whether the model must not, may or must call one, or must call `name`.
        name: The tool that it must call, if `choice` is "named".
        parallel: Whether it may call several at once; None leaves it to the server.
        strict: Whether the server is asked to hold arguments to their schemas.
    """

    tools: tuple[ToolSchema, ...]
    choice: ToolChoice
    name: str = ""
    parallel: bool | None = None
    strict: bool = False

    @property
    def forces(self) -> bool:
        """Whether the model has to call a tool."""
        return self.choice in ("required", "named")


@record
class RequestedOutput:
    """The output that a request asks for.

    Attributes:
        schema: Schema of the text; None without one.
        tools: Tools that are offered; None leaves those of the chat, which are not called.
        own: Fields by which one server alone takes a constraint.
    """

    schema: OutputSchema | None = None
    tools: ToolOffer | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
