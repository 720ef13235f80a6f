"""Structural check of a JSON Schema at declaration: pointer and keyword of what is unsupported.

No vocabulary and no engine are needed. Our own walk names what it knows; the grammar compiler
decides, and its error is traced to the smallest subschema that causes it.
"""

from __future__ import annotations

import re
import time
from typing import Any

from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.json_grammar import has_rules, json_grammar
from agentrt.structured.json_schema.keywords import (
    REFUSED,
    children,
    refusal,
    resolve,
    subschemas,
)
from agentrt.structured.json_schema.limits import check_reference_depth
from agentrt.structured.json_schema.native import grammar_error
from agentrt.structured.json_schema.number_leaf import has_step

_COUNTED = frozenset({"contains", "minContains", "maxContains"})
"""Keywords for which there are rules, unless what stands beside them has none."""
_INSTEAD = "Give check=True; or instead, "
_MAX_TRACED = 200
_MAX_TRACED_S = 0.5
"""CPU time after which a refusal names a larger part than it could."""
_QUOTED = re.compile(r'"([$A-Za-z]+)"')


def check_structure(schema: Any) -> None:
    """Refuse a schema, in normal form, that cannot be enforced exactly.

    Raises:
        ConstraintError: Names `pointer` and `keyword` of the first offence.
    """
    _check_keywords(schema)
    check_reference_depth(schema)
    complaint = _complaint(schema)
    if complaint:
        raise _traced(schema, complaint)


def _complaint(schema: Any) -> str:
    """The compiler's error for a schema; "" if there is none."""
    complaint = grammar_error(json_grammar(schema))
    if complaint and has_rules(schema):
        return grammar_error(json_grammar(schema, exact=False))
    return complaint


def _check_keywords(root: Any) -> None:
    for pointer, here, _ in subschemas(root):
        if not isinstance(here, dict):
            if not isinstance(here, bool):
                raise ConstraintError(
                    f"{pointer}: {type(here).__name__} is no schema",
                    pointer=pointer,
                    hint="Give an object, true or false",
                )
            continue
        for keyword, instead in REFUSED.items():
            if keyword in here and keyword not in _COUNTED:
                raise refusal(pointer, keyword, "unsupported", f"{_INSTEAD}{instead}")
        _check_step(here, pointer)
        _check_reference(here, pointer, root)


def _check_step(schema: dict[str, Any], pointer: str) -> None:
    if "multipleOf" in schema and not has_step(schema):
        raise refusal(
            pointer,
            "multipleOf",
            "has a factor that cannot be enforced with so many numbers between its bounds",
            f"{_INSTEAD}narrow its bounds to 1,000 multiples, or use smaller factors",
        )


def _check_reference(schema: dict[str, Any], pointer: str, root: Any) -> None:
    ref = schema.get("$ref")
    if ref is None:
        return
    if not isinstance(ref, str) or not ref.startswith("#"):
        problem, hint = f"{ref!r} is not in this schema", "Copy what it means into $defs"
    elif (ref == "#" or ref.startswith("#/")) and resolve(root, ref) is None:
        problem, hint = f"{ref!r} points nowhere", "Define it under $defs"
    else:
        return
    raise refusal(pointer, "$ref", problem, hint)


def _traced(root: Any, complaint: str) -> ConstraintError:
    """The error for the smallest subschema that the compiler refuses."""
    pointer, tried = "", 0
    here = root if isinstance(root, dict) else {}
    definitions = {k: here[k] for k in ("$defs", "definitions") if k in here}
    descending = isinstance(root, dict)
    ends_s = time.thread_time() + _MAX_TRACED_S
    while descending:
        descending = False
        for path, child in children(here):
            tried += 1
            if tried > _MAX_TRACED or time.thread_time() > ends_s:
                break
            if not isinstance(child, dict):
                continue
            alone = {**child, **definitions}
            inner = _complaint(alone)
            if inner and not (path.startswith(("/$defs", "/definitions")) and here is not root):
                pointer, here, complaint, descending = pointer + path, child, inner, True
                break
    keyword = _blamed(complaint, here)
    location = f"{pointer}/{keyword}" if keyword else pointer
    return ConstraintError(
        f"{location or '/'}: {reason_of(complaint)}",
        pointer=location,
        keyword=keyword,
        hint=_HINTS.get(keyword, "Change this part of the schema, or give check=True"),
    )


def _blamed(complaint: str, schema: dict[str, Any]) -> str:
    """The keyword named by an error of the compiler; "" if it is not a single one."""
    if complaint.startswith("Unimplemented"):
        return next(iter(_QUOTED.findall(complaint)), "")
    if "range" in complaint:
        return next((k for k in _BOUNDS if k in schema), "")
    if "regex" in complaint:
        return next((k for k in ("pattern", "patternProperties", "allOf") if k in schema), "")
    if complaint.startswith("Invalid type"):
        return "type"
    named = next((k for k in schema if f"'{k}'" in complaint), "")
    return "oneOf" if not named and "oneOf" in complaint else named


def reason_of(complaint: str) -> str:
    """The line of an error with its reason."""
    lines = complaint.strip().splitlines()
    return next((x.removeprefix("error: ") for x in lines if x.startswith("error: ")), lines[0])


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_HINTS = {
    "oneOf": "Use anyOf, a required property with its own const in each branch, or check=True",
    "contains": f"{_INSTEAD}{REFUSED['contains']}",
    "pattern": "Use a regex without look-around and back-references",
}
