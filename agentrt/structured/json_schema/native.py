"""The only entrance to llguidance's grammars: the form of JSON text, and the limits."""

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

ONE_WRITING: dict[str, Any] = {**JSON_FORM, "json_allowed_escapes": 'nrbtf\\"'}
"""Compact JSON with one text for each string: no control characters beyond the short escapes."""


def parser_limits() -> LLParserLimits:
    """Limits of compiling grammars and computing masks."""
    return LLParserLimits(verbose_errors=False)


def schema_grammar(schema: Any, form: dict[str, Any] = JSON_FORM) -> str:
    """The grammar of compact JSON texts that fit `schema`."""
    return LLMatcher.grammar_from_json_schema(_in_form(schema, form))


def json_in_lark(schema: Any, form: dict[str, Any] = JSON_FORM) -> str:
    """`%json {...}` for use inside a Lark rule."""
    return f"%json {_in_form(schema, form)}"


def _in_form(schema: Any, form: dict[str, Any]) -> str:
    """A schema with our form of JSON, which overrules the user's options for the compiler."""
    whole = schema if isinstance(schema, dict) else {"allOf": [schema]}
    return canonical_json.dumps({**whole, "x-guidance": form})


def regex_grammar(pattern: str) -> str:
    """The grammar of texts that match `pattern` as a whole."""
    return LLMatcher.grammar_from_regex(pattern)


def lark_regex(pattern: str) -> str:
    """A regex as written in a Lark grammar."""
    return f"/{regex_to_lark(pattern)}/"


def lark_grammar(lark: str) -> str:
    """The grammar of a Lark text."""
    return LLMatcher.grammar_from_lark(lark)


def grammar_error(grammar: str) -> str:
    """The error of a grammar that is plain, found without a vocabulary; "" if there is none."""
    return complaint_text(LLMatcher.validate_grammar(grammar, limits=parser_limits()))


def complaint_text(answer: str) -> str:
    """The error in the compiler's answer; "" for warnings."""
    return "" if answer.startswith("WARNING") else answer
