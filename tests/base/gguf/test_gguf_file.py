"""A GGUF file is read whole or refused in one line, whatever its bytes are."""

import contextlib
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.byte_cursor import ByteCursor, OutOfBounds
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.base.gguf.gguf_file import GgufFile, open_gguf
from tests.gguf_writer import gguf_bytes, stored, text, typed

FIELDS = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.rope.freq_base": 5e5,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.tokens": ["a", "\u0120b", ""],
    "tokenizer.ggml.scores": [0.0, -1.5, 2.0],
    "tokenizer.ggml.token_type": [1, 3, 1],
}
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
TENSORS = {"first": stored(MATRIX), "second": stored(MATRIX[0], "F16")}
WHOLE = gguf_bytes(FIELDS, TENSORS)
MAKER_BYTES = st.sampled_from([b"\x00", b"\xff", b"\x7f", b"\x80", b"\x01", b"\x08", b"\x09"])


def opened(folder, data):
    path = folder / "x.gguf"
    path.write_bytes(data)
    return GgufFile(path)


def refusal(folder, data):
    with pytest.raises(ModelInvalid) as caught:
        opened(folder, data)
    assert caught.value.message.startswith(f"{folder / 'x.gguf'} is no whole GGUF file: ")
    assert caught.value.hint
    return caught.value.message


def test_all_that_was_written_is_read(tmp_path):
    file = opened(tmp_path, WHOLE)
    assert list(file.names()) == list(FIELDS)
    assert file.text("general.architecture") == "llama"
    assert file.integer("llama.block_count") == 2
    assert file.number("llama.rope.freq_base") == 5e5
    assert file.number("llama.block_count") == 2.0
    assert file.flag("tokenizer.ggml.add_bos_token") is True
    assert file.texts("tokenizer.ggml.tokens") == ["a", "\u0120b", ""]
    assert file.numbers("tokenizer.ggml.scores") == [0.0, -1.5, 2.0]
    assert file.numbers("tokenizer.ggml.token_type") == [1, 3, 1]
    assert file.scalar("llama.block_count") == 2
    assert file.scalar("tokenizer.ggml.tokens") is None
    first, second = file.tensors["first"], file.tensors["second"]
    assert (first.shape, first.type.name, first.size) == ((3, 4), "F32", 48)
    assert (second.shape, second.type.name, second.size) == ((4,), "F16", 8)
    read = np.frombuffer(file.data, np.float32, 12, first.start).reshape(3, 4)
    assert (read == MATRIX).all()
    assert second.start % 32 == first.start % 32 == 0


def test_a_number_of_32_bits_is_the_decimal_that_was_written(tmp_path):
    values = {"a": 1e-6, "b": 1e-5, "c": 5e5, "d": 0.1, "e": 1 / 3, "f": float("inf"), "g": 3e38}
    file = opened(tmp_path, gguf_bytes(values, {}))
    read = {name: file.scalar(name) for name in values}
    third = struct.unpack("<f", struct.pack("<f", 1 / 3))[0]
    assert read == {**values, "e": pytest.approx(third, rel=1e-7)}
    assert struct.pack("<f", read["e"]) == struct.pack("<f", third)


def test_defaults_stand_for_what_is_missing(tmp_path):
    file = opened(tmp_path, WHOLE)
    assert file.text("none", "x") == "x"
    assert file.integer("none", 3) == 3
    assert file.number("none", 0.5) == 0.5
    assert file.flag("none", False) is False
    assert file.texts("none") == file.numbers("none") == []


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda file: file.integer("none"), "it does not say none"),
        (lambda file: file.integer("general.architecture"), "is no whole number"),
        (lambda file: file.integer("tokenizer.ggml.add_bos_token"), "is no whole number"),
        (lambda file: file.integer("llama.rope.freq_base"), "is no whole number"),
        (lambda file: file.text("llama.block_count"), "is no text"),
        (lambda file: file.flag("llama.block_count"), "is no truth value"),
        (lambda file: file.texts("llama.block_count"), "is no list"),
        (lambda file: file.texts("tokenizer.ggml.scores"), "is no list of texts"),
        (lambda file: file.numbers("tokenizer.ggml.tokens"), "is no list of numbers"),
        (lambda file: file.text("tokenizer.ggml.tokens"), "is no text"),
    ],
)
def test_values_of_other_types_are_refused(tmp_path, read, message):
    with pytest.raises(ModelInvalid, match=message):
        read(opened(tmp_path, WHOLE))


def test_a_file_cut_anywhere_is_refused(tmp_path):
    end = len(WHOLE) - 24  # the last tensor has 8 bytes of its 32
    for size in range(1, end):
        refusal(tmp_path, WHOLE[:size])
    assert opened(tmp_path, WHOLE[:end]).tensors


