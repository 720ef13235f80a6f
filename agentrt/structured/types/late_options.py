"""Late options: places of a schema whose options are not known yet, and the holes they become.

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
        match here.get("enum"):
            case [str() as text] if text[:1] == STAND_IN and text[1:] in late:
                found.add(text[1:])
                return {"$ref": f"#/$defs/{text[1:]}", **without(here, "enum")}
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
