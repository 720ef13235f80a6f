"""Grammar of the JSON texts of a schema in a style: the compiler's own, with exact numbers."""

from __future__ import annotations

from typing import Any

from agentrt.base.json_style import JsonStyle
from agentrt.structured.json_schema.distinct import holds_distinct, without_distinct
from agentrt.structured.json_schema.lark_text import LarkPart
from agentrt.structured.json_schema.native import json_in_lark, lark_grammar, schema_grammar
from agentrt.structured.json_schema.number_leaf import narrowed
from agentrt.structured.json_schema.schema_rules import rules_of


def json_grammar(schema: Any, *, exact: bool = True, style: JsonStyle = "compact") -> str:
    """The grammar of JSON texts that fit `schema`, with any items instead of distinct ones.

    Args:
        schema: A schema in normal form.
        exact: Whether to write rules where the compiler's numbers are not exact; without them,
            some numbers that fit the schema are refused, and some others need a check.
        style: Style of the texts.

    Raises:
        ConstraintError: The style is `indented`, and the schema has no such form.
    """
    is_distinct = holds_distinct(schema)
    if is_distinct and style != "indented":
        schema = without_distinct(schema)

    def native(inner: Any, style: JsonStyle) -> str:
        return json_in_lark(narrowed(inner), _style_in_rules(style), has_one_text=is_distinct)

    part = rules_of(schema, native, style=style) if exact or style == "indented" else None
    if part is None:
        return schema_grammar(narrowed(schema), style, has_one_text=is_distinct)
    return lark_grammar("\n".join([f"start: {part.expression}", *part.rules, ""]), forces=True)


def json_part(
    schema: Any, prefix: str, *, exact: bool = True, style: JsonStyle = "compact"
) -> LarkPart:
    """The same as part of a Lark grammar, whose names begin with `prefix`."""
    exact = exact or style == "indented"
    part = rules_of(schema, _native, prefix, style=style) if exact else None
    return part or LarkPart(_native(schema, style))


def has_rules(schema: Any) -> bool:
    """Whether the exact grammar differs from the compiler's own."""
    return rules_of(without_distinct(schema), _native) is not None


def check_style(schema: Any, style: JsonStyle) -> None:
    """Refuse a schema without a form in a style.

    Args:
        schema: A schema in normal form.
        style: The style.

    Raises:
        ConstraintError: Names what has no such form.
    """
    if style == "indented":
        rules_of(schema, _native, style=style)


def _native(schema: Any, style: JsonStyle) -> str:
    return json_in_lark(narrowed(schema), _style_in_rules(style))


def _style_in_rules(style: JsonStyle) -> JsonStyle:
    """The style of what rules leave to the compiler: texts without items if they are indented."""
    return "compact" if style == "indented" else style
