"""The only entrance to llguidance's grammars: the form of JSON text, and the limits."""

from __future__ import annotations

from typing import Any

from llguidance import LLMatcher, LLParserLimits, regex_to_lark

from agentrt.base import canonical_json
from agentrt.base.json_style import SEPARATORS, JsonStyle

JSON_FORMS: dict[JsonStyle, dict[str, Any]] = {
    style: {
        "item_separator": separators.item,
        "key_separator": separators.key,
        "whitespace_flexible": False,
    }
    for style, separators in SEPARATORS.items()
}
"""The compiler's options for each style."""


def parser_limits() -> LLParserLimits:
    """Limits of compiling grammars and computing masks."""
    return LLParserLimits(verbose_errors=False)


def schema_grammar(schema: Any, style: JsonStyle = "compact") -> str:
    """The grammar of JSON texts in a style that fit `schema`."""
    return LLMatcher.grammar_from_json_schema(_styled(schema, style))


def json_in_lark(schema: Any, style: JsonStyle = "compact") -> str:
    """`%json {...}` for use inside a Lark rule."""
    return f"%json {_styled(schema, style)}"


def _styled(schema: Any, style: JsonStyle) -> str:
    """A schema with the form of a style, which overrules the user's options for the compiler."""
    whole = schema if isinstance(schema, dict) else {"allOf": [schema]}
    return canonical_json.dumps({**whole, "x-guidance": JSON_FORMS[style]})


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
