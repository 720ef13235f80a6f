"""Kinds of pydantic's core schemas, and how their readers relate to a grammar.

A reader takes exactly what the grammar allows (`EXACT`), or that has to be tried (`TRIED`), or it
calls functions of the author (`CHECKED`), which may refuse anything and run for answers alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import core_schema

from agentrt.base.one_of import one_of_in
from agentrt.structured.types.text_forms import is_known

KINDS = frozenset(get_args(core_schema.CoreSchemaType))


class Reader(IntEnum):
    """How a reader relates to the grammar of its type, the simplest first."""

    EXACT = 0
    TRIED = 1
    CHECKED = 2


_ALWAYS = frozenset({"type", "ref", "metadata", "serialization"})
_COUNTED = frozenset({"items_schema", "min_length", "max_length"})
_BOUNDED = frozenset({"ge", "gt", "le", "lt"})
EXACT: dict[str, frozenset[str]] = {
    "any": frozenset(),
    "none": frozenset(),
    "bool": frozenset(),
    "int": _BOUNDED | {"multiple_of"},
    "float": _BOUNDED | {"allow_inf_nan"},
    "str": frozenset({"min_length", "max_length"}),
    "literal": frozenset({"expected"}),
    "enum": frozenset({"cls", "members", "sub_type"}),
    "uuid": frozenset({"version"}),
    "list": _COUNTED,
    "deque": _COUNTED | {"maxlen"},
    "tuple": _COUNTED | {"variadic_item_index"},
    "dict": frozenset({"keys_schema", "values_schema"}),
    "ordered-dict": frozenset({"keys_schema", "values_schema"}),
    "nullable": frozenset({"schema"}),
    "default": frozenset({"schema", "default", "default_factory", "copy_default"}),
    "union": frozenset({"choices", "mode"}),
    "tagged-union": frozenset({"choices", "discriminator", "from_attributes"}),
    "definitions": frozenset({"schema", "definitions"}),
    "definition-ref": frozenset({"schema_ref"}),
    "model": frozenset({"cls", "schema", "config", "custom_init", "post_init", "root_model"}),
    "model-fields": frozenset({"fields", "model_name", "computed_fields"}),
    "typed-dict": frozenset(
        {"cls", "fields", "computed_fields", "total", "config", "extra_behavior"}
    ),
    "dataclass": frozenset(
        {"cls", "schema", "fields", "config", "post_init", "frozen", "slots", "cls_name"}
    ),
    "dataclass-args": frozenset(
        {"dataclass_name", "fields", "computed_fields", "collect_init_only"}
    ),
    "named-tuple": frozenset({"cls", "fields"}),
}
"""Kinds whose reader takes exactly the grammar's language, and the settings under which it does."""

_FIELD = frozenset(
    {"name", "schema", "required", "validation_alias", "serialization_alias", "frozen"}
    | {"kw_only", "init", "serialization_exclude"}
)
_FIELDS = frozenset({"model-field", "dataclass-field", "typed-dict-field", "named-tuple-field"})
_SHOWN = frozenset({"description", "title", "examples", "deprecated"})
_FUNCTIONS = frozenset({"with-info", "no-info"})
"""Parts that are no schemas: the one around them says what they do."""

_PLAIN_KEYS = frozenset({"str", "uuid"})
_LIBRARY = (
    *("pydantic._internal._validators", "pydantic._internal._generate_schema"),
    *("pydantic._internal._std_types_schema", "pydantic.types", "pydantic.networks"),
    *("builtins", "math", "operator", "ipaddress", "pathlib", "zoneinfo"),
    "agentrt.base.one_of",
)
_TRIED_ONCE_MORE = frozenset({"_apply_constraint_with_incompatibility_info"})
_OUTSIDE = ("PathType",)


def reader_of(core: Any, *, reads_options: bool = False) -> Reader:
    """How the reader of a core schema relates to the grammar of its type.

    Args:
        core: The core schema.
        reads_options: Whether the options of each `OneOf` are read before any answer is.
    """
    parts = (part for part in parts_of(core) if part["type"] not in _FUNCTIONS)
    if reads_options:
        parts = (part for part in parts if one_of_in(part) is None)
    return max(map(_reader, parts), default=Reader.EXACT)


