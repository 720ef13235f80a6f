"""Arguments that a model writes one by one, as markup: their grammar, and the reading of a value.

The value of a text is bare, every other value is JSON. Where a schema allows both, a value is JSON
if it reads as JSON of a type that the schema allows, and else a text. Grammar and reader agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from agentrt.base.errors import ConstraintError
from agentrt.base.segments import ArgumentFrame
from agentrt.structured.expression import ANY_TEXT, scalar_terminal
from agentrt.structured.json_schema.json_grammar import json_part
from agentrt.structured.json_schema.keywords import DEFINITIONS, UNREAD, resolve, without
from agentrt.structured.json_schema.lark_text import LarkPart, as_list, joined, quoted, spelled
from agentrt.structured.json_schema.merging import values_within
from agentrt.structured.json_schema.native import lark_regex
from agentrt.structured.json_schema.number_leaf import NUMERIC
from agentrt.structured.json_schema.regex_text import anywhere

KINDS = ("null", "boolean", "number", "array", "object", "string")
ANY_KIND = frozenset(KINDS)
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_WRITTEN = {
    "null": "null",
    "boolean": "true|false",
    "number": _NUMBER,
    "array": r"\[(?s:.*)",
    "object": r"\{(?s:.*)",
}
"""Texts that are read as JSON of a kind where a text is allowed, too."""

_OF_ARGUMENTS = frozenset({"type", "properties", "required", "additionalProperties"})
_OF_TEXT = frozenset({"pattern", "minLength", "maxLength", "format"})
_KEYWORDS = {
    "null": frozenset({"type"}),
    "boolean": frozenset({"type"}),
    "number": NUMERIC,
    "string": _OF_TEXT | {"allOf"},
}
_MAX_DEPTH = 32


class _NotOneByOne(Exception):
    """A part of a schema that has no form outside of JSON."""


def argument_kinds(schema: Any, root: Any) -> frozenset[str]:
    """The kinds of values that a schema allows; all of them where that is not clear."""
    try:
        return frozenset(kind for kind, _ in _leaves(schema, root))
    except _NotOneByOne:
        return ANY_KIND


def read_argument(text: str, kinds: frozenset[str]) -> str:
    """The JSON of a value as it is written.

    Args:
        text: The value.
        kinds: Kinds of values that the schema of the argument allows.
    """
    if "string" not in kinds:
        return text
    is_json = any(re.fullmatch(_WRITTEN[kind], text) for kind in kinds - {"string"})
    return text if is_json else json.dumps(text, ensure_ascii=False)


def arguments_part(
    schema: dict[str, Any],
    frame: ArgumentFrame,
    cut: Callable[[str], list[str | int]],
    prefix: str,
    *,
    exact: bool = True,
) -> LarkPart:
    """The grammar of the arguments of a tool, in the order of its parameters.

    Args:
        schema: The parameters in normal form.
        frame: Frame of one argument.
        cut: Cuts a text of the frame at its special tokens, which become ids.
        prefix: Prefix of the names of rules: small letters, digits, underscores.
        exact: Whether numbers are written as rules; see `json_grammar`.

    Raises:
        ConstraintError: A value has no form outside of JSON.
    """
    here = without(schema, *UNREAD, *DEFINITIONS)
    if not here.keys() <= _OF_ARGUMENTS:
        raise _refused("arguments", min(here.keys() - _OF_ARGUMENTS))
    required = set(here.get("required", ()))
    properties = here.get("properties", {})
    if unnamed := required - properties.keys():
        raise _refused(f"the argument {min(unnamed)!r}", "no schema")
    written, rules = list[str](), list[str]()
    for index, (name, value) in enumerate(properties.items()):
        if value is False and name not in required:
            continue
        part = _Argument(frame, cut, schema, f"{prefix}{index}_", exact).part(name, value)
        written.append(part.expression if name in required else f"({part.expression})?")
        rules += part.rules
    return LarkPart(" ".join(written) or '""', tuple(rules))


class _Argument:
    """The grammar of one argument."""

    def __init__(
        self,
        frame: ArgumentFrame,
        cut: Callable[[str], list[str | int]],
        root: Any,
        prefix: str,
        exact: bool,
    ) -> None:
        self._frame = frame
        self._cut = cut
        self._root = root
        self._prefix = prefix
        self._exact = exact

    def part(self, name: str, schema: Any) -> LarkPart:
        """The argument, with its name."""
        if self._frame.middle in name:
            raise _refused(f"the argument {name!r}", f"{self._frame.middle!r} in its name")
        if (other := self._frame.json_middle) and other in name:
            raise _refused(f"the argument {name!r}", f"{other!r} in its name")
        try:
            if other:
                return self._told_apart(name, schema)
            value = self._value(schema)
        except _NotOneByOne as why:
            raise _refused(f"the argument {name!r}", str(why)) from None
        opening = self._opening(name, self._frame.middle)
        return LarkPart(f"{opening} ({value.expression})", value.rules)

    def _opening(self, name: str, middle: str) -> str:
        return spelled(joined([*self._cut(self._frame.before), name, *self._cut(middle)]))

    def _told_apart(self, name: str, schema: Any) -> LarkPart:
        """An argument whose markup tells a text from JSON."""
        found: list[LarkPart] = []
        nested = [schema]
        if "string" in argument_kinds(schema, self._root):
            leaves = list(_leaves(schema, self._root))
            texts = [_text_terminal(leaf) for kind, leaf in leaves if kind == "string"]
            nested = [leaf for kind, leaf in leaves if kind != "string"]
            part = self._bare(" | ".join(texts))
            opening = self._opening(name, self._frame.middle)
            found.append(LarkPart(f"{opening} {part.expression}", part.rules))
        if nested:
            part = self._json({"anyOf": nested} if len(nested) > 1 else nested[0])
            opening = self._opening(name, self._frame.json_middle)
            found.append(LarkPart(f"{opening} {part.expression}", part.rules))
        written = " | ".join(f"({part.expression})" for part in found)
        return LarkPart(f"({written})", tuple(rule for part in found for rule in part.rules))

    def _value(self, schema: Any) -> LarkPart:
        """A value and the text behind it."""
        if "string" not in argument_kinds(schema, self._root):
            return self._json(schema)
        leaves = list(_leaves(schema, self._root))
        texts = [_text_terminal(leaf) for kind, leaf in leaves if kind == "string"]
        others = [(kind, leaf) for kind, leaf in leaves if kind != "string"]
        if not others:
            return self._bare(" | ".join(texts))
        read = "|".join(_WRITTEN[kind] for kind in dict.fromkeys(kind for kind, _ in others))
        bare = [f"(({' | '.join(texts)}) & ~{lark_regex(f'(?:{read})')})"]
        nested: list[Any] = []
        for kind, leaf in others:
            scalar = None if kind in ("array", "object") else scalar_terminal(leaf, self._root)
            if scalar is not None:
                bare.append(f"({scalar})")
            elif kind in ("array", "object"):
                nested.append(leaf)
            else:
                raise _NotOneByOne(f"texts beside this {kind}")
        part = self._bare(" | ".join(bare))
        if not nested:
            return part
        inner = self._json({"anyOf": nested} if len(nested) > 1 else nested[0])
        return LarkPart(f"{part.expression} | {inner.expression}", (*part.rules, *inner.rules))

    def _json(self, schema: Any) -> LarkPart:
        defined = {key: self._root[key] for key in DEFINITIONS if key in self._root}
        whole = {**(schema if isinstance(schema, dict) else {"allOf": [schema]}), **defined}
        style = self._frame.style
        part = json_part(whole, f"{self._prefix}v_", exact=self._exact, style=style)
        return LarkPart(f"{part.expression} {spelled(self._cut(self._frame.after))}", part.rules)

    def _bare(self, terminal: str) -> LarkPart:
        """Text that ends where the end of an argument first stands, in letters or tokens."""
        name, after = f"{self._prefix}text".upper(), quoted(self._frame.after)
        end = self._cut(self._frame.after)
        letters = [piece for piece in end[:1] if isinstance(piece, str)]
        whole = f"({terminal}) {spelled(letters)}"
        behind = "/(?s:.+)/" if letters == end else ANY_TEXT  # tokens are no part of a terminal
        rule = f"{name}: ({whole}) & ~({ANY_TEXT} {after} {behind})"
        return LarkPart(f"{name} {spelled(end[len(letters) :])}", (rule,))


def _leaves(schema: Any, root: Any, depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema as schemas of one kind of values each, with that kind."""
    if schema is False:
        return
    here = {} if schema is True else without(schema, *UNREAD, *DEFINITIONS)
    if depth > _MAX_DEPTH:
        raise _NotOneByOne("so many references")
    if "$ref" in here:
        target = resolve(root, here["$ref"])
        if target is None or len(here) > 1:
            raise _NotOneByOne("such a reference")
        yield from _leaves(target, root, depth + 1)
        return
    for keyword in ("anyOf", "oneOf"):
        if keyword in here:
            rest = without(here, keyword)
            for option in here[keyword]:
                if rest and (not isinstance(option, dict) or rest.keys() & option.keys()):
                    raise _NotOneByOne(f"keywords beside {keyword}")
                yield from _leaves({**rest, **option} if rest else option, root, depth + 1)
            return
    if here.keys() & {"enum", "const"}:
        yield from _listed(here)
        return
    if "allOf" in here and "type" not in here:
        raise _NotOneByOne("allOf without a type")
    for kind in as_list(here.get("type", list(KINDS))):
        known = "number" if kind == "integer" else kind
        kept = _KEYWORDS.get(known) or here.keys() - _OF_TEXT - NUMERIC
        yield known, {"type": kind, **{key: here[key] for key in here if key in kept - {"type"}}}


