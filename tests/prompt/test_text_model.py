"""Tokenizers that are made of parsed lists are those that are read from the written JSON."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from agentrt.prompt.text_model import UNSPELLABLE, TextModel
from agentrt.prompt.token_bytes import byte_of_character, bytes_by_id

NAMES = ("gpt-2", "deepseek-coder", "phi-3")
SPACES = {
    "id": 900_000,
    "content": "   ",
    "single_word": False,
    "lstrip": False,
    "rstrip": True,
    "normalized": False,
    "special": True,
}


@pytest.fixture(scope="module", params=NAMES)
def tokenizer(request, real_tokenizer):
    return json.loads(real_tokenizer(request.param))


def written(tokenizer, added, **model):
    """The tokenizer as its JSON is read, with another model."""
    settings = {**tokenizer, "model": {**tokenizer["model"], **model}, "added_tokens": added}
    nothing = dict.fromkeys(("post_processor", "truncation", "padding"))
    return Tokenizer.from_str(json.dumps({**settings, **nothing}))


def made(tokenizer, added, markers=frozenset()):
    model = TextModel(tokenizer, added, frozenset(markers))
    return model.tokenizer(tokenizer["pre_tokenizer"], tokenizer["normalizer"])


@pytest.mark.parametrize("added", [[], [SPACES], [SPACES, {**SPACES, "content": "<i>"}]])
def test_lists_give_what_the_text_gives(tokenizer, added):
    assert made(tokenizer, added).to_str() == written(tokenizer, added).to_str()


@pytest.mark.parametrize("form", ["texts", "pairs"])
def test_merges_into_a_marker_are_left_out(tokenizer, form):
    pairs = [
        pair.split(" ") if isinstance(pair, str) else pair for pair in tokenizer["model"]["merges"]
    ]
    parts = {part for pair in pairs for part in pair}
    marker = next(text for pair in reversed(pairs) if (text := "".join(pair)) not in parts)
    left = [pair for pair in pairs if "".join(pair) != marker]
    merges = [" ".join(pair) for pair in pairs] if form == "texts" else pairs
    model = {**tokenizer["model"], "merges": merges, "ignore_merges": True}
    vocab = {
        UNSPELLABLE + text if text == marker else text: i for text, i in model["vocab"].items()
    }
    expected = written(tokenizer, [], merges=left, vocab=vocab, ignore_merges=True)
    assert made({**tokenizer, "model": model}, [], {marker}).to_str() == expected.to_str()


SMALL = {
    "type": "BPE",
    "dropout": 0.5,
    "unk_token": "?",
    "continuing_subword_prefix": "##",
    "end_of_word_suffix": "</w>",
    "fuse_unk": True,
    "byte_fallback": True,
    "ignore_merges": False,
    "vocab": {"?": 0, "a": 1, "##b": 2, "ab": 3},
    "merges": ["#version: 0.2", "a ##b"],
}
PARTS = {"version": "1.0", "pre_tokenizer": None, "normalizer": None, "decoder": None}


@pytest.mark.parametrize("name", sorted(SMALL.keys() - {"continuing_subword_prefix"}))
@pytest.mark.parametrize("leaves", [True, False])
def test_settings_and_those_that_are_missing_keep_their_meaning(name, leaves):
    if leaves:
        model = {key: value for key, value in SMALL.items() if key != name}
    else:
        model = {**SMALL, name: None}
    results = []
    for make in (made, written):
        try:
            results.append(make({**PARTS, "model": model}, []).to_str())
        except Exception as error:  # tokenizers raises bare Exception
            results.append(type(error) is not SystemError)
    assert results[0] == results[1]


@pytest.mark.parametrize("merges", [[["a"]], ["a b c"], [["a", "x"]], [3], ["a"]])
def test_merges_that_are_none_are_refused(merges):
    tokenizer = {**PARTS, "model": {**SMALL, "merges": merges}}
    with pytest.raises(Exception, match=r"."):
        made(tokenizer, [])


def test_added_tokens_that_say_less_are_read_as_they_are():
    added = [{"id": 9, "content": "<x>", "special": False}]
    with pytest.raises(Exception, match="single_word"):
        made({**PARTS, "model": SMALL}, added)


SHOWN = {chr(character): byte for character, byte in byte_of_character().items()}
tokens = st.one_of(
    st.text(st.sampled_from(sorted(SHOWN)), max_size=6), st.text(max_size=4), st.just("<|end|>")
)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(tokens, unique=True, max_size=40), st.integers(0, 1100))
def test_bytes_are_those_of_each_token_by_itself(some, before):
    texts = [*(f"{number}" for number in range(before)), *some]
    vocab = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    found = bytes_by_id({"model": {"vocab": vocab}, "decoder": {"type": "ByteLevel"}})
    assert found == {index: expected_bytes(text) for text, index in vocab.items()}


def expected_bytes(text):
    """Bytes of a token: of its characters, or of one that was added as text."""
    if all(one in SHOWN or ord(one) < 256 for one in text):
        return bytes(SHOWN.get(one, ord(one)) for one in text)
    return text.encode()
