"""Real tokenizers and chat templates, read from a fetched source archive, and codecs of them."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agentrt.prompt import Codec

ARCHIVE = "llama-cpp-python-0.3.36"
FORMATS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
STRING, ARRAY = 8, 9
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
WORD_LEVEL_BYTES = {**BYTE_LEVEL, "use_regex": True}
ONLY_BYTES = {**BYTE_LEVEL, "use_regex": False}


def isolated(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


# What Hugging Face's own tokenizer.json says before byte-level BPE, by the name in the file.
PRE_TOKENIZERS: dict[str, list[dict[str, Any]]] = {
    "gpt-2": [WORD_LEVEL_BYTES],
    "mpt": [WORD_LEVEL_BYTES],
    "starcoder": [{"type": "Digits", "individual_digits": True}, WORD_LEVEL_BYTES],
    "llama-bpe": [isolated(rf"{CONTRACTIONS}|{WORDS}|\p{{N}}{{1,3}}|{REST}"), ONLY_BYTES],
    "qwen2": [isolated(rf"{CONTRACTIONS}|{WORDS}|\p{{N}}|{REST}"), ONLY_BYTES],
    "deepseek-coder": [
        isolated(r"[\r\n]"),
        isolated(r"\s?\p{L}+"),
        isolated(r"\s?\p{P}+"),
        isolated(r"[一-龥ࠀ-一가-퟿]+"),
        {"type": "Digits", "individual_digits": True},
        ONLY_BYTES,
    ],
}
COMPOSED = {"qwen2", "mpt"}
APART = {"qwen2", "llama-bpe"}  # whose files list control tokens outside the model's vocabulary


class Reader:
    """The metadata of a GGUF file, tensors left alone."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        magic, _, _, count = struct.unpack_from("<4sIQQ", data, 0)
        assert magic == b"GGUF"
        self.at = 24
        self.facts = {self.text(): self.value(self.number("I")) for _ in range(count)}

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self) -> str:
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.number(FORMATS[kind])
        of, size = self.number("I"), self.number("Q")
        if of == STRING:
            return [self.text() for _ in range(size)]
        form = f"<{size}{FORMATS[of]}"
        values = list(struct.unpack_from(form, self.data, self.at))
        self.at += struct.calcsize(form)
        return values


def tokenizer_json(name: str, facts: dict[str, Any]) -> str:
    """The `tokenizer.json` that these facts describe."""
    tokens, kinds = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    added = [
        {
            "id": index,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == CONTROL,
        }
        for index, (text, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (CONTROL, USER_DEFINED) and not text.startswith("[PAD")
    ]
    vocab = {text: i for i, text in enumerate(tokens) if not text.startswith("[PAD")}
    if name in APART:
        vocab = {text: i for text, i in vocab.items() if kinds[i] == NORMAL}
    sentencepiece = facts["tokenizer.ggml.model"] == "llama"
    merges = merges_of(facts) if sentencepiece else facts["tokenizer.ggml.merges"]
    model = {"type": "BPE", "vocab": vocab, "merges": merges, "dropout": None, "unk_token": None}
    model |= {"byte_fallback": sentencepiece, "ignore_merges": name == "llama-bpe"}
    spaced = {"type": "Prepend", "prepend": "\u2581"}
    replaced = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    steps = PRE_TOKENIZERS.get(name, [])
    normalizer: Any = {"type": "NFC"} if name in COMPOSED else None
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": [spaced, replaced]}
            if sentencepiece
            else normalizer,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps} if steps else None,
            "post_processor": None,
            "decoder": {"type": "ByteFallback"} if sentencepiece else ONLY_BYTES,
            "model": model,
        }
    )


def merges_of(facts: dict[str, Any]) -> list[list[str]]:
    """Merges of a SentencePiece vocabulary: best score first, as its converter makes them."""
    scores, tokens = facts["tokenizer.ggml.scores"], facts["tokenizer.ggml.tokens"]
    kinds = facts["tokenizer.ggml.token_type"]
    vocab = {text: i for i, text in enumerate(tokens) if kinds[i] == NORMAL}
    pairs = [
        (-scores[i], vocab[text[:k]], vocab[text[k:]], text[:k], text[k:])
        for text, i in vocab.items()
        for k in range(1, len(text))
        if text[:k] in vocab and text[k:] in vocab
    ]
    return [[left, right] for *_, left, right in sorted(pairs)]


@cache
def fetched() -> Path | None:
    home = os.environ.get("AGENTRT_SOURCES") or Path.home() / ".cache" / "agentrt" / "sources"
    path = Path(home) / ARCHIVE
    return path if path.is_dir() else None


def template_names() -> list[str]:
    folder = fetched()
    return sorted(file.stem for file in folder.glob("*.jinja")) if folder else []


@pytest.fixture(scope="session")
def archive() -> Path:
    folder = fetched()
    if folder is None:
        pytest.skip("no real templates here: run `python tests/prompt/fetch_templates.py`")
    return folder


@pytest.fixture(scope="session")
def real_tokenizer(archive: Path) -> Callable[[str], str]:
    """Name of a vocabulary -> its `tokenizer.json`."""

    @cache
    def read(name: str) -> str:
        facts = Reader((archive / f"ggml-vocab-{name}.gguf").read_bytes()).facts
        return tokenizer_json(name, facts)

    return read


@pytest.fixture(scope="session")
def real_codec(
    real_tokenizer: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Codec]:
    """Name of a vocabulary, and of a template or its text -> their codec."""

    @cache
    def load(name: str, template: str = "", eos: str = "") -> Codec:
        path = tmp_path_factory.mktemp("model")
        (path / "tokenizer.json").write_text(real_tokenizer(name), encoding="utf-8")
        settings = {"eos_token": eos} if eos else {}
        (path / "tokenizer_config.json").write_text(json.dumps(settings))
        if template:
            (path / "chat_template.jinja").write_text(template, encoding="utf-8")
        return Codec.load(path)

    return load
