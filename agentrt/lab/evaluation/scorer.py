"""Scorers: how a result is held against the expected value of its case."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, cast, get_args

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.evaluation.call_scorer import PARTS, calls_score

ScorerKind = Literal["exact", "tolerance", "set", "schema", "calls", "function"]
KINDS: tuple[ScorerKind, ...] = get_args(ScorerKind)
ScoreFunction = Callable[[Any, Any], object]
"""Takes the result and the expected value; gives a bool, or a score from 0 to 1."""

_KEYS: Mapping[ScorerKind, tuple[str, ...]] = {
    "exact": ("field", "ignore_case"),
    "tolerance": ("field", "absolute", "relative"),
    "set": ("field",),
    "schema": ("field", "schema"),
    "calls": ("field", "part", "ordered"),
    "function": ("field", "function"),
}


@record
class CaseScorer:
    """One way to score a result.

    Attributes:
        kind: Kind of the comparison.
        path: Path into result and expected value, with dots; "" compares them as a whole.
        options: Other keys of its table.
        function: The function of the kind `function`.
    """

    kind: ScorerKind
    path: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    function: ScoreFunction | None = None

    def score(self, result: Any, expected: Any) -> float:
        """Score of a result, from 0 to 1; 0 if it lacks the field.

        Args:
            result: Result of the program, as JSON-like data.
            expected: The expected value of the case.

        Raises:
            UsageError: The expected value has no such field, or the function gives no score.

        Example:
            >>> scorer = CaseScorer("tolerance", options={"absolute": 0.5})
            >>> scorer.score(1.4, 1), scorer.score(2, 1)
            (1.0, 0.0)
        """
        if self.kind == "schema":
            return float(_fits(_at(result, self.path), self.options["schema"]))
        wanted = _at(expected, self.path)
        if wanted is _MISSING:
            raise UsageError(
                f"the expected value has no field {self.path!r}",
                hint="give each case a value for it, or leave `field` out of the scorer",
            )
        got = _at(result, self.path)
        return 0.0 if got is _MISSING else self._compare(got, wanted)

    def _compare(self, got: Any, wanted: Any) -> float:
        if self.kind == "exact":
            if self.options.get("ignore_case"):
                got, wanted = _folded(got), _folded(wanted)
            return float(_text(got) == _text(wanted))
        if self.kind == "tolerance":
            return float(_near(got, wanted, self.options))
        if self.kind == "set":
            return float(_elements(got) == _wanted_elements(wanted))
        if self.kind == "calls":
            part, ordered = self.options.get("part", "whole"), self.options.get("ordered", False)
            return calls_score(got, wanted, part, ordered, _text)
        assert self.function is not None
        return score_of(self.function(got, wanted), "a scoring function")


def read_scorer(table: object, load: Callable[[str], ScoreFunction], *, where: str) -> CaseScorer:
    """The scorer that a table of `suite.toml` describes.

    Args:
        table: The table.
        load: Gives the function that `FILE:FN` names.
        where: Place of the table, for errors.

    Raises:
        UsageError: A key is unknown or has a wrong value.
    """
    if not isinstance(table, dict) or table.get("kind") not in KINDS:
        given = table.get("kind") if isinstance(table, dict) else table
        raise UsageError(
            f"{where} has a scorer of the kind {given!r}",
            hint=f"give one of {', '.join(KINDS)}, judge",
        )
    kind = cast(ScorerKind, table["kind"])
    for key in table:
        if key != "kind" and key not in _KEYS[kind]:
            raise UsageError(
                f"{where}: {key!r} is no key of the scorer {kind}",
                hint=f"it takes {', '.join(_KEYS[kind])}",
            )
    options = {key: value for key, value in table.items() if key not in ("kind", "field")}
    _check(kind, table.get("field", ""), options, where)
    function = load(options["function"]) if kind == "function" else None
    return CaseScorer(kind, table.get("field", ""), options, function)


def _check(kind: ScorerKind, path: object, options: Mapping[str, Any], where: str) -> None:
    """Check that the values of a table have the types of their keys."""
    for needed, form in (("schema", dict), ("function", str)):
        if kind == needed and not isinstance(options.get(needed), form):
            raise UsageError(
                f"{where}: the scorer {kind} needs {needed!r}",
                hint="give a JSON Schema as a table" if form is dict else 'give "FILE.py:FN"',
            )
    if kind == "schema":
        _check_schema(options["schema"], where)
    if not isinstance(path, str):
        raise UsageError(f"{where}: field={path!r} is no text", hint='give "order.city"')
    for name in ("ignore_case", "ordered"):
        if not isinstance(options.get(name, False), bool):
            raise UsageError(f"{where}: {name} is no bool", hint="give true or false")
    if options.get("part", "whole") not in PARTS:
        raise UsageError(
            f"{where}: part={options['part']!r} is no part of calls",
            hint=f"give {' or '.join(PARTS)}",
        )
    for name in ("absolute", "relative"):
        value = options.get(name, 0)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not 0 <= value < math.inf:
            raise UsageError(f"{where}: {name}={value!r} is no tolerance", hint="give 0 or more")


class _Missing:
    pass


_MISSING = _Missing()


def _at(value: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        if not isinstance(value, Mapping) or name not in value:
            return _MISSING
        value = value[name]
    return value


def _folded(value: Any) -> Any:
    return " ".join(value.split()).casefold() if isinstance(value, str) else value


def _text(value: Any) -> str:
    """One text for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_whole(value), sort_keys=True)


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _whole(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(one) for one in value]
    return value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value.replace(",", "") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _near(got: Any, wanted: Any, options: Mapping[str, Any]) -> bool:
    one, other = _number(got), _number(wanted)
    if other is None:
        raise UsageError(
            f"the expected value {wanted!r} is no number", hint="tolerance compares numbers"
        )
    allowed = max(options.get("absolute", 0), options.get("relative", 0) * abs(other))
    return one is not None and abs(one - other) <= allowed


def _elements(value: Any) -> list[str] | None:
    return sorted({_text(one) for one in value}) if _is_list(value) else None


def _wanted_elements(value: Any) -> list[str]:
    found = _elements(value)
    if found is None:
        raise UsageError(f"the expected value {value!r} is no list", hint="set compares lists")
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _check_schema(schema: Mapping[str, Any], where: str) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise UsageError(
            f"{where}: the schema is no JSON Schema: {error.message}", hint="see json-schema.org"
        ) from None


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    from jsonschema import Draft202012Validator

    return value is not _MISSING and Draft202012Validator(schema).is_valid(value)


def score_of(given: object, what: str) -> float:
    """Score that a function or a program of the user's gave.

    Args:
        given: A bool, or a number from 0 to 1.
        what: Name of the function or program, for errors.

    Raises:
        UsageError: The value is nothing of these.
    """
    if isinstance(given, bool | int | float) and 0 <= given <= 1:
        return float(given)
    raise UsageError(f"{what} gave {given!r}", hint="give True, False or a number from 0 to 1")