def author_of(core: Any) -> str:
    """Name of the author's first function that reading calls; "" if there is none."""
    for part in parts_of(core):
        if _calls_author(part):
            found = function_of(part) or part.get("discriminator") or part.get("cls")
            return str(getattr(found, "__qualname__", type(found).__name__)).rpartition(".")[2]
    return ""


def kinds_in(core: Any) -> set[str]:
    """The kinds of core schema that take part in reading."""
    return {part["type"] for part in parts_of(core)} & KINDS


def function_of(schema: Any) -> Any:
    """The function of a `function-*` core schema, without its bound arguments; else None."""
    found = schema.get("function") if str(schema.get("type")).startswith("function-") else None
    function = found.get("function") if isinstance(found, dict) else None
    return getattr(function, "func", function)


def predicate_of(schema: Any) -> Any:
    """The predicate of `annotated_types` that a validator applies; None if it is another."""
    function = function_of(schema)
    if getattr(function, "__module__", "") != "pydantic._internal._known_annotated_metadata":
        return None
    note = inspect.getclosurevars(function).nonlocals.get("annotation")
    predicate = getattr(note, "func", None)
    if type(note).__name__ == "Not":
        return note
    return predicate if predicate is not None and is_known(predicate) else None


def is_library(function: Any) -> bool:
    """Whether a function is the library's, and calls no code of the author."""
    name = str(getattr(function, "__qualname__", ""))
    if name.rpartition(".")[2] in _TRIED_ONCE_MORE:
        return True
    module = getattr(function, "__module__", None) or type(function).__module__
    return module in _LIBRARY and not name.startswith(_OUTSIDE)


def parts_of(core: Any) -> Iterator[dict[str, Any]]:
    """A core schema, its fields and all schemas in it that read JSON."""
    if isinstance(core, list | tuple):
        for part in core:
            yield from parts_of(part)
    if not isinstance(core, dict):
        return
    if isinstance(core.get("type"), str):
        yield core
    for name, part in core.items():
        if name not in ("metadata", "serialization", "python_schema", "default", "expected"):
            yield from parts_of(part)


def _reader(part: dict[str, Any]) -> Reader:
    """How one core schema reads, whatever its parts do."""
    kind = part["type"]
    if _calls_author(part):
        return Reader.CHECKED
    if not _shows_plainly(part.get("metadata") or {}):
        return Reader.TRIED
    stated = part.keys() - _ALWAYS - ({"strict"} if not part.get("strict") else set())
    if kind in _FIELDS:
        return Reader.EXACT if stated <= _FIELD else Reader.TRIED
    if kind not in EXACT or not stated <= EXACT[kind]:
        return Reader.TRIED
    keys = part.get("keys_schema", {}).get("type", "str")
    is_plain = keys in _PLAIN_KEYS and part.get("config", {}).keys() <= {"title"}
    return Reader.EXACT if is_plain else Reader.TRIED


def _calls_author(part: dict[str, Any]) -> bool:
    """Whether reading calls a function of the author."""
    kind, function = part["type"], function_of(part)
    if function is not None:
        return predicate_of(part) is None and not is_library(function)
    if kind == "model":
        post = getattr(part["cls"], "model_post_init", BaseModel.model_post_init)
        is_own = getattr(post, "__module__", "").partition(".")[0] != "pydantic"
        return bool(part.get("custom_init")) or (bool(part.get("post_init")) and is_own)
    if kind == "dataclass":
        return bool(part.get("post_init"))
    return kind == "tagged-union" and callable(part["discriminator"])


def _shows_plainly(metadata: dict[str, Any]) -> bool:
    """Whether a JSON Schema is the kind's own, with nothing changed by hand."""
    functions = [
        *metadata.get("pydantic_js_functions", ()),
        *metadata.get("pydantic_js_annotation_functions", ()),
    ]
    for function in functions:
        owner = getattr(function, "__self__", None)
        config = getattr(owner, "model_config", {})
        if not str(getattr(function, "__module__", "")).startswith("pydantic."):
            return False
        if config.get("json_schema_extra") or type(owner).__name__ == "WithJsonSchema":
            return False
    updates = metadata.get("pydantic_js_updates") or {}
    return updates.keys() <= _SHOWN and not metadata.get("pydantic_js_extra")
