"""Text comes out as it is certain, and never half a character."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt import embedded
from agentrt.prompt import Codec, Detokenizer
from agentrt.prompt.text_encoder import TextPosition

BYTES = [bytes([value]) for value in range(256)]


@pytest.fixture(scope="module")
def codec():
    return Codec.load(embedded.path())


@settings(derandomize=True, max_examples=200)
@given(text=st.text(max_size=12), data=st.data())
def test_any_cut_of_bytes_gives_the_text(text, data):
    raw = text.encode("utf-8")
    cut = data.draw(st.integers(0, len(raw)))
    detokenizer = Detokenizer(BYTES)
    parts = [detokenizer.feed_ids(raw[:cut]), detokenizer.feed_ids(raw[cut:]), detokenizer.flush()]
    assert "".join(parts) == text
    assert text.startswith(parts[0])
    assert "\ufffd" not in parts[0] or "\ufffd" in text


def test_an_unfinished_character_is_marked_at_the_end():
    detokenizer = Detokenizer(BYTES)
    assert detokenizer.feed_ids([0xC3]) == ""
    assert detokenizer.flush() == "\ufffd"


def test_bytes_that_are_no_text_are_marked_and_passed():
    detokenizer = Detokenizer(BYTES)
    assert detokenizer.feed_ids([0xFF, 0x41]) == "\ufffdA"


def test_ids_outside_the_vocabulary_have_no_text():
    assert Detokenizer(BYTES).feed_ids([65, 4096, -1, 66]) == "AB"


@settings(derandomize=True, max_examples=100, deadline=None)
@given(text=st.text(max_size=20))
def test_encoding_comes_back(codec, text):
    ids = codec.parts.texts.encode(text, TextPosition.AFTER_MARKER)
    detokenizer = codec.detokenizer()
    assert detokenizer.feed_ids(ids) + detokenizer.flush() == text


def test_special_tokens_show_only_when_asked(codec):
    call = codec.vocab.special_ids["<|call|>"]
    assert codec.detokenizer(keep_special=True).feed_ids([call]) == "<|call|>"
    assert codec.detokenizer().feed_ids([call]) == ""


@pytest.mark.parametrize("name", ["gpt-2", "phi-3", "qwen2"])
def test_real_vocabularies_spell_what_they_encode(real_codec, name):
    codec = real_codec(name)
    text = "naïve 東京 \U0001f600\u200d\U0001f4bb don't  12345\n\n\tx \u00a0."
    ids = codec.parts.texts.encode(text, TextPosition.INSIDE)
    detokenizer = codec.detokenizer()
    assert "".join(detokenizer.feed_ids([i]) for i in ids) + detokenizer.flush() == text
    assert codec.vocab.size <= codec.vocab.logits_size
    assert all(codec.vocab.token_bytes[i] == b"" for i in codec.vocab.special_ids.values())
