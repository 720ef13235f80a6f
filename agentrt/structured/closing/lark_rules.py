"""A Lark grammar as rules over bytes, as far as its constructs have a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentrt.structured.closing.regex_rules import regex_symbol
from agentrt.structured.closing.symbols import (
    Choice,
    Concatenation,
    Conjunction,
    Literal,
    NotModeled,
    Reference,
    Repeat,
    SpecialToken,
    Symbol,
    optional,
)
from agentrt.structured.json_schema.regex_text import escape_regex, whole_match

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|\#[^\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"i?)
    |(?P<regex>/(?:\\.|[^/\\\n])+/[a-z]*)
    |(?P<json>%json)
    |(?P<nested>%lark\s*\{)
    |(?P<special><[^<>\s]+>)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<count>\{\s*\d*\s*(?:,\s*\d*\s*)?\}|~\s*\d+(?:\s*\.\.\s*\d+)?)
    |(?P<mark>->|[:|()\[\]{}?*+&~!=,.%-])
    |(?P<number>\d+)""",
    re.VERBOSE,
)
_KEPT_ATTRIBUTES = frozenset({"capture", "lazy", "max_tokens", "temperature"})
"""Attributes that allow no output beyond those of the rule without them."""

_SIMPLE_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_MAX_DEPTH = 200
_ANYTHING = regex_symbol("(?s:.)*")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    begins_line: bool
    value: Any = None


