"""Late options: places of a schema whose options are not written yet, and the holes they become.

While a schema is rewritten and checked, a text stands in for the options to come. In the constraint
each such place is a reference to a definition that the constraint does not have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentrt.base import canonical_json
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.held_place import STAND_IN, HeldPlace
from agentrt.structured.json_schema.keywords import with_children, without


def with_holes(spec: ConstraintSpec, late: Mapping[str, HeldPlace]) -> ConstraintSpec:
    """A constraint with a hole for each of its late options.

    Raises:
        ConstraintError: Late options stand where their text has been used, such as keys of a dict.
    """
    if not late:
        return spec
    found: set[str] = set()

    def holed(here: Any) -> Any:
        if not isinstance(here, dict):
            return here
        name = _name_in(here)
        if name in late:
            found.add(name)
            return {"$ref": f"#/$defs/{name}", **without(here, "enum")}
        return with_children(here, holed)

    source = spec.source
    if source and spec.kind in ("json", "calls"):
        source = canonical_json.dumps(holed(json.loads(source)))
    tools = tuple(replace(tool, parameters=holed(tool.parameters)) for tool in spec.tools)
    if found != late.keys():
        raise ConstraintError(
            "OneOf stands where its options must be known when the type is declared",
            hint="Await the nodes first; keys of a dict are such a place",
        )
    return replace(spec, source=source, tools=tools, holes=tuple(late))


def with_options(schema: Any, texts: Mapping[str, tuple[str, ...]]) -> Any:
    """A schema with the options of its late places.

    Args:
        schema: The schema with texts that stand in for them.
        texts: The options of each place, as JSON.
    """
    if not isinstance(schema, dict):
        return schema
    name = _name_in(schema)
    if name not in texts:
        return with_children(schema, lambda child: with_options(child, texts))
    if not texts[name]:
        return False
    return {**schema, "enum": [json.loads(text) for text in texts[name]]}


def _name_in(schema: dict[str, Any]) -> str:
    """The name of the late place that a schema stands for; "" if it is none."""
    match schema.get("enum"):
        case [str() as text] if text[:1] == STAND_IN:
            return text[1:]
    return ""
