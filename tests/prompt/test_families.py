"""Ways in which tokenizers treat spaces and markers, each against the tokenizer itself."""

import json
from itertools import product

import pytest
from tokenizers import Tokenizer

from agentrt.base.segments import Close, Open, Text
from agentrt.prompt import Codec

TEMPLATE = (
    "<s>{% for m in messages %}[{{ m.role }}]{{ m.content }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
TEXTS = ("Hello  there", " leading", "trailing \n", "\n\nlines\n", "é✈", "a", "x y z " * 40)
TEXT_OF_MARKERS = "<s> </s> <end> [user]"


def load(path, tokenizer):
    (path / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    settings = {"eos_token": "</s>", "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return Codec.load(path)


def agree(codec, tokenizer):
    """The codec and the tokenizer give the same ids to the same chats, cut anywhere."""
    reference = Tokenizer.from_str(json.dumps(tokenizer))
    for first, second in product(TEXTS, TEXTS):
        for cut in (0, 1, len(first) // 2):
            parts = (Text(first[:cut]), Text(first[cut:]))
            chat = (Open("user"), *parts, Close(), Open("user"), Text(second), Close())
            text = codec.render((), chat)
            expected = reference.encode(text, add_special_tokens=False).ids
            assert list(codec.encode((), chat).token_ids) == expected, (first, second, cut)


def marker(index, text, **flags):
    entry = {"id": index, "content": text, "special": True, "normalized": False}
    return {**entry, "single_word": False, "lstrip": False, "rstrip": False, **flags}


@pytest.fixture(scope="module")
def llama(real_tokenizer):
    """Llama's vocabulary, with one more marker."""
    tokenizer = json.loads(real_tokenizer("llama-spm"))
    return {**tokenizer, "normalizer": None, "pre_tokenizer": None}


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
@pytest.mark.parametrize("split", [True, False])
def test_metaspace(llama, tmp_path, scheme, split):
    spaces = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": scheme,
        "split": split,
    }
    added = [*llama["added_tokens"], marker(32000, "<end>")]
    tokenizer = {**llama, "pre_tokenizer": spaces, "added_tokens": added}
    codec = load(tmp_path, tokenizer)
    agree(codec, tokenizer)
    assert codec.parts.texts.seals
    text = codec.detokenizer()
    assert text.feed_ids(codec.parts.texts.encode("naïve ✈", 2)) == "naïve ✈"


@pytest.mark.parametrize("flags", [{"rstrip": True}, {"lstrip": True}])
def test_markers_that_swallow_spaces(real_tokenizer, tmp_path, flags):
    tokenizer = json.loads(real_tokenizer("gpt-2"))
    size = len(tokenizer["model"]["vocab"])
    added = [marker(size, "<s>"), marker(size + 1, "<end>", **flags)]
    tokenizer["added_tokens"] += added
    agree(load(tmp_path, tokenizer), tokenizer)


def test_byte_level_with_a_prefix_space(real_tokenizer, tmp_path):
    tokenizer = json.loads(real_tokenizer("gpt-2"))
    tokenizer["pre_tokenizer"]["pretokenizers"][0]["add_prefix_space"] = True
    size = len(tokenizer["model"]["vocab"])
    tokenizer["added_tokens"] += [marker(size, "<s>"), marker(size + 1, "<end>")]
    agree(load(tmp_path, tokenizer), tokenizer)


def unigram(llama):
    """The same pieces, in a model that knows its own control tokens as text."""
    pieces = sorted(llama["model"]["vocab"].items(), key=lambda item: item[1])
    model = {
        "type": "Unigram",
        "unk_id": 0,
        "vocab": [[text, -float(index) / 1000] for text, index in pieces],
        "byte_fallback": True,
    }
    spaces = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": "first",
        "split": True,
    }
    return {**llama, "model": model, "pre_tokenizer": spaces}


def test_unigram(llama, tmp_path):
    tokenizer = unigram(llama)
    agree(load(tmp_path, tokenizer), tokenizer)


@pytest.mark.parametrize("make", [dict, unigram])
def test_a_vocabulary_that_lists_its_markers(llama, tmp_path, make):
    """Where `</s>` is a piece of the model as well, text still never becomes it."""
    codec = load(tmp_path, make(llama))
    special = set(codec.vocab.special_ids.values())
    assert {1, 2} <= special
    for place in range(3):
        assert not special & set(codec.parts.texts.encode(TEXT_OF_MARKERS, place))


def test_a_normalizer_that_strips_holds_text_back(real_tokenizer, tmp_path):
    tokenizer = json.loads(real_tokenizer("gpt-2"))
    tokenizer["normalizer"] = {"type": "Strip", "strip_left": True, "strip_right": True}
    codec = load(tmp_path, tokenizer)
    assert any("held back" in note for note in codec.notes)
    agree(codec, tokenizer)