@dataclass(slots=True, eq=False)
class LarkRules:
    """Rules of Lark texts.

    Args:
        special_ids: Tokens that are not text, by name.
        json_symbol: Model of `%json` and its schema.

    Attributes:
        rules: Symbols by name, of all texts read so far.
        lexemes: Symbols that the lexer matches as one: regexes, terminals, rules with attributes,
            and texts that are ignored.
        ignores: Whether other text may stand between terminals.
    """

    special_ids: Mapping[str, int]
    json_symbol: Callable[[Any], Symbol]
    rules: dict[str, Symbol] = field(default_factory=dict)
    lexemes: list[Symbol] = field(default_factory=list)
    ignores: bool = False
    _tokens: list[_Token] = field(default_factory=list)
    _at: int = 0
    _scope: str = ""
    _scopes: int = 0

    def read(self, lark: str) -> None:
        """Add the rules of a grammar.

        Raises:
            NotModeled: The grammar has a construct without a model.
        """
        before = self._tokens, self._at, self._scope
        self._tokens, self._at, self._scope = _tokens_of(lark), 0, ""
        while self._at < len(self._tokens):
            self._statement()
        self._tokens, self._at, self._scope = before

    def expression(self, lark: str) -> Symbol:
        """The symbol of an expression.

        Raises:
            NotModeled: The expression has a construct without a model.
        """
        before = self._tokens, self._at, self._scope
        self._tokens, self._at, self._scope = _tokens_of(lark), 0, ""
        found = self._alternatives(0)
        if self._at < len(self._tokens):
            raise NotModeled(f"{self._tokens[self._at].text!r} in a grammar")
        self._tokens, self._at, self._scope = before
        return found

    def check_references(self) -> None:
        """Raise NotModeled if a rule names another that is missing."""
        todo = list(self.rules.values())
        while todo:
            match todo.pop():
                case Reference(name) if name not in self.rules:
                    raise NotModeled(f"the rule {name}")
                case Concatenation(parts) | Choice(parts) | Conjunction(parts):
                    todo += parts
                case Repeat(part):
                    todo.append(part)

    def _next(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _take(self, *texts: str) -> bool:
        taken = self._next() in texts and self._at < len(self._tokens)
        self._at += taken
        return taken

    def _statement(self) -> None:
        if self._take("%"):
            if not self._take("ignore"):
                raise NotModeled(f"%{self._next()}")
            self.ignores = True
            self._lexeme(self._alternatives(0))
            return
        self._take("?", "!")
        name = self._tokens[self._at]
        self._at += 1
        if name.kind != "name":
            raise NotModeled(f"{name.text!r} in a grammar")
        if self._take("."):
            self._take("-")
            self._at += 1
        is_lexeme = name.text.isupper()
        if self._take("["):
            self._attributes()
            is_lexeme = True
        if not self._take(":"):
            raise NotModeled(f"{self._next()!r} after {name.text}")
        symbol = self.rules[self._scope + name.text] = self._alternatives(0)
        if is_lexeme:
            self._lexeme(symbol)

    def _attributes(self) -> None:
        while not self._take("]"):
            if self._next() not in _KEPT_ATTRIBUTES:
                raise NotModeled(f"the attribute {self._next()}")
            self._at += 1
            if self._take("="):
                self._at += 1
                if self._take("."):
                    self._at += 1
            self._take(",")

    def _alternatives(self, depth: int) -> Symbol:
        if depth > _MAX_DEPTH:
            raise NotModeled("deep groups of a grammar")
        options = [self._conjunction(depth)]
        while self._take("|"):
            options.append(self._conjunction(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _conjunction(self, depth: int) -> Symbol:
        kept = [self._sequence(depth)]
        while self._take("&"):
            kept.append(self._sequence(depth))
        return kept[0] if len(kept) == 1 else self._lexeme(Conjunction(tuple(kept), ()))

    def _sequence(self, depth: int) -> Symbol:
        parts: list[Symbol] = []
        while self._goes_on():
            parts.append(self._counted(depth))
        if self._take("->"):
            self._at += 1
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _goes_on(self) -> bool:
        if self._next() in ("", "|", ")", "]", "}", "&", "->"):
            return False
        token = self._tokens[self._at]
        if not token.begins_line:
            return True
        after = self._tokens[self._at + 1].text if self._at + 1 < len(self._tokens) else ""
        begins = token.kind == "name" and after in (":", "[", ".")
        return not begins and token.text not in ("%", "?", "!")

    def _counted(self, depth: int) -> Symbol:
        if self._take("~"):
            return self._lexeme(Conjunction((_ANYTHING,), (self._counted(depth),)))
        part = self._atom(depth)
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.text in _SIMPLE_COUNTS and not token.begins_line:
                fewest, most = _SIMPLE_COUNTS[token.text]
            elif token.kind == "count":
                numbers = re.findall(r"\d+", token.text)
                is_open = re.search(r",\s*\}", token.text) is not None
                fewest = 0 if re.match(r"\{\s*,", token.text) else int(numbers[0])
                most = None if is_open else int(numbers[-1])
            else:
                break
            self._at += 1
            part = Repeat(part, fewest, most)
        return part

    def _atom(self, depth: int) -> Symbol:
        token = self._tokens[self._at]
        self._at += 1
        match token.kind:
            case "string":
                return self._string(token.text)
            case "regex":
                pattern, _, flags = token.text[1:].rpartition("/")
                return self._lexeme(regex_symbol(whole_match(pattern), flags))
            case "json":
                return self.json_symbol(token.value)
            case "special":
                return SpecialToken(self._special(token.text))
            case "name":
                return Reference(self._scope + token.text)
            case "nested":
                return self._nested()
        if token.text in ("(", "["):
            inner = self._alternatives(depth + 1)
            if not self._take(")" if token.text == "(" else "]"):
                raise NotModeled("an open group of a grammar")
            return inner if token.text == "(" else optional(inner)
        raise NotModeled(f"{token.text!r} in a grammar")

    def _lexeme(self, symbol: Symbol) -> Symbol:
        self.lexemes.append(symbol)
        return symbol

    def _nested(self) -> Symbol:
        """A grammar within the grammar; its names are its own."""
        before, self._scopes = self._scope, self._scopes + 1
        self._scope = f"{self._scopes}."
        start = Reference(f"{self._scope}start")
        while not self._take("}"):
            if self._at == len(self._tokens):
                raise NotModeled("an open grammar within a grammar")
            self._statement()
        self._scope = before
        return start

    def _string(self, written: str) -> Symbol:
        is_loose = written.endswith("i")
        try:
            text: str = json.loads(written[:-1] if is_loose else written, strict=False)
        except ValueError:
            raise NotModeled(f"the string {written}") from None
        if self._next() == ".":
            raise NotModeled("a range of characters")
        return regex_symbol(escape_regex(text), "i") if is_loose else Literal(text.encode())

    def _special(self, written: str) -> tuple[int, ...]:
        if written in self.special_ids:
            return (self.special_ids[written],)
        numbers = re.fullmatch(r"<\[(\d+)(?:[,-]\d+)*\]>", written)
        if numbers is None:
            raise NotModeled(f"the token {written}")
        return (int(numbers[1]),)


def _tokens_of(lark: str) -> list[_Token]:
    found: list[_Token] = []
    at, begins_line = 0, True
    while at < len(lark):
        match = _TOKEN.match(lark, at)
        if match is None or match.lastgroup is None:
            raise NotModeled(f"{lark[at : at + 20]!r} in a grammar")
        at = match.end()
        if match.lastgroup == "blank":
            begins_line = begins_line or "\n" in match[0]
            continue
        value = None
        if match.lastgroup == "json":
            at += len(lark[at:]) - len(lark[at:].lstrip())
            try:
                value, at = json.JSONDecoder().raw_decode(lark, at)
            except ValueError:
                raise NotModeled("a schema that is no JSON") from None
        found.append(_Token(match.lastgroup, match[0], begins_line, value))
        begins_line = False
    return found
