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
    if style != "indented"
}
"""The compiler's options for each style on one line; it has no form of indents."""

_MOST_ITEMS = 5_000
"""Items of the parser at one place: an object with a hundred optional fields takes 3,000."""

_WITHOUT_FORCING = '\n%llguidance {"no_forcing": true}\n'
"""The last of such lines counts."""

_SHORT_ESCAPES = {"json_allowed_escapes": 'nrbtf\\"'}
"""Options that leave one text for each string, without control characters that need `\\u`."""


def parser_limits() -> LLParserLimits:
    """Limits of compiling grammars and computing masks."""
    return LLParserLimits(verbose_errors=False, max_items_in_row=_MOST_ITEMS)


def schema_grammar(schema: Any, style: JsonStyle = "compact", *, has_one_text: bool = False) -> str:
    """The grammar of JSON texts in a style that fit `schema`.

    Args:
        schema: The schema.
        style: Style of the texts.
        has_one_text: Whether a string has one text only, by short escapes.
    """
    return LLMatcher.grammar_from_json_schema(_styled(schema, style, has_one_text))


def json_in_lark(schema: Any, style: JsonStyle = "compact", *, has_one_text: bool = False) -> str:
    """`%json {...}` for use inside a Lark rule; see `schema_grammar`."""
    return f"%json {_styled(schema, style, has_one_text)}"


def _styled(schema: Any, style: JsonStyle, has_one_text: bool) -> str:
    """A schema with the form of a style, which overrules the user's options for the compiler."""
    whole = schema if isinstance(schema, dict) else {"allOf": [schema]}
    form = {**JSON_FORMS[style], **(_SHORT_ESCAPES if has_one_text else {})}
    return canonical_json.dumps({**whole, "x-guidance": form})


def regex_grammar(pattern: str) -> str:
    """The grammar of texts that match `pattern` as a whole."""
    return LLMatcher.grammar_from_regex(pattern)


def lark_regex(pattern: str) -> str:
    """A regex as written in a Lark grammar."""
    return f"/{regex_to_lark(pattern)}/"


def lark_grammar(lark: str, *, forces: bool = False) -> str:
    """The grammar of a Lark text.

    Args:
        lark: The text.
        forces: Whether masks follow forced text, which must have an end; see `forced_text`.
    """
    return LLMatcher.grammar_from_lark(lark if forces else lark + _WITHOUT_FORCING)


def grammar_error(grammar: str) -> str:
    """The error of a grammar that is plain, found without a vocabulary; "" if there is none."""
    return complaint_text(LLMatcher.validate_grammar(grammar, limits=parser_limits()))


def complaint_text(answer: str) -> str:
    """The error in the compiler's answer; "" for warnings."""
    return "" if answer.startswith("WARNING") else answer
