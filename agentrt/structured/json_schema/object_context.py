"""An object as it is described by other schemas that hold beside one."""

from __future__ import annotations

from typing import Any

from agentrt.base.record import record


@record
class ObjectContext:
    """The other schemas of an object, beside the complement that holds.

    Attributes:
        plain: Schemas without references and combinations.
    """

    plain: tuple[dict[str, Any], ...] = ()

    def fields(self, name: str) -> list[Any]:
        """Schemas that a field fits, if it is there."""
        found = []
        for schema in self.plain:
            if name in schema.get("properties", {}):
                found.append(schema["properties"][name])
            elif "patternProperties" not in schema and "additionalProperties" in schema:
                found.append(schema["additionalProperties"])
        return found

    def names(self) -> list[str] | None:
        """All names that its fields may have; None if they are not known."""
        for schema in self.plain:
            if schema.get("additionalProperties") is False and "patternProperties" not in schema:
                named = schema.get("properties", {})
                return [name for name in named if False not in self.fields(name)]
        return None


ANY_OBJECT = ObjectContext()
