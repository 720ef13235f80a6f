"""Frames of calls in real templates: found, written as the template writes them, held, and read."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from agentrt.base.segments import (
    ArgumentFrame,
    CallFrame,
    CallMade,
    Close,
    Open,
    ResultOf,
    Segment,
    Text,
    ToolSchema,
)
from agentrt.prompt import Codec
from agentrt.structured import CallScanner, bitmask_words, calls_spec, compile_constraint
from agentrt.structured.matcher import allowed_ids
from tests.prompt.call_codecs import TEMPLATES, call_codec

LLAMA = "meta-llama-Llama-3.1-8B-Instruct"
GLM_SPECIAL = tuple(f"<{name}>" for name in ("/arg_key", "/arg_value", "/tool_call", "arg_key"))
GLM_SPECIAL += ("<arg_value>", "<tool_call>")
ELEMENTS = CallFrame(
    before="<tool_call>\n<function=",
    middle=">\n",
    after="</function>\n</tool_call>",
    between="\n",
    special=("</tool_call>", "<tool_call>"),
    argument=ArgumentFrame("<parameter=", ">\n", "\n</parameter>\n", style="spaced"),
)
FRAMES = {
    "Qwen3-Coder": ELEMENTS,
    "Qwen3.5-4B": ELEMENTS,
    "gpt-oss-120b": CallFrame(
        before=" to=functions.",
        middle="<|channel|>commentary json<|message|>",
        after="",
        between="\n",
        special=("<|channel|>", "<|message|>"),
        style="spaced",
    ),
    "GLM-4.6": CallFrame(
        before="<tool_call>",
        middle="\n",
        after="</tool_call>",
        between="\n",
        special=GLM_SPECIAL,
        argument=ArgumentFrame(
            "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", style="spaced"
        ),
    ),
    "GLM-4.7-Flash": CallFrame(
        before="<tool_call>",
        middle="",
        after="</tool_call>",
        special=GLM_SPECIAL,
        argument=ArgumentFrame(
            "<arg_key>", "</arg_key><arg_value>", "</arg_value>", style="spaced"
        ),
    ),
    "MiniMax-M2": CallFrame(
        before='<invoke name="',
        middle='">\n',
        after="</invoke>\n",
        first="\n<minimax:tool_call>\n",
        last="</minimax:tool_call>",
        special=("</minimax:tool_call>", "<minimax:tool_call>"),
        argument=ArgumentFrame('<parameter name="', '">', "</parameter>\n", style="spaced"),
    ),
    "deepseek-ai-DeepSeek-V3.2": CallFrame(
        before='｜DSML｜invoke name="',
        middle='">\n',
        after="</｜DSML｜invoke>\n<",
        first="\n\n<｜DSML｜function_calls>\n<",
        last="/｜DSML｜function_calls>",
        special=("｜DSML｜",),
        argument=ArgumentFrame(
            '<｜DSML｜parameter name="',
            '" string="true">',
            "</｜DSML｜parameter>\n",
            '" string="false">',
            style="spaced",
        ),
    ),
    LLAMA: CallFrame(
        before='{"name": "', middle='", "parameters": ', after="}", between="\n", style="spaced"
    ),
}
WRITE = ToolSchema(
    "write",
    "Writes a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "pattern": "^[a-z/.]{1,20}$"},
            "body": {"type": "string", "maxLength": 40},
            "lines": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
            "sync": {"type": "boolean"},
            "mode": {"enum": ["a", "w", None]},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
)
LIST = ToolSchema("list", "Lists files.", {"type": "object", "properties": {}})
TOOLS = (WRITE, LIST)
ARGUMENTS: list[dict[str, Any]] = [
    {"path": "a/b.py", "body": 'x = "1"\n  y', "lines": [1, 20], "sync": True, "mode": None},
    {"path": "a", "body": "true", "sync": False},
    {"path": "a", "body": "<parameter=b>\n5\n</parameter>\n", "mode": "a"},
    {"path": "a", "body": "<x></x>\n<", "mode": "a"},
    {"path": "a", "body": "\n</arg_value>\n"},
    {"path": "a", "lines": []},
]


@pytest.fixture(params=FRAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def codec(name: str, request: pytest.FixtureRequest) -> Codec:
    """A codec of each template; most are in the fetched archive, if there is one."""
    here = (TEMPLATES / f"{name}.jinja").is_file()
    return call_codec(name, TEMPLATES if here else request.getfixturevalue("archive"))


def call_of(index: int, arguments: dict[str, Any]) -> CallMade:
    text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return CallMade(f"call{index:05d}", "write", text)


def chat_of(*calls: CallMade) -> tuple[Segment, ...]:
    results: list[Segment] = []
    for call in calls:
        results += [Open("tool"), ResultOf(call.call_id, call.name), Text("ok"), Close()]
    asked = (Open("user"), Text("Write it."), Close())
    return (*asked, Open("assistant"), *calls, Close(), *results)


def tokens_of(codec: Codec, text: str) -> list[int]:
    tokenizer = Tokenizer.from_str(codec.vocab.tokenizer_json)
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def names_of(codec: Codec) -> dict[int, bytes]:
    return {at: name.encode() for name, at in codec.vocab.special_ids.items()}


def test_frames_are_found_in_the_templates(name: str, codec: Codec) -> None:
    assert codec.call_frame == FRAMES[name]
    assert not any("JSON array" in note for note in codec.notes)


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_history_is_what_the_template_writes(codec: Codec, arguments: dict[str, Any]) -> None:
    """An earlier call in a prompt is written just as the model would have to write it."""
    chat = chat_of(call_of(0, arguments))
    ids = codec.encode(TOOLS, chat).token_ids
    detokenizer = codec.detokenizer(keep_special=True)
    text = detokenizer.feed_ids(ids) + detokenizer.flush()
    assert text == codec.render(TOOLS, chat)
    frame = codec.call_frame
    written = frame.arguments_text(call_of(0, arguments).arguments_json)
    assert f"{frame.before}write{frame.middle}{written}{frame.after}" in text


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_calls_of_the_template_are_allowed_and_read(
    codec: Codec, arguments: dict[str, Any]
) -> None:
    frame = codec.call_frame
    written = frame.arguments_text(call_of(0, arguments).arguments_json)
    text = f"{frame.first}{frame.before}write{frame.middle}{written}{frame.after}{frame.last}"
    compiled = compile_constraint(calls_spec(TOOLS, max_calls=1), codec.vocab, frame)
    state = compiled.start()
    tokens = tokens_of(codec, text)
    fits = frame.argument is None or frame.argument.after not in arguments.get("body", "")
    assert (state.advance(tokens) == len(tokens) and state.can_stop()) is fits
    if fits:
        (found,) = CallScanner(frame, TOOLS).feed_text(text)
        assert json.loads(found.arguments_json) == arguments


@pytest.mark.parametrize("seed", range(4))
def test_uniform_walks_are_calls_that_fit(codec: Codec, seed: int) -> None:
    from jsonschema import Draft202012Validator

    dice, frame, names = random.Random(seed), codec.call_frame, names_of(codec)
    state = compile_constraint(calls_spec(TOOLS, max_calls=2), codec.vocab, frame).start()
    row = np.zeros(bitmask_words(codec.vocab.logits_size), dtype=np.int32)
    walked: list[int] = []
    while len(walked) < 40 and not state.can_stop():
        state.fill_bitmask(row)
        walked.append(dice.choice(allowed_ids(row)))
        assert state.advance(walked[-1:]) == 1
    rest = state.completion(400)
    assert rest is not None
    tokens = [*walked, *rest]
    data = b"".join(names.get(token) or codec.vocab.token_bytes[token] for token in tokens)
    found = CallScanner(frame, TOOLS).feed_text(data.decode())
    assert found
    for call in found:
        schema = next(tool.parameters for tool in TOOLS if tool.name == call.name)
        Draft202012Validator(schema).validate(json.loads(call.arguments_json))


def test_text_may_stand_around_calls(codec: Codec, name: str) -> None:
    """The opening of a call is told from text, and text goes on behind its end."""
    frame = codec.call_frame
    spec = calls_spec(TOOLS, min_calls=0, text=True)
    state = compile_constraint(spec, codec.vocab, frame).start()
    arguments = frame.arguments_text("{}")
    call = f"{frame.first}{frame.before}list{frame.middle}{arguments}{frame.after}{frame.last}"
    for part in ("I look.\n", call, "\nDone, ", "\n", call):
        tokens = tokens_of(codec, part)
        assert state.advance(tokens) == len(tokens), part
    assert state.can_stop()
    scanner = CallScanner(frame, TOOLS)
    whole = f"I look.\n{call}\nDone, \n{call}"
    pieces = [whole[at:end] for at, end in pairwise([*range(0, len(whole), 5), len(whole)])]
    assert [one.name for piece in pieces for one in scanner.feed_text(piece)] == ["list", "list"]
    assert scanner.end_text() == "I look.\n\nDone, \n"
