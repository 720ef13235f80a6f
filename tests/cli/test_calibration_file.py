"""Calibration files: texts and chats as the model's tokens, and one clear error for a bad line."""

from __future__ import annotations

import json

import pytest

from agentrt import embedded
from agentrt.base.errors import UsageError
from agentrt.base.segments import Close, Open, Text
from agentrt.cli.calibration_file import read_sequences
from agentrt.prompt.codec import Codec


@pytest.fixture(scope="module")
def codec():
    return Codec.load(embedded.path())


def read(path, codec, length=512, most=128):
    return read_sequences(path, codec, length=length, most=most, flag="--calibrate")


def test_a_text_is_cut_into_pieces(tmp_path, codec):
    path = tmp_path / "text.txt"
    path.write_text("The price of KO rose by 3 percent. " * 20)
    whole = codec.text_ids(path.read_text())
    pieces = read(path, codec, length=50)
    assert all(len(piece) == 50 for piece in pieces[:-1])
    assert tuple(token for piece in pieces for token in piece) == whole
    assert read(path, codec, length=50, most=2) == pieces[:2]


def test_lines_are_texts_and_chats(tmp_path, codec):
    path = tmp_path / "some.jsonl"
    messages = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
    lines = [{"text": "One two."}, {"messages": messages, "source": "mail"}]
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    chat = [Open("user"), Text("Hi."), Close(), Open("assistant"), Text("Hello."), Close()]
    assert read(path, codec) == [codec.text_ids("One two."), codec.encode((), chat).token_ids]


def test_tools_are_written_as_the_template_has_them(tmp_path, codec):
    path = tmp_path / "some.jsonl"
    function = {"name": "price", "parameters": {"type": "object", "properties": {}}}
    chat = {"messages": [{"role": "user", "content": "Hi."}]}
    path.write_text(json.dumps(chat))
    (plain,) = read(path, codec)
    path.write_text(json.dumps(chat | {"tools": [{"type": "function", "function": function}]}))
    (longer,) = read(path, codec)
    assert len(longer) > len(plain)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ("[1]", "is no object"),
        ("{}", "has neither a text nor a list of messages"),
        ('{"text": 3}', "has neither"),
        ('{"text": "a", "messages": []}', "has neither"),
        ('{"messages": [{"role": "queen", "content": "a"}]}', "is no chat: message 0"),
        ('{"messages": ["a"]}', "is no chat: message 0"),
        ('{"messages": [], "tools": [{}]}', "is no chat: a tool lacks 'function'"),
    ],
)
def test_a_bad_line_is_named(line, reason, tmp_path, codec):
    path = tmp_path / "some.jsonl"
    path.write_text(f'{{"text": "One two three."}}\n{line}\n')
    with pytest.raises(UsageError, match=r"some\.jsonl:2 ") as caught:
        read(path, codec)
    assert reason in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", ["empty.txt", "empty.jsonl"])
def test_a_file_without_text_is_refused(name, tmp_path, codec):
    (tmp_path / name).write_text("\n\n")
    with pytest.raises(UsageError, match="has no text"):
        read(tmp_path / name, codec)


@pytest.mark.parametrize("name", ["none.txt", "none.jsonl", "bytes.txt", "bytes.jsonl"])
def test_a_file_that_cannot_be_read_is_one_error(name, tmp_path, codec):
    if name.startswith("bytes"):
        (tmp_path / name).write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / name, codec)
