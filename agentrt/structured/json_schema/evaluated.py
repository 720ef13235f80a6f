"""`unevaluatedProperties` and `unevaluatedItems`, said with `additionalProperties` and `items`.

What a schema looks at depends on which of its branches an instance takes. So each way through the
branches becomes a case of its own, with what that way looks at written out. A way that leaves some
branch open looks at less and accepts less, never more, so that the cases together are exact.
Source: JSON Schema 2020-12, sections 11.2 and 11.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentrt.structured.json_schema.complement import MAX_DEPTH, any_of, complement
from agentrt.structured.json_schema.keywords import resolve

MAX_WAYS = 64

_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
_BRANCHES = _DYNAMIC | {"$ref", "allOf", "anyOf", "contains", "dependentSchemas", "if", "oneOf"}

SIMPLE = {"unevaluatedProperties": "additionalProperties", "unevaluatedItems": "items"}


@dataclass(frozen=True, slots=True)
class BranchPath:
    """One way through the branches of a schema.

    Attributes:
        taken: Schemas that hold on this way.
        names: Properties looked at.
        patterns: Of property names looked at.
        places: First items looked at.
        everything: All properties, or all items, are looked at.
    """

    taken: tuple[Any, ...] = ()
    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    places: int = 0
    everything: bool = False

    def and_(self, other: BranchPath) -> BranchPath:
        """Both at once."""
        return BranchPath(
            self.taken + other.taken,
            self.names | other.names,
            self.patterns | other.patterns,
            max(self.places, other.places),
            self.everything or other.everything,
        )


class _Unsaid(Exception):
    """There are too many ways, or one that cannot be followed."""


def closed(schema: dict[str, Any], keyword: str, root: Any) -> dict[str, Any]:
    """`schema` without `keyword`, or as it is where that cannot be said."""
    rest = {k: v for k, v in schema.items() if k != keyword}
    if not rest.keys() & _BRANCHES:  # nothing else looks: what it does not name is left over
        return rest if SIMPLE[keyword] in rest else {**rest, SIMPLE[keyword]: schema[keyword]}
    try:
        ways = _ways(rest, keyword, root, 0)
    except _Unsaid:
        return schema
    cases = [_case(way, keyword, schema[keyword]) for way in ways]
    if True in cases:
        return rest
    return {**rest, "allOf": [*rest.get("allOf", ()), any_of(cases)]}


def _case(way: BranchPath, keyword: str, left_over: Any) -> Any:
    """What holds on one way: its branches, and `left_over` for what they do not look at."""
    cap: dict[str, Any] = {}
    if not way.everything and keyword == "unevaluatedItems":
        cap = {"items": left_over}
        if way.places:
            cap["prefixItems"] = [True] * way.places
    elif not way.everything:
        cap = {"additionalProperties": left_over}
        if way.names:
            cap["properties"] = dict.fromkeys(sorted(way.names), True)
        if way.patterns:
            cap["patternProperties"] = dict.fromkeys(sorted(way.patterns), True)
    if not way.taken:
        return cap or True
    return {"allOf": [*way.taken, *([cap] if cap else [])]}


def _ways(schema: Any, keyword: str, root: Any, depth: int) -> list[BranchPath]:
    """Every way through `schema`; `taken` holds what is not said by `schema` itself."""
    if not isinstance(schema, dict):
        return [BranchPath()]
    if depth > MAX_DEPTH or schema.keys() & _DYNAMIC:
        raise _Unsaid
    if keyword == "unevaluatedItems" and "contains" in schema:
        raise _Unsaid
    ways = [_itself(schema, keyword)]
    for choices in _choices(schema, keyword, root, depth):
        ways = [way.and_(choice) for way in ways for choice in choices]
        if len(ways) > MAX_WAYS:
            raise _Unsaid
    return ways


def _itself(schema: dict[str, Any], keyword: str) -> BranchPath:
    """What the keywords of this level look at."""
    everything = bool(schema.keys() & {keyword, SIMPLE[keyword]})
    if keyword == "unevaluatedItems":
        return BranchPath(places=len(schema.get("prefixItems", ())), everything=everything)
    return BranchPath(
        names=frozenset(schema.get("properties", ())),
        patterns=frozenset(schema.get("patternProperties", ())),
        everything=everything,
    )


def _choices(
    schema: dict[str, Any], keyword: str, root: Any, depth: int
) -> Iterator[list[BranchPath]]:
    """For each keyword with branches, the ways through it."""

    def through(branch: Any, *also: Any) -> list[BranchPath]:
        inner = _ways(branch, keyword, root, depth + 1)
        return [BranchPath(taken=also).and_(way) for way in inner]

    for branch in schema.get("allOf", ()):
        yield through(branch)
    if "$ref" in schema:
        meant = resolve(root, schema["$ref"]) if isinstance(root, dict) else None
        if meant is None:
            raise _Unsaid
        yield through(meant)
    if "anyOf" in schema:
        yield _any(schema["anyOf"], through)
    if "oneOf" in schema:
        yield [way for branch in schema["oneOf"] for way in through(branch, branch)]
    if "if" in schema:
        condition = schema["if"]
        otherwise = complement(condition, root)
        if otherwise is None:
            raise _Unsaid
        met = [
            w.and_(t)
            for w in through(condition, condition)
            for t in _maybe("then", schema, through)
        ]
        yield met + [
            BranchPath(taken=(otherwise,)).and_(way) for way in _maybe("else", schema, through)
        ]
    for name, branch in schema.get("dependentSchemas", {}).items():
        there = {"type": "object", "required": [name]}
        yield [*through(branch, there), BranchPath(taken=({"properties": {name: False}},))]


def _maybe(keyword: str, schema: dict[str, Any], through: Any) -> list[BranchPath]:
    ways: list[BranchPath] = through(schema[keyword]) if keyword in schema else [BranchPath()]
    return ways


def _any(branches: list[Any], through: Any) -> list[BranchPath]:
    """Any branches but none: the more are taken, the more is looked at."""
    each = [through(branch, branch) for branch in branches]
    found: list[BranchPath] = []
    for chosen in itertools.product((True, False), repeat=len(each)):
        taken = [ways for ways, is_taken in zip(each, chosen, strict=True) if is_taken]
        if not taken:
            continue
        for combination in itertools.product(*taken):
            whole = BranchPath()
            for way in combination:
                whole = whole.and_(way)
            found.append(whole)
        if len(found) > MAX_WAYS:
            raise _Unsaid
    return found
