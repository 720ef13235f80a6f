"""Vocabularies of the bench: the embedded model's, and large ones grown from a seed."""

from __future__ import annotations

import hashlib
import random
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from agentrt import embedded
from agentrt.base.errors import UsageError
from agentrt.base.vocabulary import Vocab
from agentrt.prompt import Codec
from agentrt.prompt.token_bytes import byte_of_character

NAMES = ("embedded", "32k", "128k")
_SIZES = {"32k": 1 << 15, "128k": 1 << 17}
_LONGEST_BYTES = 16
_END = "<|end|>"
_SPLIT = r"\p{N}{1,3}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+"
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
_WEIGHTS = [12, 9, 8, 8, 7, 7, 6, 6, 6, 4, 4, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
_MARKS = "\"'{}[]():,;.=<>/\\_-+*#&|!?@$%^~`"
_SCRIPTS = ((0x430, 32), (0x3B1, 24), (0x4E00, 2000), (0xAC00, 500), (0x627, 28), (0x905, 50))


def vocabulary_named(name: str) -> Vocab:
    """Look up a vocabulary.

    Raises:
        UsageError: There is none of that name.
    """
    if name == "embedded":
        return Codec.load(embedded.path()).vocab
    if name not in _SIZES:
        raise UsageError(f"there is no vocabulary {name!r}", hint=f"Use one of {', '.join(NAMES)}")
    return made_up(_SIZES[name])


def made_up(size: int, seed: int = 0) -> Vocab:
    """A byte-level BPE vocabulary grown from a seed, merges and all.

    It has words with and without a space before them, names, other scripts, marks and numbers, in
    about the shares of trained vocabularies of this size; the longest tokens have 16 bytes.

    Args:
        size: Number of tokens, end token included.
        seed: Seed of its words.
    """
    pieces, merges = _grown(size - 1, random.Random(seed))
    shown = {byte: chr(character) for character, byte in byte_of_character().items()}

    def text(piece: bytes) -> str:
        return "".join(shown[byte] for byte in piece)

    known = {text(piece): token for token, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(known, [(text(left), text(right)) for left, right in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(_END, normalized=False)])
    source = tokenizer.to_str()
    return Vocab(
        token_bytes=(*pieces, b""),
        special_ids={_END: size - 1},
        eos_ids=(size - 1,),
        tokenizer_json=source,
        logits_size=size,
        fingerprint=hashlib.sha256(source.encode()).hexdigest(),
    )


def _grown(size: int, dice: random.Random) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Tokens, the bytes first, and the two earlier tokens that each later one joins."""
    pieces = [bytes([byte]) for byte in range(256)]
    known = set(pieces)
    merges: list[tuple[bytes, bytes]] = []

    def add(left: bytes, right: bytes) -> bool:
        whole = left + right
        if whole in known or len(whole) > _LONGEST_BYTES or len(pieces) >= size:
            return False
        known.add(whole)
        pieces.append(whole)
        merges.append((left, right))
        return True

    for number in range(10, 1000):
        digits = str(number).encode()
        add(digits[:-1], digits[-1:])
    scripts = _characters(add)
    words = [letter.encode() for letter in _LETTERS]
    classes: list[tuple[list[bytes], list[bytes], int]] = [
        ([b" "], words, 46),
        (words, words, 30),
        ([letter.upper().encode() for letter in _LETTERS], words, 10),
        ([mark.encode() for mark in _MARKS], [mark.encode() for mark in _MARKS], 2),
        *((script, script, 2) for script in scripts),
    ]
    weights = [weight for _, _, weight in classes]
    while len(pieces) < size:
        for begun, goes_on, _ in dice.choices(classes, weights, k=256):
            left = begun[int(len(begun) * dice.random() ** 4)]  # earlier ones are commoner
            if goes_on is words and dice.random() < 0.7:
                right = dice.choices(_LETTERS, _WEIGHTS)[0].encode()
            else:
                right = goes_on[int(len(goes_on) * dice.random() ** 8)]
            if add(left, right):
                begun.append(left + right)
    return pieces, merges


def _characters(add: Any) -> list[list[bytes]]:
    """Characters of other scripts, each built of its bytes."""
    scripts = []
    for first, count in _SCRIPTS:
        script = [chr(first + at).encode() for at in range(count)]
        for character in script:
            for cut in range(1, len(character)):
                add(character[:cut], character[cut : cut + 1])
        scripts.append(script)
    return scripts
