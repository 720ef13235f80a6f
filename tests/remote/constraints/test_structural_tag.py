"""Calls in a model's frame as a structural tag: its special tokens by their ids."""

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.segments import CallFrame, ToolSchema
from agentrt.remote.constraints.structural_tag import calls_tag

SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
TOOL = ToolSchema("double", "", SCHEMA)
SPECIAL = ("<|call|>", "<|/call|>")
FRAME = CallFrame('<|call|>{"name":"', '","arguments":', "}<|/call|>", special=SPECIAL)
IDS = {"<|call|>": 7, "<|/call|>": 8, "<|end|>": 2}


def text(value):
    return {"type": "const_string", "value": value}


CALL = {
    "type": "sequence",
    "elements": [
        {"type": "token", "token": 7},
        text('{"name":"double","arguments":'),
        {"type": "json_schema", "json_schema": SCHEMA},
        text("}"),
        {"type": "token", "token": 8},
    ],
}


def test_one_call_is_a_sequence():
    spec = ConstraintSpec("calls", tools=(TOOL,), max_calls=1)
    assert calls_tag(spec, FRAME, IDS) == CALL


def test_more_calls_are_repeated():
    tag = calls_tag(ConstraintSpec("calls", tools=(TOOL,), max_calls=3), FRAME, IDS)
    repeated = {"type": "repeat", "min": 0, "max": 2, "content": CALL}
    assert tag == {"type": "sequence", "elements": [CALL, repeated]}


def test_a_final_answer_is_another_choice():
    spec = ConstraintSpec("calls", '{"type":"boolean"}', tools=(TOOL,), max_calls=1)
    final = {"type": "json_schema", "json_schema": {"type": "boolean"}}
    assert calls_tag(spec, FRAME, IDS) == {"type": "or", "elements": [CALL, final]}


@pytest.mark.parametrize("spec", [ConstraintSpec("calls", tools=(TOOL,), max_calls=1, text=True)])
def test_text_beside_calls_has_no_words(spec):
    assert calls_tag(spec, FRAME, IDS) is None
