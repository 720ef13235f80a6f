"""Calls in the model's own frame: exactly the offered tools, with exactly their arguments."""

from __future__ import annotations

import pytest

from agentrt.base.errors import ConstraintError
from agentrt.base.segments import JSON_ARRAY_FRAME, CallFrame, ToolSchema
from agentrt.structured import CallScanner, CallText, calls_spec, choice_shape, compile_constraint
from agentrt.structured.vocabulary import alphabet_of

PRICE = ToolSchema(
    "price",
    "What it cost.",
    {
        "type": "object",
        "properties": {"symbol": {"type": "string"}, "month": {"type": "integer"}},
        "required": ["symbol"],
    },
)
NOW = ToolSchema("now", "", {"type": "object", "properties": {}})
ANSWER = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def call(name, arguments):
    return f'<|call|>{{"name":"{name}","arguments":{arguments}}}<|/call|>'


ONE = call("price", '{"symbol":"IBM"}')
TWO = ONE + call("now", "{}")

ROWS = [
    ((1, 32), None, ONE, True),
    ((1, 32), None, call("price", '{"symbol":"IBM","month":5}'), True),
    ((1, 32), None, TWO, True),
    ((1, 32), None, "", False),
    ((1, 32), None, call("price", "{}"), False),
    ((1, 32), None, call("price", '{"symbol":"IBM","x":1}'), False),
    ((1, 32), None, call("missing", "{}"), False),
    ((1, 32), None, ONE[:-9], False),
    ((1, 32), None, "text " + ONE, False),
    ((1, 32), None, '{"text":"a"}', False),
    ((0, 32), None, "", True),
    ((0, 32), None, ONE, True),
    ((2, 2), None, ONE, False),
    ((2, 2), None, TWO, True),
    ((2, 2), None, TWO + ONE, False),
    ((1, 1), None, TWO, False),
    ((1, 32), ANSWER, '{"text":"a"}', True),
    ((1, 32), ANSWER, TWO, True),
    ((1, 32), ANSWER, ONE + '{"text":"a"}', False),
]


@pytest.mark.parametrize(("counts", "final", "text", "fits"), ROWS)
def test_calls_in_special_tokens(accepts, counts, final, text, fits):
    spec = calls_spec((PRICE, NOW), final, *counts)
    assert accepts(spec, text) is fits


def test_frame_tokens_are_not_their_text(compiled, vocab):
    """The frame is one special token; its letters are something else."""
    constraint = compiled(calls_spec((NOW,)))
    spelled = alphabet_of(vocab).tokenize(b"<|call|>")
    assert constraint.start().advance(spelled) == 0
    assert constraint.start().advance([vocab.special_ids["<|call|>"]]) == 1
    text = compiled(choice_shape("<|call|> is text").spec)
    assert text.start().advance([vocab.special_ids["<|call|>"]]) == 0
    assert text.start().advance(alphabet_of(vocab).tokenize(b"<|call|> is text")) > 8


@pytest.mark.parametrize(
    "frame",
    [
        JSON_ARRAY_FRAME,
        CallFrame(
            before='<tool_call>\n{"name": "',
            middle='", "arguments": ',
            after="}\n</tool_call>",
            between="\n",
        ),
    ],
    ids=["array", "tags"],
)
def test_other_frames(vocab, frame):
    """What the grammar takes, the scanner reads, and the shortest output is among it."""
    constraint = compile_constraint(calls_spec((PRICE, NOW), None, 2, 3), vocab, frame)
    inner = frame.between.join(
        frame.before + name + frame.middle + arguments + frame.after
        for name, arguments in (("now", "{}"), ("price", '{"symbol":"}"}'))
    )
    text = frame.first + inner + frame.last
    ids = alphabet_of(vocab).tokenize(text.encode())
    state = constraint.start()
    assert state.advance(ids) == len(ids)
    assert state.can_stop()
    assert CallScanner(frame).feed_text(text) == [
        CallText("now", "{}"),
        CallText("price", '{"symbol":"}"}'),
    ]
    shortest = alphabet_of(vocab).bytes_of(list(constraint.shortest or ()))
    assert shortest is not None
    assert len(CallScanner(frame).feed_text(shortest.decode())) == 2


WRONG = [
    ({"tools": ()}, "no tools"),
    ({"tools": (NOW, NOW)}, "one name"),
    ({"tools": (NOW,), "min_calls": 3, "max_calls": 2}, "min_calls=3"),
    ({"tools": (NOW,), "min_calls": 0, "max_calls": 0}, "max_calls=0"),
    ({"tools": (ToolSchema("t", "", {"not": {"pattern": "a"}}),)}, "tool t: /not"),
    ({"tools": (NOW,), "final_schema": {"not": {"pattern": "a"}}}, "/not"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_wrong_calls_are_refused(arguments, said):
    with pytest.raises(ConstraintError, match=said):
        calls_spec(**arguments)
