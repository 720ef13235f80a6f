"""A vocabulary of single bytes, for text without a tokenizer."""

from __future__ import annotations

import functools
import json
from typing import Any

from agentrt.base.vocabulary import Vocab
from agentrt.prompt.token_bytes import byte_of_character

END_TEXT = "<|end|>"
END_ID = 256


@functools.cache
def byte_vocabulary() -> Vocab:
    """One token a byte, each with its value as id, and `END_ID`."""
    token_bytes = (*(bytes([byte]) for byte in range(256)), b"")
    return Vocab(
        token_bytes=token_bytes,
        special_ids={END_TEXT: END_ID},
        eos_ids=(END_ID,),
        tokenizer_json=_tokenizer_json(),
        logits_size=len(token_bytes),
        fingerprint="bytes",
    )


def _tokenizer_json() -> str:
    """A `tokenizer.json` with bytes as ids (written as printable letters, as GPT-2 does).

    Written out, since the package `tokenizers` is large and this is all that it would do here.
    """
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    end = {
        "id": END_ID,
        "content": END_TEXT,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {chr(letter): byte for letter, byte in byte_of_character().items()},
            "merges": [],
        },
    }
    return json.dumps(tokenizer, ensure_ascii=False)
