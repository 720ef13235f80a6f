"""Late options: places of a schema whose options are not known yet, and the holes they become.

While a schema is rewritten and checked, an option of a kind of its own stands in for those to come.
At the end each such place becomes a reference to a definition that the constraint does not have.
"""

from __future__ import annotations

import json
from typing import Any

from agentrt.base.errors import ConstraintError
from agentrt.base.one_of import OneOf
from agentrt.structured.json_schema.keywords import with_children


class StandIn(str):
    """The option that stands in for those of a `OneOf` that are not known yet.

    Attributes:
        one_of: The options to come.
    """

    __slots__ = ("one_of",)
    one_of: OneOf

    def __deepcopy__(self, memo: object) -> StandIn:
        return self


def options_schema(one_of: OneOf, known: dict[OneOf, StandIn]) -> dict[str, Any]:
    """The schema of a value that equals an option.

    Args:
        one_of: The options.
        known: The stand-ins of the schema so far; a new one is added.
    """
    if not one_of.is_late:
        return {"enum": [json.loads(text) for text in one_of.texts]}
    if one_of not in known:
        known[one_of] = StandIn(f"options{len(known)}")
        known[one_of].one_of = one_of
    return {"enum": [known[one_of]]}


def late_options(schema: Any) -> dict[str, OneOf]:
    """The options to come in a schema, by the names of the holes for them."""
    return {name: one.one_of for name, one in _with_holes(schema)[1].items()}


def with_holes(schema: Any) -> tuple[Any, tuple[str, ...]]:
    """A schema with a reference for each place of late options, and the names of these holes.

    Raises:
        ConstraintError: Late options stand where no reference can.
    """
    whole, found = _with_holes(schema)
    if _has_stand_in(whole):
        raise ConstraintError(
            "OneOf stands where its options must be known when the type is declared",
            hint="Await the nodes first; keys of a dict and items of a set are such places",
        )
    return whole, tuple(found)


def _with_holes(schema: Any) -> tuple[Any, dict[str, StandIn]]:
    found: dict[str, StandIn] = {}
    taken = schema.get("$defs", {}) if isinstance(schema, dict) else {}

    def holed(here: Any) -> Any:
        if not isinstance(here, dict):
            return here
        match here.get("enum"):
            case [StandIn() as stand_in]:
                name = str(stand_in)
                while name in taken:
                    name += "_"
                found[name] = stand_in
                rest = {keyword: value for keyword, value in here.items() if keyword != "enum"}
                return {"$ref": f"#/$defs/{name}", **rest}
        return with_children(here, holed)

    return holed(schema), found


def _has_stand_in(value: Any) -> bool:
    match value:
        case dict():
            return any(_has_stand_in(one) for pair in value.items() for one in pair)
        case list():
            return any(map(_has_stand_in, value))
    return isinstance(value, StandIn)
