"""A vocabulary of single bytes, for text without a tokenizer."""

from __future__ import annotations

import functools

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
    """A `tokenizer.json` with bytes as ids (written as printable letters, as GPT-2 does)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocab = {chr(letter): byte for letter, byte in byte_of_character().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END_TEXT])
    text: str = tokenizer.to_str()
    return text
