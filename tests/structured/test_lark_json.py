"""`%json` within a grammar: compact, exact, and nowhere else."""

from __future__ import annotations

import json

import pytest
from llguidance import LLMatcher

from agentrt.base.errors import ConstraintError
from agentrt.structured import cfg_shape
from agentrt.structured.composition import BYTES
from agentrt.structured.json_schema.native import lark_grammar

POINT = json.dumps(
    {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "text": {"type": "string"}},
        "required": ["x", "text"],
        "additionalProperties": False,
    },
    indent=2,
)
GRAMMAR = f"""
start: "point " point ("," /[ ]/ other)?
// a comment with %json
point: %json {POINT}
other: %json {{"const": 1234567890123456789}} | "%json" | /%json [{{]/
"""


def takes(text):
    spec = cfg_shape(GRAMMAR).spec
    assert spec is not None
    matcher = LLMatcher(BYTES, lark_grammar(spec.source), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    letters = list(text.encode())
    return matcher.try_consume_tokens(letters) == len(letters) and matcher.is_accepting()


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('point {"x":1,"text":" a "}', True),
        ('point {"x": 1,"text":""}', False),
        ('point {"x":1, "text":""}', False),
        ('point { "x":1,"text":""}', False),
        ('point {"x":1,"text":""}\n', False),
        ('point {"x":1,"text":""}, 1234567890123456789', True),
        ('point {"x":1,"text":""}, 1234567890123456768', False),
        ('point {"x":1,"text":""}, %json', True),
        ('point {"x":1,"text":""}, %json {', True),
    ],
)
def test_json_has_no_blanks_and_exact_numbers(text, fits):
    assert takes(text) is fits


@pytest.mark.parametrize(
    ("lark", "said"),
    [
        ("start: %json {", "%json: "),
        ('start: %json {"type": "wrong"}', "must be one or more of"),
        ('start: %json {"$ref": "other.json"}', r"/\$ref"),
    ],
)
def test_wrong_schemas_are_refused(lark, said):
    with pytest.raises(ConstraintError, match=said):
        cfg_shape(lark)