def _listed(here: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    values = values_within(here)
    if values is None:
        raise _NotOneByOne("keywords beside listed values")
    for kind in KINDS:
        found = [value for value in values if _kind_of(value) == kind]
        if found:
            yield kind, {"enum": found}


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "number"


def _text_terminal(leaf: dict[str, Any]) -> str:
    """The terminal of the texts of a schema of texts."""
    if "enum" in leaf:
        return " | ".join(map(quoted, leaf["enum"]))
    parts = [leaf, *leaf.get("allOf", ())]
    if "format" in leaf or any(part.keys() != {"pattern"} for part in parts[1:]):
        raise _NotOneByOne(f"texts with {'format' if 'format' in leaf else 'allOf'}")
    terms = [lark_regex(anywhere(part["pattern"])) for part in parts if "pattern" in part]
    if leaf.keys() & {"minLength", "maxLength"}:
        most = leaf.get("maxLength", "")
        terms.append(lark_regex(f"(?s:.){{{leaf.get('minLength', 0)},{most}}}"))
    return f"({' & '.join(terms or [ANY_TEXT])})"


def _refused(where: str, what: str) -> ConstraintError:
    return ConstraintError(
        f"{where}: {what} has no form in calls whose arguments are written one by one, "
        "as this model writes them",
        hint="Use plain parameters: texts with patterns or lengths, numbers, lists, objects",
    )
