"""The part of a schema that Python's validator can check values against."""

from __future__ import annotations

import re
from typing import Any

from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.keywords import ANNOTATIONS, with_children

_MAX_CHARACTERS = 300


def checked_original(schema: Any) -> Any:
    """`schema` without patterns that Python cannot compile: those are enforced, or refused.

    Raises:
        ConstraintError: `schema` is not a schema, or the validator does not support it.
    """
    import jsonschema

    draft = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        draft.check_schema(schema, format_checker=jsonschema.FormatChecker(()))
    except jsonschema.SchemaError as wrong:
        pointer = "".join(f"/{part}" for part in wrong.absolute_path)
        raise ConstraintError(
            f"{pointer or '/'}: {wrong.message[:_MAX_CHARACTERS]}",
            pointer=pointer,
            hint="See the JSON Schema specification",
        ) from None
    return _without_own_patterns(schema)


def is_checkable(keyword: str, value: Any) -> bool:
    """Whether the validator checks a keyword, so that it need not be enforced."""
    import jsonschema

    validator = jsonschema.Draft202012Validator
    if keyword == "format":
        return value in validator.FORMAT_CHECKER.checkers
    if keyword in ("pattern", "patternProperties"):
        return all(map(_is_python_regex, [value] if isinstance(value, str) else value))
    known = validator.VALIDATORS.keys() | {"then", "else", "minContains", "maxContains"}
    return keyword in known - ANNOTATIONS and keyword != "$ref"


def _without_own_patterns(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept = dict(schema)
    odd = [name for name in kept.get("patternProperties", ()) if not _is_python_regex(name)]
    if odd:
        raise ConstraintError(
            f"patternProperties: {odd[0]!r} cannot be checked",
            keyword="patternProperties",
            hint="Write the pattern so that Python's `re` can read it, too",
        )
    if not _is_python_regex(kept.get("pattern", "")):
        del kept["pattern"]
    return with_children(kept, _without_own_patterns)


def _is_python_regex(pattern: Any) -> bool:
    try:
        re.compile(pattern)
    except (re.error, TypeError, RecursionError, OverflowError):
        return False
    return True
