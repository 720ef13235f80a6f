"""`unevaluatedProperties` and `unevaluatedItems` as `additionalProperties` and `items`.

What a schema evaluates depends on the branches that an instance takes. So each path through the
branches becomes a case of its own, with what that path evaluates written out. A path that leaves a
branch open evaluates less and accepts less, never more, so that the cases together are exact.
Source: JSON Schema 2020-12, sections 11.2 and 11.3.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from agentrt.base.record import record
from agentrt.structured.json_schema.complement import MAX_DEPTH, any_of, complement
from agentrt.structured.json_schema.keywords import resolve, without

MAX_PATHS = 64

_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
_BRANCHES = _DYNAMIC | {"$ref", "allOf", "anyOf", "contains", "dependentSchemas", "if", "oneOf"}

SIMPLE = {"unevaluatedProperties": "additionalProperties", "unevaluatedItems": "items"}


@record
class BranchPath:
    """One path through the branches of a schema.

    Attributes:
        taken: Schemas that hold on this path.
        names: Evaluated properties, in the order of the schema.
        patterns: Patterns of evaluated property names.
        first_items: Number of evaluated items from the start.
        everything: Whether all properties, or all items, are evaluated.
    """

    taken: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    patterns: frozenset[str] = frozenset()
    first_items: int = 0
    everything: bool = False

    def and_(self, other: BranchPath) -> BranchPath:
        """Both paths at once."""
        return BranchPath(
            self.taken + other.taken,
            tuple(dict.fromkeys(self.names + other.names)),
            self.patterns | other.patterns,
            max(self.first_items, other.first_items),
            self.everything or other.everything,
        )


class _Inexpressible(Exception):
    """There are too many paths, or one cannot be followed."""


def closed(schema: dict[str, Any], keyword: str, root: Any) -> dict[str, Any]:
    """`schema` without `keyword`, or unchanged if that cannot be expressed."""
    rest = without(schema, keyword)
    if not rest.keys() & _BRANCHES:  # no branches: all that it does not name is unevaluated
        return rest if SIMPLE[keyword] in rest else {**rest, SIMPLE[keyword]: schema[keyword]}
    try:
        paths = _paths(rest, keyword, root, 0)
    except _Inexpressible:
        return schema
    cases = [_case(path, keyword, schema[keyword]) for path in paths]
    if True in cases:
        return rest
    return {**rest, "allOf": [any_of(cases), *rest.get("allOf", ())]}  # the first sets the order


def _case(path: BranchPath, keyword: str, left_over: Any) -> Any:
    """The schema of one path: its branches, and `left_over` for what they do not evaluate."""
    cap: dict[str, Any] = {}
    if not path.everything and keyword == "unevaluatedItems":
        cap = {"items": left_over}
        if path.first_items:
            cap["prefixItems"] = [True] * path.first_items
    elif not path.everything:
        cap = {"additionalProperties": left_over}
        if path.names:
            cap["properties"] = dict.fromkeys(path.names, True)
        if path.patterns:
            cap["patternProperties"] = dict.fromkeys(sorted(path.patterns), True)
    if not path.taken:
        return cap or True
    return {"allOf": [*path.taken, *([cap] if cap else [])]}


def _paths(schema: Any, keyword: str, root: Any, depth: int) -> list[BranchPath]:
    """All paths through `schema`; `taken` holds what `schema` itself does not state."""
    if not isinstance(schema, dict):
        return [BranchPath()]
    if depth > MAX_DEPTH or schema.keys() & _DYNAMIC:
        raise _Inexpressible
    if keyword == "unevaluatedItems" and "contains" in schema:
        raise _Inexpressible
    paths = [_itself(schema, keyword)]
    for choices in _choices(schema, keyword, root, depth):
        paths = [path.and_(choice) for path in paths for choice in choices]
        if len(paths) > MAX_PATHS:
            raise _Inexpressible
    return paths


def _itself(schema: dict[str, Any], keyword: str) -> BranchPath:
    """The path of this level's own keywords."""
    everything = bool(schema.keys() & {keyword, SIMPLE[keyword]})
    if keyword == "unevaluatedItems":
        return BranchPath(first_items=len(schema.get("prefixItems", ())), everything=everything)
    return BranchPath(
        names=tuple(schema.get("properties", ())),
        patterns=frozenset(schema.get("patternProperties", ())),
        everything=everything,
    )


def _choices(
    schema: dict[str, Any], keyword: str, root: Any, depth: int
) -> Iterator[list[BranchPath]]:
    """For each keyword with branches, the paths through it."""

    def through(branch: Any, *also: Any) -> list[BranchPath]:
        inner = _paths(branch, keyword, root, depth + 1)
        return [BranchPath(taken=also).and_(path) for path in inner]

    for branch in schema.get("allOf", ()):
        yield through(branch)
    if "$ref" in schema:
        meant = resolve(root, schema["$ref"]) if isinstance(root, dict) else None
        if meant is None:
            raise _Inexpressible
        yield through(meant)
    if "anyOf" in schema:
        yield _any(schema["anyOf"], through)
    if "oneOf" in schema:
        yield [path for branch in schema["oneOf"] for path in through(branch, branch)]
    if "if" in schema:
        condition = schema["if"]
        otherwise = complement(condition, root)
        if otherwise is None:
            raise _Inexpressible
        met, then = through(condition, condition), through(schema.get("then", True))
        unmet, other = BranchPath(taken=(otherwise,)), through(schema.get("else", True))
        both = [one.and_(path) for one in met for path in then]
        yield both + [unmet.and_(path) for path in other]
    for name, branch in schema.get("dependentSchemas", {}).items():
        there = {"type": "object", "required": [name]}
        yield [*through(branch, there), BranchPath(taken=({"properties": {name: False}},))]


def _any(branches: list[Any], through: Any) -> list[BranchPath]:
    """Any branches except none: the more are taken, the more is evaluated."""
    each = [through(branch, branch) for branch in branches]
    found: list[BranchPath] = []
    for chosen in itertools.product((True, False), repeat=len(each)):
        taken = [paths for paths, is_taken in zip(each, chosen, strict=True) if is_taken]
        if not taken:
            continue
        found += [functools.reduce(BranchPath.and_, one) for one in itertools.product(*taken)]
        if len(found) > MAX_PATHS:
            raise _Inexpressible
    return found
