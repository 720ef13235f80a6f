"""Relaxing a JSON Schema that cannot be enforced as a whole: a schema that allows more.

Keywords that no grammar enforces are removed at once, the others one by one, as the structural
check names them. The rest must not forbid what the original allows: `oneOf`, which a weaker branch
would make stricter, becomes a list of alternatives.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.record import record
from agentrt.structured.json_schema.keywords import REFUSED, subschemas

MAX_DROPPED = 256


@record
class Relaxed:
    """The part of a schema that is enforced.

    Attributes:
        spec: Spec of that part.
        schema: Schema of that part.
        dropped: Pointers to the parts left to a check of the value, in normal form.
    """

    spec: ConstraintSpec
    schema: Any
    dropped: tuple[str, ...]


def relaxed(
    schema: Any, spec_of: Callable[[Any], ConstraintSpec], checkable: Callable[[str, Any], bool]
) -> Relaxed:
    """`schema` without the parts that cannot be enforced.

    Args:
        schema: A schema in normal form.
        spec_of: The spec of a schema; refuses what cannot be enforced, with pointer and keyword.
        checkable: Whether a keyword with this value is covered by the check of the value.

    Raises:
        ConstraintError: A part can neither be enforced nor checked, or nearly nothing is left.
    """
    try:
        return Relaxed(spec_of(schema), schema, ())
    except ConstraintError:
        schema, dropped = _without_refused(schema, checkable)
    while True:
        try:
            return Relaxed(spec_of(schema), schema, tuple(dropped))
        except ConstraintError as refused:
            if len(dropped) >= MAX_DROPPED or "Unsatisfiable" in refused.message:
                raise  # no value would ever pass
            weaker = _weaker(schema, refused, checkable)
            if weaker == schema:
                raise
            schema = weaker
            dropped.append(refused.pointer or "/")


def _without_refused(root: Any, checkable: Callable[[str, Any], bool]) -> tuple[Any, list[str]]:
    """`root` without all keywords that no grammar enforces, and their pointers."""
    weaker: Any = copy.deepcopy(root)
    dropped: list[str] = []
    for pointer, here, _ in subschemas(weaker):
        if not isinstance(here, dict):
            continue
        found = [name for name in here if name in REFUSED and checkable(name, here[name])]
        for keyword in found:
            del here[keyword]
        if "oneOf" in here:
            _as_alternatives(here)
            found.append("oneOf")
        dropped += [f"{pointer}/{keyword}" for keyword in found]
    return weaker, dropped


def _weaker(root: Any, refused: ConstraintError, checkable: Callable[[str, Any], bool]) -> Any:
    """`root` without the refused part."""
    weaker: Any = copy.deepcopy(root)
    parts = [part.replace("~1", "/").replace("~0", "~") for part in refused.pointer.split("/")[1:]]
    if refused.keyword and parts and parts[-1] == refused.keyword:
        parts.pop()
    path = [weaker]
    for part in parts:
        here = path[-1]
        path.append(here[int(part)] if isinstance(here, list) else here[part])
    here = path[-1]
    if not isinstance(here, dict):
        raise refused
    if refused.keyword and refused.keyword in here:
        if not checkable(refused.keyword, here[refused.keyword]):
            raise refused
        _drop(here, refused.keyword)
    else:  # no single keyword is the cause
        kept = {name: here[name] for name in ("type", "$defs", "definitions") if name in here}
        alone = {name: kept[name] for name in kept if kept.keys() != here.keys() or name != "type"}
        here.clear()
        here.update(alone)
    return weaker


def _drop(schema: dict[str, Any], keyword: str) -> None:
    del schema[keyword]
    if keyword == "patternProperties":  # its properties would now count as additional
        schema.pop("additionalProperties", None)


def _as_alternatives(schema: dict[str, Any]) -> None:
    branches = schema.pop("oneOf")
    if "anyOf" not in schema:
        schema["anyOf"] = branches
    else:
        schema["allOf"] = [*schema.get("allOf", ()), {"anyOf": branches}]
