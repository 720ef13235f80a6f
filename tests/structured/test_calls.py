"""Calls in the model's own frame: exactly the offered tools, with exactly their arguments."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import numpy as np
import pytest

from agentrt.base.errors import ConstraintError
from agentrt.base.json_style import styled_json
from agentrt.base.segments import JSON_ARRAY_FRAME, CallFrame, ToolSchema
from agentrt.structured import CallScanner, CallText, calls_spec, choice_shape, compile_constraint
from agentrt.structured.calls import MAX_READ_CHARACTERS
from agentrt.structured.matcher import allowed_ids, bitmask_words
from agentrt.structured.sandbox.cache import cache_key
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
NOW_CALL = call("now", "{}")
TWO = ONE + NOW_CALL

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


FREE = [
    (32, "", True),
    (32, "What it cost?", True),
    (32, "So: " + ONE, True),
    (32, ONE + " and " + TWO + " done", True),
    (32, 'see <|cal and {"name":"price"', True),
    (32, "So: " + call("missing", "{}"), False),
    (32, ONE + call("price", "{}"), False),
    (32, "So: " + ONE[:-9], False),
    (1, "So: " + ONE + " done", True),
    (1, ONE + NOW_CALL, False),
    (1, ONE + " and " + NOW_CALL, False),
    (2, ONE + " and " + NOW_CALL + " done", True),
    (2, ONE + " and " + TWO, False),
]


@pytest.mark.parametrize(("most", "text", "fits"), FREE)
def test_calls_among_text(accepts, most, text, fits):
    """Text is free, but for what opens a call."""
    assert accepts(calls_spec((PRICE, NOW), None, 0, most, text=True), text) is fits


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


TAGS = CallFrame(
    before='<tool_call>\n{"name": "',
    middle='", "arguments": ',
    after="}\n</tool_call>",
    between="\n",
)
SPECIAL = CallFrame(
    before='<|call|>{"name":"',
    middle='","arguments":',
    after="}<|/call|>",
    special=("<|call|>", "<|/call|>"),
)
FUNCTIONS = CallFrame(before="<function=", middle=">", after="</function>")
CHANNELS = CallFrame(
    before="<|tool|>commentary to=functions.",
    middle="<|assistant|>",
    after="<|/call|>",
    special=("<|tool|>", "<|assistant|>", "<|/call|>"),
)
LISTED = CallFrame(
    before='{"name": "',
    middle='", "arguments": ',
    after="}",
    between=", ",
    first="<|call|>[",
    last="]",
    special=("<|call|>",),
)
FRAMES = {
    "array": JSON_ARRAY_FRAME,
    "tags": TAGS,
    "special": SPECIAL,
    "functions": FUNCTIONS,
    "channels": CHANNELS,
    "listed": LISTED,
}


def spelled(text, vocab):
    return alphabet_of(vocab).tokenizer.tokenize_str(text, parse_special=True)


def written(ids, vocab):
    names = {at: name.encode() for name, at in vocab.special_ids.items()}
    return b"".join(names.get(one) or vocab.token_bytes[one] for one in ids)


class Walk:
    """Follows a state by drawn tokens; each mask is held to what the state accepts."""

    def __init__(self, constraint, vocab, dice, tempting):
        self.state, self.vocab, self.dice = constraint.start(), vocab, dice
        self.tempting = [spelled(one, vocab) for one in tempting]
        self.row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
        self.ids = []

    def allowed(self):
        self.state.fill_bitmask(self.row)
        return allowed_ids(self.row)

    def go(self, steps):
        plan: list[int] = []
        while len(self.ids) < steps and not self.state.must_stop():
            allowed = [one for one in self.allowed() if one not in self.vocab.eos_ids]
            if not allowed:
                break
            plan = plan or list(self.dice.choice(self.tempting))
            token = plan.pop(0) if plan[0] in allowed else self.dice.choice(allowed)
            plan = plan if token in allowed and self.dice.random() < 0.9 else []
            assert self.state.advance([token]) == 1
            self.ids.append(token)
        rest = self.state.completion(400)
        assert rest is not None
        assert self.state.advance(rest) == len(rest)
        assert self.state.can_stop()
        return written([*self.ids, *rest], self.vocab).decode(errors="replace")


NARROW = ToolSchema(
    "price_at",
    "",
    {
        "type": "object",
        "properties": {"month": {"type": "integer", "minimum": 1, "maximum": 12}},
        "required": ["month"],
    },
)
OFFERED = (PRICE, NOW, NARROW)  # one name begins another


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("seed", range(12))
def test_any_walk_is_text_or_calls(vocab, frame, seed):
    """Drawn tokens, drawn to what a model would try: what is read are calls that fit."""
    dice = random.Random(seed)
    spec = calls_spec(OFFERED, None, 0, dice.choice([1, 2, 32]), text=True)
    constraint = compile_constraint(spec, vocab, frame)
    opening = frame.first + frame.before
    tempting = [opening, opening + "price", opening + "other", '{"month":13}', "symbol", " the "]
    text = Walk(constraint, vocab, dice, tempting).go(60)
    scanner = CallScanner(frame)
    calls = scanner.feed_text(text)
    scanner.end_text()
    assert not scanner.in_call
    assert len(calls) <= spec.max_calls
    offered = {tool.name: tool.parameters for tool in OFFERED}
    for call_made in calls:
        jsonschema.validate(json.loads(call_made.arguments_json), offered[call_made.name])


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("final", [None, ANSWER, {"type": "array"}])
def test_tokens_are_undone_across_names(vocab, frame, final):
    """Behind any number of undone tokens the masks are those of a state that never saw them."""
    dice = random.Random(5)
    constraint = compile_constraint(calls_spec(OFFERED, final), vocab, frame)
    walk = Walk(constraint, vocab, dice, [frame.first + frame.before + "price_at"])
    walk.go(50)
    for _ in range(20):
        kept = dice.randrange(len(walk.ids))
        state, fresh = constraint.start(), constraint.start()
        assert state.advance(walk.ids) == len(walk.ids)
        copy = state.fork()
        state.rollback(len(walk.ids) - kept)
        fresh.advance(walk.ids[:kept])
        rows = [np.zeros_like(walk.row) for _ in range(3)]
        state.fill_bitmask(rows[0])
        fresh.fill_bitmask(rows[1])
        assert (rows[0] == rows[1]).all()
        assert state.advance(walk.ids[kept:]) == len(walk.ids) - kept
        state.fill_bitmask(rows[0])
        copy.fill_bitmask(rows[2])
        assert (rows[0] == rows[2]).all()


@pytest.mark.parametrize("frame", [JSON_ARRAY_FRAME, TAGS], ids=["array", "tags"])
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
    ({"tools": (ToolSchema("t", "", {"$ref": "other.json"}),)}, r"tool t: /\$ref"),
    ({"tools": (NOW,), "final_schema": {"$ref": "other.json"}}, r"/\$ref"),
    ({"tools": (NOW,), "text": True}, "free text"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_wrong_calls_are_refused(arguments, said):
    with pytest.raises(ConstraintError, match=said):
        calls_spec(**arguments)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"type": "objekt"}, "tool t: /type: must be one or more of"),
        ({"properties": {"a": {"minLength": -1}}}, "tool t: /properties/a/minLength: must be"),
        ({"properties": {"a": {"enum": [object()]}}}, "tool t: no JSON value"),
        ({"properties": {"a": {"pattern": "a\x00"}}}, "tool t: regex holds a NUL"),
    ],
)
def test_malformed_schemas_are_refused_at_once(parameters, said):
    with pytest.raises(ConstraintError, match=said):
        calls_spec([NOW, ToolSchema("t", "", parameters)], checks_tools=False)


def test_few_schemas_are_read_at_once():
    """Reading goes on the caller's thread, so its cost is bounded; each is read once."""
    long = {"type": "object", "properties": {f"p{n}": {"type": "null"} for n in range(200)}}
    tools = [ToolSchema(f"t{n}", "", {**long, "title": f"{n}"}) for n in range(6)]
    assert sum(len(styled_json(tool.parameters)) for tool in tools) > MAX_READ_CHARACTERS
    tools.append(ToolSchema("bad", "", {"type": "objekt"}))
    calls_spec(tools, checks_tools=False)

    def declare_often():
        for _ in tools:  # each reads one or more of them
            calls_spec(tools, checks_tools=False)

    with pytest.raises(ConstraintError, match="tool bad: /type"):
        declare_often()


def test_schemas_of_older_drafts_are_no_fault():
    older = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}
    bound = {"a": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}
    calls_spec([ToolSchema("t", "", {**older, "properties": bound})], checks_tools=False)


class Watched(dict[str, Any]):
    """A schema that counts how often it is written out."""

    written = 0

    def items(self):
        self.written += 1
        return super().items()


def test_the_key_of_a_tool_set_reads_each_schema_once(vocab, frame):
    """Of a set with one changed tool, only that tool's schema is written out."""

    def key(tools):
        return cache_key(calls_spec(tools, checks_tools=False), vocab, frame)

    schemas = [Watched({"type": "object", "title": f"t{n}"}) for n in range(20)]
    tools = [ToolSchema(f"digest_{n}", "", schema) for n, schema in enumerate(schemas)]
    first = key(tools)
    assert key(tools) == first
    assert [schema.written for schema in schemas] == [1] * 20
    tools[7] = ToolSchema("digest_7", "", Watched({"type": "object", "title": "other"}))
    assert key(tools) != first
    assert [schema.written for schema in schemas] == [1] * 20
    tools[7] = ToolSchema("digest_7", "", {"type": "object", "title": "t7"})
    assert key(tools) == first
    assert key(tools[::-1]) != first
