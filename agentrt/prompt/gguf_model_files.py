"""The part of a GGUF file that a codec reads: tokenizer and chat templates, never weights."""

from __future__ import annotations

import json
from pathlib import Path

from agentrt.base.gguf.gguf_file import GgufFile, open_gguf
from agentrt.prompt.gguf_tokenizer import tokenizer_of
from agentrt.prompt.gguf_vocabulary import read_vocabulary
from agentrt.prompt.model_files import SPECIAL_NAMES, ModelFiles

_TEMPLATE = "tokenizer.chat_template"
_EMBEDDING = "token_embd.weight"


def read_gguf_model_files(path: Path) -> ModelFiles:
    """Read what a codec needs of the file `path`.

    Raises:
        ModelInvalid: The file is not whole, or its tokenizer is of a kind that is not known here.
    """
    file = open_gguf(path)
    vocabulary = read_vocabulary(file)
    named = {
        f"{name}_token": vocabulary.tokens[index] for name, index in vocabulary.special.items()
    }
    return ModelFiles(
        path=path,
        tokenizer_json=json.dumps(tokenizer_of(file, vocabulary), ensure_ascii=False),
        templates=_templates(file),
        special_texts={name: named[name] for name in SPECIAL_NAMES if name in named},
        eos_ids=vocabulary.end_ids,
        window_tokens=_window_tokens(file),
        logits_size=_logits_size(file, len(vocabulary.tokens)),
    )


def _templates(file: GgufFile) -> dict[str, str]:
    """Templates by name: the plain one, and those of `tokenizer.chat_template.NAME`."""
    found = {
        name.removeprefix(f"{_TEMPLATE}."): file.text(name)
        for name in file.names()
        if name.startswith(f"{_TEMPLATE}.")
    }
    if plain := file.text(_TEMPLATE, ""):
        found["default"] = plain
    if found and "default" not in found:
        found["default"] = next(iter(found.values()))
    return found


def _window_tokens(file: GgufFile) -> int:
    architecture = file.text("general.architecture", "")
    return max(0, file.integer(f"{architecture}.context_length", 0))


def _logits_size(file: GgufFile, tokens: int) -> int:
    embedding = file.tensors.get(_EMBEDDING)
    return tokens if embedding is None else embedding.shape[0]
