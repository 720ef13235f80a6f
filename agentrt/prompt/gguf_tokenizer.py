"""The `tokenizer.json` of the tokenizer in a GGUF file."""

from __future__ import annotations

from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.gguf_file import GgufFile
from agentrt.prompt.gguf_vocabulary import NORMAL, USER_DEFINED, GgufVocabulary
from agentrt.prompt.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer, byte_level

Json = dict[str, Any]
SPACE = "\u2581"
_PRE, _MERGES = "tokenizer.ggml.pre", "tokenizer.ggml.merges"


def tokenizer_of(file: GgufFile, vocabulary: GgufVocabulary) -> Json:
    """The parsed `tokenizer.json` that computes what the file's tokenizer does.

    Raises:
        ModelInvalid: The tokenizer is of a kind that is not known here.
    """
    if vocabulary.model == "gpt2":
        return _byte_level_bpe(file, vocabulary)
    if vocabulary.model == "llama":
        return _sentencepiece(file, vocabulary)
    raise ModelInvalid(
        f"{file.path} has a tokenizer of the kind {vocabulary.model!r}",
        hint="Use a model with a gpt2 or llama tokenizer, or its Hugging Face directory",
    )


def _byte_level_bpe(file: GgufFile, vocabulary: GgufVocabulary) -> Json:
    pre = _pre_tokenizer(file)
    if _MERGES not in file:
        raise file.invalid(f"its tokenizer has no merges ({_MERGES})")
    model = {
        "vocab": vocabulary.ids_by_text,
        "merges": vocabulary.merges,
        "byte_fallback": False,
        "ignore_merges": pre.ignores_merges,
    }
    return _document(
        vocabulary,
        model=model,
        normalizer={"type": "NFC"} if pre.composes else None,
        pre_tokenizer={"type": "Sequence", "pretokenizers": list(pre.steps)},
        decoder=byte_level(use_regex=False),
        frame=_frame(file, vocabulary, adds_bos=pre.adds_bos),
    )


def _pre_tokenizer(file: GgufFile) -> PreTokenizer:
    name = file.text(_PRE, "")
    if name in PRE_TOKENIZERS:
        return PRE_TOKENIZERS[name]
    how = f"as {name!r} does, which is not known here" if name else f"it does not say how ({_PRE})"
    raise ModelInvalid(
        f"{file.path} cuts text {how}" if name else f"{file.path} cuts text, but {how}",
        hint=f"Use its Hugging Face directory, or a file that names one of: {_known()}",
    )


def _known() -> str:
    return ", ".join(sorted(PRE_TOKENIZERS))


def _sentencepiece(file: GgufFile, vocabulary: GgufVocabulary) -> Json:
    steps: list[Json] = [{"type": "Replace", "pattern": {"String": " "}, "content": SPACE}]
    if file.flag("tokenizer.ggml.add_space_prefix", True):
        steps.insert(0, {"type": "Prepend", "prepend": SPACE})
    unknown = vocabulary.special.get("unk")
    model = {
        "vocab": vocabulary.ids_by_text,
        "merges": _merges(vocabulary),
        "byte_fallback": True,
        "ignore_merges": False,
        "fuse_unk": True,
        "unk_token": None if unknown is None else vocabulary.tokens[unknown],
    }
    return _document(
        vocabulary,
        model=model,
        normalizer={"type": "Sequence", "normalizers": steps},
        pre_tokenizer=None,
        decoder={
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        frame=_frame(file, vocabulary, adds_bos=True),
    )


def _merges(vocabulary: GgufVocabulary) -> list[list[str]]:
    """Merges that take the pair of the best score first, as SentencePiece does."""
    tokens, scores = vocabulary.tokens, vocabulary.scores
    ids = {tokens[i]: i for i, kind in enumerate(vocabulary.types) if kind == NORMAL}
    pairs = [
        (-scores[index], ids[text[:cut]], ids[text[cut:]])
        for text, index in ids.items()
        for cut in range(1, len(text))
        if text[:cut] in ids and text[cut:] in ids
    ]
    return [[tokens[left], tokens[right]] for _, left, right in sorted(pairs)]


def _frame(file: GgufFile, vocabulary: GgufVocabulary, *, adds_bos: bool) -> Json | None:
    """The post-processor that puts special tokens around a text that is no chat."""
    wanted = {
        "bos": file.flag("tokenizer.ggml.add_bos_token", adds_bos),
        "eos": file.flag("tokenizer.ggml.add_eos_token", False),
    }
    ids = {
        name: vocabulary.special[name]
        for name, adds in wanted.items()
        if adds and name in vocabulary.special
    }
    if not ids:
        return None
    texts = {name: vocabulary.tokens[index] for name, index in ids.items()}

    def framed(*sequences: str) -> list[Json]:
        pieces: list[Json] = []
        for at, sequence in enumerate(sequences):
            for name in ("bos", "", "eos"):
                if not name:
                    pieces.append({"Sequence": {"id": sequence, "type_id": at}})
                elif name in texts:
                    pieces.append({"SpecialToken": {"id": texts[name], "type_id": at}})
        return pieces

    return {
        "type": "TemplateProcessing",
        "single": framed("A"),
        "pair": framed("A", "B"),
        "special_tokens": {
            texts[name]: {"id": texts[name], "ids": [index], "tokens": [texts[name]]}
            for name, index in ids.items()
        },
    }


def _document(
    vocabulary: GgufVocabulary,
    *,
    model: Json,
    normalizer: Json | None,
    pre_tokenizer: Json | None,
    decoder: Json,
    frame: Json | None,
) -> Json:
    added = [
        {
            "id": index,
            "content": vocabulary.tokens[index],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": vocabulary.types[index] != USER_DEFINED,
        }
        for index in vocabulary.added
    ]
    defaults: Json = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": frame,
        "decoder": decoder,
        "model": {**defaults, **model},
    }
