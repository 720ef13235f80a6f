"""Limits checked before any native code sees the user's input.

A native compiler cannot be interrupted and takes the process along when it runs out of memory. So
input that is too large is refused here, with its location and the limit.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.depth import brackets_depth, grammar_depth, schema_depth
from agentrt.structured.json_schema.forms import check_forms
from agentrt.structured.json_schema.keywords import COUNTS, escape, subschemas

MAX_SCHEMA_BYTES = 1_000_000
MAX_DEPTH = 64
MAX_REFERENCE_DEPTH = 250
MAX_GROUP_DEPTH = 200
MAX_SUBSCHEMAS = 20_000
MAX_ENUM = 20_000
MAX_PROPERTIES = 2_000
MAX_REPEAT = 100_000
MAX_REGEX_CHARS = 10_000
MAX_REGEX_REPEAT = 10_000
MAX_GRAMMAR_BYTES = 200_000
MAX_CHOICES = 20_000
MAX_CHOICE_CHARS = 400_000

_MOST_DIGITS = 10
_DIGITS = re.compile(r"\s*[0-9]+\s*\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_spec(spec: ConstraintSpec) -> None:
    """Refuse a spec that is too large or malformed.

    Engines get specs from other processes: this check comes before any native code.
    """
    match spec.kind:
        case "regex":
            check_regex(spec.source)
        case "grammar":
            check_grammar(spec.source)
        case "choice":
            check_choice(spec.options, "choice")
        case "json":
            _check_source(spec.source)
        case "calls":
            if spec.source:
                _check_source(spec.source)
            for tool in spec.tools:
                check_schema(tool.parameters)


def check_choice(options: tuple[str, ...], what: str) -> None:
    """Refuse a choice without options, with options that are not text, or with too many."""
    if not options or not all(isinstance(option, str) for option in options):
        raise ConstraintError(f"{what} needs texts to choose from", hint="Give one or more strings")
    _check_most(what, len(options), "options", MAX_CHOICES)
    _check_most(what, sum(map(len, options)), "characters", MAX_CHOICE_CHARS)
    for option in options:
        check_text(option, what)


def _check_source(source: str) -> None:
    check_size(source, "schema")
    try:
        schema = json.loads(source)
    except (ValueError, RecursionError) as wrong:
        raise ConstraintError(
            f"schema is no JSON: {wrong}", hint="Give a JSON Schema as compact JSON"
        ) from None
    check_schema(schema)


def check_regex(pattern: str, pointer: str = "") -> None:
    """Refuse a pattern that is too long or repeats too much."""
    keyword = "pattern" if pointer else ""
    _check_most("regex", len(pattern), "characters", MAX_REGEX_CHARS, pointer, keyword)
    check_text(pattern, "regex", pointer, keyword)
    repeats = largest_repeat(pattern)
    _check_most("regex", repeats, "repetitions", MAX_REGEX_REPEAT, pointer, keyword)
    groups = brackets_depth(pattern)
    _check_most("regex", groups, "groups deep", MAX_GROUP_DEPTH, pointer, keyword)


def check_text(text: str, what: str, pointer: str = "", keyword: str = "") -> None:
    """Refuse text that cannot cross into native code: NUL characters and lone surrogates."""
    if "\x00" in text:
        problem, hint = "a NUL character", "Remove it"
    elif _SURROGATE.search(text):
        problem, hint = "half of a surrogate pair", "Give valid Unicode text"
    else:
        return
    raise ConstraintError(f"{what} holds {problem}", pointer=pointer, keyword=keyword, hint=hint)


def check_grammar(lark: str) -> None:
    """Refuse a grammar that is too long."""
    _check_most("grammar", len(lark.encode(errors="replace")), "bytes", MAX_GRAMMAR_BYTES)
    check_text(lark, "grammar")
    depth = grammar_depth(lark).chain
    _check_most("grammar", depth, "rules deep", MAX_REFERENCE_DEPTH)


def check_size(source: str, what: str) -> None:
    """Refuse too long a text, and one that cannot cross into native code."""
    _check_most(what, len(source.encode(errors="replace")), "bytes", MAX_SCHEMA_BYTES)
    check_text(source, what)


def check_schema(schema: Any) -> None:
    """Refuse a schema that nests, lists or repeats too much, or is malformed."""
    for seen, (pointer, here, depth) in enumerate(subschemas(schema), 1):
        _check_most("schema", depth, "levels deep", MAX_DEPTH, pointer)
        _check_most("schema", seen, "subschemas", MAX_SUBSCHEMAS)
        if isinstance(here, dict):
            check_forms(here, pointer)
            _check_one(here, pointer)
    check_reference_depth(schema)


def check_reference_depth(schema: Any) -> None:
    """Refuse a schema that nests too deeply through references."""
    depth = schema_depth(schema).chain
    _check_most("schema", depth, "levels deep through references", MAX_REFERENCE_DEPTH)


def _check_one(schema: dict[str, Any], pointer: str) -> None:
    options, named = schema.get("enum"), schema.get("properties")
    if isinstance(options, list):
        _check_most("enum", len(options), "values", MAX_ENUM, f"{pointer}/enum", "enum")
    if isinstance(named, dict):
        where = f"{pointer}/properties"
        _check_most("object", len(named), "fields", MAX_PROPERTIES, where, "properties")
    for keyword in COUNTS:
        count = schema.get(keyword)
        if isinstance(count, int | float):
            _check_most(keyword, count, "", MAX_REPEAT, f"{pointer}/{keyword}", keyword)
    if isinstance(schema.get("pattern"), str):
        check_regex(schema["pattern"], f"{pointer}/pattern")
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict):
        for pattern in patterns:
            check_regex(pattern, f"{pointer}/patternProperties/{escape(pattern)}")


def largest_repeat(pattern: str) -> int:
    """Product of the nested `{m,n}` counts of a regex, at its largest."""
    stack = [1]  # largest product inside each open group
    last = 1  # product of the atom before a count
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            last = 1
            continue
        if char == "(":
            stack.append(1)
        elif char == ")" and len(stack) > 1:
            last = stack.pop()
            stack[-1] = max(stack[-1], last)
        elif char == "{":
            end = pattern.find("}", at)
            counts = [_count_of(n) for n in pattern[at + 1 : end].split(",") if _DIGITS.match(n)]
            if end > 0 and counts:
                last = min(last * max(1, *counts), 10**_MOST_DIGITS)
                stack[-1] = max(stack[-1], last)
                at = end
        else:
            last = 1
        at += 1
    return max(stack)


def _count_of(digits: str) -> int:
    """The number of a count; of a long one, which Python may refuse to read, one that is as bad."""
    significant = digits.strip().lstrip("0")
    return int(significant or "0") if len(significant) < _MOST_DIGITS else 10**_MOST_DIGITS


def _check_most(
    what: str, size: float, unit: str, limit: int, pointer: str = "", keyword: str = ""
) -> None:
    if size > limit:
        raise ConstraintError(
            f"{what} is too large: {f'{int(size)} {unit}'.strip()}",
            pointer=pointer,
            keyword=keyword,
            hint=f"At most {limit} are allowed",
        )
