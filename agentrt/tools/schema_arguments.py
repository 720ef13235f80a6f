"""Arguments of a tool that come as a JSON Schema, such as those of a tool server."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from agentrt.base.record import record

if TYPE_CHECKING:
    from agentrt.tools.schema import ArgumentForm

OTHERS = "_others"
"""Name of the parameter for arguments that no Python name can hold."""


@record
class SchemaArguments:
    """The arguments, from JSON Schemas of one object.

    Attributes:
        shown: JSON Schema for prompts. Arguments that a model has written are checked against it.
        held: JSON Schema for constraints; it may allow more than `shown`.
    """

    shown: dict[str, Any]
    held: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arguments in the order of the schema."""
        return tuple(self.shown.get("properties", {}))

    def signature(self, bound: Collection[str]) -> inspect.Signature:
        """The arguments that are not bound, as the keywords of a function.

        Names such as `from` or `max-age` are given by `**`.
        """
        required = self.shown.get("required", ())
        left = [name for name in self.names if name not in bound]
        named = [name for name in left if _is_keyword_name(name)]
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if name in required else ...,
            )
            for name in named
        ]
        if len(named) < len(left):
            parameters.append(inspect.Parameter(OTHERS, inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature(parameters)

    def by_name(self, given: inspect.BoundArguments) -> dict[str, Any]:
        """The arguments of a call in a program, by the names in the schema."""
        named: dict[str, Any] = dict(given.arguments)
        others: dict[str, Any] = named.pop(OTHERS, {})
        return named | others

    def form(self, bound: Collection[str], name: str) -> ArgumentForm:
        """The arguments that are not bound, as a model writes them.

        Args:
            bound: Names of arguments that models do not see.
            name: Name of the tool, for messages.

        Raises:
            UsageError: The schema is no JSON Schema.
        """
        from agentrt.tools.schema import checked_form

        return checked_form(_without(self.shown, bound), _without(self.held, bound), name)


def _is_keyword_name(name: str) -> bool:
    """Whether a call can name an argument so without `**`."""
    return name.isidentifier() and not keyword.iskeyword(name) and name != OTHERS


def _without(schema: dict[str, Any], bound: Collection[str]) -> dict[str, Any]:
    """A schema of an object without some of its properties."""
    if not bound:
        return schema
    left = dict(schema)
    properties = schema.get("properties", {})
    left["properties"] = {name: one for name, one in properties.items() if name not in bound}
    if "required" in schema:
        left["required"] = [name for name in schema["required"] if name not in bound]
    return left
