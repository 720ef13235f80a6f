"""Cases from a folder: a constraint, with texts that it must accept or refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice, permutations, product
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.record import record

SCHEMA_FILES = ("own_cases.jsonl", "suite_cases.jsonl")
REGEX_FILE = "regex_cases.jsonl"
_SCHEMA_KEYS: Mapping[str, type] = {
    "id": str,
    "schema": object,
    "instance": object,
    "valid": bool,
}
_REGEX_KEYS: Mapping[str, type] = {"pattern": str, "text": str, "match": bool}
MOST_ORDERS = 48
"""Orders of keys that are tried before a refusal counts."""

_BY_PATTERN = ("format", "pattern", "patternProperties", "propertyNames")
_GRAMMARS = {
    "sums": (
        'start: sum\nsum: term (("+"|"-") term)*\nterm: atom (("*"|"/") atom)*\n'
        'atom: /[0-9]{1,9}(\\.[0-9]{1,9})?/ | "(" sum ")"\n',
        ("1+2*(3-4)/5", "(12.5-7)*(3+(2-1))", "((((1))))"),
        ("1+", "(1", "1//2"),
    ),
    "queries": (
        'start: "SELECT " columns " FROM " NAME (" WHERE " test (" AND " test)*)?\n'
        'columns: "*" | NAME (", " NAME)*\ntest: NAME (" = "|" < "|" > ") value\n'
        "value: /[0-9]{1,9}/ | /'[^']*'/\nNAME: /[a-z_]{1,30}/\n",
        ("SELECT * FROM prices WHERE year = 2009", "SELECT a, b FROM t WHERE a < 3 AND b = 'x y'"),
        ("SELECT FROM t", "SELECT a FROM t WHERE", "select a from t"),
    ),
}


@record
class CaseText:
    """A text that a model might write.

    Attributes:
        text: The text.
        valid: True if the constraint must accept it.
        value: JSON value of the text; None if it is not JSON.
    """

    text: str
    valid: bool
    value: Any = None


@record
class ConstraintCase:
    """A constraint and its texts.

    Attributes:
        name: Name of its first line.
        group: "own", "suite", "suite optional", "regex" or "grammar".
        kind: Kind of its masks: "json", "pattern" (formats and patterns inside), "regex" or
            "grammar".
        source: Schema, pattern or grammar.
        texts: Texts to be accepted or refused.
    """

    name: str
    group: str
    kind: str
    source: Any
    texts: tuple[CaseText, ...]

    @property
    def has_format(self) -> bool:
        """True if it names a format, which the suite's required part does not assert."""
        return self.group == "suite" and '"format"' in json.dumps(self.source)


def cases_of(folder: Path) -> list[ConstraintCase]:
    """All cases of a folder, one for each schema or pattern, and two grammars.

    Raises:
        UsageError: The folder has no file of cases, or a line is none.
    """
    found: list[ConstraintCase] = []
    for name in SCHEMA_FILES:
        found += _grouped(folder / name, "schema")
    found += _grouped(folder / REGEX_FILE, "pattern")
    if not found:
        raise UsageError(
            f"no cases in {folder}",
            hint=f"It needs {', '.join(SCHEMA_FILES)} or {REGEX_FILE}, a JSON object a line",
        )
    for name, (lark, good, bad) in _GRAMMARS.items():
        texts = (*(CaseText(one, True) for one in good), *(CaseText(one, False) for one in bad))
        found.append(ConstraintCase(name, "grammar", "grammar", lark, texts))
    return found


def _grouped(path: Path, key: str) -> list[ConstraintCase]:
    if not path.exists():
        return []
    rows: dict[str, list[Mapping[str, Any]]] = {}
    wanted = _REGEX_KEYS if key == "pattern" else _SCHEMA_KEYS
    hint = f"A JSON object with {', '.join(wanted)}"
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="Give text in UTF-8") from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if any(not isinstance(row[name], kind) for name, kind in wanted.items()):
                raise TypeError
            rows.setdefault(json.dumps(row[key]), []).append(row)
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{path.name}, line {number}, is no case", hint=hint) from None
    return [_case(path.name, alike) for alike in rows.values()]


def _case(file: str, rows: list[Mapping[str, Any]]) -> ConstraintCase:
    first = rows[0]
    if file == REGEX_FILE:
        texts = tuple(CaseText(row["text"], row["match"]) for row in rows)
        return ConstraintCase(first["pattern"], "regex", "regex", first["pattern"], texts)
    group = "own" if file == SCHEMA_FILES[0] else "suite"
    if first["id"].startswith("optional/"):
        group = "suite optional"
    texts = tuple(CaseText(written(row["instance"]), row["valid"], row["instance"]) for row in rows)
    schema = first["schema"]
    if first["id"].startswith("optional/format/"):  # judged as if formats were asserted
        schema = {key: value for key, value in schema.items() if key != "$schema"}
    kind = "pattern" if _names(schema, _BY_PATTERN) else "json"
    return ConstraintCase(first["id"], group, kind, schema, texts)


def _names(schema: Any, keywords: tuple[str, ...]) -> bool:
    if isinstance(schema, dict):
        return any(key in keywords or _names(value, keywords) for key, value in schema.items())
    return isinstance(schema, list) and any(_names(value, keywords) for value in schema)


def written(value: Any) -> str:
    """A JSON value as compactly as a model is to write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def other_orders(value: Any) -> list[str]:
    """The same value with its keys in other orders, without the given one."""
    orders = islice(_ordered(value), MOST_ORDERS)
    return [text for text in map(written, orders) if text != written(value)]


def with_whole_numbers(value: Any) -> Any:
    """The same value with `1.0` written as `1`."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: with_whole_numbers(one) for key, one in value.items()}
        case list():
            return [with_whole_numbers(one) for one in value]
        case _:
            return value


def _ordered(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for order in permutations(value):
            for inner in product(*(list(islice(_ordered(value[key]), 6)) for key in order)):
                yield dict(zip(order, inner, strict=True))
    elif isinstance(value, list):
        yield from map(list, product(*(list(islice(_ordered(one), 6)) for one in value)))
    else:
        yield value
