"""Composed constraints as one grammar.

Regular neighbours share a terminal, so their composition is exact. A regular part before one that
is not must end where the next begins: the compiler matches it as far as it goes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from llguidance import LLMatcher, LLTokenizer

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured.expression import ANY_TEXT, Expression, expression_of
from agentrt.structured.json_schema.declaration import complaint_about
from agentrt.structured.json_schema.lark_text import LarkPart
from agentrt.structured.json_schema.native import lark_grammar, parser_limits
from agentrt.structured.json_schema.regex_text import escape_regex, whole_match
from agentrt.structured.parts import Captured, Either, Joined, Leaf, Part, Repeated

BYTES = LLTokenizer("byte")
"""A vocabulary of the single bytes."""

_matchers: WeakKeyDictionary[Leaf, LLMatcher] = WeakKeyDictionary()
_SOME = "/(?s:.+)/"
_NUMBER = "/[-+.0-9eE]/"
_FIRST = {"object": '"{"', "array": '"["', "string": '"\\""'}


def composed_spec(part: Part) -> ConstraintSpec:
    """The constraint of a composition.

    Raises:
        ConstraintError: A part may go on where the next one begins, or the whole is too large.
    """
    pattern = _pattern(part)
    if pattern is not None:
        spec = ConstraintSpec("regex", source=pattern)
    else:
        spec = ConstraintSpec("grammar", source=_Lowering().grammar(part))
    complaint = complaint_about(spec)
    if complaint:
        raise ConstraintError(
            f"composition: {' '.join(complaint.split())[:300]}", hint="Make it smaller"
        )
    return spec


@dataclass(slots=True, eq=False)
class _Lowering:
    """The rules of one composition."""

    rules: list[str] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=itertools.count)
    _made: dict[int, Expression] = field(default_factory=dict)
    _kept: list[Part] = field(default_factory=list)  # so that the ids stay their own
    _boundaries: dict[tuple[str, str], None] = field(default_factory=dict)

    def grammar(self, part: Part) -> str:
        whole = self._expression(part)
        if whole.is_regular:
            return f"start: TEXT\nTEXT: {whole.lark.expression}\n"
        body = self._rule(part, [])
        for terminal, follower in self._boundaries:
            _check_boundary(terminal, follower)
        return "\n".join([f"start: {body}", *self.rules, ""])

    def _expression(self, part: Part) -> Expression:
        """A part, as a terminal if it is regular; else only that it is not."""
        known = self._made.get(id(part))
        if known is None:
            known = self._made[id(part)] = self._lowered(part)
        return known

    def _lowered(self, part: Part) -> Expression:
        match part:
            case Leaf(spec):
                made = expression_of(spec, f"p{next(self._names)}_")
                self.rules += made.lark.rules
                return made
            case Captured(_, inner):
                return self._expression(inner)
            case Joined(parts):
                return self._together(parts, " ")
            case Either(parts):
                return self._together(parts, " | ")
            case Repeated(inner):
                one = self._expression(inner)
                return Expression(
                    LarkPart(f"({one.lark.expression}{_times(part)})"), one.is_regular
                )

    def _together(self, parts: tuple[Part, ...], between: str) -> Expression:
        made = [self._expression(one) for one in parts]
        text = between.join(one.lark.expression for one in made)
        return Expression(LarkPart(f"({text})"), all(one.is_regular for one in made))

    def _rule(self, part: Part, after: list[str]) -> str:
        """A part in a rule, before one of the terminals `after`."""
        made = self._expression(part)
        if made.is_regular:
            return self._terminal(made.lark.expression, after)
        match part:
            case Leaf(_, schema):
                if schema is None or schema.get("type") not in _FIRST:
                    self._boundaries |= {(_NUMBER, one): None for one in after if schema}
                return f"({made.lark.expression})"
            case Captured(_, inner):
                return self._rule(inner, after)
            case Either(parts):
                return f"({' | '.join(self._rule(one, after) for one in parts)})"
            case Repeated(inner):
                again = [*self._first(inner), *after]
                return f"({self._rule(inner, again)}){_times(part)}"
            case Joined():
                return self._sequence(part, after)

    def _sequence(self, part: Joined, after: list[str]) -> str:
        written: list[str] = []
        for group in reversed(list(self._groups(part))):
            whole = Joined(tuple(group)) if len(group) > 1 else group[0]
            self._kept.append(whole)
            written.append(self._rule(whole, after))
            first = self._first(whole)
            after = [*first, *after] if _is_nullable(whole) else first
        return " ".join(reversed(written))

    def _groups(self, part: Joined) -> Iterator[list[Part]]:
        """The parts, with regular neighbours together."""
        flat = list(_flat(part))
        for is_regular, group in itertools.groupby(
            flat, lambda one: self._expression(one).is_regular
        ):
            if is_regular:
                yield list(group)
            else:
                yield from ([one] for one in group)

    def _terminal(self, expression: str, after: list[str]) -> str:
        name = f"PART_{next(self._names)}"
        self.rules.append(f"{name}: {expression}")
        self._boundaries |= {(expression, one): None for one in after}
        return name

    def _first(self, part: Part) -> list[str]:
        """Terminals of the beginnings of a part."""
        made = self._expression(part)
        if made.is_regular:
            return [f"({made.lark.expression} & {_SOME})"]
        match part:
            case Leaf(_, schema):
                if schema is None:
                    return [_SOME]
                return [_FIRST.get(str(schema.get("type")), '/[-0-9tfn{\\["]/')]
            case Captured(_, inner) | Repeated(inner):
                return self._first(inner)
            case Either(parts):
                return [one for each in parts for one in self._first(each)]
            case Joined():
                found: list[str] = []
                for each in _flat(part):
                    found += self._first(each)
                    if not _is_nullable(each):
                        break
                return found


def _flat(part: Part) -> Iterator[Part]:
    """The parts of a sequence, those of sequences within it included."""
    if not isinstance(part, Joined):
        yield part
        return
    for one in part.parts:
        inner = one.part if isinstance(one, Captured) else one
        yield from _flat(inner)


def _is_nullable(part: Part) -> bool:
    """Whether a part may be empty."""
    match part:
        case Leaf():
            return leaf_matcher(part).is_accepting()
        case Captured(_, inner):
            return _is_nullable(inner)
        case Joined(parts):
            return all(map(_is_nullable, parts))
        case Either(parts):
            return any(map(_is_nullable, parts))
        case Repeated(inner, fewest):
            return fewest == 0 or _is_nullable(inner)


def _times(part: Repeated) -> str:
    return f"{{{part.fewest},{'' if part.most is None else part.most}}}"


def _pattern(part: Part) -> str | None:
    """The regex of a part of texts, regexes and choices; None for others."""
    match part:
        case Leaf(None):
            return "(?s:.*)"
        case Leaf(ConstraintSpec("regex", source=source)):
            return f"(?:{whole_match(source)})"
        case Leaf(ConstraintSpec("choice", options=options)):
            return f"(?:{'|'.join(map(escape_regex, options))})"
        case Leaf():
            return None
        case Captured(_, inner):
            return _pattern(inner)
        case Repeated(inner):
            one = _pattern(inner)
            return None if one is None else f"(?:{one}){_times(part)}"
        case Joined(parts) | Either(parts):
            found = [_pattern(one) for one in parts]
            if None in found:
                return None
            between = "" if isinstance(part, Joined) else "|"
            return f"(?:{between.join(one for one in found if one is not None)})"


def _check_boundary(terminal: str, follower: str) -> None:
    """Refuse a regular part that can go on where the part after it begins.

    Raises:
        ConstraintError: Some text of it is continued by the beginning of the next.
    """
    text = f"start: TEXT\nTEXT: ({terminal}) & (({terminal}) ({follower}) {ANY_TEXT})\n"
    if terminal == _NUMBER:
        text = f"start: TEXT\nTEXT: ({terminal} {ANY_TEXT}) & (({follower}) {ANY_TEXT})\n"
    if _has_texts(text):
        raise ConstraintError(
            "a part of the composition may go on where the next part begins",
            hint="Put a text between them that the first part cannot hold",
        )


def leaf_matcher(leaf: Leaf) -> LLMatcher:
    """The matcher of a leaf over single bytes, at its beginning; copy it before use."""
    found = _matchers.get(leaf)
    if found is None:
        made = expression_of(leaf.spec, "p_")
        name = "TEXT" if made.is_regular else "text"
        lines = [f"start: {name}", f"{name}: {made.lark.expression}", *made.lark.rules, ""]
        lark = lark_grammar("\n".join(lines))
        found = LLMatcher(BYTES, lark, log_level=0, limits=parser_limits())
        _matchers[leaf] = found
    return found


def _has_texts(lark: str) -> bool:
    matcher = LLMatcher(BYTES, lark_grammar(lark), log_level=0, limits=parser_limits())
    if matcher.is_error():
        raise ConstraintError("composition is too costly to check", hint="Make it smaller")
    row: Any = matcher.compute_bitmask()
    return not matcher.is_error() and any(row[: 256 // 8])
