"""JSON within grammars of authors: `%json` means JSON of one style with exact numbers.

The compiler's own reading of `%json` allows blanks without end, which models write until a limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from agentrt.base.errors import ConstraintError
from agentrt.base.json_style import JsonStyle
from agentrt.structured.json_schema.declaration import json_spec, normal_form
from agentrt.structured.json_schema.json_grammar import json_part

_TOKEN = re.compile(
    r"""(?P<skipped>//[^\n]*|"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/)|(?P<json>%json\s*)""",
)


def with_styled_json(lark: str, style: JsonStyle) -> str:
    """A grammar with its JSON schemas written out.

    Args:
        lark: The grammar.
        style: Style of the JSON.

    Raises:
        ConstraintError: A schema is no JSON, or cannot be enforced.
    """
    written: list[str] = []
    rules: list[str] = []
    at = 0
    for start, end, schema in _schemas(lark):
        prefix = _unused(f"json{len(rules)}_", lark)
        plain = normal_form(schema, "%json")
        json_spec(plain, is_part=True)
        part = json_part(plain, prefix, style=style)
        written += [lark[at:start], f"({part.expression})"]
        rules += part.rules
        at = end
    if not at:
        return lark
    return "\n".join(["".join([*written, lark[at:]]).rstrip("\n"), *rules, ""])


def _schemas(lark: str) -> Iterator[tuple[int, int, object]]:
    """Each schema of a grammar, with the span of `%json` and the schema."""
    at = 0
    while found := _TOKEN.search(lark, at):
        at = found.end()
        if found["json"] is None:
            continue
        try:
            schema, at = json.JSONDecoder().raw_decode(lark, at)
        except (ValueError, RecursionError) as wrong:
            raise ConstraintError(
                f"%json: {wrong}", hint="Write a JSON Schema behind %json"
            ) from None
        yield found.start(), at, schema


def _unused(prefix: str, lark: str) -> str:
    """A prefix of names that the grammar does not hold."""
    while prefix in lark.lower():
        prefix = f"{prefix}_"
    return prefix
