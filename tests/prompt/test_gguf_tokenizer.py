"""The tokenizer and the template in a GGUF file are those of the model's directory."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from agentrt import embedded
from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.gguf_file import open_gguf
from agentrt.base.segments import Close, Open, Segment, Text
from agentrt.prompt import Codec
from agentrt.prompt.gguf_model_files import read_gguf_model_files
from agentrt.prompt.pre_tokenizers import PRE_TOKENIZERS
from agentrt.prompt.text_encoder import TextPosition
from tests.gguf_writer import write_gguf

SEPARATOR = "\n__ggml_vocab_test__\n"
VOCABULARIES = (
    *("gpt-2", "mpt", "starcoder", "refact", "command-r", "deepseek-coder", "qwen2", "qwen35"),
    *("llama-bpe", "llama-spm", "phi-3"),
)
TEXTS = ("Order 12 lamps to Rome.", "  naïve 東京\n\n", "A<|end|>b", "I'll we've HTTPServer2x", "")


def embedded_fields(**more):
    """Metadata of the embedded model as llama.cpp names it."""
    tokenizer = json.loads((embedded.path() / "tokenizer.json").read_text("utf-8"))
    template = (embedded.path() / "chat_template.jinja").read_text("utf-8")
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = {**tokenizer["model"]["vocab"], **special}
    tokens = sorted(ids, key=ids.__getitem__)
    fields = {
        "general.architecture": "llama",
        "llama.context_length": 4096,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "tekken",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if one in special else 1 for one in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": special["<|begin|>"],
        "tokenizer.ggml.eos_token_id": special["<|end|>"],
        "tokenizer.chat_template": template,
        **more,
    }
    return {name: value for name, value in fields.items() if value is not None}


def sentencepiece_fields(**more):
    """A SentencePiece vocabulary: every byte, a few letters, and what their merges give."""
    pieces = {"\u2581": -1.0, "a": -2.0, "b": -3.0, "\u2581a": -4.0, "ab": -5.0, "\u2581ab": -6.0}
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    fields = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + list(pieces.values()),
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(pieces)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        **more,
    }
    return fields


@pytest.fixture
def load(tmp_path):
    return lambda fields: Codec.load(write_gguf(tmp_path / "x.gguf", fields, {}))


def shown(codec, ids):
    return [codec.bytes_of(one).decode("utf-8", "replace") for one in ids]


def test_a_chat_has_the_ids_of_the_directory(load):
    codec, own = load(embedded_fields()), Codec.load(embedded.path())
    chat: tuple[Segment, ...] = (
        Open("system"),
        Text("Be brief."),
        Close(),
        Open("user"),
        *[Text(one) for one in TEXTS],
        Close(),
    )
    assert codec.encode((), chat).token_ids == own.encode((), chat).token_ids
    for text in TEXTS:
        assert codec.text_ids(text, special=False) == own.text_ids(text, special=False)
    assert codec.vocab.token_bytes == own.vocab.token_bytes
    assert codec.vocab.special_ids == own.vocab.special_ids
    assert set(codec.vocab.eos_ids) == set(own.vocab.eos_ids)
    assert codec.window_tokens == 4096
    assert codec.notes == own.notes


def test_a_text_begins_as_the_file_says(load):
    own = Codec.load(embedded.path()).vocab.special_ids
    begin, end = own["<|begin|>"], own["<|end|>"]
    assert load(embedded_fields()).parts.text_frame == ((begin,), ())  # as tekken does by itself
    without = load(embedded_fields(**{"tokenizer.ggml.add_bos_token": False}))
    assert without.parts.text_frame == ((), ())
    both = load(embedded_fields(**{"tokenizer.ggml.add_eos_token": True}))
    assert both.parts.text_frame == ((begin,), (end,))
    plain = load(embedded_fields(**{"tokenizer.ggml.pre": "qwen2"}))
    assert plain.parts.text_frame == ((), ())


def test_ends_are_those_that_the_file_names(load):
    special = Codec.load(embedded.path()).vocab.special_ids
    user = special["<|user|>"]
    codec = load(embedded_fields(**{"tokenizer.ggml.eot_token_id": user}))
    assert {special["<|end|>"], user} <= set(codec.vocab.eos_ids)
    beyond = load(embedded_fields(**{"tokenizer.ggml.eot_token_id": 1 << 30}))
    assert user not in beyond.vocab.eos_ids


def test_known_ends_count_whatever_the_file_names(load):
    fields = sentencepiece_fields()
    fields["tokenizer.ggml.tokens"] += ["<|im_end|>", "<|eot_id|>"]
    fields["tokenizer.ggml.scores"] += [0.0, 0.0]
    fields["tokenizer.ggml.token_type"] += [3, 1]  # the second one is text
    assert set(load(fields).vocab.eos_ids) == {2, 265}


def test_sentencepiece_merges_by_score_and_spells_the_rest_in_bytes(load):
    codec = load(sentencepiece_fields())
    encode = codec.parts.texts.encode
    assert shown(codec, encode("ab a\u00e9", TextPosition.START)) == [
        *(" ab", " a"),
        *("\ufffd", "\ufffd"),
    ]
    assert codec.parts.text_frame == ((1,), ())
    bare = load(sentencepiece_fields(**{"tokenizer.ggml.add_space_prefix": False}))
    assert shown(bare, bare.parts.texts.encode("ab a", TextPosition.START)) == ["ab", " a"]


def test_control_tokens_stay_text_in_strings(load):
    codec = load(sentencepiece_fields())
    ids = codec.parts.texts.encode("</s>", TextPosition.START)
    assert 2 not in ids
    assert b"".join(map(codec.bytes_of, ids)) == b" </s>"


def test_a_template_for_tools(load):
    named = {"tokenizer.chat_template.tool_use": "{{ tools }}"}
    templates = read_gguf_model_files(load(embedded_fields(**named)).path).templates
    assert templates["tool_use"] == "{{ tools }}"
    assert templates["default"] == embedded_fields()["tokenizer.chat_template"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (embedded_fields(**{"tokenizer.ggml.pre": "poro-chat"}), "cuts text as 'poro-chat' does"),
        (embedded_fields(**{"tokenizer.ggml.pre": None}), "does not say how"),
        (embedded_fields(**{"tokenizer.ggml.merges": None}), "has no merges"),
        (embedded_fields(**{"tokenizer.ggml.model": "rwkv"}), "a tokenizer of the kind 'rwkv'"),
        (embedded_fields(**{"tokenizer.ggml.model": None}), "does not say tokenizer.ggml.model"),
        (embedded_fields(**{"tokenizer.ggml.tokens": None}), "has no vocabulary"),
        (embedded_fields(**{"tokenizer.ggml.token_type": [1]}), "1 types"),
        (embedded_fields(**{"tokenizer.ggml.merges": ["\u2603 \u2603"]}), "is not a tokenizer"),
    ],
)
def test_a_tokenizer_that_is_not_known_is_refused(fields, message, load):
    with pytest.raises(ModelInvalid) as caught:
        load(fields)
    assert message in caught.value.message
    assert "x.gguf" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_every_way_of_cutting_compiles_and_loses_nothing(name, load):
    codec = load(embedded_fields(**{"tokenizer.ggml.pre": name}))
    for text in TEXTS:
        ids = codec.parts.texts.encode(text, TextPosition.START)
        assert b"".join(map(codec.bytes_of, ids)).decode() == text


@pytest.mark.parametrize("name", VOCABULARIES)
def test_files_tell_what_real_tokenizers_give(name, archive):
    """Ids that Hugging Face's tokenizers gave, beside the vocabularies of llama.cpp's tests."""
    file = archive / f"ggml-vocab-{name}.gguf"
    codec = Codec.load(file)
    texts = Path(f"{file}.inp").read_text("utf-8").split(SEPARATOR)
    ids = Path(f"{file}.out").read_text("utf-8").split("\n")
    assert len(texts) > 40
    for text, expected in zip(texts, ids, strict=False):
        found = codec.parts.texts.encode(text, TextPosition.START)
        assert found == tuple(map(int, expected.split())), text


@pytest.mark.parametrize("name", ["qwen2", "llama-bpe"])
def test_the_tokenizer_is_one_of_hugging_face(name, archive):
    files = read_gguf_model_files(archive / f"ggml-vocab-{name}.gguf")
    tokenizer = Tokenizer.from_str(files.tokenizer_json)
    tokens = open_gguf(files.path).texts("tokenizer.ggml.tokens")
    used = [index for index, text in enumerate(tokens) if not text.startswith("[PAD")]
    assert [tokenizer.id_to_token(index) for index in used[-300:]] == [
        tokens[index] for index in used[-300:]
    ]
