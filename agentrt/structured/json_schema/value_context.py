"""Context of a value: other schemas that hold beside one, and its type."""

from __future__ import annotations

from typing import Any

from agentrt.base.record import record
from agentrt.structured.json_schema.field_names import of_field
from agentrt.structured.json_schema.keywords import TYPES


@record
class ValueContext:
    """Context of a value of which a complement holds.

    Attributes:
        plain: Schemas that the value fits, without references and combinations.
        kinds: Types that the value may have.
    """

    plain: tuple[dict[str, Any], ...] = ()
    kinds: frozenset[str] = frozenset(TYPES)

    def fields(self, name: str) -> list[Any]:
        """Schemas that a field of the value fits, if it is there."""
        return [one for schema in self.plain for one in of_field(schema, name)]

    def names(self) -> list[str] | None:
        """All names that the fields of the value may have; None if they are not known."""
        for schema in self.plain:
            if schema.get("additionalProperties") is False and "patternProperties" not in schema:
                named = schema.get("properties", {})
                return [name for name in named if False not in self.fields(name)]
        return None


ANY_VALUE = ValueContext()
