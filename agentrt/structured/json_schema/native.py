"""The one door to llguidance's grammars: how JSON text looks, and what is too much."""

from __future__ import annotations

from typing import Any

from llguidance import LLMatcher, LLParserLimits, regex_to_lark

from agentrt.base import canonical_json

JSON_FORM: dict[str, Any] = {
    "item_separator": ",",
    "key_separator": ":",
    "whitespace_flexible": False,
}
"""Compact JSON, as `canonical_json` writes it."""


def parser_limits() -> LLParserLimits:
    """Limits under which grammars are compiled and masks computed."""
    return LLParserLimits(verbose_errors=False)


def json_grammar(schema: Any) -> str:
    """The grammar of compact JSON texts that fit `schema`."""
    grammar: str = LLMatcher.grammar_from_json_schema(_compact(schema))
    return grammar


def json_in_lark(schema: Any) -> str:
    """`%json {...}` for use inside a Lark rule."""
    return f"%json {_compact(schema)}"


def _compact(schema: Any) -> str:
    """A schema with our form of JSON; whatever the user asked of the compiler is overruled."""
    whole = schema if isinstance(schema, dict) else {"allOf": [schema]}
    return canonical_json.dumps({**whole, "x-guidance": JSON_FORM})


def regex_grammar(pattern: str) -> str:
    """The grammar of texts that the whole of `pattern` matches."""
    grammar: str = LLMatcher.grammar_from_regex(pattern)
    return grammar


def lark_regex(pattern: str) -> str:
    """A regex as it stands in a Lark grammar."""
    return f"/{regex_to_lark(pattern)}/"


def lark_grammar(lark: str) -> str:
    """The grammar that a Lark text describes."""
    grammar: str = LLMatcher.grammar_from_lark(lark)
    return grammar


def grammar_error(grammar: str) -> str:
    """What is wrong with a grammar, without any vocabulary; "" when nothing is."""
    wrong: str = LLMatcher.validate_grammar(grammar, limits=parser_limits())
    return "" if wrong.startswith("WARNING") else wrong
