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
from agentrt.base.one_of import OneOf
from agentrt.structured.json_schema.keywords import with_children, without

_MARK = "\ue000"
"""First character of a text that stands in for options: one that has no meaning of its own."""


def options_schema(one_of: OneOf, late: dict[str, OneOf]) -> dict[str, Any]:
    """The schema of a value that equals an option.

    Args:
        one_of: The options.
        late: Late options of the whole schema so far, by the names of their holes; new ones are
            added.
    """
    if not one_of.is_late:
        return {"enum": [json.loads(text) for text in one_of.texts]}
    name = next((name for name, known in late.items() if known is one_of), f"options:{len(late)}")
    late[name] = one_of
    return {"enum": [_MARK + name]}


def with_holes(spec: ConstraintSpec, late: Mapping[str, OneOf]) -> ConstraintSpec:
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
            case [str() as text] if text[:1] == _MARK and text[1:] in late:
                found.add(text[1:])
                return {"$ref": f"#/$defs/{text[1:]}", **without(here, "enum")}
        return with_children(here, holed)

    whole = holed(json.loads(spec.source)) if spec.kind in ("json", "calls") else None
    if found != late.keys():
        raise ConstraintError(
            "OneOf stands where its options must be known when the type is declared",
            hint="Await the nodes first; keys of a dict and items of a set are such places",
        )
    return replace(spec, source=canonical_json.dumps(whole), holes=tuple(late))