def test_no_file_and_an_empty_one(tmp_path):
    with pytest.raises(ModelInvalid, match="there is no file"):
        open_gguf(tmp_path / "none.gguf")
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(ModelInvalid, match=r"empty\.gguf is no whole GGUF file: it is empty"):
        open_gguf(tmp_path / "empty.gguf")


def header(fields=b"", field_count=0, tensors=b"", tensor_count=0, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensor_count, field_count) + fields + tensors


def tensor(name="a", sizes=(4,), kind=0, start=0):
    facts = struct.pack(f"<I{len(sizes)}QiQ", len(sizes), *sizes, kind, start)
    return text(name) + facts


HUGE = struct.pack("<Q", 1 << 62)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GGML" + WHOLE[4:], "does not begin with GGUF"),
        (header(version=1), "of version 1"),
        (header(version=3 << 24), "for big-endian machines"),
        (header(field_count=1 << 60), "claims"),
        (header(tensor_count=1 << 60), "claims"),
        (header(HUGE, 1), "claims a text of"),
        (header(text("a") + struct.pack("<I", 8) + HUGE, 1), "claims a text of"),
        (header(text("a") + struct.pack("<I", 99), 1), "unknown type 99"),
        (header(text("a") + struct.pack("<II", 9, 8) + HUGE, 1), "claims"),
        (header(text("a") + struct.pack("<II", 9, 5) + HUGE, 1), "claims"),
        (header(text("a") + struct.pack("<IIQ", 9, 9, 1), 1), "list of the unknown type 9"),
        (header(2 * (text("a") + typed(1)), 2), "says a twice"),
        (header(text("general.alignment") + typed(12), 1), "no power of two"),
        (header(text("general.alignment") + typed(0), 1), "no power of two"),
        (header(tensors=2 * tensor(), tensor_count=2) + bytes(64), "holds a twice"),
        (header(tensors=tensor(sizes=()), tensor_count=1), "has 0 dimensions"),
        (header(tensors=tensor(sizes=(1,) * 5), tensor_count=1), "has 5 dimensions"),
        (header(tensors=tensor(sizes=(0,)), tensor_count=1), r"a is \[0\] in F32"),
        (header(tensors=tensor(sizes=(1 << 40, 1 << 40)), tensor_count=1), "in F32"),
        (header(tensors=tensor(sizes=(33,), kind=8), tensor_count=1), r"\[33\] in Q8_0"),
        (header(tensors=tensor(kind=-1), tensor_count=1), "unknown type -1"),
        (header(tensors=tensor(start=8), tensor_count=1) + bytes(64), "off its alignment"),
        (header(tensors=tensor(start=1 << 62), tensor_count=1), "ends before a does"),
        (header(struct.pack("<Q", 1) + b"\xff", 1), "a name is not UTF-8"),
    ],
)
def test_what_a_header_claims_is_checked(tmp_path, data, message):
    assert re.search(message, refusal(tmp_path, data))


@settings(derandomize=True, max_examples=400, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=9) | MAKER_BYTES),
        max_size=4,
    ),
    st.integers(0, len(WHOLE)),
)
def test_any_bytes_are_read_or_refused(tmp_path_factory, changes, end):
    data = bytearray(WHOLE)
    for at, raw in changes:
        data[at : at + len(raw)] = raw
    path = tmp_path_factory.mktemp("fuzz") / "x.gguf"
    path.write_bytes(bytes(data[: end or None]))
    with contextlib.suppress(ModelInvalid):
        file = GgufFile(path)
        for name in file.names():
            for read in (file.text, file.integer, file.number, file.texts, file.numbers):
                with contextlib.suppress(ModelInvalid):
                    read(name)
        for place in file.tensors.values():
            assert place.start + place.size <= len(file.data)


def test_the_suffix_tells():
    assert is_gguf(Path("a/b.GGUF"))
    assert not is_gguf(Path("a/gguf"))


def test_a_file_that_changes_is_read_again(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(WHOLE)
    first = open_gguf(path)
    assert open_gguf(path) is first
    path.unlink()
    path.write_bytes(gguf_bytes({**FIELDS, "more": 1}, TENSORS))
    second = open_gguf(path)
    assert second.integer("more") == 1
    assert second.header_digest != first.header_digest


@given(st.lists(st.binary(max_size=9), max_size=5), st.integers(0, 3), st.booleans())
def test_texts_are_those_of_one_read_after_the_other(texts, missing, is_cut):
    data = b"".join(struct.pack("<Q", len(one)) + one for one in texts)
    end = max(0, len(data) - 1) if is_cut else len(data)
    count = len(texts) + missing
    results: list[object] = []
    for read in (ByteCursor.texts, one_by_one):
        cursor = ByteCursor(data, end)
        try:
            results.append((read(cursor, count), cursor.at))
        except OutOfBounds:
            results.append("out of bounds")
    assert results[0] == results[1]


def one_by_one(cursor, count):
    return [cursor.text_bytes(99) for _ in range(count)]
